import { type ClientMessage, maxThreadTitleLength, type ServerMessage } from '@inlay/protocol'
import type { RunStatus } from '../../agent/runs/run.ts'
import type { Runs, Speaker } from '../../agent/runs/runs.ts'
import { lockThread } from '../../agent/runs/speakers.ts'
import { selectLatest, type ThreadOwner } from '../../agent/threads/list-query.ts'
import { eraseContents } from '../../agent/threads/retention.ts'
import { idsOf, inTurnOfUsers, searchThreads } from '../../agent/threads/search.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { failure, invalid } from '../../kernel/lib/errors.ts'
import { cleanName } from '../../kernel/lib/names.ts'
import { fingerprint } from '../../kernel/lib/secrets.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'

type Asked<Type extends ClientMessage['type']> = Extract<ClientMessage, { type: Type }>
type ThreadList = Omit<Extract<ServerMessage, { type: 'chat/thread-list' }>, 'type' | 'request_id'>

const threadsPerPage = 30
/** Changes of one user's threads per minute, because each writes an audit row. */
const mostChanges = 60
const changesWithinSeconds = 60
/** How often a thread is tried to be deleted while the user writes to it from elsewhere. */
const mostTries = 3

/** The speaker's own threads. */
export async function listThreads(
  { database }: Service,
  speaker: Speaker,
  { offset, query = '', archived }: Asked<'chat/threads'>,
): Promise<ThreadList> {
  const { holder } = speaker
  const owner = ownerOf(speaker)
  const status = archived ? 'archived' : 'regular'
  if (query.includes('\0')) throw invalid('query', 'Must not contain NUL')
  if (query.trim() === '') {
    return database.asHolder(holder, async (sql) => {
      const wanted = { statuses: [status], owner, limit: threadsPerPage + 1, offset }
      return selectPage(sql, status, idsOf(await selectLatest(sql, wanted)))
    })
  }
  const searching = async (sql: Sql) => {
    const { found } = await searchThreads(sql, query.trim(), { statuses: [status], withContents: true, owner })
    return selectPage(sql, status, idsOf(found.slice(offset, offset + threadsPerPage + 1)))
  }
  return inTurnOfUsers(laneOf(speaker), () => database.asHolder(holder, searching))
}

async function selectPage(sql: Sql, status: string, ids: readonly string[]): Promise<ThreadList> {
  const threads = await sql<{
    id: string
    title: string | null
    status: RunStatus | null
    last_message_at: string | null
    is_archived: boolean
  }>`
    select id, coalesce(title, first_words) as title, last_message_at, status = 'archived' as is_archived,
           (select status from runs
            where organization_id = threads.organization_id and thread_id = threads.id and replaced_at is null
            order by position desc limit 1) as status
    from threads where id = any(${ids.slice(0, threadsPerPage)}) and threads.status = ${status}
    order by coalesce(last_message_at, created_at) desc, id desc`
  return { threads, has_more: ids.length > threadsPerPage }
}

const ownerOf = ({ holder, visitor, is_own_frame }: Speaker): ThreadOwner => ({
  endUserId: holder.end_user?.id ?? null,
  visitor: visitor ?? null,
  origin: holder.origin ?? null,
  frameKey: holder.frame_key ?? null,
  isAnyOrigin: is_own_frame,
})

/** Organizations take turns, because they can have any number of users. Anyone can be a visitor, so these wait apart. */
const laneOf = ({ holder }: Speaker): string =>
  holder.end_user ? holder.organization_id : `visitors of ${holder.organization_id}`

/** Renames or archives a thread. */
export async function changeThread(
  service: Service,
  speaker: Speaker,
  { thread_id, title, archived }: Asked<'chat/change-thread'>,
): Promise<void> {
  const name = title === undefined ? null : cleanName(title, maxThreadTitleLength)
  if (name === '') throw invalid('title', 'Must have a visible character')
  await countChange(service, speaker)
  const status = archived === undefined ? null : archived ? 'archived' : 'regular'
  await service.database.asHolder(speaker.holder, async (sql) => {
    await lockThread(sql, speaker, thread_id)
    // The user's words are contents, which a title that a member of the organization sets isn't.
    const changed = await sql`
      update threads
      set first_words = coalesce(${name}, first_words), title = case when ${name}::text is null then title end,
          status = coalesce(${status}, status), updated_at = now()
      where id = ${thread_id}
        and (coalesce(title, first_words) is distinct from coalesce(${name}, title, first_words)
             or status <> coalesce(${status}, status))
      returning id`
    if (changed.length === 0) return
    const changes = { ...(name !== null && { is_renamed: true }), ...(status !== null && { status }) }
    await recordAudit(sql, trailOf(speaker), 'thread.updated', thread_id, { ...changes, ...byUser(speaker) })
  })
}

/** Stops the thread's run and erases its contents. */
export async function deleteThread(
  service: Service & { runs: Runs },
  speaker: Speaker,
  { thread_id }: Asked<'chat/delete-thread'>,
): Promise<void> {
  await countChange(service, speaker)
  for (let tries = 0; tries < mostTries; tries += 1) {
    await service.runs.end(speaker, thread_id)
    if (await service.database.asHolder(speaker.holder, (sql) => eraseThread(sql, speaker, thread_id))) return
  }
  throw failure(409, 'RUN_ACTIVE', 'The agent keeps getting new messages in this conversation. Try again.')
}

/** Returns false if the user has written again since the run was ended. */
async function eraseThread(sql: Sql, speaker: Speaker, id: string): Promise<boolean> {
  await lockThread(sql, speaker, id)
  const [active] = await sql`select from runs where thread_id = ${id} and status in ('running', 'waiting')`
  if (active) return false
  await eraseContents(sql, id)
  await sql`update threads set status = 'deleted', updated_at = now() where id = ${id}`
  await recordAudit(sql, trailOf(speaker), 'thread.erased', id, byUser(speaker))
  return true
}

async function countChange({ kv }: Service, { holder, address }: Speaker): Promise<void> {
  const user = holder.end_user?.id ?? fingerprint(address)
  const count = await kv.count(`thread-changes:${holder.organization_id}:${user}`, changesWithinSeconds)
  if (count <= mostChanges) return
  throw failure(429, 'TOO_MANY_REQUESTS', 'You’ve changed too many conversations. Try again in a minute.', {
    headers: { 'retry-after': String(changesWithinSeconds) },
  })
}

const trailOf = ({ holder }: Speaker) => ({ organizationId: holder.organization_id, actor: 'widget' })
const byUser = ({ holder }: Speaker) => ({ end_user_id: holder.end_user?.id ?? null })
