import type { ToolCallRow } from '../src/agent/runs/run.ts'
import { newId } from '../src/kernel/lib/ids.ts'
import type { Sql } from '../src/kernel/stores/database.ts'

/** Writes conversations as rows, for tests that read or erase them. All run in a transaction of the organization. */

interface MessageRow {
  text?: string
  /** The run that answers it; null while it is queued. */
  runId?: string | null
  at?: string
  replacedAt?: string | null
}

interface RunRow {
  status?: 'running' | 'waiting' | 'succeeded' | 'failed' | 'stopped'
  error?: { code: string; message: string }
  at?: string
  /** By default, when the run began, if its status is final. */
  endedAt?: string | null
  replacedAt?: string | null
  steps?: { text?: string; calls?: Partial<ToolCallRow>[] }[]
  modelCalls?: Partial<ModelCallRow>[]
}

interface ModelCallRow {
  purpose: 'step' | 'summary'
  model: string
  prompt_tokens: number | null
  completion_tokens: number | null
  cost_micro_usd: number | null
  started_at: string
}

const someTime = '2026-03-10T12:00:00.000Z'

/** A message and the run that answers it. */
export async function addExchange(sql: Sql, threadId: string, message: MessageRow = {}, run: RunRow = {}) {
  const messageId = await addMessage(sql, threadId, message)
  const runId = await addRun(sql, threadId, { ...(message.at && { at: message.at }), ...run })
  await sql`update messages set run_id = ${runId}, step = 0 where id = ${messageId}`
  return { messageId, runId }
}

export async function addMessage(sql: Sql, threadId: string, message: MessageRow = {}): Promise<string> {
  const { text = 'Where is my order?', runId = null, at = someTime, replacedAt = null } = message
  const id = newId()
  await sql`
    insert into messages (organization_id, id, thread_id, position, text, run_id, step, created_at, replaced_at)
    values (current_organization(), ${id}, ${threadId}, ${await nextPosition(sql, threadId)}, ${text}, ${runId},
            ${runId === null ? null : 0}, ${at}, ${replacedAt})`
  return id
}

export async function addRun(sql: Sql, threadId: string, run: RunRow = {}): Promise<string> {
  const { status = 'succeeded', error = null, at = someTime, replacedAt = null } = run
  const { endedAt = status === 'running' || status === 'waiting' ? null : at } = run
  const { steps = [{ text: 'It arrives on Friday.' }], modelCalls = [] } = run
  const id = newId()
  const holder = { organization_id: newId(), publishable_key_id: newId() }
  await sql`
    insert into runs (organization_id, id, thread_id, position, status, holder, error, created_at, ended_at, replaced_at)
    values (current_organization(), ${id}, ${threadId}, ${await nextPosition(sql, threadId)}, ${status},
            ${JSON.stringify(holder)}, ${error && JSON.stringify(error)}, ${at}, ${endedAt}, ${replacedAt})`
  for (const [step, { text = '', calls = [] }] of steps.entries()) {
    await sql`
      insert into steps (organization_id, run_id, step, text, finish_reason, created_at)
      values (current_organization(), ${id}, ${step}, ${text}, 'stop', ${at})`
    for (const [position, call] of calls.entries()) await addCall(sql, { run_id: id, step, position, ...call })
  }
  for (const call of modelCalls) await addModelCall(sql, id, { started_at: at, ...call })
  return id
}

async function addCall(sql: Sql, call: Pick<ToolCallRow, 'run_id' | 'step' | 'position'> & Partial<ToolCallRow>) {
  const { name = 'find_orders', tool = null, args = {}, edited_args = null, state = 'succeeded' } = call
  const { decision = null, dispatched_at = null, result = null, ended_at = null, expires_at = null } = call
  await sql`
    insert into tool_calls (organization_id, id, run_id, step, position, name, model_call_id, tool, args, edited_args,
                            state, decision, expires_at, dispatched_at, result, ended_at)
    values (current_organization(), ${call.id ?? newId()}, ${call.run_id}, ${call.step}, ${call.position}, ${name},
            'call_1', ${tool && JSON.stringify(tool)}, ${JSON.stringify(args)},
            ${edited_args && JSON.stringify(edited_args)}, ${state}, ${decision}, ${expires_at}, ${dispatched_at},
            ${result}, ${ended_at})`
}

async function addModelCall(sql: Sql, runId: string, call: Partial<ModelCallRow>) {
  const { purpose = 'step', model = 'demo-large', prompt_tokens = 100, completion_tokens = 20 } = call
  const { cost_micro_usd = null, started_at = someTime } = call
  await sql`
    insert into model_calls (organization_id, id, run_id, step, purpose, model, reserved_tokens, estimated_prompt_tokens,
                             prompt_tokens, completion_tokens, is_estimated, cost_micro_usd, started_at, settled_at)
    values (current_organization(), ${newId()}, ${runId}, 0, ${purpose}, ${model}, 1000, 100, ${prompt_tokens},
            ${completion_tokens}, false, ${cost_micro_usd}, ${started_at}, ${started_at})`
}

async function nextPosition(sql: Sql, threadId: string): Promise<number> {
  const [thread] = await sql<{ last_position: number }>`
    update threads set last_position = last_position + 1 where id = ${threadId} returning last_position`
  return thread?.last_position as number
}

/** Starts a thread of an end user or an anonymous visitor. */
export async function startThread(
  sql: Sql,
  { endUserId, siteId }: { endUserId: string | null; siteId: string | null },
) {
  const id = newId()
  await sql`
    insert into threads (organization_id, id, end_user_id, site_id)
    values (current_organization(), ${id}, ${endUserId}, (select id from sites where id = ${siteId}))`
  return id
}
