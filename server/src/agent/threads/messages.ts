import { type OrgCaller, trailOf } from '../../kernel/foundation/caller.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { areContentsVisible } from '../settings/settings.ts'
import type * as contract from './contract.ts'
import { selectThread } from './threads.ts'

type MessageList = Output<typeof contract.listThreadMessages>
type Message = MessageList['messages'][number]
export type MessageToolCall = Message['tool_calls'][number]

/** Maximum length of a tool's result in a list. */
const maxResultLength = 16_384

export async function listThreadMessages(
  { database }: Service,
  caller: OrgCaller,
  { id, limit, cursor, include_replaced }: Input<typeof contract.listThreadMessages>,
): Promise<MessageList> {
  return database.asOrg(caller.organization.id, async (sql) => {
    await selectThread(sql, id)
    const isOwn = await isOwnPreview(sql, caller, id)
    const contents_visible = isOwn || (await areContentsVisible(sql))
    const found = await selectMessages(sql, id, {
      after: Number(cursor ?? 0),
      limit: limit + 1,
      withReplaced: include_replaced === 'true',
      withContents: contents_visible,
      maxResultLength,
    })
    const page = found.slice(0, limit)
    const messages = page.map(({ message }) => message)
    const next_cursor = found.length > limit ? String(page.at(-1)?.position) : null
    if (contents_visible && !isOwn && messages.length > 0)
      await recordAudit(sql, trailOf(caller), 'thread.contents_read', id, { messages: messages.length })
    return { messages, contents_visible, next_cursor }
  })
}

/** Whether the caller tried the agent in this thread. Nobody else's words are in it. */
export async function isOwnPreview(sql: Sql, { user }: OrgCaller, threadId: string): Promise<boolean> {
  const [own] = await sql`
    select from threads t join end_users u on u.id = t.end_user_id
    where t.id = ${threadId} and u.preview_user_id = ${user?.id ?? null}`
  return own !== undefined
}

interface Wanted {
  /** Only messages after this position. */
  after: number
  limit: number
  withReplaced: boolean
  withContents: boolean
  /** Null for complete results. */
  maxResultLength: number | null
}

export interface FoundMessage {
  position: number
  message: Message
  /** The agent's text and calls in the order in which they happened. Empty for a user's message. */
  steps: { text: string | null; calls: MessageToolCall[] }[]
}

/** The messages of a thread in order. Contents that aren't wanted aren't read from the database. */
export async function selectMessages(sql: Sql, threadId: string, wanted: Wanted): Promise<FoundMessage[]> {
  const rows = await selectRows(sql, threadId, wanted)
  const runIds = rows.filter(({ role }) => role === 'assistant').map(({ id }) => id)
  const [steps, calls, totals, ratings] = await Promise.all([
    selectSteps(sql, runIds, wanted),
    selectCalls(sql, runIds, wanted),
    selectTotals(sql, runIds),
    selectRatings(sql, runIds, wanted),
  ])
  const stepsOf = Map.groupBy(steps, ({ run_id }) => run_id)
  const callsOf = Map.groupBy(calls, ({ run_id }) => run_id)
  const totalsOf = new Map(totals.map(({ run_id, ...sums }) => [run_id, sums]))
  const ratingOf = new Map(ratings.map(({ run_id, ...rating }) => [run_id, rating]))

  return rows.map(({ position, ...row }) => {
    if (row.role === 'user') return { position, message: { ...row, ...ofAgentOnly }, steps: [] }
    const ownCalls = (callsOf.get(row.id) ?? []).map(({ run_id, step, ...call }) => ({ step, call }))
    const ownSteps = (stepsOf.get(row.id) ?? []).map(({ step, text }) => ({
      text,
      calls: ownCalls.filter((each) => each.step === step).map(({ call }) => call),
    }))
    const message = {
      ...row,
      text: wanted.withContents ? joinTexts(ownSteps) : null,
      tool_calls: ownCalls.map(({ call }) => call),
      ...(totalsOf.get(row.id) ?? noTotals),
      feedback: ratingOf.get(row.id) ?? null,
    }
    return { position, message, steps: ownSteps }
  })
}

const joinTexts = (steps: readonly { text: string | null }[]): string =>
  steps
    .map(({ text }) => text)
    .filter((text) => text)
    .join('\n\n')

const noTotals = { prompt_tokens: 0, completion_tokens: 0, cost_micro_usd: null, model: null }

const ofAgentOnly = {
  tool_calls: [],
  prompt_tokens: null,
  completion_tokens: null,
  cost_micro_usd: null,
  model: null,
  feedback: null,
}

type MessageRow = { position: number } & Pick<
  Message,
  'id' | 'role' | 'created_at' | 'replaced_at' | 'status' | 'error_code' | 'text'
>

const selectRows = (
  sql: Sql,
  threadId: string,
  { after, limit, withReplaced, withContents }: Wanted,
) => sql<MessageRow>`
  select position, id, 'user' as role, created_at, replaced_at,
         case when run_id is null then 'queued' else 'sent' end as status, null as error_code,
         case when ${withContents}::boolean then text end as text
  from messages
  where thread_id = ${threadId} and position > ${after} and (${withReplaced}::boolean or replaced_at is null)
  union all
  select position, id, 'assistant', created_at, replaced_at, status, error ->> 'code', null
  from runs
  where organization_id = (select current_organization()) and thread_id = ${threadId} and position > ${after}
    and (${withReplaced}::boolean or replaced_at is null)
  order by position limit ${limit}`

const selectSteps = (sql: Sql, runIds: readonly string[], { withContents }: Wanted) => sql<{
  run_id: string
  step: number
  text: string | null
}>`
  select run_id, step, case when not ${withContents}::boolean then null when finish_reason is not null then text else (
    select coalesce(string_agg(parts.text, '' order by n), '') from step_texts parts
    where parts.run_id = steps.run_id and parts.step = steps.step) end as text
  from steps where run_id = any(${runIds}) order by run_id, step`

const selectCalls = (sql: Sql, runIds: readonly string[], { withContents, maxResultLength }: Wanted) => sql<
  MessageToolCall & { run_id: string; step: number }
>`
  select run_id, step, id, coalesce(tool ->> 'name', name) as name, tool ->> 'kind' as source_type,
         coalesce(tool ->> 'connector', tool ->> 'origin') as source, state, decision, governance,
         case when ${withContents}::boolean then coalesce(edited_args, args) end as args,
         edited_args is not null as is_edited,
         case when ${withContents}::boolean then left(result, coalesce(${maxResultLength}::int, 2147483647)) end
           as result,
         dispatched_at as started_at, ended_at
  from tool_calls where run_id = any(${runIds}) order by run_id, step, position`

const selectTotals = (sql: Sql, runIds: readonly string[]) => sql<
  { run_id: string } & Pick<Message, 'prompt_tokens' | 'completion_tokens' | 'cost_micro_usd' | 'model'>
>`
  select run_id, coalesce(sum(prompt_tokens), 0) as prompt_tokens,
         coalesce(sum(completion_tokens), 0) as completion_tokens, sum(cost_micro_usd) as cost_micro_usd,
         (array_agg(model order by started_at desc, id desc) filter (where purpose = 'step'))[1] as model
  from model_calls where run_id = any(${runIds}) group by run_id`

const selectRatings = (sql: Sql, runIds: readonly string[], { withContents }: Wanted) => sql<
  { run_id: string } & NonNullable<Message['feedback']>
>`
  select run_id, rating, case when ${withContents}::boolean then comment end as comment, updated_at
  from feedback where run_id = any(${runIds})`
