import { retryDelay } from './retry-delay.ts'

/** After this long on a connection, the next rejected token counts as a new problem. */
const calmMs = 60_000
const longestDelayMs = 300_000

/** Asks the page for a fresh ID token: one request at a time, and less often while its tokens keep being rejected. */
export class IdentityRequests {
  readonly #ask: () => void
  readonly #now: () => number
  #count = 0
  #acceptedAt: number | undefined
  /** Set from the decision to ask until the page responds. */
  #pending: ReturnType<typeof setTimeout> | undefined

  constructor(ask: () => void, now = () => performance.now()) {
    this.#ask = ask
    this.#now = now
  }

  /** Returns true if the page was asked before and its response didn't help. */
  request(): boolean {
    if (this.#acceptedAt !== undefined && this.#now() - this.#acceptedAt >= calmMs) this.#count = 0
    this.#acceptedAt = undefined
    const isRepeated = this.#count > 0
    if (this.#pending === undefined) {
      this.#pending = setTimeout(this.#ask, isRepeated ? retryDelay(this.#count, longestDelayMs) : 0)
      this.#count += 1
    }
    return isRepeated
  }

  /** The page responded, or identified the user without being asked. */
  answered(): void {
    clearTimeout(this.#pending)
    this.#pending = undefined
  }

  /** The server accepted the identity. */
  accepted(): void {
    this.#acceptedAt = this.#now()
  }
}
