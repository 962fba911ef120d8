/** Remembers which assertions were used. Several nodes need one that they share. */
export interface ReplayStore {
  /**
   * True for the first who claims an id, false for everybody after, until that moment (in seconds since 1970) has passed.
   * Must be atomic, as `SET … NX EXAT` of Redis is. When it throws, the assertion is refused.
   */
  claim(id: string, until: number): boolean | Promise<boolean>
}

/** Long enough that little is kept in vain, short enough that few sets have to be asked. */
const span = 60

/**
 * For one node. Ids that lapse within the same minute share a set, which is dropped as a whole. Only what a trusted
 * provider signed comes this far, so nobody else can make it grow.
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
