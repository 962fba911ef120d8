import { LRUCache } from 'lru-cache'

interface Bucket {
  left: number
  /** When `left` was computed, in milliseconds. */
  at: number
}

export interface Rate {
  perSecond: number
  atOnce: number
}

/** Limits how much each of many callers can spend, at once and in the long run. A caller's bucket refills over time. */
export class TokenBuckets {
  readonly #rate: Rate
  readonly #buckets: LRUCache<string, Bucket>

  /** The buckets that were used the longest time ago are forgotten, and are full again. */
  constructor(rate: Rate, known: number) {
    this.#rate = rate
    this.#buckets = new LRUCache({ max: known })
  }

  /** How many milliseconds until the bucket has what `cost` needs: 0 if it does now. */
  wait(key: string, cost: number, now: number): number {
    const missing = Math.min(cost, this.#rate.atOnce) - this.#left(key, now)
    return missing <= 0 ? 0 : Math.ceil((missing / this.#rate.perSecond) * 1000)
  }

  /** Takes what something has cost. The bucket can be in debt afterwards, at most as deep as it is high. */
  spend(key: string, cost: number, now: number): void {
    const left = Math.max(this.#left(key, now) - cost, -this.#rate.atOnce)
    this.#buckets.set(key, { left, at: now })
  }

  #left(key: string, now: number): number {
    const { perSecond, atOnce } = this.#rate
    const bucket = this.#buckets.get(key)
    if (!bucket) return atOnce
    return Math.min(atOnce, bucket.left + (Math.max(0, now - bucket.at) / 1000) * perSecond)
  }
}
