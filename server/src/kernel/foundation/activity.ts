import { hash } from 'node:crypto'
import type { Clock } from '../lib/clock.ts'
import { newId } from '../lib/ids.ts'
import type { Log } from '../lib/log.ts'
import type { Database, Sql } from '../stores/database.ts'
import type { Metrics } from './metrics.ts'

/**
 * Records when keys, service accounts, sites, end users and directories were last active, and which callers were refused.
 * None of this is worth a write per request, so it is collected in memory and written about once a second; a kill loses
 * that second.
 */
export interface Activity {
  keyUsed(organizationId: string, keyId: string): void
  serviceAccountUsed(organizationId: string, keyHash: string): void
  siteSeen(organizationId: string, siteId: string): void
  /** A key was used on an origin that no administrator allowed. */
  unallowedOriginSeen(organizationId: string, keyId: string, origin: string): void
  endUserActive(organizationId: string, endUserId: string): void
  /** A directory sent an accepted request with one of its tokens. */
  directorySynced(organizationId: string, directoryId: string, tokenId: string): void
  refused(organizationId: string, refusal: Refusal): void
  flush(): Promise<void>
  close(): Promise<void>
}

/** Tells the administrator why a caller was refused. Contains no secrets. */
export interface Refusal {
  surface: 'ticket' | 'id_token' | 'scim' | 'delegated_identity' | 'sign_in'
  step: string
  code: string
  message: string
  expected?: string | undefined
  seen?: string | undefined
  origin?: string | undefined
  publishable_key_id?: string | undefined
  directory_id?: string | undefined
}

interface Pending {
  keys: Map<string, number>
  /** Keyed by the hash of the service account's key. */
  serviceAccounts: Map<string, number>
  sites: Map<string, number>
  endUsers: Map<string, number>
  directories: Map<string, number>
  directoryTokens: Map<string, number>
  /** Keyed by publishable key and origin. */
  origins: Map<string, { keyId: string; origin: string; count: number; at: number }>
  refusals: Map<string, Refusal & { fingerprint: string; count: number; at: number }>
}

interface Engines {
  database: Database
  clock: Clock
  log: Log
  metrics: Metrics
}

const flushEveryMs = 1_000
const keptRefusals = 200
/** Maximum number of different refusals per organization and second. */
const pendingRefusals = 50
/** Maximum number of unallowed origins per organization, because anyone with a key can send any number of them. */
const keptOrigins = 20

export function createActivity({ database, clock, log, metrics }: Engines): Activity {
  let pending = new Map<string, Pending>()
  const of = (organizationId: string): Pending => {
    const known = pending.get(organizationId)
    if (known) return known
    const fresh = {
      keys: new Map(),
      serviceAccounts: new Map(),
      sites: new Map(),
      endUsers: new Map(),
      directories: new Map(),
      directoryTokens: new Map(),
      origins: new Map(),
      refusals: new Map(),
    }
    pending.set(organizationId, fresh)
    return fresh
  }

  async function flush(): Promise<void> {
    const taken = pending
    pending = new Map()
    for (const [organizationId, work] of taken) {
      await database
        .asOrg(organizationId, (sql) => write(sql, work))
        .catch((error) => log.warn({ err: error }, 'could not write activity'))
    }
  }

  let flushing = Promise.resolve()
  /** Also waits for a write that is already in progress. */
  const flushInTurn = () => {
    flushing = flushing.then(flush)
    return flushing
  }
  const timer = setInterval(flushInTurn, flushEveryMs)
  timer.unref()

  return {
    keyUsed: (organizationId, keyId) => void of(organizationId).keys.set(keyId, clock()),
    serviceAccountUsed: (organizationId, keyHash) => void of(organizationId).serviceAccounts.set(keyHash, clock()),
    siteSeen: (organizationId, siteId) => void of(organizationId).sites.set(siteId, clock()),
    endUserActive: (organizationId, endUserId) => void of(organizationId).endUsers.set(endUserId, clock()),
    directorySynced(organizationId, directoryId, tokenId) {
      of(organizationId).directories.set(directoryId, clock())
      of(organizationId).directoryTokens.set(tokenId, clock())
    },
    unallowedOriginSeen(organizationId, keyId, origin) {
      const { origins } = of(organizationId)
      const place = `${keyId} ${origin}`
      const known = origins.get(place)
      if (known) {
        known.count += 1
        known.at = clock()
      } else if (origins.size < keptOrigins) origins.set(place, { keyId, origin, count: 1, at: clock() })
    },
    refused(organizationId, refusal) {
      metrics.countRefusal(refusal.surface, refusal.code)
      const fingerprint = hash('sha256', JSON.stringify(refusal), 'base64url')
      const { refusals } = of(organizationId)
      const known = refusals.get(fingerprint)
      if (known) Object.assign(known, { count: known.count + 1, at: clock() })
      else if (refusals.size < pendingRefusals)
        refusals.set(fingerprint, { ...refusal, fingerprint, count: 1, at: clock() })
    },
    flush: flushInTurn,
    async close() {
      clearInterval(timer)
      await flushInTurn()
    },
  }
}

