import { type OrgCaller, trailOf } from '../../kernel/foundation/caller.ts'
import { type Paged, readWithin, takePage } from '../../kernel/foundation/cursors.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { notFound } from '../../kernel/lib/errors.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { readTotals } from '../../kernel/stores/list-totals.ts'
import { areContentsVisible } from '../settings/settings.ts'
import type * as contract from './contract.ts'
import { anywhereOf, selectLatest, type ThreadOwner, type ThreadPosition, top } from './list-query.ts'
import { idsOf, inTurn, searchThreads } from './search.ts'

type Thread = Output<typeof contract.getThread>
type ThreadList = Output<typeof contract.listThreads>

/** A search that takes longer is continued with the cursor. */
const searchedWithinMs = 30

export async function listThreads(
  { database }: Service,
  caller: OrgCaller,
  { search, ...page }: Input<typeof contract.listThreads>,
): Promise<Paged<ThreadList>> {
  const { id } = caller.organization
  if (search === undefined) return database.asOrg(id, (sql) => listLatest(sql, page))
  const searching = async (sql: Sql): Promise<Paged<ThreadList>> => {
    const withContents = await areContentsVisible(sql)
    const { found, end } = await searchThreads(sql, search, {
      statuses: statusesOf(page),
      withContents,
      after: positionOf(page),
      withinMs: searchedWithinMs,
    })
    const wanted = found.slice(page.offset, page.offset + page.limit + 1)
    const listed = toList(await selectThreads(sql, idsOf(wanted)), page.limit, found.length, end)
    // Without the words, which may be personal data and would stay forever.
    if (withContents) await recordAudit(sql, trailOf(caller), 'thread.contents_searched', id)
    return listed
  }
  return inTurn(id, () => database.asOrg(id, searching))
}

export async function listEndUserThreads(
  { database }: Service,
  { organization }: OrgCaller,
  { id, ...page }: Input<typeof contract.listEndUserThreads>,
): Promise<Paged<ThreadList>> {
  return database.asOrg(organization.id, async (sql) => {
    const [endUser] = await sql`select from end_users where id = ${id}`
    if (!endUser) throw notFound('end_user', id)
    return listLatestOf(sql, id, page)
  })
}

export async function getThread(
  { database }: Service,
  { organization }: OrgCaller,
  { id }: Input<typeof contract.getThread>,
): Promise<Thread> {
  return database.asOrg(organization.id, (sql) => selectThread(sql, id))
}

export async function updateThread(
  { database }: Service,
  caller: OrgCaller,
  { id, ...changes }: Input<typeof contract.updateThread>,
): Promise<Thread> {
  return database.asOrg(caller.organization.id, async (sql) => {
    const [found] = await sql`
      update threads
      set title = coalesce(${changes.title ?? null}, title), status = coalesce(${changes.status ?? null}, status),
          updated_at = now()
      where id = ${id} returning id`
    if (!found) throw notFound('thread', id)
    await recordAudit(sql, trailOf(caller), 'thread.updated', id, changes)
    return selectThread(sql, id)
  })
}

export async function getThreadAnalytics(
  { database }: Service,
  { organization }: OrgCaller,
): Promise<Output<typeof contract.getThreadAnalytics>> {
  return database.asOrg(organization.id, async (sql) => {
    const [regular, archived] = await Promise.all([
      readTotals(sql, ['threads/regular']),
      readTotals(sql, ['threads/archived']),
    ])
    return {
      total_threads: regular.items + archived.items,
      total_messages: regular.messages + archived.messages,
      total_tokens: regular.tokens + archived.tokens,
      active_threads: regular.items,
      archived_threads: archived.items,
    }
  })
}

/** Starts a thread with an id that its client chose. Does nothing if it's taken. */
export async function startThread(
  sql: Sql,
  thread: {
    id: string
    endUserId: string | null
    siteId: string | null
    origin: string | undefined
    frameKey: string | undefined
    visitor: string | undefined
  },
): Promise<void> {
  const { id, endUserId, siteId, origin = null, frameKey = null, visitor = null } = thread
  await sql`
    insert into threads
      (organization_id, id, end_user_id, site_id, origin, frame_key, visitor_fingerprint, visitor_expires_at)
    values (current_organization(), ${id}, ${endUserId}, (select id from sites where id = ${siteId} for key share),
            ${origin}, ${frameKey}, ${visitor},
            case when ${visitor}::text is not null then now() + interval '30 days' end)
    on conflict do nothing`
}

