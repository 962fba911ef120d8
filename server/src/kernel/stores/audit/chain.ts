import { createHmac } from 'node:crypto'
import { type DerivedKey, type Secrets, UnreadableSecret } from '../../lib/secrets.ts'
import type { Sql } from '../database.ts'

/** An audit row without its key id and hash. */
export interface AuditRow {
  organization_id: string
  sequence: number
  id: string
  actor: string
  /** Null for components, and for rows from before IDs were recorded. */
  actor_id: string | null
  action: string
  target: string
  data: unknown
  created_at: string
}

/** The key id of rows from before hashes were keyed. The database can compute those hashes (`audit_hash`). */
export const plainHash = 'sha256'
/** The hash that precedes the first row of a chain: SHA-256 of an empty string. */
export const emptyChain = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'
/** The action of the row that retires other keys. Its data lists them: `{ retired: [key id, …] }`. */
export const keyChanged = 'audit.key_changed'
/** The action of the row that notes where old rows were dropped. Its data is the last of them: `{ sequence, hash }`. */
export const eventsDropped = 'audit.events_dropped'

/** The keys of the configured secrets. The first one authenticates new rows. */
export const auditKeys = (secrets: Secrets): [DerivedKey, ...DerivedKey[]] =>
  secrets.derive('audit chain') as [DerivedKey, ...DerivedKey[]]

/** For the table `audit_keys`, which stores the keys of secrets that were rotated out. */
export const sealAuditKey = (secrets: Secrets, { id, key }: DerivedKey): string =>
  secrets.seal(key.toString('base64url'), placeOf(id))

/** Treats a key that can't be opened like a missing one, so that verification reports the rows under it. */
export function openAuditKey(
  secrets: Secrets,
  { id, key_sealed }: { id: string; key_sealed: string },
): DerivedKey | undefined {
  try {
    return { id, key: Buffer.from(secrets.open(key_sealed, placeOf(id)), 'base64url') }
  } catch (error) {
    if (error instanceof UnreadableSecret) return undefined
    throw error
  }
}

/** Must match the place that `resealColumns` uses. */
const placeOf = (id: string) => `audit_keys.key_sealed:${id}`

/** Covers the row, its key's id and the previous hash, so that no row can be changed, moved or left out. */
export function chainHash({ id: keyId, key }: DerivedKey, previous: string, row: AuditRow): string {
  const { organization_id, sequence, id, actor, actor_id, action, target, data, created_at } = row
  const covered = [
    previous,
    keyId,
    organization_id,
    sequence,
    id,
    actor,
    action,
    target,
    canonicalJson(data),
    created_at,
    // Absent without one, so that the hashes of earlier rows stay the same.
    ...(actor_id === null ? [] : [actor_id]),
  ]
  return createHmac('sha256', key).update(JSON.stringify(covered)).digest('hex')
}

/** Sorts keys, because the database doesn't keep their order. */
export const canonicalJson = (value: unknown): string => JSON.stringify(sortKeys(value))

function sortKeys(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(sortKeys)
  const members = value as Record<string, unknown>
  // For example a Date, which JSON writes as a string.
  if (typeof members.toJSON === 'function') return value
  return Object.fromEntries(
    Object.keys(members)
      .sort()
      .map((key) => [key, sortKeys(members[key])]),
  )
}

/** A position in a chain that can be recorded elsewhere and checked later. */
export interface ChainHead {
  organizationId: string
  sequence: number
  hash: string
}

export const formatHead = ({ organizationId, sequence, hash }: ChainHead): string =>
  `${organizationId}:${sequence}:${hash}`

export function readHead(text: string): ChainHead | undefined {
  const [head] = findHeads(text)
  return head && formatHead(head) === text ? head : undefined
}

/** Finds every head in a text, such as an earlier report. */
export const findHeads = (text: string): ChainHead[] =>
  [...text.matchAll(/\b([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}):(\d{1,15}):([0-9a-f]{64})\b/g)].map(
    ([, organizationId = '', sequence = '', hash = '']) => ({ organizationId, sequence: Number(sequence), hash }),
  )

/** The hash of a row that was dropped as the last one of its month. The row that notes it must be verified too. */
export async function findDropped(sql: Sql, sequence: number): Promise<string | undefined> {
  const [noted] = await sql<{ hash: string }>`
    select data ->> 'hash' as hash from audit_events
    where action = ${eventsDropped} and data ->> 'sequence' = ${String(sequence)} order by sequence limit 1`
  return noted?.hash
}
