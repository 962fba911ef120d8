import type { Sql } from '../../kernel/stores/database.ts'
import { shownLength } from '../../kernel/untrusted/long-results.ts'
import type { RunClient, RunError, RunHolder, RunPage, RunStatus, ThreadTrust, ToolCallRow } from './run.ts'

export interface ThreadRow extends ThreadTrust {
  id: string
  end_user_id: string | null
  origin: string | null
  /** Of the frame that began it. */
  frame_key: string | null
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
  holder: RunHolder
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
    select id, end_user_id, origin, frame_key,
           case when visitor_expires_at > now() then visitor_fingerprint end as visitor_fingerprint,
           summary, summary_position, origins, allowed_tools, allowed_choices
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

interface WantedStories {
  isAfterSummary?: boolean
  limit?: number
}

/** The last runs of a thread that are part of the conversation, oldest first. Without their clients' tools. */
export const selectStories = (sql: Sql, threadId: string, wanted: WantedStories): Promise<RunStory[]> =>
  tellStories(sql, { threadId, ...wanted })

export async function selectStory(sql: Sql, runId: string): Promise<RunStory | undefined> {
  const [story] = await tellStories(sql, { runIds: [runId], withClient: true })
  return story
}

/** A run as a page of a history needs it to decide what to read at once. */
export interface RunSize {
  id: string
  position: number
  /** How long each of its steps is when it is shown, in bytes, in order. */
  steps: { step: number; size: number }[]
}

/** The last runs of a thread before a position, latest first. */
export const selectRunSizes = (
  sql: Sql,
  threadId: string,
  { before, limit }: { before?: number | undefined; limit: number },
) =>
  sql<RunSize>`
    select id, position,
      (select coalesce(json_agg(json_build_object('step', steps.step, 'size', octet_length(text) + coalesce(
         (select sum(500 + least(octet_length(result), ${shownLength}) + pg_column_size(args)
                     + coalesce(pg_column_size(input_schema), 0) + coalesce(pg_column_size(edited_args), 0))
          from tool_calls where run_id = runs.id and tool_calls.step = steps.step), 0)) order by steps.step), '[]')
       from steps where run_id = runs.id) as steps
    from runs
    where organization_id = (select current_organization()) and thread_id = ${threadId} and replaced_at is null
      and (${before ?? null}::int is null or position < ${before ?? null})
    order by position desc limit ${limit}`

/** These steps of runs, oldest first; without steps, the whole runs. */
export const selectParts = (
  sql: Sql,
  runIds: readonly string[],
  steps?: { from: number; to: number },
): Promise<RunStory[]> => tellStories(sql, { runIds, steps })

interface Told extends WantedStories {
  runIds?: readonly string[]
  /** With their clients' tools. */
  withClient?: boolean
  threadId?: string
  steps?: { from: number; to: number } | undefined
}

const maxInteger = 2 ** 31 - 1

/**
 * In one statement, because a new run is read before its first token. It names the organization although row-level
 * security does too: runs have a second policy, for those of all organizations that are abandoned, so that PostgreSQL
 * wouldn't use the indexes, which begin with the organization.
 */
async function tellStories(
  sql: Sql,
  { runIds = [], withClient = false, threadId, isAfterSummary = false, limit, steps }: Told,
): Promise<RunStory[]> {
  const { from, to } = steps ?? { from: 0, to: maxInteger }
  const rows = await sql<RunRow & Omit<RunStory, 'run'>>`
    select id, thread_id, position, status, attempt, epoch, holder, page, worked_ms, error, created_at,
      case when ${withClient} then client end as client,
      (select coalesce(json_agg(json_build_object(
         'id', id, 'position', position, 'text', text, 'skill', skill, 'run_id', run_id, 'step', step,
         'created_at', iso_timestamp(created_at)) order by position), '[]')
       from messages where run_id = runs.id and replaced_at is null) as messages,
      (select coalesce(json_agg(json_build_object(
         'run_id', run_id, 'step', step, 'finish_reason', finish_reason, 'text',
         case when finish_reason is not null then text else (
           select coalesce(string_agg(parts.text, '' order by n), '') from step_texts parts
           where parts.run_id = steps.run_id and parts.step = steps.step) end) order by step), '[]')
       from steps where run_id = runs.id and step between ${from} and ${to}) as steps,
      (select coalesce(json_agg(json_build_object(
         'id', id, 'run_id', run_id, 'step', step, 'position', position, 'name', name, 'model_call_id', model_call_id,
         'tool', tool, 'title', title, 'definition_hash', definition_hash, 'input_schema', input_schema, 'args', args,
         'edited_args', edited_args, 'state', state, 'reason', reason, 'reason_data', reason_data,
         'asked_at', iso_timestamp(asked_at), 'expires_at', iso_timestamp(expires_at), 'decision', decision,
         'decided_at', iso_timestamp(decided_at), 'dispatched_at', iso_timestamp(dispatched_at),
         'result', case when tool->>'kind' = 'built_in' then result else left(result, ${shownLength}) end,
         'result_length', case when octet_length(result) > ${shownLength} then length(result) end,
         'ended_at', iso_timestamp(ended_at), 'late_step', late_step, 'connect_to', connect_to)
         order by step, position), '[]')
       from tool_calls where run_id = runs.id and step between ${from} and ${to}) as calls
    from runs where organization_id = (select current_organization()) and id = any(array(
      select unnest(${runIds}::uuid[]) union all (
        select id from runs
        where organization_id = (select current_organization()) and thread_id = ${threadId ?? null} and replaced_at is null
          and (not ${isAfterSummary} or position > (select summary_position from threads where id = ${threadId ?? null}))
        order by position desc limit ${limit ?? null})))
    order by position`
  return rows.map(({ messages, steps, calls, ...run }) => ({ run, messages, steps, calls }))
}

/** Ends the steps that a run was interrupted in, with what the model had written and was saved. */
export const endSteps = (sql: Sql, runId: string, finishReason: string) => sql`
  with parts as (
    delete from step_texts where run_id = ${runId} returning step, n, text
  )
  update steps set finish_reason = ${finishReason},
    text = coalesce((select string_agg(parts.text, '' order by n) from parts where parts.step = steps.step), '')
  where run_id = ${runId} and finish_reason is null`

/** Locks the thread and returns the next position of a message or run in it. */
export async function takePosition(sql: Sql, threadId: string): Promise<number> {
  const [thread] = await sql<{ last_position: number }>`
    update threads set last_position = last_position + 1 where id = ${threadId} returning last_position`
  return thread?.last_position as number
}
