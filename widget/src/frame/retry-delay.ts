const firstMs = 500

/** Exponential backoff with jitter, so that tabs that dropped together don't reconnect together. */
export const retryDelay = (failures: number, longestMs = 30_000, random = Math.random): number =>
  (0.25 + 0.75 * random()) * Math.min(longestMs, firstMs * 2 ** failures)
