import type { OrgCaller } from '../../kernel/foundation/caller.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { notFound } from '../../kernel/lib/errors.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import type * as contract from './contract.ts'

type RunList = Output<typeof contract.listThreadRuns>
type TracedRun = RunList['runs'][number]
type TracedStep = TracedRun['steps'][number]

/** What happened in a thread's runs, without what was said in them. */
export async function listThreadRuns(
  { database }: Service,
  { organization }: OrgCaller,
  { id, limit, cursor, include_replaced }: Input<typeof contract.listThreadRuns>,
): Promise<RunList> {
  return database.asOrg(organization.id, async (sql) => {
    const [thread] = await sql`select from threads where id = ${id}`
    if (!thread) throw notFound('thread', id)
    const found = await sql<Omit<TracedRun, 'steps'> & { position: number }>`
      select position, id, status, error ->> 'code' as error_code, error ->> 'message' as error_message, worked_ms,
             created_at, ended_at, replaced_at
      from runs
      where thread_id = ${id} and position > ${Number(cursor ?? 0)}
        and (${include_replaced === 'true'}::boolean or replaced_at is null)
      order by position limit ${limit + 1}`
    const page = found.slice(0, limit)
    const stepsOf = await selectSteps(
      sql,
      page.map((run) => run.id),
    )
    return {
      runs: page.map(({ position, ...run }) => ({ ...run, steps: stepsOf(run.id) })),
      next_cursor: found.length > limit ? String(page.at(-1)?.position) : null,
    }
  })
}

interface OfStep {
  run_id: string
  step: number
}

/** A step that was interrupted has model calls, but no row of its own. */
async function selectSteps(sql: Sql, runIds: string[]): Promise<(runId: string) => TracedStep[]> {
  const [steps, modelCalls, toolCalls] = await Promise.all([
    sql<OfStep & Pick<TracedStep, 'finish_reason'>>`
      select run_id, step, finish_reason from steps where run_id = any(${runIds})`,
    sql<OfStep & TracedStep['model_calls'][number]>`
      select run_id, step, id, purpose, model, prompt_tokens, completion_tokens, is_estimated, cost_micro_usd,
             finish_reason, started_at, settled_at as ended_at
      from model_calls where run_id = any(${runIds}) order by started_at, id`,
    sql<OfStep & TracedStep['tool_calls'][number]>`
      select run_id, step, id, coalesce(tool ->> 'name', name) as name, tool ->> 'kind' as source_type,
             coalesce(tool ->> 'connector', tool ->> 'origin') as source,
             case when asked_at is not null then 'ask' when decision is not null then 'run'
                  when state = 'refused' then 'refuse' end as verdict,
             reason, decision, governance, state, edited_args is not null as is_edited, late_step is not null as is_late,
             asked_at, decided_at, dispatched_at as started_at, ended_at
      from tool_calls where run_id = any(${runIds}) order by position`,
  ])
  return (runId) => {
    const isOfRun = (row: OfStep) => row.run_id === runId
    const own = { steps: steps.filter(isOfRun), models: modelCalls.filter(isOfRun), tools: toolCalls.filter(isOfRun) }
    const numbers = new Set([...own.steps, ...own.models, ...own.tools].map(({ step }) => step))
    return [...numbers]
      .sort((a, b) => a - b)
      .map((number) => ({
        step: number,
        finish_reason: own.steps.find(({ step }) => step === number)?.finish_reason ?? null,
        model_calls: own.models.filter(({ step }) => step === number).map(withoutPlace),
        tool_calls: own.tools.filter(({ step }) => step === number).map(withoutPlace),
      }))
  }
}

const withoutPlace = <Row extends OfStep>({ run_id, step, ...row }: Row): Omit<Row, keyof OfStep> => row
