import { type Departures, isDeparting, recordDeparture } from '../departures/departures.ts'
import { type OrgCaller, trailOf } from '../foundation/caller.ts'
import type { Input, Output } from '../foundation/operation.ts'
import type { Service } from '../foundation/service.ts'
import { notFound } from '../lib/errors.ts'
import { recordAudit } from '../stores/audit/audit.ts'
import type { Sql } from '../stores/database.ts'
import { eraseEndUserThreads } from '../threads/threads.ts'
import { eraseEndUserContents } from '../tool-calls/contents.ts'
import { eraseEndUserUsage } from '../usage/usage.ts'
import type * as contract from './contract.ts'

type EndUser = Output<typeof contract.getEndUser>

export async function listEndUsers(
  { database }: Service,
  { organization }: OrgCaller,
  { limit, offset, search }: Input<typeof contract.listEndUsers>,
): Promise<Output<typeof contract.listEndUsers>> {
  return database.asOrg(organization.id, async (sql) => {
    if (search !== undefined) return searchEndUsers(sql, search, limit, offset)
    const [row] = await sql<{ total: number }>`select count(*) as total from end_users`
    const users = await sql<EndUser>`
      select id, organization_id, external_id, email, metadata, preview_user_id is not null as is_preview,
             last_activity_at, created_at, updated_at
      from end_users order by created_at, id limit ${limit} offset ${offset}`
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
  const email = search.toLowerCase()
  const [found] = await sql<{ total: number; ids: string[] }>`
    with found as materialized (
      select id, created_at from end_users
      where email_key >= ${email} and email_key < ${email + lastCharacter}
         or external_id collate "C" >= ${search} and external_id collate "C" < ${search + lastCharacter}
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
      from end_users where id = ${id}`,
  )
  if (!user) throw notFound('end_user', id)
  return user
}

/**
 * Deletes the end user, their threads and the contents of their tool calls. Keeps their usage without the identity.
 * Repeating the request succeeds.
 */
export async function eraseEndUser(
  { database, departures }: Service & { departures: Departures },
  caller: OrgCaller,
  { id }: Input<typeof contract.eraseEndUser>,
): Promise<Output<typeof contract.eraseEndUser>> {
  const organizationId = caller.organization.id
  await database.asOrg(organizationId, async (sql) => {
    const [known] = await sql`select from end_users where id = ${id} for update`
    if (!known && (await isDeparting(sql, id))) return
    if (!known) throw notFound('end_user', id)
    await eraseEndUserUsage(sql, id)
    await eraseEndUserThreads(sql, id)
    await eraseEndUserContents(sql, id)
    await sql`delete from end_users where id = ${id}`
    await recordDeparture(sql, id)
    await recordAudit(sql, trailOf(caller), 'end_user.erased', id)
  })
  await departures.finish(organizationId, id)
  return { success: true }
}
