import { failure, notFound } from '../../kernel/lib/errors.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { noTokens } from '../models/tokens/tokens.ts'
import { Stopped } from '../runs/leases.ts'
import { endSteps, type RunRow } from '../runs/rows.ts'
import type { ReasonData, Run, RunClient, RunError, RunPage, RunStatus } from '../runs/run.ts'
import type { NewMessage, Speaker } from '../runs/runs.ts'
import { isOwnThread, type OwnedThread } from '../runs/speakers.ts'
import { countMessage, startThread } from '../threads/threads.ts'
import { shortenTitle } from '../threads/title.ts'
import { selectInterruptedCalls, settleInterruptedCalls } from './metering.ts'
import type { RunParts, Work } from './work.ts'

/** Runs of one user that can go on at the same time. */
const mostRunsPerUser = 5
const mostMessagesPerThread = 10_000

/** The counts of a locked thread. */
export interface ThreadCounts {
  last_position: number
  message_count: number
  /** It was started just now, by this request or by another one. */
  wasMissing?: boolean
  frame_key?: string | null
}

export interface NewRun {
  id: string
  threadId: string
  position: number
  page: RunPage | null
  client: RunClient | null
}

/** Locks the thread. */
export async function findOrStartThread(sql: Sql, speaker: Speaker, id: string): Promise<ThreadCounts> {
  const lock = () => sql<ThreadCounts & OwnedThread>`
    select last_position, message_count, end_user_id, origin, frame_key,
           case when visitor_expires_at > now() then visitor_fingerprint end as visitor_fingerprint
    from threads where id = ${id} and status <> 'deleted' for no key update`
  const [known] = await lock()
  if (known && (await isOwnThread(sql, speaker, known))) return known
  const { holder, visitor } = speaker
  const { end_user, site_id, origin, frame_key } = holder
  const thread = { id, endUserId: end_user?.id ?? null, siteId: site_id ?? null, origin, frameKey: frame_key, visitor }
  // Another request may start it at the same time.
  const [, [started]] = await Promise.all([startThread(sql, thread), lock()])
  if (!started || !(await isOwnThread(sql, speaker, started))) throw notFound('thread', id)
  return { ...started, wasMissing: true }
}

/**
 * Locks the thread first; see lockThread. The second statement locks it too, because it may have been started since the
 * first one. Only the second one sees a run that was created while the first one waited.
 */
export async function lockActiveRun(sql: Sql, threadId: string): Promise<RunRow | undefined> {
  await sql`select from threads where id = ${threadId} for no key update`
  return lockRunOf(sql, threadId)
}

/** The same for a thread that an earlier statement of the transaction has locked. */
export async function lockRunOf(sql: Sql, threadId: string): Promise<RunRow | undefined> {
  const [run] = await sql<RunRow>`
    select id, thread_id, position, status, attempt, epoch, holder, page, client, worked_ms, error, created_at
    from runs where thread_id = (select id from threads where id = ${threadId} for no key update)
      and status in ('running', 'waiting') for no key update`
  return run
}

export function requireSpace({ message_count }: ThreadCounts): void {
  if (message_count < mostMessagesPerThread) return
  throw failure(409, 'THREAD_FULL', 'The conversation is too long. Start a new one.')
}

/** Without a run, the message waits for the next step of the one that goes on. */
export async function addMessage(
  sql: Sql,
  { last_position }: ThreadCounts,
  { id, thread_id, text, skill }: NewMessage,
  at: string,
  run?: NewRun,
): Promise<void> {
  const position = last_position + 1
  await Promise.all([
    sql`
      insert into messages (organization_id, id, thread_id, position, text, skill, run_id, step)
      values (current_organization(), ${id}, ${thread_id}, ${position}, ${text}, ${skill ?? null}, ${run?.id ?? null},
              ${run ? 1 : null})`,
    sql`
      update threads set last_position = ${run?.position ?? position}, message_count = message_count + 1,
        first_words = coalesce(first_words, ${shortenTitle(text)}), last_message_at = greatest(last_message_at, ${at})
      where id = ${thread_id}`,
  ])
}

/** Takes the last answer out of the conversation, and returns its run. */
export async function replaceLast(
  sql: Sql,
  threadId: string,
  { withMessages }: { withMessages: boolean },
): Promise<string | undefined> {
  const [run] = await sql<{ id: string }>`
    update runs set replaced_at = now() where id = (
      select id from runs where thread_id = ${threadId} and replaced_at is null
        and position > (select summary_position from threads where id = ${threadId})
      order by position desc limit 1)
    returning id`
  if (run && withMessages) await sql`update messages set replaced_at = now() where run_id = ${run.id}`
  return run?.id
}

/**
 * Whether the user may start or continue a run. Other transactions of the same user wait here until this one has ended,
 * so that they can't exceed the limit together. Call it before the thread is locked, so that they can't deadlock.
 */
export async function findFreeRun(sql: Sql, speaker: Speaker): Promise<boolean> {
  const user = speaker.holder.end_user?.id ?? speaker.visitor ?? null
  const [, isRunFree] = await Promise.all([
    sql`select pg_advisory_xact_lock(hashtextextended('runs:' || current_organization() || ${user}::text, 0))`,
    isBelowLimit(sql, speaker),
  ])
  return isRunFree
}

