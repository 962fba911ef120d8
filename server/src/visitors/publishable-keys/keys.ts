import type { Config } from '../../kernel/config/config.ts'
import { type OrgCaller, trailOf } from '../../kernel/foundation/caller.ts'
import { oneMore, type Paged, takePage } from '../../kernel/foundation/cursors.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { notFound } from '../../kernel/lib/errors.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { fingerprint } from '../../kernel/lib/secrets.ts'
import { recordAudit, type Trail } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { topics } from '../../kernel/stores/topics.ts'
import { settleSites } from '../sites/sites.ts'
import type * as contract from './contract.ts'
import { generateKey } from './key-format.ts'

type PublishableKey = Output<typeof contract.updateKey>

const prefixOf = (key: string) => key.slice(0, 12)

/** The place that a sealed key is bound to. */
const sealedKeyPlace = (id: string) => `publishable_keys.key_sealed:${id}`

export async function listKeys(
  { database }: Service,
  { organization }: OrgCaller,
  { limit, offset, cursor }: Input<typeof contract.listKeys>,
): Promise<Paged<Output<typeof contract.listKeys>>> {
  const last = cursor?.[0] ?? null
  // Newest first.
  const found = await database.asOrg(
    organization.id,
    (sql) => sql<PublishableKey>`
      select id, name, key_prefix, allowed_origins, key_sealed is not null as can_reveal,
             revoked_at, last_used_at, created_at
      from publishable_keys where ${last}::uuid is null or id < ${last}
      order by id desc limit ${oneMore(limit)} offset ${offset}`,
  )
  const { rows: keys, next_cursor } = takePage(found, limit, ({ id }) => [id])
  return { body: { keys }, next_cursor }
}

export async function createKey(
  service: Service,
  caller: OrgCaller,
  input: Input<typeof contract.createKey>,
): Promise<Output<typeof contract.createKey>> {
  const key = await addKey(service, trailOf(caller), input)
  service.changes.announce(topics.frames(caller.organization.id))
  return key
}

/** Also used by the operator's command, which has no caller. */
export async function addKey(
  { database, secrets, config }: Pick<Service, 'database' | 'secrets'> & { config: Pick<Config, 'mode' | 'plans'> },
  trail: Trail,
  { name, allowed_origins }: Input<typeof contract.createKey>,
): Promise<Output<typeof contract.createKey>> {
  const id = newId()
  const key = generateKey('pk', config.mode)
  return database.asOrg(trail.organizationId, async (sql) => {
    await sql`
      insert into publishable_keys (organization_id, id, name, key_prefix, key_hash, key_sealed, allowed_origins)
      values (current_organization(), ${id}, ${name}, ${prefixOf(key)}, ${fingerprint(key)},
              ${secrets.seal(key, sealedKeyPlace(id))}, ${allowed_origins})`
    if (allowed_origins.length > 0) await settleSites(config.plans, sql)
    await recordAudit(sql, trail, 'publishable_key.created', id, { name, allowed_origins })
    return { ...(await selectKey(sql, id)), key }
  })
}

export async function updateKey(
  service: Service,
  caller: OrgCaller,
  { id, ...changes }: Input<typeof contract.updateKey>,
): Promise<PublishableKey> {
  const key = await service.database.asOrg(caller.organization.id, async (sql) => {
    const [found] = await sql`
      update publishable_keys
      set name = coalesce(${changes.name ?? null}, name),
          allowed_origins = coalesce(${changes.allowed_origins ?? null}, allowed_origins)
      where id = ${id} returning id`
    if (!found) throw notFound('publishable_key', id)
    if (changes.allowed_origins) await settleSites(service.config.plans, sql)
    await recordAudit(sql, trailOf(caller), 'publishable_key.updated', id, changes)
    return selectKey(sql, id)
  })
  service.changes.announce(topics.key(id))
  service.changes.announce(topics.frames(caller.organization.id))
  return key
}

export async function revealKey(
  { database, secrets }: Service,
  caller: OrgCaller,
  { id }: Input<typeof contract.revealKey>,
): Promise<Output<typeof contract.revealKey>> {
  return database.asOrg(caller.organization.id, async (sql) => {
    const key = await openKey({ secrets }, sql, id)
    await recordAudit(sql, trailOf(caller), 'publishable_key.revealed', id)
    return { key }
  })
}

/** The text of a key that isn't revoked, and that was stored so that it can be shown again. */
export async function openKey({ secrets }: Pick<Service, 'secrets'>, sql: Sql, id: string): Promise<string> {
  const [row] = await sql<{ key_sealed: string | null }>`select key_sealed from publishable_keys where id = ${id}`
  if (!row?.key_sealed) throw notFound('publishable_key', id)
  return secrets.open(row.key_sealed, sealedKeyPlace(id))
}

export async function revokeKey(
  { database, changes, config }: Service,
  caller: OrgCaller,
  { id }: Input<typeof contract.revokeKey>,
): Promise<PublishableKey> {
  const key = await database.asOrg(caller.organization.id, async (sql) => {
    const [newly] = await sql`
      update publishable_keys set revoked_at = now(), key_sealed = null
      where id = ${id} and revoked_at is null returning id`
    if (newly) {
      await settleSites(config.plans, sql)
      await recordAudit(sql, trailOf(caller), 'publishable_key.revoked', id)
    }
    return selectKey(sql, id)
  })
  changes.announce(topics.key(id))
  changes.announce(topics.frames(caller.organization.id))
  return key
}

async function selectKey(sql: Sql, id: string): Promise<PublishableKey> {
  const [key] = await selectKeys(sql, id)
  if (!key) throw notFound('publishable_key', id)
  return key
}

const selectKeys = (sql: Sql, id: string) => sql<PublishableKey>`
  select id, name, key_prefix, allowed_origins, key_sealed is not null as can_reveal,
         revoked_at, last_used_at, created_at
  from publishable_keys where id = ${id}`
