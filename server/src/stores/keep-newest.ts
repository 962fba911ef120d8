import type { Kv } from './kv.ts'

/**
 * Bounds the number of records that strangers can make the server store: beyond `limit` a new one takes the place of the
 * oldest. It costs the same however many there are, and holds for all nodes together. Call it before storing `key`.
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
