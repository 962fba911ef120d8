import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { name, text } from '../foundation/shapes.ts'
import { cleanName, nameProblem, textProblem } from './names.ts'

describe('a name', () => {
  test.each([
    'Demo',
    'Ärzte & Co. KG',
    'O’Brien, "Pat" <p>',
    '株式会社 日本',
    'مؤسسة محمد',
    'می\u200Cخواهم',
    'ශ්\u200Dරී ලංකා',
    'क्\u200Dष',
    'שלום עולם',
    'Team ❤️',
    'Family 👨‍👩‍👧 Ltd',
    'Number 1️⃣',
    'England 🏴󠁧󠁢󠁥󠁮󠁧󠁿',
    'x',
  ])('may be %j', (text) => {
    expect(nameProblem(text)).toBeUndefined()
    expect(name(100).parse(text)).toBe(text.normalize('NFC'))
    expect(cleanName(text, 100)).toBe(text.normalize('NFC'))
  })

  test.each([
    ['', 'Must not be empty'],
    ['Dem\u200Bo', 'Contains U+200B (zero width space) at position 4'],
    ['👨‍👩‍👧\u200B', 'Contains U+200B (zero width space) at position 6'],
    ['\uFEFFDemo', 'Contains U+FEFF (byte order mark) at position 1'],
    ['Dem\u00ADo', 'Contains U+00AD (soft hyphen) at position 4'],
    ['Demo\u202E', 'Contains U+202E (right-to-left override) at position 5'],
    ['a\u2066b', 'Contains U+2066 (left-to-right isolate) at position 2'],
    ['a\u200Fb', 'Contains U+200F (right-to-left mark) at position 2'],
    ['a\0b', 'Contains U+0000 (null character) at position 2'],
    ['a\u001B[31m', 'Contains U+001B (control character) at position 2'],
    ['a\u0085b', 'Contains U+0085 (control character) at position 2'],
    ['a\nb', 'Contains U+000A (line feed) at position 2'],
    ['a\u2028b', 'Contains U+2028 (line separator) at position 2'],
    ['a\u3164', 'Contains U+3164 (Hangul filler) at position 2'],
    ['a\u115Fb', 'Contains U+115F (invisible character) at position 2'],
    ['a\u1160b', 'Contains U+1160 (invisible character) at position 2'],
    ['a\uFFA0b', 'Contains U+FFA0 (invisible character) at position 2'],
    ['a\u2800b', 'Contains U+2800 (invisible character) at position 2'],
    ['a\u034Fb', 'Contains U+034F (invisible character) at position 2'],
    ['a\u{E0041}b', 'Contains U+E0041 (invisible character) at position 2'],
    ['a\uFE0Fb', 'Contains U+FE0F (invisible character) at position 2'],
    ['a\u{E0101}b', 'Contains U+E0101 (invisible character) at position 2'],
    ['a\uE000b', 'Contains U+E000 (private-use character) at position 2'],
    ['a\uD800b', 'Contains U+D800 (half of a surrogate pair) at position 2'],
    ['a\uFFFEb', 'Contains U+FFFE (not a character) at position 2'],
    ['a\u200Db', 'Contains U+200D (zero width joiner) at position 2'],
    ['a\u200Cb', 'Contains U+200C (zero width non-joiner) at position 2'],
    // After a letter that never joins the next one, the non-joiner has no visible effect.
    ['دا\u200Cر', 'Contains U+200C (zero width non-joiner) at position 3'],
    ['\u0301a', 'Must not begin with a combining mark'],
  ])('must not be %j', (text, problem) => {
    expect(nameProblem(text)).toBe(problem)
    expect(name(100).safeParse(text).success).toBe(false)
    expect(cleanName(text, 100)).not.toBe(text.normalize('NFC') || undefined)
  })

  test.each([
    [' a', 'Contains a leading or trailing space at position 1'],
    ['a ', 'Contains a leading or trailing space at position 2'],
    ['a  b', 'Contains two spaces in a row at position 3'],
    ['a\u00A0b', 'Contains U+00A0 (no-break space) at position 2'],
    ['a\u3000b', 'Contains U+3000 (unusual space) at position 2'],
  ])('has only single plain spaces between words: %j is tidied on input', (text, problem) => {
    expect(nameProblem(text)).toBe(problem)
    expect(name(100).parse(text)).toBe(text.includes('b') ? 'a b' : 'a')
  })

  test('has a maximum length, without the spaces around it', () => {
    expect(name(5).safeParse('12345').success).toBe(true)
    expect(name(5).safeParse('  12345  ').success).toBe(true)
    expect(name(5, { long: 'Too long' }).safeParse('123456').error?.issues[0]?.message).toBe('Too long')
    expect(name(5, { empty: 'Enter a name' }).safeParse('  ').error?.issues[0]?.message).toBe('Enter a name')
  })
})

