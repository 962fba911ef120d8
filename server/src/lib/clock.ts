/** Returns milliseconds since the Unix epoch. Code that depends on time takes a clock, so that tests can set it. */
export type Clock = () => number

export const systemClock: Clock = () => Date.now()
