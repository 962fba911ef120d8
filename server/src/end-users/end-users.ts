import { type Departures, isDeparting, recordDeparture } from '../departures/departures.ts'
import { type OrgCaller, trailOf } from '../foundation/caller.ts'
import type { Input, Output } from '../foundation/operation.ts'
import type { Service } from '../foundation/service.ts'
import { notFound } from '../lib/errors.ts'
import { canonicalEmail } from '../net/email-addresses.ts'
import { recordAudit } from '../stores/audit/audit.ts'
import type { Sql } from '../stores/database.ts'
import { eraseThreads, lockEndUserThreads } from '../threads/threads.ts'
import { eraseEndUserContents } from '../tool-calls/contents.ts'
import { eraseEndUserUsage, lockEvents } from '../usage/usage.ts'
import type * as contract from './contract.ts'

/** The part of the runs that an erasure needs. Runs import this folder, so it can't import theirs. */
export interface RunEnder {
  endAllOf(organizationId: string, endUserId: string): Promise<void>
}

type EndUser = Output<typeof contract.getEndUser>

/** A user who keeps writing can't put off the erasure: the last attempt also erases runs that go on. */
const mostAttempts = 10

export async function listEndUsers(
  { database }: Service,
  { organization }: OrgCaller,
  { limit, offset, search }: Input<typeof contract.listEndUsers>,
): Promise<Output<typeof contract.listEndUsers>> {
  return database.asOrg(organization.id, async (sql) => {
    if (search !== undefined) return searchEndUsers(sql, search, limit, offset)
    const [row] = await sql<{ total: number }>`select count(*) as total from end_users where merged_into is null`
    const users = await sql<EndUser>`
      select id, organization_id, external_id, email, metadata, preview_user_id is not null as is_preview,
             last_activity_at, created_at, updated_at
      from end_users where merged_into is null order by created_at, id limit ${limit} offset ${offset}`
    return { users, total: row?.total ?? 0 }
  })
}

/** Sorts after every other character in the order of bytes. */
const lastCharacter = '\u{10ffff}'

/** Compares instead of matching patterns: row-level security keeps PostgreSQL from using an index for those. */
async function searchEndUsers(
  sql: Sql,
  search: string,
  limit: number,
  offset: number,
): Promise<Output<typeof contract.listEndUsers>> {
  const email = canonicalEmail(search)
  const [found] = await sql<{ total: number; ids: string[] }>`
    with found as materialized (
      select id, created_at from end_users
      where (email_key >= ${email} and email_key < ${email + lastCharacter}
         or external_id collate "C" >= ${search} and external_id collate "C" < ${search + lastCharacter})
        and merged_into is null
    )
    select (select count(*) from found) as total,
           array(select id from found order by created_at, id limit ${limit} offset ${offset}) as ids`
  const users = await sql<EndUser>`
    select id, organization_id, external_id, email, metadata, preview_user_id is not null as is_preview,
             last_activity_at, created_at, updated_at
    from end_users where id = any(${found?.ids}) order by created_at, id`
  return { users, total: found?.total ?? 0 }
}

export async function getEndUser(
  { database }: Service,
  { organization }: OrgCaller,
  { id }: Input<typeof contract.getEndUser>,
): Promise<EndUser> {
  const [user] = await database.asOrg(
    organization.id,
    (sql) => sql<EndUser>`
      select id, organization_id, external_id, email, metadata, preview_user_id is not null as is_preview,
             last_activity_at, created_at, updated_at
      from end_users where id = ${id} and merged_into is null`,
  )
  if (!user) throw notFound('end_user', id)
  return user
}

/**
 * Deletes the end user, their threads and the contents of their tool calls. Keeps their usage without the identity.
 * Repeating the request succeeds. The user's runs end first, so that what they have used is charged; those that begin
 * meanwhile end before another attempt.
 */
export async function eraseEndUser(
  { activity, database, departures, runs }: Service & { departures: Departures; runs: RunEnder },
  caller: OrgCaller,
  { id }: Input<typeof contract.eraseEndUser>,
): Promise<Output<typeof contract.eraseEndUser>> {
  const organizationId = caller.organization.id
  const erase = async (sql: Sql, isLastAttempt: boolean) => {
    // In the same order as the transactions of runs, so that they can't deadlock: threads, then the end user.
    await lockEvents(sql)
    const threadIds = await lockEndUserThreads(sql, id)
    const [known] = await sql<{ email: string; external_id: string }>`
      select email, external_id from end_users where id = ${id} for update`
    if (!known && (await isDeparting(sql, id))) return true
    if (!known) throw notFound('end_user', id)
    if (!isLastAttempt && (await isActive(sql, id, threadIds))) return false
    await eraseEndUserUsage(sql, id)
    await eraseThreads(sql, threadIds)
    await eraseEndUserContents(sql, id)
    await sql`delete from refusals where lower(seen) in (lower(${known.email}), lower(${known.external_id}))`
    await sql`delete from end_users where id = ${id}`
    await recordDeparture(sql, id)
    await recordAudit(sql, trailOf(caller), 'end_user.erased', id)
    return true
  }
  // Refusals that name the end user may not be written yet.
  await activity.flush()
  for (let left = mostAttempts - 1, isErased = false; !isErased; left -= 1) {
    await runs.endAllOf(organizationId, id)
    isErased = await database.asOrg(organizationId, (sql) => erase(sql, left === 0))
  }
  await departures.finish(organizationId, id)
  return { success: true }
}

/** Whether a run of the end user is active, or a thread began after their threads were locked. */
async function isActive(sql: Sql, id: string, threadIds: string[]): Promise<boolean> {
  const [active] = await sql`
    select from runs
    where organization_id = (select current_organization()) and thread_id = any(${threadIds})
      and status in ('running', 'waiting')
    union all select from threads where end_user_id = ${id} and id <> all(${threadIds}::uuid[])`
  return active !== undefined
}
