import { LRUCache } from 'lru-cache'
import { upTo } from '../up-to.ts'

export interface Rate {
  perSecond: number
  atOnce: number
}

/** Limits how much a caller can spend, at once and in the long run: the bucket refills over time. */
export class TokenBucket {
  readonly #rate: Rate
  #left: number
  /** When `#left` was computed, in milliseconds. */
  #at = 0

  constructor(rate: Rate) {
    this.#rate = rate
    this.#left = rate.atOnce
  }

  /** How many milliseconds until the bucket has what `cost` needs: 0 if it does now. */
  wait(cost: number, now: number): number {
    this.#refill(now)
    const missing = Math.min(cost, this.#rate.atOnce) - this.#left
    return missing <= 0 ? 0 : Math.ceil((missing / this.#rate.perSecond) * 1000)
  }

  /** Takes what something has cost. The bucket can be in debt afterwards, at most as deep as it is high. */
  spend(cost: number, now: number): void {
    this.#refill(now)
    this.#left = Math.max(this.#left - cost, -this.#rate.atOnce)
  }

  #refill(now: number): void {
    const { perSecond, atOnce } = this.#rate
    this.#left = Math.min(atOnce, this.#left + (Math.max(0, now - this.#at) / 1000) * perSecond)
    this.#at = now
  }
}

/** A bucket for each of many callers. */
export class TokenBuckets {
  readonly #rate: Rate
  readonly #buckets: LRUCache<string, TokenBucket>

  /** The buckets that were used the longest time ago are forgotten, and are full again. */
  constructor(rate: Rate, known: number) {
    this.#rate = rate
    this.#buckets = new LRUCache(upTo(known))
  }

  of(key: string): TokenBucket {
    const known = this.#buckets.get(key)
    if (known) return known
    const bucket = new TokenBucket(this.#rate)
    this.#buckets.set(key, bucket)
    return bucket
  }
}
