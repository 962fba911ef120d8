import type { Service } from '../../kernel/foundation/service.ts'
import { fingerprint } from '../../kernel/lib/secrets.ts'
import { canonicalEmail } from '../../kernel/net/email-addresses.ts'

/** Failed attempts from one client address on one account. They don't slow down other addresses. */
interface Pause {
  failures: number
  /** When the next attempt is accepted, in milliseconds. */
  until: number
}

const failuresWithoutPause = 2
const longestPauseSeconds = 5 * 60
/**
 * After this long without a failure, the count starts again. Creating an entry costs one password check, so the CPU
 * bounds how many entries exist at a time.
 */
const usedSeconds = 60 * 60
/** Longer than a check waits in a full queue. If a node dies during a check, the next attempt waits this long. */
const longestCheckSeconds = 30

/** In seconds: 0 after the first failures, then 1, 2, 4 and so on, up to five minutes. */
const pauseAfter = (failures: number): number =>
  failures <= failuresWithoutPause ? 0 : Math.min(2 ** (failures - failuresWithoutPause - 1), longestPauseSeconds)

export interface Attempt {
  /** Resolves to the number of consecutive failures, and how long the next attempt has to wait. */
  fail(): Promise<{ failures: number; waitSeconds: number }>
  succeed(): Promise<void>
  /** Lets the next attempt begin. */
  end(): Promise<void>
}

/** Key of an account and a client address. Unknown accounts have one too, so the delay doesn't reveal which exist. */
export const pairOf = (email: string, address: string): string =>
  fingerprint(JSON.stringify([canonicalEmail(email), address]))

/** Allows one attempt at a time per pair, across all nodes: otherwise a burst of attempts would escape the delay. */
export async function beginAttempt(
  { kv, clock }: Pick<Service, 'kv' | 'clock'>,
  pair: string,
): Promise<Attempt | { waitSeconds: number }> {
  const [turnKey, pauseKey] = [`sign-in-turn:${pair}`, `sign-in-pause:${pair}`]
  if (!(await kv.setIfAbsent(turnKey, true, longestCheckSeconds))) return { waitSeconds: 1 }
  const { failures: before = 0, until = 0 } = (await kv.get<Pause>(pauseKey)) ?? {}
  const waitMs = until - clock()
  if (waitMs > 0) {
    await kv.delete(turnKey)
    return { waitSeconds: Math.ceil(waitMs / 1000) }
  }
  return {
    async fail() {
      const failures = before + 1
      const waitSeconds = pauseAfter(failures)
      await kv.set(pauseKey, { failures, until: clock() + waitSeconds * 1000 } satisfies Pause, usedSeconds)
      return { failures, waitSeconds }
    },
    succeed: () => kv.delete(pauseKey),
    end: () => kv.delete(turnKey),
  }
}
