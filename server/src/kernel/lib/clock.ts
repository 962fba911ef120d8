/** Returns milliseconds since the Unix epoch. Code that depends on time takes a clock, so that tests can set it. */
export type Clock = () => number

export const systemClock: Clock = () => Date.now()

/** Work that is repeated in the background. */
export interface Repeated {
  /** Does the work once more, after what is in progress. */
  now(): Promise<void>
  /** Resolves when the current repetition has ended. */
  close(): Promise<void>
}

/** Repeated work begins within this time. Without it, only after its first interval, so that tests decide when it runs. */
export const beginning: { withinMs: number | undefined } = { withinMs: 2_000 }

/**
 * Does something again and again, one after the other. `work` must not reject. It begins a moment later, at random, so
 * that a start doesn't wait for all background work at once, each on a connection of its own.
 */
export function keepDoing(work: () => Promise<void>, everyMs: number): Repeated {
  let running = Promise.resolve()
  let waiting = 0
  const now = async () => {
    waiting += 1
    running = running.then(work)
    await running
    waiting -= 1
  }
  // Skipped while the last repetition takes longer than expected.
  const next = () => waiting === 0 && now()
  const { withinMs = everyMs } = beginning
  const first = withinMs < everyMs ? setTimeout(next, Math.random() * withinMs) : undefined
  const timer = setInterval(next, everyMs)
  first?.unref()
  timer.unref()
  return {
    now,
    async close() {
      clearTimeout(first)
      clearInterval(timer)
      await running
    },
  }
}
