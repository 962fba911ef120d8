/** Records which assertions were used. Several nodes must share one store. */
export interface ReplayStore {
  /**
   * Returns true for the first claim of an id and false for every other claim until `until`, in seconds since 1970.
   * Must be atomic, like Redis' `SET … NX EXAT`. If it throws, the assertion is refused.
   */
  claim(id: string, until: number): boolean | Promise<boolean>
}

/** In seconds. A longer span keeps ids longer than necessary; a shorter one creates more sets to search. */
const span = 60

/**
 * A store for a single node. Ids that expire in the same minute share a set, which is dropped as a whole. It only
 * records assertions that a trusted provider signed, so attackers can't fill the memory.
 */
export function rememberInMemory(clock: () => number = Date.now): ReplayStore {
  const sets = new Map<number, Set<string>>()
  return {
    claim(id, until) {
      const now = clock() / 1000
      for (const [end, set] of sets) {
        if (end <= now) sets.delete(end)
        else if (set.has(id)) return false
      }
      const end = Math.ceil(until / span) * span
      const set = sets.get(end)
      if (set) set.add(id)
      else sets.set(end, new Set([id]))
      return true
    },
  }
}
