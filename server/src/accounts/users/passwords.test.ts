import { createHook } from 'node:async_hooks'
import { scryptSync } from 'node:crypto'
import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { QueueFull } from '../../kernel/lib/shares/fair-queue.ts'
import { hashPassword, isOutdated, isPassword, passwordCost } from './passwords.ts'

const address = '203.0.113.7'
const realCost = { ...passwordCost }
const lowCost = { N: 2 ** 11, r: 8, p: 1 }
Object.assign(passwordCost, lowCost)

/** Counts calls of the costly function, and how many run concurrently, as the runtime itself sees it. */
function watchScrypt() {
  const running = new Set<number>()
  const seen = { runs: 0, most: 0 }
  const hook = createHook({
    init(id, type) {
      if (type !== 'SCRYPTREQUEST') return
      running.add(id)
      seen.runs += 1
      seen.most = Math.max(seen.most, running.size)
    },
    before: (id) => void running.delete(id),
  }).enable()
  onTestFinished(() => void hook.disable())
  return seen
}

const madeWith = (password: string, N: number, r: number, p: number) =>
  [
    'scrypt',
    N,
    r,
    p,
    'c2FsdA',
    scryptSync(password, 'salt', 32, { N, r, p, maxmem: 256 * N * r }).toString('base64url'),
  ].join('$')

test('a hash includes its parameters, and is never the same twice', async () => {
  Object.assign(passwordCost, realCost)
  onTestFinished(() => void Object.assign(passwordCost, lowCost))
  const [one, two] = await Promise.all([hashPassword('correct horse'), hashPassword('correct horse')])
  expect(one).toMatch(/^scrypt\$32768\$8\$3\$[\w-]{22}\$[\w-]{43}$/)
  expect(two).not.toBe(one)
})

test.each([
  ['the password', 'correct horse', 'correct horse', true],
  ['another password', 'correct horse', 'correct house', false],
  ['another case', 'correct horse', 'Correct horse', false],
  ['an additional space', 'correct horse', 'correct horse ', false],
  ['nothing', 'correct horse', '', false],
  ['its beginning', 'correct horse', 'correct', false],
  ['the same letters in another normalization form', 'pässwörd for two', 'pa\u0308sswo\u0308rd for two', true],
  ['200 characters', 'x'.repeat(200), 'x'.repeat(200), true],
  ['199 of 200 characters', 'x'.repeat(200), 'x'.repeat(199), false],
  ['half a character', 'correct \ud83d', 'correct \ud83d', true],
])('%s', async (_, password, given, expected) => {
  expect(await isPassword(given, await hashPassword(password), address)).toBe(expected)
})

test.each([
  [2 ** 10, 8, 1],
  [2 ** 15, 8, 1],
  [2 ** 12, 8, 3],
])('a hash made with N=%i, r=%i, p=%i is verified, and outdated', async (N, r, p) => {
  const stored = madeWith('correct horse', N, r, p)
  expect(await isPassword('correct horse', stored, address)).toBe(true)
  expect(await isPassword('correct house', stored, address)).toBe(false)
  expect(isOutdated(stored)).toBe(true)
})

test('a new hash is not outdated', async () => {
  expect(isOutdated(await hashPassword('correct horse'))).toBe(false)
})

test.each([null, undefined])('without a password (%s), no password matches, at the same cost', async (stored) => {
  const hash = await hashPassword('correct horse')
  const seen = watchScrypt()
  expect(await isPassword('correct house', hash, address)).toBe(false)
  expect(seen.runs).toBe(1)
  expect(await isPassword('correct house', stored, address)).toBe(false)
  expect(seen.runs).toBe(2)
})

test('a malformed hash matches no password', async () => {
  await fc.assert(
    fc.asyncProperty(fc.string(), async (stored) => {
      await expect(isPassword('correct horse', stored, address)).rejects.toThrow('malformed')
    }),
  )
})

test('a flood of passwords leaves threads for other work', async () => {
  const stored = madeWith('correct horse', 2 ** 10, 8, 1)
  const seen = watchScrypt()
  const answers = await Promise.all(Array.from({ length: 20 }, () => isPassword('correct horse', stored, address)))
  expect(answers).toEqual(Array(20).fill(true))
  expect(seen).toEqual({ runs: 20, most: 2 })
})

test('limits a flood from one address, and others are served in between', async () => {
  const stored = madeWith('correct horse', 2 ** 10, 8, 1)
  const flood = Array.from({ length: 500 }, () =>
    isPassword('correct house', stored, 'one').catch((error) => error instanceof QueueFull && 'refused'),
  )
  const others = Array.from({ length: 20 }, (_, n) => isPassword('correct horse', stored, `other ${n}`))
  expect(await Promise.all(others)).toEqual(Array(20).fill(true))
  const answers = await Promise.all(flood)
  expect(answers.filter((answer) => answer === 'refused').length).toBeGreaterThanOrEqual(500 - 42)
})
