const firstMs = 500

/** Doubles with every failure, minus a random part, so that tabs that dropped together don't come back together. */
export const retryDelay = (failures: number, longestMs = 30_000, random = Math.random): number =>
  (0.25 + 0.75 * random()) * Math.min(longestMs, firstMs * 2 ** failures)
