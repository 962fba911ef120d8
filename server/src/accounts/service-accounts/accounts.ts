import { type OrgCaller, trailOf } from '../../kernel/foundation/caller.ts'
import { oneMore, type Paged, takePage } from '../../kernel/foundation/cursors.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { duplicate, invalid, notFound } from '../../kernel/lib/errors.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { fingerprint } from '../../kernel/lib/secrets.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import { isUniqueViolation, type Sql } from '../../kernel/stores/database.ts'
import { topics } from '../../kernel/stores/topics.ts'
import { generateKey } from '../../visitors/publishable-keys/key-format.ts'
import type * as contract from './contract.ts'

type ServiceAccount = Output<typeof contract.getServiceAccount>

const mostAccounts = 100
const hourMs = 60 * 60_000

const last4Of = (key: string) => key.slice(-4)

export async function listServiceAccounts(
  { database, clock }: Service,
  { organization }: OrgCaller,
  { limit, offset, cursor }: Input<typeof contract.listServiceAccounts>,
): Promise<Paged<Output<typeof contract.listServiceAccounts>>> {
  const page = { below: cursor?.[0] ?? null, limit: oneMore(limit), offset }
  const found = await database.asOrg(organization.id, (sql) => selectAccounts(sql, clock(), page))
  const { rows: service_accounts, next_cursor } = takePage(found, limit, ({ id }) => [id])
  return { body: { service_accounts }, next_cursor }
}

export async function getServiceAccount(
  { database, clock }: Service,
  { organization }: OrgCaller,
  { id }: Input<typeof contract.getServiceAccount>,
): Promise<ServiceAccount> {
  return database.asOrg(organization.id, (sql) => selectAccount(sql, clock(), id))
}

export async function createServiceAccount(
  { database, config, clock }: Service,
  caller: OrgCaller,
  { name, role, expires_at }: Input<typeof contract.createServiceAccount>,
): Promise<Output<typeof contract.createServiceAccount>> {
  requireFuture(expires_at, clock())
  const id = newId()
  const key = generateKey('sk', config.mode)
  return database
    .asOrg(caller.organization.id, async (sql) => {
      // Serializes concurrent creations, so that the limit holds exactly.
      await sql`select from organizations where id = current_organization() for no key update`
      const [row] = await sql<{ count: number }>`select count(*) as count from service_accounts`
      if ((row?.count ?? 0) >= mostAccounts)
        throw invalid('', `An organization can have at most ${mostAccounts} service accounts. Delete one first.`)
      await sql`
        insert into service_accounts (organization_id, id, name, role, key_hash, key_last4, expires_at, created_by)
        values (current_organization(), ${id}, ${name}, ${role}, ${fingerprint(key)}, ${last4Of(key)}, ${expires_at},
                ${caller.actor})`
      const account = await selectAccount(sql, clock(), id)
      await recordAudit(sql, trailOf(caller), 'service_account.created', id, { name, role, expires_at })
      return { ...account, key }
    })
    .catch(refuseTakenName)
}

export async function updateServiceAccount(
  { database, changes, clock }: Service,
  caller: OrgCaller,
  { id, ...wanted }: Input<typeof contract.updateServiceAccount>,
): Promise<ServiceAccount> {
  if (wanted.expires_at) requireFuture(wanted.expires_at, clock())
  const account = await database
    .asOrg(caller.organization.id, async (sql) => {
      const before = await lockAccount(sql, clock(), id)
      const { name = before.name, role = before.role, expires_at = before.expires_at } = wanted
      await sql`update service_accounts set name = ${name}, role = ${role}, expires_at = ${expires_at} where id = ${id}`
      // The old name too: earlier events have it as their actor.
      const data = { ...wanted, ...(name !== before.name && { previous_name: before.name }) }
      await recordAudit(sql, trailOf(caller), 'service_account.updated', id, data)
      return { ...before, name, role, expires_at }
    })
    .catch(refuseTakenName)
  changes.announce(topics.serviceAccount(id))
  return account
}

