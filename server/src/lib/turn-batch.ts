/**
 * Collects items during one turn of the event loop and passes them on together at its end. Writing to a socket or a
 * stream costs far more for many small writes than for a few that follow each other.
 */
export function createTurnBatch<T>(passOn: (items: readonly T[]) => void) {
  let waiting: T[] = []

  function flush(): void {
    if (waiting.length === 0) return
    const items = waiting
    waiting = []
    passOn(items)
  }

  return {
    add(item: T): void {
      if (waiting.length === 0) setImmediate(flush)
      waiting.push(item)
    },
    /** Passes the items on now, for a caller that can't wait for the end of the turn. */
    flush,
  }
}
