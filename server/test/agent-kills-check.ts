import { isDeepStrictEqual } from 'node:util'
import type { ShownRun } from './chat.ts'

/** What one user saw and did. */
export interface Witness {
  /** The ids of their runs, and the task of each. */
  runs: Map<string, string>
  shown(runId: string): ShownRun
  /** Calls that their page received, with how often. */
  received: Map<string, { name: string; args: unknown; count: number }>
}

export interface Findings {
  runs: number
  modelCalls: { reported: number; estimated: number }
  /** Number of calls, by outcome. */
  toolCalls: Record<string, number>
  /** Number of calls whose result arrived after their outcome had been reported as unknown. */
  lateResults: number
  /** Highest number of attempts that a run needed. */
  mostAttempts: number
  /** Everything that must not happen, in words. */
  problems: string[]
}

interface RunRow {
  id: string
  status: string
  attempt: number
  error: { code: string } | null
  texts: string[]
}

interface CallRow {
  id: string
  run_id: string
  name: string
  args: Record<string, unknown>
  state: string
  is_asked: boolean
  decision: string | null
  is_dispatched: boolean
  result: string | null
  /** The result arrived after the outcome had been reported as unknown. */
  is_late: boolean
}

/** Every answer ends with the task's own sentence, so that missing and repeated text shows. */
export const lastSentence = (task: string): string =>
  `This is the whole answer to ${task}, word by word, and nothing else.`

/** Compares the rows with each other, with what the users saw, and with the number of requests to the model. */
export async function findProblems(
  read: <Row>(text: string) => Promise<Row[]>,
  witnesses: readonly Witness[],
  requests: number,
): Promise<Findings> {
  const runs = await read<RunRow>(`
    select id, status, attempt, error, array(
      select text from steps where run_id = runs.id and text <> '' order by step) as texts
    from runs`)
  const calls = await read<CallRow>(`
    select id, run_id, name, args, state, asked_at is not null as is_asked, decision,
           dispatched_at is not null as is_dispatched, result, late_step is not null as is_late
    from tool_calls order by run_id, step, position`)
  const modelCalls = await read<{ is_estimated: boolean }>('select is_estimated from model_calls')
  const problems = [
    ...(await findInRows(read)),
    ...runs.flatMap((run) => findInRun(run, calls, witnesses)),
    ...calls.flatMap((call) => findInCall(call, calls, witnesses)),
    ...findUnknownCalls(calls, witnesses),
  ]
  if (requests > modelCalls.length) {
    problems.push(`The model got ${requests} requests, but there are ${modelCalls.length} model calls`)
  }
  return {
    runs: runs.length,
    modelCalls: {
      reported: modelCalls.filter(({ is_estimated }) => !is_estimated).length,
      estimated: modelCalls.filter(({ is_estimated }) => is_estimated).length,
    },
    toolCalls: Object.fromEntries(
      Object.entries(Object.groupBy(calls, ({ state }) => state)).map(([state, rows]) => [state, rows?.length ?? 0]),
    ),
    lateResults: calls.filter(({ is_late }) => is_late).length,
    mostAttempts: Math.max(...runs.map(({ attempt }) => attempt)),
    problems,
  }
}

/** Each statement finds rows that must not exist. */
const mustBeEmpty: Record<string, string> = {
  'A model call was never settled': 'select id from model_calls where settled_at is null',
  'A model call has no usage event': `
    select id from model_calls where not exists (select from usage_events u where u.id = model_calls.id)`,
  'A usage event differs from its model call': `
    select id from model_calls m join usage_events u using (id)
    where (u.prompt_tokens, u.completion_tokens, u.is_estimated, u.model)
      is distinct from (m.prompt_tokens, m.completion_tokens, m.is_estimated, m.model)`,
  'A usage event has no model call': `
    select id from usage_events where model = 'scripted' and id not in (select id from model_calls)`,
  'A reported model call isn’t what the model reported': `
    select id from model_calls where not is_estimated and (prompt_tokens, completion_tokens) not in ((100, 10), (0, 0))`,
  'A step that the model finished has not exactly one reported call': `
    select s.run_id as id from steps s
    where (select count(*) from model_calls m where m.run_id = s.run_id and m.step = s.step and not m.is_estimated) <> 1`,
  'A part of a text outlived its step': 'select run_id as id from step_texts',
  'A thread’s tokens differ from its usage events': `
    select id from threads where id in (select thread_id from runs) and total_tokens <>
      (select sum(prompt_tokens + completion_tokens) from usage_events where thread_id = threads.id)`,
  'A budget still has a reservation': `
    select scope as id from budget_periods where reserved_tokens <> 0 or reserved_cost_micro_usd <> 0`,
  'The budget’s counter differs from the usage events': `
    select scope as id from budget_periods b where scope = 'organization' and period = 'month' and tokens <>
      (select sum(prompt_tokens + completion_tokens) from model_calls m where m.organization_id = b.organization_id)`,
  'An end user’s counter differs from their usage events': `
    select subject as id from budget_periods b where scope = 'end_user' and period = 'month' and tokens <>
      (select sum(prompt_tokens + completion_tokens) from usage_events where end_user_id = subject)`,
}

