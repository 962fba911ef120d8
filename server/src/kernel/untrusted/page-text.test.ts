import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { cleanJson, cleanLine, cleanText, isClean, isTooDeep } from './page-text.ts'

const anyText = fc.string({
  unit: fc.oneof(
    fc.string({ minLength: 1, maxLength: 1 }),
    fc.integer({ min: 0, max: 0xffff }).map((code) => String.fromCharCode(code)),
    fc.constantFrom('\u202e', '\u{e0041}', '\n', '\t', '\0', '😀', 'é'),
  ),
})

describe('text of a page', () => {
  test.each([
    ['plain', 'plain'],
    ['two\nlines\tand a tab', 'two\nlines\tand a tab'],
    ['bell\x07, escape\x1b[0m, delete\x7f, next line\x85', 'bell, escape[0m, delete, next line'],
    ['left\u202eright\u2069\u200e\u061c', 'leftright'],
    ['zero\u200bwidth\ufeff\u2060', 'zerowidth'],
    ['tags \u{e0049}\u{e0067}\u{e006e}', 'tags '],
    ['line\u2028separator', 'lineseparator'],
    ['half \ud83d', 'half \ufffd'],
    ['joined 👩‍👩‍👧 and می‌خواهم', 'joined 👩‍👩‍👧 and می‌خواهم'],
    ['Größe, 数量, الكمية', 'Größe, 数量, الكمية'],
  ])('%j becomes %j', (text, clean) => {
    expect(cleanText(text)).toBe(clean)
  })

  test('has no hidden characters and stays within the maximum length after idempotent cleaning', () => {
    fc.assert(
      fc.property(anyText, fc.integer({ min: 1, max: 50 }), (text, length) => {
        const clean = cleanText(text, length)
        expect(clean).not.toMatch(/[\p{Bidi_Control}\u{e0000}-\u{e0fff}]|[^\P{Cc}\n\t]/u)
        expect(clean.isWellFormed()).toBe(true)
        expect(clean.length).toBeLessThanOrEqual(length)
        expect(cleanText(clean, length)).toBe(clean)
        expect(cleanLine(text, length)).not.toMatch(/[\n\t]/)
        expect(isClean(cleanText(text))).toBe(true)
      }),
    )
  })
})

describe('values of a page', () => {
  test('keep their shape', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
        const text = JSON.stringify(cleanJson(value))
        expect(JSON.stringify(cleanJson(JSON.parse(text)))).toBe(text)
        expect(text).not.toMatch(/[\p{Bidi_Control}]/u)
      }),
    )
  })

  test('lose only __proto__ keys', () => {
    const value = JSON.parse('{"__proto__":{"admin":true},"constructor":1,"a":[{"__proto__":2,"b":"x\\u202ey"}]}')
    const clean = cleanJson(value) as Record<string, unknown>
    expect(clean).toEqual({ constructor: 1, a: [{ b: 'xy' }] })
    expect(Object.hasOwn(clean, '__proto__')).toBe(false)
    expect(Object.getPrototypeOf(clean)).toBe(Object.prototype)
  })

  const nested = (levels: number) => JSON.parse(`${'['.repeat(levels)}${']'.repeat(levels)}`)

  test.each([
    [1, false],
    [64, false],
    [65, true],
    [400_000, true],
  ])('%i levels are too deep: %s', (levels, tooDeep) => {
    expect(isTooDeep(nested(levels))).toBe(tooDeep)
    expect(JSON.stringify(cleanJson(nested(levels))).includes('[nested too deeply]')).toBe(tooDeep)
  })
})
