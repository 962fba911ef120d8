import { chmodSync } from 'node:fs'
import { Redis } from 'ioredis'
import { open as openLmdb } from 'lmdb'
import type { Clock } from '../lib/clock.ts'
import type { Secrets } from '../lib/secrets.ts'
import { type Brief, briefInBatches, briefInMemory } from './brief.ts'

/**
 * Short-lived state: sessions, tickets, caches, signing keys. Values are JSON, encrypted under their own key name.
 * A file on one machine, Redis or Valkey beyond it; both keep the same promises.
 */
export interface Kv {
  get<T>(key: string): Promise<T | undefined>
  /** Without a time to live the value stays until it is deleted. */
  set(key: string, value: unknown, ttlSeconds?: number): Promise<void>
  /** True for exactly one of several callers. */
  setIfAbsent(key: string, value: unknown, ttlSeconds?: number): Promise<boolean>
  /** Reads and removes in one step: exactly one of several callers gets the value. */
  take<T>(key: string): Promise<T | undefined>
  delete(key: string): Promise<void>
  /** Adds one to a counter and returns its value. The time to live starts with the first count and is not extended. */
  count(key: string, ttlSeconds?: number): Promise<number>
  /** Seals again, with the newest secret, what an older one sealed. Safe to repeat. Returns how many it changed. */
  reseal(): Promise<number>
  ping(): Promise<void>
  close(): Promise<void>
  /** For what a restart may end. */
  brief: Brief
}

/** What an engine has to do with opaque strings; `sealed` adds the rest. */
interface Engine {
  get(key: string): Promise<string | undefined>
  set(key: string, value: string, ttlMs: number | undefined): Promise<void>
  setIfAbsent(key: string, value: string, ttlMs: number | undefined): Promise<boolean>
  take(key: string): Promise<string | undefined>
  delete(key: string): Promise<void>
  count(key: string, ttlMs: number | undefined): Promise<number>
  keys(): AsyncIterable<string>
  /** Replaces the value only while it is still `before`, and leaves its time to live as it is. */
  replace(key: string, before: string, after: string): Promise<boolean>
  ping(): Promise<void>
  close(): Promise<void>
}

export interface KvOptions {
  secrets: Secrets
  clock: Clock
  onError?: (error: Error) => void
  answerWithinMs?: number
}

/** For how long a brief value can be taken. */
export const briefSeconds = 60

export const openFileKv = (path: string, { secrets, clock }: KvOptions): Kv => ({
  ...sealed(lmdbEngine(path, clock), secrets),
  brief: briefInMemory(clock, briefSeconds),
})

export function openRedisKv(url: string, prefix: string, { secrets, onError, answerWithinMs }: KvOptions): Kv {
  const kv = sealed(redisEngine(connectRedis(url, onError, answerWithinMs), prefix), secrets)
  return { ...kv, brief: briefInBatches(kv, briefSeconds) }
}

/** Counters are plain numbers, because Redis has to add to them; so they are kept apart from sealed values. */
const counterPrefix = 'count:'

function sealed(engine: Engine, secrets: Secrets): Omit<Kv, 'brief'> {
  const place = (key: string) => `kv:${key}`
  const seal = (key: string, value: unknown) => secrets.seal(JSON.stringify(value), place(key))
  const unseal = <T>(key: string, text: string | undefined) =>
    text === undefined ? undefined : (JSON.parse(secrets.open(text, place(key))) as T)
  const optional = (ttlSeconds: number | undefined) => (ttlSeconds === undefined ? undefined : milliseconds(ttlSeconds))
  return {
    get: async (key) => unseal(key, await engine.get(key)),
    set: async (key, value, ttlSeconds) => engine.set(key, seal(key, value), optional(ttlSeconds)),
    setIfAbsent: async (key, value, ttlSeconds) => engine.setIfAbsent(key, seal(key, value), optional(ttlSeconds)),
    take: async (key) => unseal(key, await engine.take(key)),
    delete: (key) => engine.delete(key),
    count: async (key, ttlSeconds) => engine.count(counterPrefix + key, optional(ttlSeconds)),
    async reseal() {
      let changed = 0
      for await (const key of engine.keys()) {
        if (key.startsWith(counterPrefix)) continue
        const before = await engine.get(key)
        if (before === undefined || secrets.isCurrent(before)) continue
        const after = secrets.seal(secrets.open(before, place(key)), place(key))
        if (await engine.replace(key, before, after)) changed += 1
      }
      return changed
    },
    ping: () => engine.ping(),
    close: () => engine.close(),
  }
}

/** A value that must not outlive its time is never kept for ever by a NaN or a negative number. */
function milliseconds(ttlSeconds: number): number {
  if (!(ttlSeconds > 0 && Number.isFinite(ttlSeconds))) throw new RangeError(`Not a time to live: ${ttlSeconds}`)
  return Math.ceil(ttlSeconds * 1000)
}

interface Entry {
  value: string
  expiresAt: number | null
}

