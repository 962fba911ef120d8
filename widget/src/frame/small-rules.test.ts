import { describe, expect, test } from 'vitest'
import { hasAlmostExpired } from './id-token.ts'
import { exactJson, plainText } from './plain-text.ts'
import { explainProblem } from './problems.ts'
import { retryDelay } from './retry-delay.ts'

describe('reconnecting', () => {
  test.each([
    [0, 125, 500],
    [3, 1_000, 4_000],
    [6, 7_500, 30_000],
    [1_000, 7_500, 30_000],
  ])('after %i failures takes %i to %i ms', (failures, least, most) => {
    const delay = (random: number) => retryDelay(failures, undefined, () => random)
    expect([delay(0), delay(1)]).toEqual([least, most])
  })
})

describe('text from pages and assistants', () => {
  test.each([
    ['keeps words of any script, lines and tabs', 'Grüße\n\tمرحبا 你好 👍🏽', 'Grüße\n\tمرحبا 你好 👍🏽'],
    ['loses marks that change its direction', 'pay \u202Egnihton\u202C', 'pay gnihton'],
    ['loses invisible characters', 'a\u200Bb\u0000c\uFEFFd\u{E0041}', 'abcd'],
    ['loses terminal control characters', '\u001b[31mred', '[31mred'],
  ])('%s', (_, given, shown) => {
    expect(plainText(given)).toBe(shown)
  })

  test('is truncated', () => {
    expect(plainText('x'.repeat(501))).toBe(`${'x'.repeat(500)}…`)
    expect(plainText('x'.repeat(500))).toBe('x'.repeat(500))
  })
})

describe('the input of a call', () => {
  test.each([
    ['marks that change the text direction', 'a\u202Eb\u200B', String.raw`"a\u202eb\u200b"`],
    ['spaces that look like plain ones', 'a\u00A0b\u3000c\u2028', String.raw`"a\u00a0b\u3000c\u2028"`],
    ['fillers and selectors', 'a\u3164b\u115F\uFE0F\u2800', String.raw`"a\u3164b\u115f\ufe0f\u2800"`],
    ['tags beyond the basic plane', 'a\u{E0041}', String.raw`"a\udb40\udc41"`],
    ['controls, lines and lone surrogates', '\u0000\n\u0085\uD800', String.raw`"\u0000\n\u0085\ud800"`],
    ['a literal escape', String.raw`\u202e`, String.raw`"\\u202e"`],
  ])('shows %s as equivalent escapes', (_, given, shown) => {
    expect(exactJson(given)).toBe(shown)
    expect(JSON.parse(shown)).toBe(given)
  })

  test('shows visible characters unchanged, in keys as in values', () => {
    expect(exactJson({ 'Grüße مرحبا': '你好 👍🏽', 'a\u200B': [1] })).toBe(
      '{\n  "Grüße مرحبا": "你好 👍🏽",\n  "a\\u200b": [\n    1\n  ]\n}',
    )
  })

  test('is complete at any length', () => {
    const text = 'x'.repeat(100_000)
    expect(JSON.parse(exactJson({ text }))).toEqual({ text })
  })
})

describe('a refusal', () => {
  const problem = { code: 'ORIGIN_NOT_ALLOWED', message: 'This origin may not use the publishable key' }

  test('tells developers what to do', () => {
    expect(explainProblem(problem, true)).toBe(
      'ORIGIN_NOT_ALLOWED: This origin may not use the publishable key. Add this page’s origin to the publishable key’s allowed origins, or to the organization’s allowed domains.',
    )
    expect(explainProblem({ code: 'OTHER', message: 'Strange' }, true)).toBe('OTHER: Strange.')
  })

  test('tells visitors no details', () => {
    expect(explainProblem(problem, false)).toBe('The assistant isn’t available right now.')
  })
})

describe('an ID token', () => {
  const now = 1_000_000_000_000
  const encode = (text: string) => new TextEncoder().encode(text).toBase64({ alphabet: 'base64url', omitPadding: true })
  const token = (claims: object) => `e30.${encode(JSON.stringify(claims))}.x`
  test.each([
    ['an hour left', token({ exp: now / 1000 + 3600 }), false],
    ['four minutes left', token({ exp: now / 1000 + 240 }), false],
    ['less than four minutes left', token({ exp: now / 1000 + 239 }), true],
    ['expired', token({ exp: now / 1000 - 1 }), true],
    ['letters beyond ASCII', token({ exp: now / 1000 + 3600, name: 'Žofie ÿ??>' }), false],
    ['no expiry', token({}), false],
    ['unreadable content', 'opaque', false],
  ])('with %s', (_, idToken, expected) => {
    expect(hasAlmostExpired(idToken, now)).toBe(expected)
  })
})
