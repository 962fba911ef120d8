import { fingerprint } from '../lib/secrets.ts'
import type { Kv } from '../stores/kv.ts'

/** Names are hashed: an id is often the secret itself. */
export const recordKey = (model: string, id: string): string => `oauth:${model}:${fingerprint(id)}`

/** A code or token is worth nothing without its grant: one deletion ends them all, also those still being made. */
export const revokeGrant = (kv: Kv, grantId: string): Promise<void> => kv.delete(recordKey('Grant', grantId))

export const isGrantLive = async (kv: Kv, grantId: string): Promise<boolean> =>
  (await kv.get(recordKey('Grant', grantId))) !== undefined

const day = 24 * 60 * 60
/** Anybody may register a client, so one that nobody ever allowed anything is forgotten. */
export const unusedClientSeconds = 30 * day
/** Longer than any grant lives. */
const usedClientSeconds = 400 * day

/** Keeps a registered client that somebody allowed something. Others, known by their address, are not stored. */
export async function keepClient(kv: Kv, clientId: string): Promise<void> {
  const key = recordKey('Client', clientId)
  const metadata = await kv.get(key)
  if (metadata) await kv.set(key, metadata, usedClientSeconds)
}
