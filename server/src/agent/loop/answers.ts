import type { Service } from '../../kernel/foundation/service.ts'
import { failure, invalid, notFound } from '../../kernel/lib/errors.ts'
import { isId } from '../../kernel/lib/ids.ts'
import { InvalidJson, parseJson } from '../../kernel/lib/json.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { hasEnded } from '../feeds/chunks.ts'
import { type Feeds, feedOf } from '../feeds/feeds.ts'
import type { RunRow, RunStory } from '../runs/rows.ts'
import type { RunHolder, ToolCallRow } from '../runs/run.ts'
import type { Decision, Runs, Speaker } from '../runs/runs.ts'
import { claimThread, lockThread, ownsThread } from '../runs/speakers.ts'
import type { Toolbox } from '../toolbox/toolbox.ts'
import { findFreeRun, lockActiveRun, stillAnswering, tooManyRuns } from './run-writes.ts'

interface Needs extends Pick<Service, 'database'> {
  toolbox: Toolbox
  feeds: Feeds
  holderOf(speaker: Speaker): RunHolder
  /** Continues a run that waited, as the last statement of its transaction. */
  claim(sql: Sql, run: Pick<RunRow, 'id' | 'holder' | 'page' | 'client'>): Promise<RunStory | undefined>
  begin(organizationId: string, story: RunStory): void
}

/** Processes users' answers to questions about calls. */
export function createAnswers({ database, toolbox, feeds, holderOf, claim, begin }: Needs): Runs['decide'] {
  async function decide(speaker: Speaker, decision: Decision): Promise<void> {
    const { organization_id } = speaker.holder
    if (!isId(decision.call_id)) throw notFound('tool_call', decision.call_id)
    if (decision.is_approved && decision.edited_args) {
      checkStorable(decision.edited_args)
      const { call, run } = await database.asHolder(speaker.holder, async (sql) =>
        lockQuestion(sql, speaker, decision, await findQuestion(sql, speaker, decision)),
      )
      await requireFit(call, run, decision.edited_args)
    }
    let claimed: string | undefined
    const started = await database.asHolder(speaker.holder, async (sql) => {
      // Before any lock, so that answers to questions of others don't queue for one.
      const threadId = await findQuestion(sql, speaker, decision)
      const [isRunFree, { call, run }] = await Promise.all([
        findFreeRun(sql, speaker),
        lockQuestion(sql, speaker, decision, threadId),
      ])
      if (await claimThread(sql, speaker, threadId)) claimed = threadId
      // It would go on for the frame that it was of until now.
      if (claimed && run.status === 'running') throw stillAnswering()
      if (run.status === 'waiting' && !isRunFree) throw tooManyRuns()
      const state = decision.is_approved ? 'approved' : 'declined'
      const how = decision.is_approved ? (decision.is_always ? 'always_allowed' : 'allowed') : 'declined'
      const edited = decision.is_approved && decision.edited_args ? JSON.stringify(decision.edited_args) : null
      await sql`
        update tool_calls set state = ${state}, decision = ${how}, edited_args = ${edited}, decided_at = now(),
          reason = case when ${decision.is_approved} then reason else 'The user declined the call. Nothing was done.' end,
          ended_at = case when ${decision.is_approved} then null else now() end
        where id = ${call.id}`
      if (decision.is_approved && decision.is_always && call.definition_hash) {
        await sql`
          update threads set allowed_tools = array_append(allowed_tools, ${call.definition_hash})
          where id = ${run.thread_id} and not allowed_tools @> ${[call.definition_hash]}::text[]
            and cardinality(allowed_tools) < 500`
        if (!edited) await allowChoice(sql, run, call, decision)
      }
      // The newest identity: the earlier one may have expired while the question waited.
      const { page = run.page } = decision
      return run.status === 'waiting' ? claim(sql, { ...run, holder: holderOf(speaker), page }) : undefined
    })
    if (claimed) await feeds.claimed(feedOf(speaker.holder, claimed))
    if (started) begin(organization_id, started)
  }

  /** Arguments that the user edited must fit the tool, which must still be there. */
  async function requireFit(call: ToolCallRow, row: RunRow, args: Record<string, unknown>): Promise<void> {
    const { holder, page, client } = row
    const run = { id: row.id, organizationId: holder.organization_id, threadId: row.thread_id, holder, page, client }
    const tool = await toolbox.find(run, call)
    if (!tool) throw failure(409, 'TOOL_CHANGED', 'The tool is no longer there, or has changed. Decline the call.')
    const problem = toolbox.findProblem(tool, args)
    if (problem) throw invalid('edited_args', problem)
  }

  return decide
}

