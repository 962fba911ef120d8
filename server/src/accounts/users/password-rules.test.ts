import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { passwordProblem } from './password-rules.ts'

const ada = { email: 'ada.lovelace@engines.example', name: 'Ada Lovelace' }

test.each([
  'correct horse battery',
  'Tr0ub4dor&3 in a teapot',
  'greatest of the marching bands',
  'pässwörter für zwei',
  '}K#[$8)w%!~^',
  '🦊🐢🌵🎷🍋🧭🪁🧩🪴🛶🧦🎲',
  'x7'.padEnd(200, 'correct horse battery '),
])('%s is accepted', (password) => {
  expect(passwordProblem(password, ada)).toBeUndefined()
})

test.each([
  ['aaaaaaaaaaaa', 'repeats itself'],
  ['abababababab', 'repeats itself'],
  ['111111111111', 'repeats itself'],
  ['            ', 'repeats itself'],
  ['blorpblorpblorp', 'repeats itself'],
  ['blorpblorpblo', 'repeats itself'],
  ['sunflowersunflower', 'repeats itself'],
  ['123456789012', 'common words or sequences'],
  ['abcdefghijkl', 'common words or sequences'],
  ['lkjihgfedcba', 'common words or sequences'],
  ['qwertyuiop12', 'common words or sequences'],
  ['qwertzuiopasdf', 'common words or sequences'],
  ['1234qwerasdf', 'common words or sequences'],
  ['!@#$%^&*()_+', 'common words or sequences'],
  ['password1234', 'common words or sequences'],
  ['Password1234!', 'common words or sequences'],
  ['P@ssw0rd2024!', 'common words or sequences'],
  ['ｐａｓｓｗｏｒｄ１２３４', 'common words or sequences'],
  ['Welcome2024!!!!', 'common words or sequences'],
  ['iloveyou iloveyou!', 'common words or sequences'],
  ['inlay-inlay-admin', 'common words or sequences'],
  ['InlayInlay2026!', 'common words or sequences'],
  ['correct horse battery staple', 'common words or sequences'],
  ['ada.lovelace@engines.example', 'your name or email address'],
  ['AdaLovelace1!', 'your name or email address'],
  ['lovelace1815!', 'your name or email address'],
  ['engines.example1', 'your name or email address'],
  ['Lovelacepassword', 'your name or email address'],
])('%s is rejected: %s', (password, reason) => {
  expect(passwordProblem(password, ada)).toContain(reason)
  expect(passwordProblem(password, ada)).toContain('Use several unrelated words.')
})

test.each([
  ['elevenchars', 'Use at least 12 characters.'],
  ['', 'Use at least 12 characters.'],
  ['🦊🐢🌵🎷🍋🧭🪁🧩🪴🛶🧦', 'Use at least 12 characters.'],
  ['correct horse battery '.repeat(10), 'Use at most 200 characters.'],
])('%s is rejected: %s', (password, problem) => {
  expect(passwordProblem(password, ada)).toBe(problem)
})

test("allows another user's name", () => {
  expect(passwordProblem('AdaLovelace1!', { email: 'bob@example.com', name: 'Bob' })).toBeUndefined()
  expect(passwordProblem('AdaLovelace1!')).toBeUndefined()
})

test('accepts passwords from a password manager', () => {
  for (let turn = 0; turn < 2000; turn += 1) {
    const password = randomBytes(12).toString('base64url')
    expect(passwordProblem(password, ada), password).toBeUndefined()
  }
})

test('handles any text', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 250 }), fc.string(), fc.string(), (password, email, name) => {
      const problem = passwordProblem(password, { email, name })
      expect(problem === undefined || problem.includes('Use ')).toBe(true)
    }),
  )
})
