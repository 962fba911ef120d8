const firstMs = 500
const longestMs = 30_000

/** Twice as long after every failure, and somewhere below that, so that tabs that dropped together come back apart. */
export const retryDelay = (failures: number, random = Math.random): number =>
  (0.25 + 0.75 * random()) * Math.min(longestMs, firstMs * 2 ** failures)
