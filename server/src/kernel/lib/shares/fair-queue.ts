import { hasFairShare } from './fair-share.ts'

/** The queue is full, and the lane already has its share of it. */
export class QueueFull extends Error {
  override name = 'QueueFull'
}

interface Waiting {
  start(): void
  refuse(error: Error): void
  since: number
}

interface Lane {
  active: number
  waiting: Waiting[]
}

export interface TurnLimits {
  /** Places that can be taken at the same time. */
  atATime: number
  /** The same per lane. */
  perLane?: number
  /** A lane only gets a place if as many as it then has are still free for others. */
  leavesSpace?: boolean
  /** Maximum number that wait for a place. */
  waiting: number
}

/**
 * Hands out places, of which there are only a few, such as connections, and queues a bounded number of those who want
 * one. The lane that has the fewest places is next, and lanes with equally many take turns. When the queue is full, a
 * newcomer from a shorter lane replaces the newest of the longest lane, so that no lane can starve the others.
 */
export class Turns {
  readonly #atATime: number
  readonly #perLane: number
  readonly #leavesSpace: boolean
  readonly #limit: number
  /** Lanes that have places or wait for some. Of those with equally many places, the first one is next. */
  readonly #lanes = new Map<string, Lane>()
  #active = 0
  #waiting = 0

  constructor({ atATime, perLane = atATime, leavesSpace = false, waiting }: TurnLimits) {
    this.#atATime = atATime
    this.#perLane = perLane
    this.#leavesSpace = leavesSpace
    this.#limit = waiting
  }

  /** Takes a place, or waits for one. Returns undefined if nobody has to wait. Each place must be given back. */
  enter(lane: string): Promise<void> | undefined {
    const known = this.#lanes.get(lane)
    if (!this.#mayStart(known?.active ?? 0)) return this.#wait(lane)
    this.#active += 1
    if (known) known.active += 1
    else this.#lanes.set(lane, { active: 1, waiting: [] })
    return undefined
  }

  /** Gives a place back. It's handed directly to the next, so that a newcomer can't jump the queue. */
  leave(lane: string): void {
    const known = this.#lanes.get(lane) as Lane
    known.active -= 1
    this.#active -= 1
    while (this.#waiting > 0 && this.#startNext());
    if (known.active === 0 && known.waiting.length === 0) this.#lanes.delete(lane)
  }

  /** Refuses those who have waited since before `since`, in milliseconds of `performance.now()`. */
  refuseOlder(since: number, error: Error): void {
    if (this.#waiting === 0) return
    for (const [name, lane] of this.#lanes) {
      const late = lane.waiting.findIndex((job) => job.since >= since)
      const refused = lane.waiting.splice(0, late === -1 ? lane.waiting.length : late)
      this.#waiting -= refused.length
      for (const job of refused) job.refuse(error)
      if (lane.active === 0 && lane.waiting.length === 0) this.#lanes.delete(name)
    }
  }

  async #wait(name: string): Promise<void> {
    if (this.#waiting >= this.#limit) this.#makeSpace(name)
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const lane = this.#lanes.get(name) ?? { active: 0, waiting: [] }
    lane.waiting.push({ start: resolve, refuse: reject, since: performance.now() })
    this.#lanes.set(name, lane)
    this.#waiting += 1
    return promise
  }

  /** Whether a lane that has `active` places may have one more now. */
  #mayStart(active: number): boolean {
    if (this.#active >= this.#atATime || active >= this.#perLane) return false
    return !this.#leavesSpace || hasFairShare({ total: this.#atATime, taken: this.#active, own: active }, 1)
  }

  /** Returns false if no lane may start. */
  #startNext(): boolean {
    let next: [string, Lane] | undefined
    for (const entry of this.#lanes) {
      const { active, waiting } = entry[1]
      if (waiting.length === 0 || !this.#mayStart(active) || (next && active >= next[1].active)) continue
      next = entry
      if (active === 0) break
    }
    if (!next) return false
    const [name, lane] = next
    lane.active += 1
    this.#active += 1
    this.#waiting -= 1
    // Its next turn comes after those of the others.
    this.#lanes.delete(name)
    this.#lanes.set(name, lane)
    lane.waiting.shift()?.start()
    return true
  }

  #makeSpace(name: string): void {
    let longest: Waiting[] = []
    for (const { waiting } of this.#lanes.values()) if (waiting.length > longest.length) longest = waiting
    if (longest.length <= (this.#lanes.get(name)?.waiting.length ?? 0) + 1) {
      throw new QueueFull('Too many jobs are waiting')
    }
    longest.pop()?.refuse(new QueueFull('A lane with fewer jobs took the place'))
    this.#waiting -= 1
  }
}

/** Runs a few jobs at a time, in turns. */
export function createFairQueue(limits: TurnLimits) {
  const turns = new Turns(limits)
  return async <T>(lane: string, work: () => Promise<T>): Promise<T> => {
    const turn = turns.enter(lane)
    if (turn) await turn
    try {
      return await work()
    } finally {
      turns.leave(lane)
    }
  }
}
