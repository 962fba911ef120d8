import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, inject, onTestFinished, test, vi } from 'vitest'
import { newId } from '../lib/ids.ts'
import { createSecrets } from '../lib/secrets.ts'
import { type Brief, briefInBatches, briefInMemory, mostBriefValues } from './brief.ts'
import { type Kv, openFileKv } from './kv.ts'
import { connectRedis, openRedisKv } from './redis.ts'

const { redisUrl } = inject('engines')
const options = { secrets: createSecrets(['a-secret-0123456789-abcdefghijklmnopq']), clock: Date.now }
const times = <T>(count: number, make: (index: number) => T) => Array.from({ length: count }, (_, index) => make(index))

/** An empty store of the current engine, as often as wanted. */
function useStore() {
  const folder = mkdtempSync(join(tmpdir(), 'inlay-brief-'))
  const prefix = newId()
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const open = (): Kv => {
    const kv = redisUrl ? openRedisKv(redisUrl, prefix, options) : openFileKv(join(folder, 'kv.db'), options)
    onTestFinished(() => kv.close())
    return kv
  }
  return { prefix, open }
}

test('each value has a ticket of its own, which nobody can guess', async () => {
  const { brief } = useStore().open()
  const tickets = await Promise.all(times(100, (n) => brief.issue({ n })))
  expect(new Set(tickets).size).toBe(100)
  for (const ticket of tickets) expect(ticket).toMatch(/^[\w-]{44}$/)
  expect(await Promise.all(tickets.map((ticket) => brief.take(ticket)))).toEqual(times(100, (n) => ({ n })))
})

test('is taken once, by one of fifty callers', async () => {
  const { open } = useStore()
  const first = open()
  const ticket = await first.brief.issue({ for: 'ann' })
  // Memory is not shared between processes, so there one store is all there is.
  const second = redisUrl ? open() : first
  const answers = await Promise.all(times(50, (n) => (n % 2 ? first : second).brief.take(ticket)))
  expect(answers.filter((answer) => answer !== undefined)).toEqual([{ for: 'ann' }])
  expect(await first.brief.take(ticket)).toBeUndefined()
})

test.each([
  ['nothing', () => ''],
  ['a stranger’s', () => 'x'.repeat(44)],
  ['a longer one', (ticket: string) => `${ticket}x`],
  ['a shorter one', (ticket: string) => ticket.slice(0, -1)],
  ['one of the same batch', (ticket: string) => ticket.slice(0, 20) + 'x'.repeat(24)],
  ['one of another batch', (ticket: string) => 'x'.repeat(20) + ticket.slice(20)],
  ['what every object has', (ticket: string) => `${ticket.slice(0, 20)}constructor`],
])('%s gets nothing, and takes nothing from its holder', async (_, change) => {
  const { brief } = useStore().open()
  const ticket = await brief.issue('for its holder')
  expect(await brief.take(change(ticket))).toBeUndefined()
  expect(await brief.take(ticket)).toBe('for its holder')
})

test('ends with its time', async () => {
  const now = { at: Date.now() }
  const kv = useStore().open()
  const make = (seconds: number): Brief =>
    redisUrl ? briefInBatches(kv, seconds) : briefInMemory(() => now.at, seconds)
  const [short, long] = [make(0.3), make(60)]
  const [endingSoon, lasting] = [await short.issue(1), await long.issue(2)]
  now.at += 300
  if (redisUrl) {
    const batch = `brief:${endingSoon.slice(0, 20)}`
    await vi.waitFor(async () => expect(await kv.get(batch)).toBeUndefined())
  }
  expect([await short.take(endingSoon), await long.take(lasting)]).toEqual([undefined, 2])
})

test.skipIf(redisUrl)('is forgotten, the oldest first, where there is no room for more', async () => {
  const { brief } = useStore().open()
  const tickets: string[] = []
  for (let n = 0; n <= mostBriefValues; n += 1) tickets.push(await brief.issue(n))
  const take = (index: number) => brief.take(tickets.at(index) as string)
  expect([await take(0), await take(1), await take(-1)]).toEqual([undefined, 1, mostBriefValues])
})

test.runIf(redisUrl)('many at once are few writes, and none shows a ticket or a value', async () => {
  const { prefix, open } = useStore()
  const tickets = await Promise.all(times(64, (n) => open().brief.issue(`value ${n}`)))
  const { brief } = open()
  const together = await Promise.all(times(64, (n) => brief.issue(`value ${n}`)))
  expect(new Set(tickets.map((ticket) => ticket.slice(0, 20))).size, 'a store each').toBe(64)
  expect(new Set(together.map((ticket) => ticket.slice(0, 20))).size, 'one store').toBe(4)

  const redis = connectRedis(redisUrl as string)
  onTestFinished(() => redis.disconnect())
  const keys = await redis.keys(`${prefix}:*`)
  const stored = (await redis.mget(keys)).join()
  for (const ticket of together) expect(stored + keys.join()).not.toContain(ticket.slice(20))
  expect(stored).not.toContain('value')
})

test.runIf(redisUrl)('a batch that cannot be written fails all who wait for it, and not the next', async () => {
  const { brief } = useStore().open()
  const noJson = 1n
  const refused = await Promise.allSettled([brief.issue('beside it'), brief.issue(noJson)])
  expect(refused.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  expect(await brief.take(await brief.issue('later'))).toBe('later')
})