async function isBelowLimit(sql: Sql, { holder, visitor }: Speaker): Promise<boolean> {
  // Two statements, because one for both would read all threads. Both name the organization; see selectStories.
  const [running] = holder.end_user
    ? await sql<{ count: number }>`
        select count(*) as count from runs
        where organization_id = (select current_organization()) and status = 'running'
          and thread_id = any(array(select id from threads where end_user_id = ${holder.end_user.id}))`
    : await sql<{ count: number }>`
        select count(*) as count from runs
        where organization_id = (select current_organization()) and status = 'running'
          and thread_id = any(array(select id from threads where visitor_fingerprint = ${visitor ?? null}))`
  return (running?.count ?? 0) < mostRunsPerUser
}

export const stillAnswering = () => failure(409, 'RUN_ACTIVE', 'The agent is still answering. Stop it first.')

export const tooManyRuns = () =>
  failure(429, 'TOO_MANY_RUNS', 'The agent is already working for you in several conversations. Wait for one.')

/** For `reason_data`. */
export const stoppedByUser: string = JSON.stringify({ code: 'STOPPED' } satisfies ReasonData)

export async function stopWaiting(
  sql: Sql,
  { id, thread_id }: RunRow,
  at: string,
  error: RunError | null = null,
): Promise<void> {
  await sql`
    update tool_calls set state = 'cancelled', reason_data = ${stoppedByUser}, ended_at = now()
    where run_id = ${id} and state in ('new', 'asking', 'approved', 'running')`
  await sql`
    update runs set status = ${error ? 'failed' : 'stopped'}, error = ${error && JSON.stringify(error)}, ended_at = now(),
      attempt = attempt + 1, holder = '{}', client = null
    where id = ${id}`
  await countMessage(sql, thread_id, { tokens: 0, at })
}

/** Takes a run from the node that works on it, and ends it. The run must be locked. */
export async function endRunning(sql: Sql, row: RunRow, at: string, error: RunError | null = null): Promise<void> {
  const status = error ? 'failed' : 'stopped'
  const { id, thread_id, holder, page, client } = row
  const run = { id, organizationId: holder.organization_id, threadId: thread_id, holder, page, client }
  await sql`
    update tool_calls set state = case when state = 'running' then 'unknown' else 'cancelled' end,
      reason_data = ${stoppedByUser}, ended_at = now()
    where run_id = ${id} and state in ('new', 'asking', 'approved', 'running')`
  const interrupted = await selectInterruptedCalls(sql, run)
  await endSteps(sql, id, status)
  await sql`
    update messages set run_id = ${id} where thread_id = ${thread_id} and run_id is null and replaced_at is null`
  await sql`
    update runs set status = ${status}, error = ${error && JSON.stringify(error)}, ended_at = now(),
      attempt = attempt + 1, epoch = epoch + 1, node = null, lease_until = null, holder = '{}', client = null
    where id = ${id}`
  await countMessage(sql, thread_id, { tokens: 0, at })
  await settleInterruptedCalls(sql, run, interrupted)
}

/** Must run under the run's lease. Returns false if there is something to do after all. */
export async function restRun(
  sql: Sql,
  parts: RunParts,
  work: Work,
  status: 'waiting' | 'succeeded',
): Promise<boolean> {
  const { run } = work
  const [more, [waits]] = await Promise.all([
    hasMore(sql, run),
    status === 'waiting' ? sql`select from tool_calls where run_id = ${run.id} and state in ('asking', 'running')` : [],
  ])
  if (more || (status === 'waiting' && !waits)) return false
  if (status === 'waiting') await requireNotStopped(sql, work)
  await saveStatus(sql, parts, work, status, null)
  return true
}

/** Whether the run has calls to make, or messages to read. */
export async function hasMore(sql: Sql, { id, threadId }: Run): Promise<boolean> {
  const [more] = await sql`
    select from tool_calls where run_id = ${id} and state in ('new', 'approved')
    union all select from messages where thread_id = ${threadId} and run_id is null and replaced_at is null`
  return more !== undefined
}

/** A run that rests can't be told to stop, so it must not rest if it was told just before. */
async function requireNotStopped(sql: Sql, { run }: Work): Promise<void> {
  const [stopped] = await sql`select from runs where id = ${run.id} and stop_requested_at is not null`
  if (stopped) throw new Stopped()
}

/** `used` are the tokens of a request that ended the run, if they aren't part of the thread's total yet. */
export async function saveStatus(
  sql: Sql,
  { clock }: RunParts,
  { run, startedAt }: Work,
  status: RunStatus,
  error: RunError | null,
  used = noTokens,
): Promise<void> {
  const hasEndedNow = status !== 'waiting'
  const at = new Date(clock()).toISOString()
  await Promise.all([
    sql`
      update runs set status = ${status}, error = ${error && JSON.stringify(error)}, lease_until = null, node = null,
        worked_ms = worked_ms + ${Math.max(0, Math.round(Date.now() - startedAt))},
        ended_at = case when ${hasEndedNow} then now() end,
        holder = case when ${hasEndedNow} then '{}' else holder end, client = case when ${hasEndedNow} then null else client end
      where id = ${run.id}`,
    hasEndedNow && countMessage(sql, run.threadId, { tokens: used.prompt_tokens + used.completion_tokens, at }),
  ])
}
