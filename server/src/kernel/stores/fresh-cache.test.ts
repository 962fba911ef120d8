import { setImmediate as nextTurn } from 'node:timers/promises'
import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { serviceUnavailable } from '../lib/errors.ts'
import { createLog } from '../lib/log.ts'
import type { Bus } from './bus.ts'
import { openChanges, recheckMs } from './changes.ts'
import { FreshCache, staleMs } from './fresh-cache.ts'

interface Fact {
  key: string
  version: number
}

/**
 * A bus between a node that changes values and one that caches them. The test decides which messages arrive, and when.
 */
function openUnreliableBus() {
  const underWay: unknown[] = []
  let receive = (_: unknown): void => undefined
  let missed = (): void => undefined
  const shared = { onMissed: () => undefined, close: async () => undefined }
  const sender: Bus = {
    ...shared,
    publish: async (_, message) => underWay.push(message),
    subscribe: async () => async () => undefined,
  }
  const receiver: Bus = {
    ...shared,
    async publish(_, message) {
      receive(message)
      return 1
    },
    async subscribe(_, handler) {
      receive = handler as (message: unknown) => void
      return async () => undefined
    },
    onMissed: (handler) => {
      missed = handler
    },
  }
  const pick = (number: number) => underWay.splice(number % underWay.length, 1)
  return {
    sender,
    receiver,
    deliver(number: number) {
      const messages = pick(number)
      for (const message of messages) receive(message)
      return messages.flatMap(topicsIn)
    },
    lose: (number: number) => pick(number).flatMap(topicsIn),
    reconnect: () => missed(),
  }
}

const topicsIn = (message: unknown) => (message as { topics: string[] }).topics

const keys = ['a', 'b'] as const
const anyKey = fc.constantFrom(...keys)
const anyNumber = fc.nat(20)

const command = fc.oneof(
  { weight: 3, arbitrary: fc.record({ do: fc.constant('write' as const), key: anyKey }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('deliver' as const), number: anyNumber }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('lose' as const), number: anyNumber }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('reconnect' as const) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('load' as const), key: anyKey }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('step' as const), number: anyNumber }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.nat(20_000) }) },
)

test('never uses a value after its change was received, nor for longer than 30 seconds, even if messages are lost, late or reordered', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(command, { minLength: 30, maxLength: 80 }), async (commands) => {
      const bus = openUnreliableBus()
      const log = createLog('silent')
      const writer = await openChanges(bus.sender, log)
      const changes = await openChanges(bus.receiver, log)
      let now = 0
      const cache = new FreshCache<Fact>({ changes, clock: () => now, limit: 10, topicsOf: ({ key }) => [key] })

      const versions: Record<string, number> = { a: 0, b: 0 }
      /** When a version was replaced by the next one. */
      const replacedAt: Record<string, number[]> = { a: [], b: [] }
      /** The oldest version that the caching node may still use, based on the messages it received. */
      const heard: Record<string, number> = { a: 0, b: 0 }
      const sent: Record<string, number[]> = { a: [], b: [] }
      const loaded: Fact[] = []
      /** Loads wait before they read and before they return; each step lets one continue. */
      const waiting: (() => void)[] = []
      const pause = () => new Promise<void>((resolve) => void waiting.push(resolve))

      const check = ({ key, version }: Fact, how: string) => {
        expect(version, `${how}: not from before a received change`).toBeGreaterThanOrEqual(heard[key] as number)
      }
      const checkAge = ({ key, version }: Fact) => {
        const replaced = replacedAt[key]?.[version] ?? Number.POSITIVE_INFINITY
        expect(now - replaced, 'not longer than 30 seconds').toBeLessThan(recheckMs)
      }
      const read = async (key: string): Promise<Fact> => {
        await pause()
        const fact = { key, version: versions[key] as number }
        await pause()
        return fact
      }

      for (const next of commands) {
        if (next.do === 'write') {
          replacedAt[next.key]?.push(now)
          versions[next.key] = (versions[next.key] as number) + 1
          sent[next.key]?.push(versions[next.key] as number)
          writer.announce(next.key)
        } else if (next.do === 'deliver') {
          // Messages contain the key and not the version, so the first to arrive may belong to any earlier write.
          for (const key of bus.deliver(next.number)) {
            const oldest = sent[key]?.shift() as number
            heard[key] = Math.max(heard[key] as number, oldest)
          }
        } else if (next.do === 'lose') for (const key of bus.lose(next.number)) sent[key]?.shift()
        else if (next.do === 'reconnect') {
          bus.reconnect()
          for (const key of keys) heard[key] = versions[key] as number
        } else if (next.do === 'load') {
          cache
            .load(next.key, () => read(next.key))
            .then(
              (fact) => fact && loaded.push(fact),
              () => undefined,
            )
        } else if (next.do === 'step') waiting.splice(next.number % Math.max(waiting.length, 1), 1)[0]?.()
        else now += next.ms
        await nextTurn()
        for (const fact of loaded.splice(0)) check(fact, 'loaded')
        for (const key of keys) {
          const fact = cache.get(key)
          if (!fact) continue
          check(fact, 'cached')
          checkAge(fact)
        }
      }
    }),
    { numRuns: 1_000 },
  )
})

