/**
 * Options of a cache that grows as it is used. With `max`, lru-cache allocates all entries at once, and the ten largest
 * caches take a tenth of a second of every start.
 */
export const upTo = (entries: number) => ({ maxSize: entries, sizeCalculation: () => 1 })
