import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { z } from 'zod'
import { Failure } from '../../kernel/lib/errors.ts'
import { PatchOperation } from './contract.ts'
import { applyOperations, findAll } from './skill-patch.ts'

type Operation = z.input<typeof PatchOperation>

const apply = (text: string, ...operations: Operation[]) =>
  applyOperations(
    text,
    operations.map((operation) => PatchOperation.parse(operation)),
  )

describe('operations', () => {
  test.each<[string, Operation[], string]>([
    ['replace', [{ type: 'replace', before: 'one', after: '1' }], '1 two two'],
    ['replace with an empty string', [{ type: 'replace', before: 'one ', after: '' }], 'two two'],
    ['delete', [{ type: 'delete', before: 'one ' }], 'two two'],
    ['insert after', [{ type: 'insert', anchor: 'one', text: '!' }], 'one! two two'],
    ['insert after, explicitly', [{ type: 'insert', anchor: 'one', text: '!', position: 'after' }], 'one! two two'],
    ['insert before', [{ type: 'insert', anchor: 'one', text: '!', position: 'before' }], '!one two two'],
    ['insert the replacement literally', [{ type: 'replace', before: 'one', after: "$&$1$'" }], "$&$1$' two two"],
    [
      'apply to every expected match',
      [{ type: 'insert', anchor: 'two', text: '!', expected_matches: 2 }],
      'one two! two!',
    ],
    [
      'apply to the result of the previous operation',
      [
        { type: 'replace', before: 'one', after: 'four' },
        { type: 'delete', before: 'four ' },
      ],
      'two two',
    ],
    ['change nothing if the list is empty', [], 'one two two'],
  ])('%s', (_, operations, result) => expect(apply('one two two', ...operations)).toBe(result))

  test.each<[string, Operation[], string, string]>([
    ['does not occur', [{ type: 'delete', before: 'x' }], '0.expected_matches', 'Matches expected: 1, found: 0'],
    ['occurs more often', [{ type: 'delete', before: 'two' }], '0.expected_matches', 'Matches expected: 1, found: 2'],
    [
      'occurs less often',
      [{ type: 'replace', before: 'two', after: '', expected_matches: 3 }],
      '0.expected_matches',
      'Matches expected: 3, found: 2',
    ],
    [
      'was removed by the previous operation',
      [
        { type: 'delete', before: 'one' },
        { type: 'insert', anchor: 'one', text: 'x' },
      ],
      '1.expected_matches',
      'Matches expected: 1, found: 0',
    ],
  ])('are rejected if the text %s', (_, operations, field, details) => {
    expect(dataOf(() => apply('one two two', ...operations))).toEqual({
      code: 'VALIDATION_ERROR',
      field: `patch.operations.${field}`,
      details,
    })
  })

  test('are rejected before they build a text that exceeds memory', () => {
    const bomb: Operation = { type: 'replace', before: 'a', after: 'a'.repeat(250_000), expected_matches: 10_000 }
    expect(dataOf(() => apply('a'.repeat(10_000), bomb))).toEqual({
      code: 'VALIDATION_ERROR',
      field: 'content',
      details: 'content exceeds 256 KiB',
    })
  })

  // No generated text contains the mark, so matches can't overlap.
  const mark = '§'
  const arbitraryText = fc.string({ unit: 'grapheme' }).filter((text) => !text.includes(mark))

  test('that replace text and then restore it leave the text unchanged', () => {
    fc.assert(
      fc.property(arbitraryText, arbitraryText, fc.string({ minLength: 1 }), (start, end, part) => {
        fc.pre(findAll(start + part + end, part).length === 1)
        const there: Operation = { type: 'replace', before: part, after: mark }
        const back: Operation = { type: 'replace', before: mark, after: part }
        expect(apply(start + part + end, there, back)).toBe(start + part + end)
      }),
    )
  })

  test('that insert text and then delete it leave the text unchanged', () => {
    fc.assert(
      fc.property(arbitraryText, arbitraryText, fc.constantFrom('before', 'after'), (start, end, position) => {
        const text = `${start}${mark}${end}`
        const inserted = apply(text, { type: 'insert', anchor: mark, text: '¶¶¶', position })
        expect(inserted).toBe(position === 'after' ? `${start}${mark}¶¶¶${end}` : `${start}¶¶¶${mark}${end}`)
        expect(apply(inserted, { type: 'delete', before: '¶¶¶' })).toBe(text)
      }),
    )
  })

  test('apply all or nothing, with the same result as one at a time', () => {
    const arbitraryOperation = fc.record({
      type: fc.constant('replace' as const),
      before: fc.string({ unit: fc.constantFrom(...'ab'), minLength: 1, maxLength: 2 }),
      after: fc.string({ unit: fc.constantFrom(...'ab'), maxLength: 3 }),
      expected_matches: fc.integer({ min: 1, max: 2 }),
    })
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom(...'ab'), maxLength: 8 }),
        fc.array(arbitraryOperation, { maxLength: 4 }),
        (text, operations) => {
          const stepwise = () => operations.reduce((made, operation) => apply(made, operation), text)
          expect(outcomeOf(() => apply(text, ...operations))).toBe(outcomeOf(stepwise))
        },
      ),
      { numRuns: 500 },
    )
  })
})

describe('finding', () => {
  test('agrees with the engine’s own search', () => {
    const few = (minLength: number, maxLength: number) =>
      fc.string({ unit: fc.constantFrom('a', 'b', 'ж', '\ud83d', '\n'), minLength, maxLength })
    fc.assert(
      fc.property(few(0, 60), few(1, 5), (text, part) => {
        const pieces = text.split(part)
        const places = findAll(text, part)
        expect(places).toHaveLength(pieces.length - 1)
        expect(places[0] ?? -1).toBe(text.indexOf(part))
        expect(places.every((place) => text.startsWith(part, place))).toBe(true)
      }),
      { numRuns: 1000 },
    )
  })

  // The engine's own search is so slow for this text that the test would time out.
  test('takes linear time for a malicious text', () => {
    const part = `${'a'.repeat(64_000)}b${'a'.repeat(64_000)}`
    const text = 'a'.repeat(256 * 1024)
    for (let times = 0; times < 10; times += 1) expect(findAll(text, part)).toEqual([])
  })
})

function outcomeOf(work: () => string): string {
  try {
    return work()
  } catch (error) {
    if (error instanceof Failure) return 'refused'
    throw error
  }
}

function dataOf(work: () => unknown): unknown {
  try {
    work()
  } catch (error) {
    if (error instanceof Failure) return error.envelope.data
    throw error
  }
  throw new Error('Expected a failure')
}
