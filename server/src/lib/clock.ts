/** Returns milliseconds since the Unix epoch. Code that depends on time takes a clock, so that tests can set it. */
export type Clock = () => number

export const systemClock: Clock = () => Date.now()

/** Work that is repeated in the background. */
export interface Repeated {
  /** Resolves when the current repetition has ended. */
  close(): Promise<void>
}

/** Does something now, and then regularly, one after the other. `work` must not reject. */
export function keepDoing(work: () => Promise<void>, everyMs: number): Repeated {
  let running = work()
  const timer = setInterval(() => {
    running = running.then(work)
  }, everyMs)
  timer.unref()
  return {
    async close() {
      clearInterval(timer)
      await running
    },
  }
}
