/**
 * A map for what comes and goes all the time, such as calls under way. V8 copies a `Map` that is used so every few dozen
 * changes, and lets each copy hold the next. Once one copy has grown old all later ones grow old with it, and with them
 * whatever was in them: memory that only a full collection gives back. The table of a plain object has no such link.
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

  /** Those that are there at the start, but for those that have gone by their turn. */
  *[Symbol.iterator](): IterableIterator<[key: string, value: V]> {
    for (const key of Object.keys(this.#entries)) {
      const value = this.#entries[key]
      if (value) yield [key, value]
    }
  }
}