export async function rotateServiceAccountKey(
  { database, changes, clock, config }: Service,
  caller: OrgCaller,
  { id, overlap_hours }: Input<typeof contract.rotateServiceAccountKey>,
): Promise<Output<typeof contract.rotateServiceAccountKey>> {
  const key = generateKey('sk', config.mode)
  const end = overlap_hours === 0 ? null : new Date(clock() + overlap_hours * hourMs).toISOString()
  const account = await database.asOrg(caller.organization.id, async (sql) => {
    await lockAccount(sql, clock(), id)
    await sql`
      update service_accounts
      set previous_key_hash = case when ${end}::timestamptz is not null then key_hash end,
          previous_key_last4 = case when ${end}::timestamptz is not null then key_last4 end,
          previous_key_expires_at = ${end}, previous_key_last_used_at = null,
          key_hash = ${fingerprint(key)}, key_last4 = ${last4Of(key)}, key_created_at = now()
      where id = ${id}`
    const rotated = await selectAccount(sql, clock(), id)
    await recordAudit(sql, trailOf(caller), 'service_account.key_rotated', id, { overlap_hours })
    return rotated
  })
  changes.announce(topics.serviceAccount(id))
  return { ...account, key }
}

export async function endPreviousServiceAccountKey(
  { database, changes, clock }: Service,
  caller: OrgCaller,
  { id }: Input<typeof contract.endPreviousServiceAccountKey>,
): Promise<ServiceAccount> {
  const account = await database.asOrg(caller.organization.id, async (sql) => {
    const before = await lockAccount(sql, clock(), id)
    if (!before.previous_key) return before
    await sql`
      update service_accounts
      set previous_key_hash = null, previous_key_last4 = null, previous_key_expires_at = null,
          previous_key_last_used_at = null
      where id = ${id}`
    await recordAudit(sql, trailOf(caller), 'service_account.previous_key_ended', id)
    return { ...before, previous_key: null }
  })
  changes.announce(topics.serviceAccount(id))
  return account
}

export async function deleteServiceAccount(
  { database, changes }: Service,
  caller: OrgCaller,
  { id }: Input<typeof contract.deleteServiceAccount>,
): Promise<Output<typeof contract.deleteServiceAccount>> {
  await database.asOrg(caller.organization.id, async (sql) => {
    const [gone] = await sql<{ name: string; role: string }>`
      delete from service_accounts where id = ${id} returning name, role`
    if (!gone) throw notFound('service_account', id)
    await recordAudit(sql, trailOf(caller), 'service_account.deleted', id, gone)
  })
  changes.announce(topics.serviceAccount(id))
  return { success: true }
}

async function lockAccount(sql: Sql, now: number, id: string): Promise<ServiceAccount> {
  await sql`select from service_accounts where id = ${id} for update`
  return selectAccount(sql, now, id)
}

async function selectAccount(sql: Sql, now: number, id: string): Promise<ServiceAccount> {
  const [account] = await selectAccounts(sql, now, { id })
  if (!account) throw notFound('service_account', id)
  return account
}

interface Wanted {
  id?: string
  below?: string | null
  limit?: number | null
  offset?: number
}

/** Newest first. */
const selectAccounts = (
  sql: Sql,
  now: number,
  { id, below = null, limit = null, offset = 0 }: Wanted,
) => sql<ServiceAccount>`
  select id, name, role, key_last4, key_created_at,
         case when previous_key_expires_at > ${new Date(now).toISOString()} then jsonb_build_object(
           'last4', previous_key_last4, 'expires_at', iso_timestamp(previous_key_expires_at),
           'last_used_at', iso_timestamp(previous_key_last_used_at)) end as previous_key,
         expires_at, last_used_at, created_by, created_at
  from service_accounts where id = coalesce(${id ?? null}, id) and (${below}::uuid is null or id < ${below})
  order by id desc limit ${limit} offset ${offset}`

function requireFuture(expires_at: string | null, now: number): void {
  if (expires_at !== null && Date.parse(expires_at) <= now) throw invalid('expires_at', 'Must be in the future')
}

function refuseTakenName(error: unknown): never {
  throw isUniqueViolation(error, 'service_accounts_name') ? duplicate('service_account') : error
}
