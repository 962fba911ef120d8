import { LRUCache } from 'lru-cache'
import type { Clock } from '../lib/clock.ts'
import { upTo } from '../lib/up-to.ts'
import { type Changes, recheckMs, TopicIndex } from './changes.ts'

export interface FreshCacheOptions<V> {
  changes: Pick<Changes, 'watch'>
  clock: Clock
  /** Maximum number of entries. */
  limit: number
  /** The changes that invalidate a value. */
  topicsOf(value: V): readonly string[]
  /** Whether a value may be cached at all. Default: yes. */
  isKept?(value: V): boolean
  /** Whether a load failed because its store is unavailable; then the last value is used for `staleMs`. Default: no. */
  isUnavailable?(error: unknown): boolean
}

interface Entry<V> {
  value: V
  topics: readonly string[]
  /** When the load of the value began. */
  since: number
  /** When to try the store again, while it is unavailable. */
  retryAt: number
}

/** A load in progress, and the topics that changed since it began. */
interface Load {
  changed: Set<string>
  hasMissed: boolean
}

/** Maximum age of values while their store is unavailable. */
export const staleMs = 5 * 60_000
const retryMs = 2_000
/** Maximum number of loads in a row if the value changes during each. */
const mostLoads = 5

/**
 * Caches values that other nodes may change. A value is used for 30 seconds from the start of its load, and dropped
 * when one of its topics changes. All values are dropped when changes may have been missed. If a topic changes during a
 * load, the load is repeated, so a value from before the change is neither cached nor returned.
 */
export class FreshCache<V> {
  readonly #options: FreshCacheOptions<V>
  readonly #entries: LRUCache<string, Entry<V>>
  /** The keys of the entries. */
  readonly #dependents = new TopicIndex<string>()
  readonly #loads = new Set<Load>()
  /** Callers with the same key share one load. */
  readonly #pending = new Map<string, Promise<V | undefined>>()

  constructor(options: FreshCacheOptions<V>) {
    this.#options = options
    this.#entries = new LRUCache({
      ...upTo(options.limit),
      // Called for every entry that is deleted, evicted or about to be replaced.
      dispose: ({ topics }, key) => this.#dependents.delete(key, topics),
    })
    options.changes.watch({
      changed: (topic) => {
        for (const load of this.#loads) load.changed.add(topic)
        for (const key of this.#dependents.of(topic)) this.#entries.delete(key)
      },
      missed: () => {
        for (const load of this.#loads) load.hasMissed = true
        this.#entries.clear()
      },
    })
  }

  get(key: string): V | undefined {
    const entry = this.#entries.get(key)
    if (entry === undefined) return undefined
    const now = this.#options.clock()
    return now - entry.since < recheckMs || now < entry.retryAt ? entry.value : undefined
  }

  /** Returns the cached value, or loads it. Absent values aren't cached. */
  load(key: string, load: () => Promise<V | undefined>): Promise<V | undefined> {
    const cached = this.get(key)
    if (cached !== undefined) return Promise.resolve(cached)
    const pending = this.#pending.get(key)
    if (pending) return pending
    const loading = this.#loadFresh(key, load).finally(() => this.#pending.delete(key))
    this.#pending.set(key, loading)
    return loading
  }

  async #loadFresh(key: string, load: () => Promise<V | undefined>): Promise<V | undefined> {
    const { clock, topicsOf, isKept, isUnavailable } = this.#options
    for (let count = 0; count < mostLoads; count += 1) {
      const since = clock()
      const under: Load = { changed: new Set(), hasMissed: false }
      this.#loads.add(under)
      try {
        const value = await load()
        if (value === undefined) return undefined
        const topics = topicsOf(value)
        if (under.hasMissed || topics.some((topic) => under.changed.has(topic))) continue
        if (isKept?.(value) ?? true) this.#keep(key, { value, topics, since, retryAt: 0 })
        return value
      } catch (error) {
        const last = this.#entries.get(key)
        if (!last || !isUnavailable?.(error) || clock() - last.since >= staleMs) throw error
        last.retryAt = Math.min(clock() + retryMs, last.since + staleMs)
        return last.value
      } finally {
        this.#loads.delete(under)
      }
    }
    throw new Error('The value changed during each of several loads')
  }

  #keep(key: string, entry: Entry<V>): void {
    this.#entries.set(key, entry)
    this.#dependents.add(key, entry.topics)
  }
}