/** Writes in the order of ids, so that two nodes can't deadlock. */
async function write(sql: Sql, pending: Pending): Promise<void> {
  const { keys, serviceAccounts, sites, endUsers, directories, directoryTokens, origins, refusals } = pending
  const columns = (moments: Map<string, number>) => {
    const sorted = [...moments].sort(([a], [b]) => (a < b ? -1 : 1))
    return [sorted.map(([id]) => id), sorted.map(([, at]) => new Date(at).toISOString())] as const
  }
  if (keys.size > 0) {
    const [ids, moments] = columns(keys)
    await sql`
      update publishable_keys t set last_used_at = greatest(t.last_used_at, n.at)
      from unnest(${ids}::uuid[], ${moments}::timestamptz[]) as n (id, at) where t.id = n.id`
  }
  if (serviceAccounts.size > 0) {
    const [hashes, moments] = columns(serviceAccounts)
    await sql`
      update service_accounts t
      set last_used_at = greatest(t.last_used_at, n.at),
          previous_key_last_used_at = greatest(t.previous_key_last_used_at, n.previous_at)
      from (
        select a.id, max(used.at) as at, max(used.at) filter (where used.hash = a.previous_key_hash) as previous_at
        from unnest(${hashes}::text[], ${moments}::timestamptz[]) as used (hash, at)
        join service_accounts a on used.hash in (a.key_hash, a.previous_key_hash)
        group by a.id order by a.id) n
      where t.id = n.id`
  }
  if (sites.size > 0) {
    const [ids, moments] = columns(sites)
    await sql`
      update sites t set last_seen_at = greatest(t.last_seen_at, n.at)
      from unnest(${ids}::uuid[], ${moments}::timestamptz[]) as n (id, at) where t.id = n.id`
  }
  if (endUsers.size > 0) {
    const [ids, moments] = columns(endUsers)
    await sql`
      update end_users t set last_activity_at = greatest(t.last_activity_at, n.at)
      from unnest(${ids}::uuid[], ${moments}::timestamptz[]) as n (id, at) where t.id = n.id`
  }
  if (directories.size > 0) {
    const [ids, moments] = columns(directories)
    await sql`
      update directories t set last_synced_at = greatest(t.last_synced_at, n.at)
      from unnest(${ids}::uuid[], ${moments}::timestamptz[]) as n (id, at) where t.id = n.id`
    const [tokenIds, tokenMoments] = columns(directoryTokens)
    await sql`
      update directory_tokens t set last_used_at = greatest(t.last_used_at, n.at)
      from unnest(${tokenIds}::uuid[], ${tokenMoments}::timestamptz[]) as n (id, at) where t.id = n.id`
  }
  if (origins.size > 0) await writeOrigins(sql, origins)
  if (refusals.size > 0) await writeRefusals(sql, [...refusals.values()])
}

async function writeOrigins(sql: Sql, origins: Pending['origins']): Promise<void> {
  const rows = [...origins].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row)
  await sql`
    insert into unallowed_origins (organization_id, publishable_key_id, origin, count, first_at, last_at)
    select current_organization(), key_id, origin, count, at, at
    from unnest(${rows.map(({ keyId }) => keyId)}::uuid[], ${rows.map(({ origin }) => origin)}::text[],
                ${rows.map(({ count }) => count)}::bigint[], ${rows.map(({ at }) => new Date(at).toISOString())}::timestamptz[])
         as seen (key_id, origin, count, at)
    on conflict (organization_id, publishable_key_id, origin) do update
      set count = unallowed_origins.count + excluded.count, last_at = greatest(unallowed_origins.last_at, excluded.last_at)`
  await sql`
    delete from unallowed_origins where (publishable_key_id, origin) in (
      select publishable_key_id, origin from unallowed_origins
      order by last_at desc, publishable_key_id, origin offset ${keptOrigins})`
}

async function writeRefusals(sql: Sql, refusals: (Refusal & { fingerprint: string; count: number; at: number })[]) {
  const rows = refusals
    .map(({ at, ...refusal }) => ({ ...refusal, id: newId(), at: new Date(at).toISOString() }))
    .sort((a, b) => (a.fingerprint < b.fingerprint ? -1 : 1))
  await sql`
    insert into refusals (organization_id, id, fingerprint, surface, step, code, message, expected, seen, origin,
                          publishable_key_id, directory_id, count, first_at, last_at)
    select current_organization(), id, fingerprint, surface, step, code, message, expected, seen, origin,
           publishable_key_id, directory_id, count, at, at
    from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as r (
      id uuid, fingerprint text, surface text, step text, code text, message text, expected text, seen text, origin text,
      publishable_key_id uuid, directory_id uuid, count bigint, at timestamptz)
    on conflict (organization_id, fingerprint) do update
      set count = refusals.count + excluded.count, last_at = greatest(refusals.last_at, excluded.last_at)`
  await sql`
    delete from refusals where id in (select id from refusals order by last_at desc, id desc offset ${keptRefusals})`
}
