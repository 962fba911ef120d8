import type { Kv } from './kv.ts'

/**
 * Limits the number of records that unauthenticated requests can create: beyond `limit`, a new one replaces the oldest.
 * It takes constant time, and the limit applies to all nodes together. Call it before storing `key`.
 */
export async function keepNewest(
  kv: Kv,
  { kind, limit, seconds }: { kind: string; limit: number; seconds: number },
  key: string,
): Promise<void> {
  const place = `newest:${kind}:${(await kv.count(`newest:${kind}`)) % limit}`
  const oldest = await kv.get<string>(place)
  await kv.set(place, key, seconds)
  if (oldest !== undefined && oldest !== key) await kv.delete(oldest)
}