async function findInRows(read: <Row>(text: string) => Promise<Row[]>): Promise<string[]> {
  const problems: string[] = []
  for (const [problem, statement] of Object.entries(mustBeEmpty)) {
    for (const { id } of await read<{ id: string }>(statement)) problems.push(`${problem}: ${id}`)
  }
  return problems
}

function findInRun({ id, status, error, texts }: RunRow, calls: CallRow[], witnesses: readonly Witness[]): string[] {
  const witness = witnesses.find(({ runs }) => runs.has(id))
  if (!witness) return [`Nobody started the run ${id}`]
  const shown = witness.shown(id)
  const problems: string[] = []
  const own = calls.filter(({ run_id }) => run_id === id)
  // A call that was interrupted three times isn't tried again.
  const isGivenUp = error?.code === 'REPEATED_CALLS' && own.filter(wasUnknown).length >= 3
  if (status !== 'succeeded' && !isGivenUp) problems.push(`The run ${id} is ${status}: ${JSON.stringify(error)}`)
  if (shown.end?.status !== status) problems.push(`The run ${id} is ${status}, but shown as ${shown.end?.status}`)
  const seen = shown.texts.filter((text) => text !== '')
  if (!isDeepStrictEqual(seen, texts)) {
    problems.push(`The run ${id} is shown as ${JSON.stringify(seen)}, but stored as ${JSON.stringify(texts)}`)
  }
  const expected = lastSentence(witness.runs.get(id) ?? '')
  if (!isGivenUp && texts.at(-1) !== expected) problems.push(`The run ${id} ends with ${texts.at(-1)}, not ${expected}`)
  // A client that shows the next run already isn't told about a late result.
  const lateIds = new Set(own.filter(({ is_late }) => is_late).map((call) => call.id))
  const shownCalls = shown.calls.map((call) => [
    call.id,
    call.question !== undefined,
    lateIds.has(call.id) ? undefined : call.output,
  ])
  const stored = own.map(({ id, is_asked, state, result, is_late }) => [
    id,
    is_asked,
    state === 'succeeded' && !is_late ? (result ?? '') : undefined,
  ])
  if (!isDeepStrictEqual(shownCalls, stored)) {
    problems.push(`Calls are shown as ${JSON.stringify(shownCalls)}, but stored as ${JSON.stringify(stored)}`)
  }
  return problems
}

function findInCall(call: CallRow, calls: CallRow[], witnesses: readonly Witness[]): string[] {
  const { id, run_id, name, args, state, is_asked, decision, is_dispatched } = call
  const count = witnesses.reduce((sum, { received }) => sum + (received.get(id)?.count ?? 0), 0)
  const problems: string[] = []
  if (['new', 'asking', 'approved', 'running'].includes(state)) problems.push(`The call ${id} is still ${state}`)
  if (count > 1) problems.push(`The call ${id} was made ${count} times`)
  if (count > 0 && !is_dispatched) problems.push(`The call ${id} was made, but not marked as sent`)
  if (count === 0 && state === 'succeeded') problems.push(`The call ${id} succeeded, but was never made`)
  if (is_dispatched && name === 'empty' && !(is_asked && decision === 'allowed')) {
    problems.push(`The call ${id} was made without asking`)
  }
  const before = calls.slice(0, calls.indexOf(call)).filter((other) => other.run_id === run_id)
  const isTriedAgain = before.some((other) => other.name === name && isDeepStrictEqual(other.args, args))
  if (isTriedAgain && name !== 'read' && !is_asked && state !== 'refused' && state !== 'cancelled') {
    problems.push(`The call ${id} was tried again without asking`)
  }
  const isEarlierOpen = before.some((other) => other.name === name && !wasUnknown(other))
  if (is_asked && isEarlierOpen) problems.push(`The question about the call ${id} was asked twice`)
  return problems
}

const wasUnknown = ({ state, is_late }: CallRow): boolean => state === 'unknown' || is_late

function findUnknownCalls(calls: CallRow[], witnesses: readonly Witness[]): string[] {
  const known = new Set(calls.map(({ id }) => id))
  const received = witnesses.flatMap((witness) => [...witness.received.keys()])
  return received.filter((id) => !known.has(id)).map((id) => `A page received the call ${id}, which has no row`)
}