/** Adds a message to a thread's counts. */
export async function countMessage(sql: Sql, id: string, message: { tokens: number; at: string }): Promise<void> {
  const [thread] = await sql`
    update threads
    set message_count = message_count + 1, total_tokens = total_tokens + ${message.tokens},
        last_message_at = greatest(last_message_at, ${message.at})
    where id = ${id} returning id`
  if (!thread) throw notFound('thread', id)
}

/** Keeps runs from beginning and from being settled in an end user's threads. Returns the threads' IDs. */
export async function lockEndUserThreads(sql: Sql, endUserId: string): Promise<string[]> {
  const threads = await sql<{ id: string }>`
    select id from threads where end_user_id = ${endUserId} order by id for no key update`
  return threads.map(({ id }) => id)
}

/** Erases an end user's conversations. The caller must lock the end user and erase their usage first. */
export async function eraseThreads(sql: Sql, ids: string[]): Promise<void> {
  // In batches: a statement times out after eight seconds, and deleting a thread deletes all of its rows.
  while (await eraseRuns(sql, ids, 1_000));
  for (let first = 0; first < ids.length; first += 1_000) {
    await sql`delete from threads where id = any(${ids.slice(first, first + 1_000)})`
  }
}

async function eraseRuns(sql: Sql, threadIds: string[], most: number): Promise<number> {
  const runs = await sql<{ id: string }>`select id from runs where thread_id = any(${threadIds}) limit ${most}`
  await sql`delete from runs where id = any(${runs.map(({ id }) => id)})`
  return runs.length
}

type Page = Omit<Input<typeof contract.listThreads>, 'search'>

const statusesOf = ({ status }: Page): Thread['status'][] => (status ? [status] : ['regular', 'archived'])

/** The position that a page begins below. */
function positionOf({ cursor }: Page): ThreadPosition {
  if (!cursor) return top
  const [active_at, id] = cursor
  return { active_at, id }
}

async function listLatest(sql: Sql, page: Page): Promise<Paged<ThreadList>> {
  const statuses = statusesOf(page)
  const { items: total } = await readTotals(
    sql,
    statuses.map((status) => `threads/${status}` as const),
  )
  return readPage(sql, page, total)
}

async function listLatestOf(sql: Sql, endUserId: string, page: Page): Promise<Paged<ThreadList>> {
  const [counted] = await sql<{ total: number }>`
    select count(*) as total from threads where end_user_id = ${endUserId} and status = any(${statusesOf(page)})`
  return readPage(sql, page, counted?.total ?? 0, anywhereOf(endUserId))
}

async function readPage(sql: Sql, page: Page, total: number, owner?: ThreadOwner): Promise<Paged<ThreadList>> {
  const { limit, offset } = page
  const found = await readWithin(offset, total, async () => {
    const wanted = { statuses: statusesOf(page), owner, after: positionOf(page), limit: limit + 1, offset }
    return selectThreads(sql, idsOf(await selectLatest(sql, wanted)))
  })
  return toList(found, limit, total)
}

function toList(found: readonly Thread[], limit: number, total: number, end?: ThreadPosition): Paged<ThreadList> {
  const { rows: threads, next_cursor } = takePage(
    found,
    limit,
    (thread) => [thread.last_message_at ?? thread.created_at, thread.id],
    end && [end.active_at, end.id],
  )
  return { body: { threads, total }, next_cursor }
}

export async function selectThread(sql: Sql, id: string): Promise<Thread> {
  const [thread] = await selectThreads(sql, [id])
  if (!thread) throw notFound('thread', id)
  return thread
}

/** The threads with these ids, latest first. */
const selectThreads = (sql: Sql, ids: readonly string[]) => sql<Thread>`
  select id, end_user_id,
         (select coalesce(nullif(email, ''), external_id) from end_users u where u.id = end_user_id) as end_user_name,
         exists (select from end_users u where u.id = end_user_id and preview_user_id is not null) as is_preview,
         site_id,
         coalesce(title, case when (select are_contents_visible from agent_settings) then first_words end) as title,
         status, message_count, total_tokens, last_message_at, created_at, updated_at
  from threads where id = any(${ids})
  order by case when last_message_at is null then created_at else last_message_at end desc, id desc`
