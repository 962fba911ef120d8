import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { z } from 'zod'
import { Failure } from '../lib/errors.ts'
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
    ['replace by nothing', [{ type: 'replace', before: 'one ', after: '' }], 'two two'],
    ['delete', [{ type: 'delete', before: 'one ' }], 'two two'],
    ['insert after', [{ type: 'insert', anchor: 'one', text: '!' }], 'one! two two'],
    ['insert after, when told so', [{ type: 'insert', anchor: 'one', text: '!', position: 'after' }], 'one! two two'],
    ['insert before', [{ type: 'insert', anchor: 'one', text: '!', position: 'before' }], '!one two two'],
    ['take the replacement as it is written', [{ type: 'replace', before: 'one', after: "$&$1$'" }], "$&$1$' two two"],
    [
      'do it as often as expected',
      [{ type: 'insert', anchor: 'two', text: '!', expected_matches: 2 }],
      'one two! two!',
    ],
    [
      'work on what the ones before them made',
      [
        { type: 'replace', before: 'one', after: 'four' },
        { type: 'delete', before: 'four ' },
      ],
      'two two',
    ],
    ['change nothing when there are none', [], 'one two two'],
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
      'was removed by the one before',
      [
        { type: 'delete', before: 'one' },
        { type: 'insert', anchor: 'one', text: 'x' },
      ],
      '1.expected_matches',
      'Matches expected: 1, found: 0',
    ],
  ])('are refused when the text %s', (_, operations, field, details) => {
    expect(dataOf(() => apply('one two two', ...operations))).toEqual({
      code: 'VALIDATION_ERROR',
      field: `patch.operations.${field}`,
      details,
    })
  })

  test('are refused before they make a text that no memory holds', () => {
    const bomb: Operation = { type: 'replace', before: 'a', after: 'a'.repeat(250_000), expected_matches: 10_000 }
    expect(dataOf(() => apply('a'.repeat(10_000), bomb))).toEqual({
      code: 'VALIDATION_ERROR',
      field: 'content',
      details: 'content exceeds 256 KiB',
    })
  })

  // Without overlaps by construction: the mark is in no text.
  const mark = '§'
  const arbitraryText = fc.string({ unit: 'grapheme' }).filter((text) => !text.includes(mark))

  test('that replace there and back leave the text as it was', () => {
    fc.assert(
      fc.property(arbitraryText, arbitraryText, fc.string({ minLength: 1 }), (start, end, part) => {
        fc.pre(findAll(start + part + end, part).length === 1)
        const there: Operation = { type: 'replace', before: part, after: mark }
        const back: Operation = { type: 'replace', before: mark, after: part }
        expect(apply(start + part + end, there, back)).toBe(start + part + end)
      }),
    )
  })

  test('that insert and delete the same leave the text as it was', () => {
    fc.assert(
      fc.property(arbitraryText, arbitraryText, fc.constantFrom('before', 'after'), (start, end, position) => {
        const text = `${start}${mark}${end}`
        const inserted = apply(text, { type: 'insert', anchor: mark, text: '¶¶¶', position })
        expect(inserted).toBe(position === 'after' ? `${start}${mark}¶¶¶${end}` : `${start}¶¶¶${mark}${end}`)
        expect(apply(inserted, { type: 'delete', before: '¶¶¶' })).toBe(text)
      }),
    )
  })

  test('all apply or none does: together they do what they do one after the other', () => {
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

  // The engine's own search takes so long for this one that the test would time out.
  test('does not slow down for a text made to be slow', () => {
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
  throw new Error('It was accepted')
}
