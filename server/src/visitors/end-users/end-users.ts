import type { ActivityKind } from '../../kernel/foundation/activity.ts'
import type { OrgCaller } from '../../kernel/foundation/caller.ts'
import { beforeAll, type Paged, readWithin, takePage } from '../../kernel/foundation/cursors.ts'
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
  { limit, offset, cursor = beforeAll, search }: Input<typeof contract.listEndUsers>,
): Promise<Paged<EndUserList>> {
  const page = { limit: limit + 1, offset, after: cursor }
  const { users, total, end } = await database.asOrg(organization.id, (sql) =>
    search === undefined ? selectPage(sql, page) : searchEndUsers(sql, search, page),
  )
  const { rows, next_cursor } = takePage(users, limit, ({ created_at, id }) => [created_at, id], end)
  return { body: { users: rows, total }, next_cursor }
}

type Position = readonly [at: string, id: string]

interface Page {
  limit: number
  offset: number
  after: Position
}

interface Found extends EndUserList {
  /** Where the request has stopped to search, if it hasn't filled the page. */
  end?: Position
}

async function selectPage(sql: Sql, { limit, offset, after: [at, id] }: Page): Promise<Found> {
  const { items: total } = await readTotals(sql, ['end_users'])
  // The inner statement only reads the index, whatever the offset is.
  const users = await readWithin(
    offset,
    total,
    () => sql<EndUser>`
      select id, organization_id, external_id, email, metadata, preview_user_id is not null as is_preview,
             last_activity_at, created_at, updated_at
      from end_users where id = any(array(
        select id from end_users where merged_into is null and (created_at, id) > (${at}::timestamptz, ${id}::uuid)
        order by created_at, id limit ${limit} offset ${offset}))
      order by created_at, id`,
  )
  return { users, total }
}

/** Sorts after every other character in the order of bytes. */
const lastCharacter = '\u{10ffff}'

/** A search sorts and counts that many matches. With more of them, it walks through the list instead. */
export const mostCounted = 5_000
/** How many end users a request walks through. */
const mostWalked = 20_000

/** Compares instead of matching patterns: row-level security keeps PostgreSQL from using an index for those. */
async function searchEndUsers(sql: Sql, search: string, page: Page): Promise<Found> {
  const wanted = { email: canonicalEmail(search), subject: search }
  const { limit, offset, after } = page
  const [found] = await sql<{ total: number; ids: string[] }>`
    with found as materialized (
      (select id, created_at from end_users
       where email_key >= ${wanted.email} and email_key < ${wanted.email + lastCharacter} and merged_into is null
       limit ${mostCounted + 1})
      union
      (select id, created_at from end_users
       where external_id collate "C" >= ${wanted.subject} and external_id collate "C" < ${wanted.subject + lastCharacter}
         and merged_into is null
       limit ${mostCounted + 1})
    ), counted as (select count(*) as total from found)
    select total, case when total <= ${mostCounted} then
             array(select id from found where (created_at, id) > (${after[0]}::timestamptz, ${after[1]}::uuid)
                   order by created_at, id limit ${limit} offset ${offset}) else '{}' end as ids
    from counted`
  const total = Math.min(found?.total ?? 0, mostCounted)
  if ((found?.total ?? 0) <= mostCounted) return { users: await selectEndUsers(sql, found?.ids ?? []), total }
  const matches = await walk(sql, wanted, page)
  const users = await selectEndUsers(
    sql,
    matches.map(({ id }) => id),
  )
  const end = matches.length < limit && offset === 0 ? await findPosition(sql, after, mostWalked) : undefined
  return { users, total, ...(end && { end }) }
}

/** The matches in the order of the list. To skip some of them, it has to find those. */
const walk = (
  sql: Sql,
  { email, subject }: { email: string; subject: string },
  { limit, offset, after: [at, id] }: Page,
) => sql<{ id: string }>`
  select id from (
    select id, created_at, email_key, external_id from end_users
    where merged_into is null and (created_at, id) > (${at}::timestamptz, ${id}::uuid)
    order by created_at, id limit ${offset === 0 ? mostWalked : null}
  ) walked
  where email_key >= ${email} and email_key < ${email + lastCharacter}
     or external_id collate "C" >= ${subject} and external_id collate "C" < ${subject + lastCharacter}
  order by created_at, id limit ${limit} offset ${offset}`

/** The position of the end user that comes so many after another one, if there are more after that. */
async function findPosition(sql: Sql, [at, id]: Position, distance: number): Promise<Position | undefined> {
  const [position, next] = await sql<{ created_at: string; id: string }>`
    select created_at, id from end_users
    where merged_into is null and (created_at, id) > (${at}::timestamptz, ${id}::uuid)
    order by created_at, id limit 2 offset ${distance - 1}`
  return position && next && [position.created_at, position.id]
}

const selectEndUsers = (sql: Sql, ids: readonly string[]) => sql<EndUser>`
  select id, organization_id, external_id, email, metadata, preview_user_id is not null as is_preview,
         last_activity_at, created_at, updated_at
  from end_users where id = any(${ids}) order by created_at, id`

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
