import { isDeepStrictEqual } from 'node:util'
import type { Sql } from '../../kernel/stores/database.ts'
import { fitResult } from '../../kernel/untrusted/long-results.ts'
import { hasEnded } from '../feeds/chunks.ts'
import type { Conversation, RunStory } from '../runs/rows.ts'
import type { ToolCallRow } from '../runs/run.ts'
import type { AgentTool, Verdict } from '../toolbox/toolbox.ts'
import { showProgress } from './shown-calls.ts'
import { RunFailed, type RunParts, type Work } from './work.ts'

/** How long a question stays open. */
const answerWithinHours = 24
/** How often a model may make the same call in a row. */
const mostRepeats = 3
/** Clients show a form for the arguments of a question. With a larger schema, they show JSON. */
const maxShownSchemaBytes = 16 * 1024

/** Decides about the calls that the model asked for, and makes those that may be made. */
export async function handleToolCalls(
  parts: RunParts,
  work: Work,
  conversation: Conversation,
  story: RunStory,
): Promise<void> {
  const open = story.calls.filter((call) => !hasEnded(call))
  const approved = open.filter(({ state }) => state === 'approved')
  const fresh = open.filter(({ state }) => state === 'new')
  if (fresh.length > 0) approved.push(...(await judgeNewCalls(parts, work, conversation, story, fresh)))
  if (conversation.queued.length > 0) await closeQuestions(work)
  const made = await Promise.allSettled(approved.map((call) => make(parts, work, call)))
  for (const each of made) if (each.status === 'rejected') throw each.reason
}

/** Returns the calls that can be made at once. */
async function judgeNewCalls(
  parts: RunParts,
  work: Work,
  conversation: Conversation,
  story: RunStory,
  calls: readonly ToolCallRow[],
): Promise<ToolCallRow[]> {
  const { run, lease } = work
  const tools = await parts.toolbox.list(run, story.calls)
  const judged: ToolCallRow[] = []
  for (const call of calls) {
    requireProgress(story, call)
    const tool = tools.find(({ name }) => name === call.name)
    const verdict = await judge(parts, { run, tool, call, conversation })
    judged.push(await lease.write((sql) => saveVerdict(sql, call, verdict, tool)))
  }
  showProgress(work, judged)
  return judged.filter(({ state }) => state === 'approved')
}

interface Question {
  run: Work['run']
  tool: AgentTool | undefined
  call: ToolCallRow
  conversation: Conversation
}

async function judge({ toolbox }: RunParts, { run, tool, call, conversation }: Question): Promise<Verdict> {
  if (!tool || tool.definitionHash !== call.definition_hash) {
    return { verdict: 'refuse', reason: 'The tool is no longer there, or has changed. Nothing was done.' }
  }
  const verdict = await toolbox.judge(run, tool, call.args, conversation.thread)
  // Also if its result has arrived meanwhile, because the model may have asked for this call before that.
  const isRepeated = ({ state, late_step, name, args }: ToolCallRow) =>
    (state === 'unknown' || late_step !== null) && name === call.name && isDeepStrictEqual(args, call.args)
  const wasUnknown = conversation.stories.some(({ calls }) => calls.some(isRepeated))
  if (verdict.verdict === 'run' && wasUnknown && tool.isWriting) {
    return {
      verdict: 'ask',
      reason: 'This call was interrupted before, and may already have been carried out.',
      data: { code: 'INTERRUPTED_BEFORE' },
    }
  }
  return verdict
}

/** A model that repeats itself makes no progress, but costs money. */
function requireProgress({ calls }: RunStory, { name, args, step, position }: ToolCallRow): void {
  const before = calls.filter((other) => other.step < step || (other.step === step && other.position < position))
  const repeats = before.slice(-mostRepeats)
  const isSame = (other: ToolCallRow) => other.name === name && isDeepStrictEqual(other.args, args)
  if (repeats.length === mostRepeats && repeats.every(isSame)) {
    throw new RunFailed(
      'REPEATED_CALLS',
      `The agent called ${name} with the same arguments again and again, so it was stopped. Ask in other words.`,
    )
  }
}

async function saveVerdict(
  sql: Sql,
  call: ToolCallRow,
  { verdict, reason, data, choice }: Verdict,
  tool: AgentTool | undefined,
): Promise<ToolCallRow> {
  const schema = verdict === 'ask' && tool ? JSON.stringify(tool.inputSchema) : ''
  const shownSchema = schema !== '' && Buffer.byteLength(schema) <= maxShownSchemaBytes ? schema : null
  const state = { run: 'approved', ask: 'asking', refuse: 'refused' }[verdict]
  const [saved] = await sql<ToolCallRow>`
    update tool_calls set state = ${state}, reason = ${verdict === 'run' ? null : reason},
      reason_data = ${data ? JSON.stringify(data) : null}, allowed_choice = ${choice ? JSON.stringify(choice) : null},
      decision = ${verdict === 'run' ? 'not_needed' : null},
      input_schema = ${shownSchema}, asked_at = case when ${verdict === 'ask'} then now() end,
      expires_at = case when ${verdict === 'ask'} then now() + make_interval(hours => ${answerWithinHours}) end,
      ended_at = case when ${verdict === 'refuse'} then now() end
    where id = ${call.id} and state = 'new' returning *`
  return saved ?? call
}

/** A user who writes a message instead of answering declines. */
async function closeQuestions(work: Work): Promise<void> {
  const { run, lease } = work
  const closed = await lease.write(
    (sql) => sql<ToolCallRow>`
      update tool_calls set ended_at = now(), decided_at = now(),
        decision = case when state = 'asking' then 'declined' end,
        state = case when state = 'asking' then 'declined' else 'cancelled' end,
        reason = 'The user wrote a message instead of answering. Nothing was done.'
      where run_id = ${run.id} and (state = 'asking' or state = 'running' and tool->>'kind' = 'client')
      returning *`,
  )
  showProgress(work, closed)
}

/** The call is marked as sent before it is sent, so that it is never sent twice. */
async function make({ toolbox }: RunParts, work: Work, call: ToolCallRow): Promise<void> {
  const { run, lease, trace } = work
  const sent = await lease.write(
    (sql) => sql<ToolCallRow>`
      update tool_calls set state = 'running', dispatched_at = now()
      where id = ${call.id} and state = 'approved' returning *`,
  )
  const [sending] = sent
  // An AG-UI client runs its own tools, and sends their results with its next request.
  if (!sending || sending.tool?.kind === 'client') return
  const toolTrace = trace?.startToolCall(sending)
  const { state, result, origins, governance = null, connectTo = null } = await toolbox.call(run, sending, lease)
  toolTrace?.end({ state, result })
  const [ended] = await lease.write(async (sql) => {
    if (origins.length > 0) await addOrigins(sql, run.threadId, origins)
    // The model gets the results of built-in tools whole, such as a skill.
    const fitting = sending.tool?.kind === 'built_in' ? result : await fitResult(sql, run.id, result)
    return sql<ToolCallRow>`
      update tool_calls set state = ${state}, result = ${fitting}, governance = ${governance}, connect_to = ${connectTo},
        ended_at = now()
      where id = ${call.id} and state = 'running' returning *`
  })
  if (ended) showProgress(work, [ended])
}

/** Notes whose text the conversation contains from now on. */
export async function addOrigins(sql: Sql, threadId: string, origins: readonly string[]): Promise<void> {
  await sql`
    update threads set origins = array(select distinct unnest(origins || ${origins}::text[]) order by 1)
    where id = ${threadId} and not origins @> ${origins}::text[]`
}
