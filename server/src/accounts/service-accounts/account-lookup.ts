import { LRUCache } from 'lru-cache'
import type { ActivityKind } from '../../kernel/foundation/activity.ts'
import type { Caller } from '../../kernel/foundation/caller.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { Role } from '../../kernel/foundation/shapes.ts'
import { serviceUnavailable } from '../../kernel/lib/errors.ts'
import { fingerprint } from '../../kernel/lib/secrets.ts'
import { createFairQueue, QueueFull } from '../../kernel/lib/shares/fair-queue.ts'
import { upTo } from '../../kernel/lib/up-to.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { FreshCache } from '../../kernel/stores/fresh-cache.ts'
import { topics } from '../../kernel/stores/topics.ts'
import { isWellFormedKey } from '../../visitors/publishable-keys/key-format.ts'

export interface AccountLookup {
  /** Returns undefined for a malformed, an unknown, a deleted or an expired key. */
  find(key: string): Promise<Caller | undefined>
}

interface KnownKey {
  caller: Caller
  organizationId: string
  keyHash: string
  /** When the last use was recorded, in milliseconds since the Unix epoch. */
  notedAt: number
}

const cachedKeys = 10_000
/** How precisely the last use of an account is recorded. */
const noteEveryMs = 60_000
/** Anyone can send well-formed keys that don't exist, so only a few are looked up at a time. */
const lookups = { atATime: 4, waiting: 1_000 }

/** Finds the service account of a key. */
export function createAccountLookup({ database, changes, clock, activity }: Service): AccountLookup {
  const known = new FreshCache<KnownKey>({
    changes,
    clock,
    limit: cachedKeys,
    topicsOf: ({ caller }) => [topics.serviceAccount(caller.id)],
  })
  /** Keys that were valid before. They have a lane of their own, which unknown keys can't crowd. */
  const seen = new LRUCache<string, true>(upTo(cachedKeys))
  const queue = createFairQueue(lookups)

  async function readKey(text: string): Promise<KnownKey | undefined> {
    const hash = fingerprint(text)
    const [place] = await database.asKeyHolder(
      hash,
      (sql) => sql<{ organization_id: string }>`
        select organization_id from service_accounts where key_hash = ${hash} or previous_key_hash = ${hash}`,
    )
    if (!place) return undefined
    const [account] = await database.asOrg(place.organization_id, (sql) => selectByHash(sql, hash))
    if (!account) return undefined
    seen.set(text, true)
    return describeKey(account, hash)
  }

  const load = (text: string): Promise<KnownKey | undefined> =>
    queue(seen.has(text) ? 'seen' : 'new', () => readKey(text)).catch((error) => {
      throw error instanceof QueueFull ? serviceUnavailable('Too many keys are being checked', error) : error
    })

  return {
    async find(text) {
      if (!isWellFormedKey('sk', text)) return undefined
      const found = known.get(text) ?? (await known.load(text, () => load(text)))
      if (!found || found.caller.token.expires_at <= clock()) return undefined
      if (clock() - found.notedAt >= noteEveryMs) {
        found.notedAt = clock()
        activity.note(accountUse, found.organizationId, found.keyHash)
      }
      return found.caller
    },
  }
}

interface FoundAccount {
  id: string
  name: string
  role: Role
  organization: NonNullable<Caller['organization']>
  expires_at: string | null
  /** When the key ends before the account does, because it was rotated. */
  key_expires_at: string | null
  key_last_used_at: string | null
}

const selectByHash = (sql: Sql, hash: string) =>
  sql<FoundAccount>`
    select a.id, a.name, a.role, a.expires_at,
           case when a.key_hash <> ${hash} then a.previous_key_expires_at end as key_expires_at,
           case when a.key_hash = ${hash} then a.last_used_at else a.previous_key_last_used_at end as key_last_used_at,
           jsonb_build_object('id', o.id, 'name', o.name, 'slug', o.slug) as organization
    from service_accounts a join organizations o on o.id = a.organization_id
    where a.key_hash = ${hash} or a.previous_key_hash = ${hash}`

function describeKey({ id, name, role, organization, ...times }: FoundAccount, keyHash: string): KnownKey {
  const end = (time: string | null) => (time === null ? Number.POSITIVE_INFINITY : Date.parse(time))
  const expires_at = Math.min(end(times.expires_at), end(times.key_expires_at))
  return {
    caller: {
      id,
      actor: `service-account:${name}`,
      email_verified: false,
      token: { id, expires_at, organization_id: organization.id },
      organization,
      role,
    },
    organizationId: organization.id,
    keyHash,
    notedAt: times.key_last_used_at === null ? 0 : Date.parse(times.key_last_used_at),
  }
}

/** Use of service accounts, by the hash of the key. */
const accountUse: ActivityKind = {
  table: 'service_accounts',
  write: (sql, noted) => sql`
    update service_accounts t
    set last_used_at = greatest(t.last_used_at, n.at),
        previous_key_last_used_at = greatest(t.previous_key_last_used_at, n.previous_at)
    from (
      select a.id, max(used.at) as at, max(used.at) filter (where used.hash = a.previous_key_hash) as previous_at
      from unnest(${noted.map(({ key }) => key)}::text[], ${noted.map(({ at }) => at)}::timestamptz[]) as used (hash, at)
      join service_accounts a on used.hash in (a.key_hash, a.previous_key_hash)
      group by a.id order by a.id) n
    where t.id = n.id`,
}
