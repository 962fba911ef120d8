import type { ActivityKind } from '../../kernel/foundation/activity.ts'
import type { OrgCaller } from '../../kernel/foundation/caller.ts'
import { type Paged, readWithin, takePage } from '../../kernel/foundation/cursors.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { notFound } from '../../kernel/lib/errors.ts'
import { canonicalEmail } from '../../kernel/net/email-addresses.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { readTotals } from '../../kernel/stores/list-totals.ts'
import type * as contract from './contract.ts'

type EndUser = Output<typeof contract.getEndUser>
type EndUserList = Output<typeof contract.listEndUsers>

export async function listEndUsers(
  { database }: Service,
  { organization }: OrgCaller,
  { limit, offset, cursor = beginning, search }: Input<typeof contract.listEndUsers>,
): Promise<Paged<EndUserList>> {
  const page = { limit: limit + 1, offset, after: cursor }
  const { users, total } = await database.asOrg(organization.id, (sql) =>
    search === undefined ? selectPage(sql, page) : searchEndUsers(sql, search, page),
  )
  const { rows, next_cursor } = takePage(users, limit, ({ created_at, id }) => [created_at, id])
  return { body: { users: rows, total }, next_cursor }
}

interface Page {
  limit: number
  offset: number
  after: readonly [string, string]
}

/** Before the first end user. */
const beginning = ['-infinity', '00000000-0000-0000-0000-000000000000'] as const

async function selectPage(sql: Sql, { limit, offset, after: [at, id] }: Page): Promise<EndUserList> {
  const { items: total } = await readTotals(sql, ['end_users'])
  const users = await readWithin(
    offset,
    total,
    () => sql<EndUser>`
      select id, organization_id, external_id, email, metadata, preview_user_id is not null as is_preview,
             last_activity_at, created_at, updated_at
      from end_users where merged_into is null and (created_at, id) > (${at}::timestamptz, ${id}::uuid)
      order by created_at, id limit ${limit} offset ${offset}`,
  )
  return { users, total }
}

/** Sorts after every other character in the order of bytes. */
const lastCharacter = '\u{10ffff}'

/**
 * Compares instead of matching patterns: row-level security keeps PostgreSQL from using an index for those. Reads all
 * matches to count and sort them.
 */
async function searchEndUsers(sql: Sql, search: string, { limit, offset, after }: Page): Promise<EndUserList> {
  const email = canonicalEmail(search)
  const [found] = await sql<{ total: number; ids: string[] }>`
    with found as materialized (
      select id, created_at from end_users
      where (email_key >= ${email} and email_key < ${email + lastCharacter}
         or external_id collate "C" >= ${search} and external_id collate "C" < ${search + lastCharacter})
        and merged_into is null
    )
    select (select count(*) from found) as total,
           array(select id from found where (created_at, id) > (${after[0]}::timestamptz, ${after[1]}::uuid)
                 order by created_at, id limit ${limit} offset ${offset}) as ids`
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