const sweepEveryMs = 60_000

function lmdbEngine(path: string, clock: Clock): Engine {
  const entries = openLmdb<Entry, string>({ path, encoding: 'json', noSubdir: true })
  for (const file of [path, `${path}-lock`]) chmodSync(file, 0o600)
  const isLive = (entry: Entry | undefined): entry is Entry =>
    entry !== undefined && (entry.expiresAt === null || entry.expiresAt > clock())
  const live = (key: string) => {
    const entry = entries.get(key)
    return isLive(entry) ? entry.value : undefined
  }
  const entry = (value: string, ttlMs: number | undefined): Entry => ({
    value,
    expiresAt: ttlMs === undefined ? null : clock() + ttlMs,
  })

  // Expired entries are invisible at once; the sweep only gives their space back.
  const sweep = setInterval(() => {
    for (const { key, value } of entries.getRange()) if (!isLive(value)) void entries.remove(key)
  }, sweepEveryMs)
  sweep.unref()

  return {
    get: async (key) => live(key),
    set: async (key, value, ttlMs) => void (await entries.put(key, entry(value, ttlMs))),
    setIfAbsent: (key, value, ttlMs) =>
      entries.transaction(() => {
        if (live(key) !== undefined) return false
        void entries.put(key, entry(value, ttlMs))
        return true
      }),
    take: (key) =>
      entries.transaction(() => {
        const value = live(key)
        if (value !== undefined) void entries.remove(key)
        return value
      }),
    delete: async (key) => void (await entries.remove(key)),
    count: (key, ttlMs) =>
      entries.transaction(() => {
        const found = entries.get(key)
        const counted = isLive(found) ? { ...found, value: String(Number(found.value) + 1) } : entry('1', ttlMs)
        void entries.put(key, counted)
        return Number(counted.value)
      }),
    async *keys() {
      for (const key of entries.getKeys()) yield key
    },
    replace: (key, before, after) =>
      entries.transaction(() => {
        const found = entries.get(key)
        if (!isLive(found) || found.value !== before) return false
        void entries.put(key, { ...found, value: after })
        return true
      }),
    ping: async () => void entries.get('ping'),
    async close() {
      clearInterval(sweep)
      await entries.close()
    },
  }
}

const replaceScript = `
  if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
  redis.call('set', KEYS[1], ARGV[2], 'keepttl')
  return 1`

const countScript = `
  local value = redis.call('incr', KEYS[1])
  if value == 1 and ARGV[1] ~= '' then redis.call('pexpire', KEYS[1], ARGV[1]) end
  return value`

function redisEngine(redis: Redis, prefix: string): Engine {
  const name = (key: string) => `${prefix}:${key}`
  const expiry = (ttlMs: number | undefined) => (ttlMs === undefined ? [] : (['PX', ttlMs] as const))
  return {
    get: async (key) => (await redis.get(name(key))) ?? undefined,
    set: async (key, value, ttlMs) => void (await redis.call('SET', name(key), value, ...expiry(ttlMs))),
    setIfAbsent: async (key, value, ttlMs) =>
      (await redis.call('SET', name(key), value, ...expiry(ttlMs), 'NX')) === 'OK',
    take: async (key) => (await redis.getdel(name(key))) ?? undefined,
    delete: async (key) => void (await redis.del(name(key))),
    count: async (key, ttlMs) => (await redis.eval(countScript, 1, name(key), ttlMs ?? '')) as number,
    async *keys() {
      const match = `${prefix.replace(/[\\*?[\]]/g, '\\$&')}:*`
      for await (const batch of redis.scanStream({ match, count: 500 })) {
        for (const key of batch as string[]) yield key.slice(prefix.length + 1)
      }
    },
    replace: async (key, before, after) => (await redis.eval(replaceScript, 1, name(key), before, after)) === 1,
    ping: async () => void (await redis.ping()),
    close: async () => void (await redis.quit().catch(() => redis.disconnect())),
  }
}

/**
 * Commands are sent as they come, without waiting for answers. (Auto-pipelining would make the commands of one turn wait for
 * those of the turn before, and builds an object of 400 methods each time.) What cannot be delivered fails soon instead of
 * waiting for Redis to come back: a ticket that nobody can redeem must not look issued. A connection that says nothing fails
 * what was sent on it, and is replaced.
 */
export function connectRedis(url: string, onError?: (error: Error) => void, answerWithinMs = 5_000): Redis {
  const options = {
    maxRetriesPerRequest: 1,
    commandTimeout: answerWithinMs,
    socketTimeout: answerWithinMs,
    connectTimeout: answerWithinMs,
    retryStrategy: (attempt: number) => Math.min(attempt * 100, 2_000),
  }
  const redis = url.startsWith('unix:')
    ? new Redis({ ...options, path: new URL(url).pathname })
    : new Redis(url, options)
  redis.on('error', (error: Error) => onError?.(error))
  return redis
}
