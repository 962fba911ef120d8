/**
 * A map for short-lived entries, such as calls in progress. V8 copies the table of a `Map` with many insertions and
 * deletions every few dozen changes, and each table references the next. Once one table reaches the old generation, all
 * later ones follow with their values, and only a full collection frees them. A plain object's table has no such
 * reference. What it saves: docs/decisions/0031-which-speedups-stay.md.
 */
export class PassingMap<V extends object> {
  #entries: Record<string, V> = Object.create(null)
  #size = 0

  get size(): number {
    return this.#size
  }

  get(key: string): V | undefined {
    return this.#entries[key]
  }

  set(key: string, value: V): void {
    if (this.#entries[key] === undefined) this.#size += 1
    this.#entries[key] = value
  }

  delete(key: string): boolean {
    if (this.#entries[key] === undefined) return false
    delete this.#entries[key]
    this.#size -= 1
    return true
  }

  clear(): void {
    this.#entries = Object.create(null)
    this.#size = 0
  }

  /** Iterates over the entries that exist at the start, and skips those that are deleted before their turn. */
  *[Symbol.iterator](): IterableIterator<[key: string, value: V]> {
    for (const key of Object.keys(this.#entries)) {
      const value = this.#entries[key]
      if (value) yield [key, value]
    }
  }
}
