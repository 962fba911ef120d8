/** Milliseconds since the Unix epoch. Whatever depends on time takes a clock, so that tests can move it. */
export type Clock = () => number

export const systemClock: Clock = () => Date.now()
