import { LRUCache } from 'lru-cache'
import { upTo } from '../up-to.ts'
import { hasFairShare } from './fair-share.ts'
import type { Rate } from './token-buckets.ts'

/** What was spent. The same part of it is forgotten in every second. */
class Spending {
  readonly #memoryMs: number
  #spent = 0
  /** When `#spent` was computed, in milliseconds. */
  #at = 0

  constructor(memoryMs: number) {
    this.#memoryMs = memoryMs
  }

  at(now: number): number {
    this.#spent *= Math.exp(-Math.max(0, now - this.#at) / this.#memoryMs)
    this.#at = now
    return this.#spent
  }

  add(cost: number, now: number): void {
    this.#spent = this.at(now) + cost
  }
}

/** What a member can spend of a shared bucket. */
export interface Bucket {
  /** How many milliseconds until the member can spend `cost`: 0 if it can now. */
  wait(cost: number, now: number): number
  spend(cost: number, now: number): void
}

/**
 * Buckets that many members spend from, such as the addresses of a key's visitors. A member can spend while it has spent
 * less lately than what is left, so that a few members can't leave nothing to the others. All spending is forgotten at
 * the same pace, so that the members' parts always add up to the whole.
 */
export class SharedBuckets {
  readonly #atOnce: number
  readonly #memoryMs: number
  /** The buckets and members that were used the longest time ago are forgotten, as if they had spent nothing. */
  readonly #buckets: LRUCache<string, Spending>
  readonly #members: LRUCache<string, Spending>

  constructor({ perSecond, atOnce }: Rate, known: { buckets: number; members: number }) {
    this.#atOnce = atOnce
    this.#memoryMs = (atOnce / perSecond) * 1000
    this.#buckets = new LRUCache(upTo(known.buckets))
    this.#members = new LRUCache(upTo(known.members))
  }

  /** A caller can count as several members, such as an address and its network. Each of them needs its share. */
  of(bucket: string, members: readonly string[]): Bucket {
    const all = this.#find(this.#buckets, bucket)
    const own = members.map((member) => this.#find(this.#members, `${bucket} ${member}`))
    return {
      wait: (cost, now) => {
        // Something that costs more than a quarter of the bucket only needs as much.
        const size = Math.min(cost, this.#atOnce / 4)
        const taken = all.at(now)
        const most = Math.max(...own.map((member) => member.at(now)))
        if (hasFairShare({ total: this.#atOnce, taken, own: most }, size)) return 0
        // Until enough of both is forgotten.
        return Math.ceil(this.#memoryMs * Math.log((taken + most) / (this.#atOnce - 2 * size)))
      },
      spend(cost, now) {
        for (const spending of [all, ...own]) spending.add(cost, now)
      },
    }
  }

  #find(known: LRUCache<string, Spending>, key: string): Spending {
    const found = known.get(key) ?? new Spending(this.#memoryMs)
    known.set(key, found)
    return found
  }
}