const anyTopics = fc.subarray(['x', 'y', 'z'])

test('a change drops exactly the values that depend on it, also after others were replaced or evicted', async () => {
  const step = fc.oneof(
    fc.record({ load: fc.constantFrom('a', 'b', 'c', 'd', 'e'), topics: anyTopics }),
    fc.record({ change: fc.constantFrom('x', 'y', 'z') }),
    fc.constant('missed' as const),
    fc.constant('wait' as const),
  )
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const limit = 3
      const bus = openUnreliableBus()
      const changes = await openChanges(bus.receiver, createLog('silent'))
      let now = 0
      const cache = new FreshCache<{ topics: string[] }>({
        changes,
        clock: () => now,
        limit,
        topicsOf: ({ topics }) => topics,
      })
      /** The entries, the least recently used first. Outdated ones stay until they are replaced. */
      const entries = new Map<string, { value: { topics: string[] }; isFresh: boolean }>()
      for (const next of steps) {
        if (next === 'missed') {
          bus.reconnect()
          entries.clear()
        } else if (next === 'wait') {
          now += recheckMs
          for (const entry of entries.values()) entry.isFresh = false
        } else if ('change' in next) {
          changes.announce(next.change)
          for (const [key, { value }] of entries) if (value.topics.includes(next.change)) entries.delete(key)
        } else {
          const value = (await cache.load(next.load, async () => ({ topics: next.topics }))) as { topics: string[] }
          entries.delete(next.load)
          entries.set(next.load, { value, isFresh: true })
          if (entries.size > limit) entries.delete(entries.keys().next().value as string)
        }
        for (const [key, { value, isFresh }] of entries) expect(cache.get(key)).toBe(isFresh ? value : undefined)
        for (const key of ['a', 'b', 'c', 'd', 'e']) if (!entries.has(key)) expect(cache.get(key)).toBeUndefined()
      }
    }),
    { numRuns: 500, examples: [[[{ load: 'a', topics: ['x'] }, 'wait', { load: 'a', topics: [] }, { change: 'x' }]]] },
  )
})

test('a change reads only the entries that depend on it, however many there are', async () => {
  const { changes } = await openCache()
  const read = new Set<string>()
  const topicsOf = (value: string) =>
    new Proxy([value, 'of all'], {
      get(target, name, receiver) {
        read.add(value)
        return Reflect.get(target, name, receiver)
      },
    })
  const cache = new FreshCache<string>({ changes, clock: () => 0, limit: 1_000, topicsOf })
  for (let number = 0; number < 1_000; number += 1) await cache.load(`${number}`, async () => `topic ${number}`)
  read.clear()
  changes.announce('topic 7', 'unknown')
  expect([...read]).toEqual(['topic 7'])
  expect([cache.get('7'), cache.get('8')]).toEqual([undefined, 'topic 8'])
})

async function openCache(options: { isUnavailable?: (error: unknown) => boolean } = {}) {
  const clock = { now: 0 }
  const bus = openUnreliableBus()
  const changes = await openChanges(bus.receiver, createLog('silent'))
  onTestFinished(() => changes.close())
  const topicsOf = (value: string) => [value]
  return {
    bus,
    changes,
    clock,
    cache: new FreshCache<string>({ changes, clock: () => clock.now, limit: 10, topicsOf, ...options }),
  }
}

test('loads a value once for concurrent callers', async () => {
  const { cache } = await openCache()
  let loads = 0
  const load = async () => {
    loads += 1
    await nextTurn()
    return 'value'
  }
  expect(await Promise.all([cache.load('k', load), cache.load('k', load), cache.load('k', load)])).toEqual(
    Array(3).fill('value'),
  )
  expect(loads).toBe(1)
})

test('caches neither an absent value nor a failure', async () => {
  const { cache } = await openCache()
  expect(await cache.load('k', async () => undefined)).toBeUndefined()
  await expect(cache.load('k', () => Promise.reject(new Error('no')))).rejects.toThrow('no')
  expect(await cache.load('k', async () => 'value')).toBe('value')
})

test('fails if a value changes during every load, instead of returning an outdated one', async () => {
  const { cache, changes } = await openCache()
  const load = async () => {
    await nextTurn()
    changes.announce('value')
    return 'value'
  }
  await expect(cache.load('k', load)).rejects.toThrow('changed during each')
  expect(cache.get('k')).toBeUndefined()
})

test('uses the last value for a limited time while the store is unavailable, unless it was changed', async () => {
  const { cache, clock, bus } = await openCache({ isUnavailable: () => true })
  const away = () => Promise.reject(serviceUnavailable('away'))
  await cache.load('k', async () => 'value')
  clock.now = recheckMs + 1
  expect(cache.get('k')).toBeUndefined()
  expect(await cache.load('k', away)).toBe('value')
  expect(cache.get('k'), 'the store is not queried on every request').toBe('value')
  clock.now = staleMs - 1
  expect(await cache.load('k', away)).toBe('value')
  clock.now = staleMs
  await expect(cache.load('k', away)).rejects.toThrow('away')

  await cache.load('k', async () => 'value')
  clock.now += recheckMs
  bus.reconnect()
  await expect(cache.load('k', away)).rejects.toThrow('away')
})
