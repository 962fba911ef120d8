import { chmodSync, closeSync, fdatasync, openSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '../lib/clock.ts'
import { serviceUnavailable } from '../lib/errors.ts'
import type { Secrets } from '../lib/secrets.ts'

/**
 * Short-lived state: sessions, used tickets, caches, signing keys. Values are JSON, encrypted and bound to their key's
 * name. Stored in a file on one machine, and in Redis or Valkey for several; both give the same guarantees.
 */
export interface Kv {
  get<T>(key: string): Promise<T | undefined>
  /** Without a time to live, the value is kept until it is deleted. */
  set(key: string, value: unknown, ttlSeconds?: number): Promise<void>
  /** Returns true for exactly one of several concurrent callers. */
  setIfAbsent(key: string, value: unknown, ttlSeconds?: number): Promise<boolean>
  /** Reads and deletes atomically: exactly one of several concurrent callers gets the value. */
  take<T>(key: string): Promise<T | undefined>
  delete(key: string): Promise<void>
  /** Increments a counter and returns it. The time to live starts at the first count and isn't extended. */
  count(key: string, ttlSeconds?: number): Promise<number>
  /** Deletes every entry, counters included, whose key contains the text. Takes as long as reading all keys. */
  deleteContaining(text: string): Promise<void>
  /** Reseals values that were sealed with an older secret. Safe to repeat. Returns the number of changed values. */
  reseal(): Promise<number>
  ping(): Promise<void>
  close(): Promise<void>
}

/** Stores opaque strings; `sealed` adds JSON and encryption. */
export interface Engine {
  get(key: string): Promise<string | undefined>
  set(key: string, value: string, ttlMs: number | undefined): Promise<void>
  setIfAbsent(key: string, value: string, ttlMs: number | undefined): Promise<boolean>
  take(key: string): Promise<string | undefined>
  delete(key: string): Promise<void>
  count(key: string, ttlMs: number | undefined): Promise<number>
  keys(): AsyncIterable<string>
  /** Replaces the value only if it is still `before`, and keeps its time to live. */
  replace(key: string, before: string, after: string): Promise<boolean>
  ping(): Promise<void>
  close(): Promise<void>
}

export interface KvOptions {
  secrets: Secrets
  clock: Clock
  onError?: (error: Error) => void
  answerWithinMs?: number
  sweepEveryMs?: number
}

export const openFileKv = (path: string, options: KvOptions): Kv => sealed(fileEngine(path, options), options.secrets)

/** Keys that are read before others get their turn. */
const keysAtOnce = 500

/** Keeps counters apart from sealed values: they are plain numbers, so that Redis can increment them. */
const counterPrefix = 'count:'

export function sealed(engine: Engine, secrets: Secrets): Kv {
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
    async deleteContaining(text) {
      let read = 0
      for await (const key of engine.keys()) {
        if (key.includes(text)) await engine.delete(key)
        read += 1
        // The file's engine never waits, so without this a large file would block the event loop.
        if (read % keysAtOnce === 0) await nextTurn()
      }
    },
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

/** Rejects NaN and negative numbers, which could otherwise keep a value forever. */
function milliseconds(ttlSeconds: number): number {
  if (!(ttlSeconds > 0 && Number.isFinite(ttlSeconds))) throw new RangeError(`Invalid time to live: ${ttlSeconds}`)
  return Math.ceil(ttlSeconds * 1000)
}

const schema = `
  create table if not exists entries (key text primary key, value text not null, expires_at integer) strict;
  create index if not exists entries_expiry on entries (expires_at) where expires_at is not null`

/** How long a write waits for another process's write, which blocks this process. */
const busyMs = 1_000
/** Number of expired entries to delete at once, which takes about a millisecond. */
const sweptAtOnce = 200

/**
 * A SQLite file. Each operation is one statement, and therefore atomic, even between processes. A statement that fails,
 * for example because the disk is full, changes nothing, and the next one may succeed.
 */
function fileEngine(path: string, { clock, onError = ignore, sweepEveryMs = 10_000 }: KvOptions): Engine {
  closeSync(openSync(path, 'a', 0o600))
  // SQLite creates its other files with the same permissions.
  chmodSync(path, 0o600)
  const file = new DatabaseSync(path, { timeout: busyMs })
  file.exec(`pragma journal_mode = wal; pragma synchronous = normal; ${schema}`)
  const get = file.prepare('select value from entries where key = ? and (expires_at is null or expires_at > ?)')
  const set = file.prepare(`
    insert into entries (key, value, expires_at) values (?, ?, ?)
    on conflict do update set value = excluded.value, expires_at = excluded.expires_at`)
  const setIfAbsent = file.prepare(`
    insert into entries (key, value, expires_at) values (?, ?, ?)
    on conflict do update set value = excluded.value, expires_at = excluded.expires_at where entries.expires_at <= ?`)
  const take = file.prepare('delete from entries where key = ? returning value, expires_at')
  const remove = file.prepare('delete from entries where key = ?')
  const count = file.prepare(`
    insert into entries (key, value, expires_at) values (:key, '1', :expiry)
    on conflict do update set
      value = case when expires_at <= :now then '1' else cast(cast(value as integer) + 1 as text) end,
      expires_at = case when expires_at <= :now then excluded.expires_at else expires_at end
    returning value`)
  const replace = file.prepare(
    'update entries set value = ? where key = ? and value = ? and (expires_at is null or expires_at > ?)',
  )
  const keysAfter = file.prepare('select key from entries where key > ? order by key limit 500')
  const sweep = file.prepare('delete from entries where key in (select key from entries where expires_at <= ? limit ?)')
  const expiry = (ttlMs: number | undefined) => (ttlMs === undefined ? null : clock() + ttlMs)
  const sync = syncInBackground(`${path}-wal`, onError)

  async function read<T>(statement: () => T): Promise<T> {
    try {
      return statement()
    } catch (error) {
      throw serviceUnavailable('The key-value store failed', error)
    }
  }
  const write = <T>(statement: () => T): Promise<T> =>
    read(() => {
      const result = statement()
      sync.request()
      return result
    })

  // Expired entries are never read. The sweep only frees their space, a few in each turn of the event loop.
  let nextSlice: NodeJS.Immediate | undefined
  const sweepSlice = () => {
    nextSlice = undefined
    try {
      const { changes } = sweep.run(clock(), sweptAtOnce)
      if (changes === sweptAtOnce) nextSlice = setImmediate(sweepSlice)
    } catch (error) {
      onError(error as Error)
    }
  }
  const sweeping = setInterval(() => {
    nextSlice ??= setImmediate(sweepSlice)
  }, sweepEveryMs)
  sweeping.unref()

  return {
    get: (key) => read(() => get.get(key, clock())?.value as string | undefined),
    set: (key, value, ttlMs) => write(() => void set.run(key, value, expiry(ttlMs))),
    setIfAbsent: (key, value, ttlMs) => write(() => setIfAbsent.run(key, value, expiry(ttlMs), clock()).changes === 1),
    take: (key) =>
      write(() => {
        const entry = take.get(key) as { value: string; expires_at: number | null } | undefined
        return entry && (entry.expires_at === null || entry.expires_at > clock()) ? entry.value : undefined
      }),
    delete: (key) => write(() => void remove.run(key)),
    count: (key, ttlMs) => write(() => Number(count.get({ key, expiry: expiry(ttlMs), now: clock() })?.value)),
    async *keys() {
      for (let last = ''; ; ) {
        const found = keysAfter.all(last) as { key: string }[]
        for (const { key } of found) yield key
        last = found.at(-1)?.key ?? last
        if (found.length === 0) return
      }
    },
    replace: (key, before, after) => write(() => replace.run(after, key, before, clock()).changes === 1),
    ping: () => read(() => void get.get('ping', clock())),
    async close() {
      if (!file.isOpen) return
      clearInterval(sweeping)
      clearImmediate(nextSlice)
      file.close()
      await sync.close()
    },
  }
}

/**
 * Flushes writes to the disk after every write, on another thread, so that they survive a power failure. They survive a
 * killed process without it.
 */
function syncInBackground(path: string, onError: (error: Error) => void) {
  const descriptor = openSync(path, 'r+')
  let underWay: Promise<void> | undefined
  let isWanted = false
  const run = async () => {
    while (isWanted) {
      isWanted = false
      await new Promise<void>((resolve) => {
        fdatasync(descriptor, (error) => {
          if (error) onError(error)
          resolve()
        })
      })
    }
    underWay = undefined
  }
  return {
    request(): void {
      isWanted = true
      underWay ??= run()
    },
    async close(): Promise<void> {
      await underWay
      closeSync(descriptor)
    },
  }
}

const ignore = () => undefined