describe('for any text', () => {
  const text = fc.string({ unit: 'binary' })

  test('a cleaned name is valid or empty, short enough, and unchanged by cleaning it again', () => {
    fc.assert(
      fc.property(text, fc.integer({ min: 1, max: 30 }), (given, max) => {
        const cleaned = cleanName(given, max)
        expect([...cleaned].length).toBeLessThanOrEqual(max)
        if (cleaned !== '') expect(nameProblem(cleaned)).toBeUndefined()
        expect(cleanName(cleaned, max)).toBe(cleaned)
      }),
    )
  })

  test('an accepted name is unchanged by parsing it again, and has no control or bidirectional characters', () => {
    fc.assert(
      fc.property(text, (given) => {
        const { data } = name(100).safeParse(given)
        if (data === undefined) return
        expect(nameProblem(data)).toBeUndefined()
        expect(name(100).parse(data)).toBe(data)
        expect(data).not.toMatch(/[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/u)
      }),
    )
  })

  test('an invisible character anywhere among letters is rejected, with its position', () => {
    const letters = fc.string({ unit: fc.constantFrom(...'abcdeXYZ') })
    const invisible = fc.constantFrom(
      ...'\u200B\u200C\u200D\u200E\u202A\u202E\u2060\u2069\uFEFF\u00AD\u3164\u2800\u061C',
    )
    fc.assert(
      fc.property(letters, invisible, letters, (before, character, after) => {
        const place = `at position ${before.length + 1}`
        expect(nameProblem(before + character + after)).toContain(place)
      }),
    )
  })
})

describe('a longer text', () => {
  test.each(['', ' # Tone\n\n\t- Be  brief.\u00a0\n', 'Family 👨‍👩‍👧', 'می\u200Cخواهم'])('may be %j', (written) => {
    expect(textProblem(written)).toBeUndefined()
    expect(text(100).parse(written)).toBe(written)
  })

  test.each([
    ['a\n\u200bb', 'Contains U+200B (zero width space) at position 3'],
    ['a\u202eb', 'Contains U+202E (right-to-left override) at position 2'],
    ['\ufeffa', 'Contains U+FEFF (byte order mark) at position 1'],
    ['a\u{e0041}', 'Contains U+E0041 (invisible character) at position 2'],
    ['a\u001bb', 'Contains U+001B (control character) at position 2'],
    ['a\0b', 'Contains U+0000 (null character) at position 2'],
    ['a\ud800', 'Contains U+D800 (half of a surrogate pair) at position 2'],
  ])('may not be %j', (written, problem) => {
    expect(textProblem(written)).toBe(problem)
    expect(text(100).safeParse(written).error?.issues[0]?.message).toBe(problem)
  })

  test('has one kind of line break, and a limit', () => {
    expect(text(5).parse('a\r\nb\rc')).toBe('a\nb\nc')
    expect(text(5).safeParse('123456').success).toBe(false)
  })
})
