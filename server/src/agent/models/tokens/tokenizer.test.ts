import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Worker } from 'node:worker_threads'
import fc from 'fast-check'
import { countTokens as countHere } from 'gpt-tokenizer/encoding/o200k_base'
import { expect, onTestFinished, test, vi } from 'vitest'
import { countTokens } from './tokenizer.ts'

test.each([
  ['', 0],
  ['Hello, world', 3],
  ['grüß dich', 4],
  ['<|endoftext|>', 7],
])('"%s" is counted like OpenAI counts it', async (text, tokens) => {
  expect(await countTokens(text)).toBe(tokens)
})

test('a long run of letters or spaces is counted in parts, which changes the count little', async () => {
  for (const letter of ['a', '漢', ' ']) {
    const [short, long] = [await countTokens(letter.repeat(200)), await countTokens(letter.repeat(200_000))]
    expect(long / 1_000 / short).toBeGreaterThan(0.9)
    expect(long / 1_000 / short).toBeLessThan(3)
  }
})

test('of a very long text, parts are counted', async () => {
  const post = vi.spyOn(Worker.prototype, 'postMessage')
  onTestFinished(() => post.mockRestore())
  const [words, letters] = ['lorem ipsum '.repeat(50_000), 'xq'.repeat(50_000)]
  const [count, rest] = [await countTokens(words), await countTokens(letters)]
  const both = await countTokens(words + letters)
  expect(post.mock.calls.map(([{ text }]) => text.length)).toEqual([32_000, 32_000, 32_000])
  expect(count / countHere(words)).toBeCloseTo(1, 1)
  expect(both / (count + rest)).toBeCloseTo(1, 1)
})

test('short texts overtake long ones', async () => {
  vi.resetModules()
  // Its thread isn't loaded yet, so all texts have to wait.
  const { countTokens } = await import('./tokenizer.ts')
  const order: number[] = []
  const count = async (length: number) => {
    await countTokens('a'.repeat(length))
    order.push(length)
  }
  await Promise.all([30_000, 300, 20_000, 3, 4_000].map(count))
  expect(order).toEqual([3, 300, 4_000, 20_000, 30_000])
})

test('any text is counted, also half of a character', async () => {
  const texts = fc.oneof(fc.string(), fc.string({ unit: 'binary' }), fc.array(fc.integer({ max: 0xffff, min: 0 })))
  await fc.assert(
    fc.asyncProperty(texts, async (drawn) => {
      const text = typeof drawn === 'string' ? drawn : String.fromCharCode(...drawn)
      expect(await countTokens(text)).toBe(countHere(text, { disallowedSpecial: new Set() }))
    }),
  )
})

test('many texts at once get their own counts', async () => {
  const texts = Array.from({ length: 100 }, (_, length) => ' word'.repeat(length))
  expect(await Promise.all(texts.map(countTokens))).toEqual(texts.map((_, length) => length))
})

test('a text that is asked for again, meanwhile or later, isn’t counted again', async () => {
  const count = countTokens('once')
  expect(countTokens('once')).toBe(count)
  expect(await count).toBe(1)
  expect(countTokens('once')).toBe(count)
})

test('counting a long text doesn’t block the event loop', async () => {
  let turns = 0
  const timer = setInterval(() => {
    turns += 1
  }, 1)
  const texts = Array.from({ length: 50 }, (_, row) => Array.from({ length: 4_000 }, (_, n) => `w${row * n}`).join(' '))
  await Promise.all(texts.map(countTokens))
  clearInterval(timer)
  expect(turns).toBeGreaterThan(5)
})

test('if the thread fails, pending counts fail, the next count starts another thread, and the process can exit', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'inlay-tokenizer-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const failOnce = `
    import { existsSync, writeFileSync } from 'node:fs'
    import { registerHooks } from 'node:module'
    const load = (url, context, next) => {
      if (!url.includes('/encoding/o200k_base') || existsSync('failed')) return next(url, context)
      writeFileSync('failed', '')
      throw new Error('The disk cannot be read.')
    }
    registerHooks({ load })`
  const count = `
    import { countAhead, countTokens } from ${JSON.stringify(import.meta.resolve('./tokenizer.ts'))}
    countAhead('Hello')
    const failures = await Promise.allSettled(['Hello', 'Hello, world'].map(countTokens))
    console.log(JSON.stringify([...failures.map(({ reason }) => reason.message), await countTokens('Hello, world')]))`
  writeFileSync(join(folder, 'fail-once.mjs'), failOnce)
  writeFileSync(join(folder, 'count.mjs'), count)
  const args = ['--import', './fail-once.mjs', 'count.mjs']
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: folder })
  expect(JSON.parse(stdout)).toEqual(['The disk cannot be read.', 'The disk cannot be read.', 3])
})
