import { LRUCache } from 'lru-cache'
import type { Clock } from '../lib/clock.ts'

interface DocumentCacheOptions<V> {
  clock: Clock
  /** Maximum number of documents. */
  limit: number
  /** How long a document is used before it's read again. */
  freshMs: number
  /** How long the last version is used while the document can't be read. */
  staleMs: number
  /** Minimum time between two reads that `newer` causes. */
  rereadMs: number
  /** How long a failed read is not repeated. */
  retryMs: number
  /** Whether a document may be cached. Default: yes. */
  isKept?(value: V): boolean
  /** Called when the last version is used because the document can't be read. */
  onStale?(key: string, error: unknown): void
}

interface Entry<V> {
  value?: V
  readAt: number
  triedAt: number
  failure?: unknown
  pending?: Promise<V>
}

/** Documents that other servers publish, such as their keys. Concurrent reads of a document share one request. */
export class DocumentCache<V extends object> {
  readonly #options: DocumentCacheOptions<V>
  readonly #entries: LRUCache<string, Entry<V>>

  constructor(options: DocumentCacheOptions<V>) {
    this.#options = options
    this.#entries = new LRUCache({ max: options.limit })
  }

  async get(key: string, read: () => Promise<V>): Promise<V> {
    const { clock, freshMs, staleMs, retryMs, onStale } = this.#options
    const entry = this.#entryOf(key)
    const { value, readAt, triedAt, failure } = entry
    const age = clock() - readAt
    if (value && age < freshMs) return value
    const last = age < staleMs ? value : undefined
    if (failure !== undefined && clock() - triedAt < retryMs) {
      if (last) return last
      throw failure
    }
    try {
      return await this.#read(entry, read)
    } catch (error) {
      if (!last) throw error
      onStale?.(key, error)
      return last
    }
  }

  /** Reads a document again that didn't serve its purpose. Returns `seen` if it was read only recently. */
  async newer(key: string, seen: V, read: () => Promise<V>): Promise<V> {
    const entry = this.#entryOf(key)
    if (entry.value && entry.value !== seen) return entry.value
    if (this.#options.clock() - entry.triedAt < this.#options.rereadMs) return seen
    return this.#read(entry, read)
  }

  #entryOf(key: string): Entry<V> {
    const known = this.#entries.get(key)
    if (known) return known
    const entry = { readAt: Number.NEGATIVE_INFINITY, triedAt: Number.NEGATIVE_INFINITY }
    this.#entries.set(key, entry)
    return entry
  }

  #read(entry: Entry<V>, read: () => Promise<V>): Promise<V> {
    const { clock, isKept } = this.#options
    entry.pending ??= read()
      .then((value) => {
        delete entry.failure
        if (isKept?.(value) ?? true) Object.assign(entry, { value, readAt: clock() })
        return value
      })
      .catch((error) => {
        entry.failure = error
        throw error
      })
      .finally(() => {
        entry.triedAt = clock()
        delete entry.pending
      })
    return entry.pending
  }
}
