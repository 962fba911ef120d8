import type { Sql } from '../stores/database.ts'
import type { TicketHolder } from '../tickets/signed-tickets.ts'
import type { RunClient, RunError, RunPage, RunStatus, ThreadTrust, ToolCallRow } from './run.ts'

export interface ThreadRow extends ThreadTrust {
  id: string
  end_user_id: string | null
  origin: string | null
  visitor_fingerprint: string | null
  summary: string | null
  summary_position: number
}

export interface RunRow {
  id: string
  thread_id: string
  position: number
  status: RunStatus
  attempt: number
  epoch: number
  holder: TicketHolder
  page: RunPage | null
  client: RunClient | null
  worked_ms: number
  error: RunError | null
  created_at: string
}

export interface MessageRow {
  id: string
  position: number
  text: string
  skill: string | null
  run_id: string | null
  step: number | null
  created_at: string
}

interface StepRow {
  run_id: string
  step: number
  text: string
  finish_reason: string | null
}

/** One run with everything that belongs to it, in order. */
export interface RunStory {
  run: RunRow
  messages: MessageRow[]
  steps: StepRow[]
  calls: ToolCallRow[]
}

/** The part of a thread that isn't summarized. */
export interface Conversation {
  thread: ThreadRow
  stories: RunStory[]
  /** Messages that no step has read yet. */
  queued: MessageRow[]
}

export async function selectThreadRow(sql: Sql, id: string): Promise<ThreadRow | undefined> {
  const [thread] = await sql<ThreadRow>`
    select id, end_user_id, origin, case when visitor_expires_at > now() then visitor_fingerprint end as visitor_fingerprint,
           summary, summary_position, origins, allowed_tools
    from threads where id = ${id} and status <> 'deleted'`
  return thread
}

/** Reads a thread from after its summary. Replaced runs and messages are left out. */
export async function selectConversation(sql: Sql, threadId: string): Promise<Conversation | undefined> {
  const [thread, queued, stories] = await Promise.all([
    selectThreadRow(sql, threadId),
    selectQueued(sql, threadId),
    selectStories(sql, threadId, { isAfterSummary: true }),
  ])
  return thread && { thread, stories, queued }
}

/** Messages that no step has read yet. */
export const selectQueued = (sql: Sql, threadId: string) => sql<MessageRow>`
  select id, position, text, skill, run_id, step, created_at from messages
  where thread_id = ${threadId} and run_id is null and replaced_at is null order by position`

/** The last runs of a thread that are part of the conversation, oldest first. */
export async function selectStories(
  sql: Sql,
  threadId: string,
  wanted: { isAfterSummary?: boolean; before?: number | null; limit?: number | null },
): Promise<RunStory[]> {
  const { isAfterSummary = false, before = null, limit = null } = wanted
  const runs = await sql<RunRow>`
    select id, thread_id, position, status, attempt, epoch, holder, page, client, worked_ms, error, created_at
    from runs
    where thread_id = ${threadId} and replaced_at is null
      and (not ${isAfterSummary} or position > (select summary_position from threads where id = ${threadId}))
      and (${before}::int is null or position < ${before})
    order by position desc limit ${limit}`
  return tellStories(sql, runs.reverse())
}

export async function selectStory(sql: Sql, runId: string): Promise<RunStory | undefined> {
  const runs = await sql<RunRow>`
    select id, thread_id, position, status, attempt, epoch, holder, page, client, worked_ms, error, created_at
    from runs where id = ${runId}`
  const [story] = await tellStories(sql, runs)
  return story
}

async function tellStories(sql: Sql, runs: RunRow[]): Promise<RunStory[]> {
  const ids = runs.map(({ id }) => id)
  const [messages, steps, calls] = await Promise.all([
    sql<MessageRow>`
      select id, position, text, skill, run_id, step, created_at from messages
      where run_id = any(${ids}::uuid[]) and replaced_at is null order by position`,
    sql<StepRow>`
      select run_id, step, text, finish_reason from steps where run_id = any(${ids}::uuid[]) order by run_id, step`,
    sql<ToolCallRow>`
      select id, run_id, step, position, name, model_call_id, tool, title, definition_hash, input_schema,
             args, edited_args, state, reason, reason_data, asked_at, expires_at, decision, decided_at, dispatched_at, result, ended_at,
             late_step, connect_to
      from tool_calls where run_id = any(${ids}::uuid[]) order by run_id, step, position`,
  ])
  const ofRun = <Row extends { run_id: string | null }>(rows: Row[], id: string) =>
    rows.filter(({ run_id }) => run_id === id)
  return runs.map((run) => ({
    run,
    messages: ofRun(messages, run.id),
    steps: ofRun(steps, run.id),
    calls: ofRun(calls, run.id),
  }))
}

/** Locks the thread and returns the next position of a message or run in it. */
export async function takePosition(sql: Sql, threadId: string): Promise<number> {
  const [thread] = await sql<{ last_position: number }>`
    update threads set last_position = last_position + 1 where id = ${threadId} returning last_position`
  return thread?.last_position as number
}
