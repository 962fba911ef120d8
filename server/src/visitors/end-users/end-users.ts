import type { ActivityKind } from '../../kernel/foundation/activity.ts'
import type { OrgCaller } from '../../kernel/foundation/caller.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { notFound } from '../../kernel/lib/errors.ts'
import { canonicalEmail } from '../../kernel/net/email-addresses.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import type * as contract from './contract.ts'

type EndUser = Output<typeof contract.getEndUser>

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

/** Activity of end users, by their ID. */
export const endUserActivity: ActivityKind = {
  table: 'end_users',
  write: (sql, noted) => sql`
    update end_users t set last_activity_at = greatest(t.last_activity_at, n.at)
    from unnest(${noted.map(({ key }) => key)}::uuid[], ${noted.map(({ at }) => at)}::timestamptz[]) as n (id, at)
    where t.id = n.id`,
}
