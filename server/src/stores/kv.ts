import { chmodSync, closeSync, fdatasync, openSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import type { Clock } from '../lib/clock.ts'
import { serviceUnavailable } from '../lib/errors.ts'
import type { Secrets } from '../lib/secrets.ts'

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
}

/** What an engine has to do with opaque strings; `sealed` adds the rest. */
export interface Engine {
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
  sweepEveryMs?: number
}

export const openFileKv = (path: string, options: KvOptions): Kv => sealed(fileEngine(path, options), options.secrets)

/** Counters are plain numbers, because Redis has to add to them; so they are kept apart from sealed values. */
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

const schema = `
  create table if not exists entries (key text primary key, value text not null, expires_at integer) strict;
  create index if not exists entries_expiry on entries (expires_at) where expires_at is not null`

/** How long a write waits for the write of another process. It blocks this one meanwhile. */
const busyMs = 1_000
/** Entries that are deleted at once, which takes about a millisecond. */
const sweptAtOnce = 200

/**
 * A SQLite file. Each operation is one statement, and therefore atomic, between processes too. A statement that fails, on
 * a full disk for example, changes nothing, and the next one may succeed.
 */
function fileEngine(path: string, { clock, onError = ignore, sweepEveryMs = 10_000 }: KvOptions): Engine {
  closeSync(openSync(path, 'a', 0o600))
  // The files beside it get the permissions of this one.
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
      throw serviceUnavailable('The key-value store does not work', error)
    }
  }
  const write = <T>(statement: () => T): Promise<T> =>
    read(() => {
      const result = statement()
      sync.request()
      return result
    })

  // Expired entries are invisible at once; the sweep only gives their space back, a few in each turn of the event loop.
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
 * Writes survive a killed process by themselves. They survive a power failure once they are on the disk, which is asked
 * for after every write, by a thread beside the event loop.
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