/** Returns the call's thread, which must be the speaker's. Locks nothing. */
async function findQuestion(sql: Sql, speaker: Speaker, { call_id }: Decision): Promise<string> {
  const [found] = await sql<{ thread_id: string }>`
    select thread_id from tool_calls join runs on runs.id = run_id where tool_calls.id = ${call_id}`
  if (!found || !(await ownsThread(sql, speaker, found.thread_id))) throw notFound('tool_call', call_id)
  return found.thread_id
}

/** Locks the call's run, and checks that the question is open and that this client may answer it. */
async function lockQuestion(
  sql: Sql,
  speaker: Speaker,
  { call_id, is_approved }: Decision,
  threadId: string,
): Promise<{ call: ToolCallRow; run: RunRow }> {
  await lockThread(sql, speaker, threadId)
  const run = await lockActiveRun(sql, threadId)
  const [call] = await sql<ToolCallRow & { is_expired: boolean }>`
    select id, run_id, step, position, name, model_call_id, tool, title, definition_hash, input_schema, args, edited_args,
           state, reason, reason_data, allowed_choice, asked_at, expires_at, decision, decided_at, dispatched_at, result,
           ended_at, late_step, connect_to, expires_at < now() as is_expired
    from tool_calls where id = ${call_id}`
  if (!run || !call || run.id !== call.run_id || hasEnded(call) || call.state !== 'asking') {
    throw failure(409, 'ALREADY_DECIDED', 'This question has already been answered, or is no longer open.')
  }
  if (call.is_expired) throw failure(409, 'QUESTION_EXPIRED', 'This question has expired. Ask the agent again.')
  // A tool server can have an origin that pages have too, or that anybody could claim to have.
  const origin = call.tool?.kind === 'page' || call.tool?.kind === 'client' ? call.tool.origin : undefined
  if (is_approved && !speaker.is_own_frame && origin !== (speaker.holder.origin ?? '')) {
    throw failure(403, 'APPROVE_IN_PANEL', 'This tool belongs to another site, so it is approved in the agent’s panel.')
  }
  return { call, run }
}

/** The latest permissions that a thread keeps for calls without arguments. */
const mostChoices = 50

/**
 * Allows calls without arguments for the rest of the thread: of the tool that the user was asked about, or of all that
 * the question counted. The latter also answers the open questions about them.
 */
async function allowChoice(sql: Sql, run: RunRow, call: ToolCallRow, { is_for_origin }: Decision): Promise<void> {
  const { allowed_choice: offered, definition_hash: own } = call
  if (!offered || !own) return
  const tools = is_for_origin ? offered.tools : [own]
  await sql`
    update threads set allowed_choices = jsonb_build_array(${JSON.stringify({ ...offered, tools })}::jsonb) ||
      case when jsonb_array_length(allowed_choices) < ${mostChoices} then allowed_choices else allowed_choices - -1 end
    where id = ${run.thread_id}`
  if (!is_for_origin) return
  await sql`
    update tool_calls set state = 'approved', decision = 'always_allowed', decided_at = now()
    where run_id = ${run.id} and state = 'asking' and expires_at > now() and allowed_choice is not null
      and reason_data->>'may_change' = 'false' and definition_hash = any(${tools}::text[])
      and allowed_choice->'from' <@ ${JSON.stringify(offered.from)}::jsonb`
}

/** The same rules as for the arguments that a model writes. */
function checkStorable(args: Record<string, unknown>): void {
  try {
    parseJson(JSON.stringify(args))
  } catch (error) {
    throw error instanceof InvalidJson ? invalid('edited_args', error.message) : error
  }
}
