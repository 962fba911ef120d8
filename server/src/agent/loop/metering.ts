import { newId } from '../../kernel/lib/ids.ts'
import type { Sql, Transaction } from '../../kernel/stores/database.ts'
import { type SpenderLimits, selectLimits } from '../../plans/budgets/limits.ts'
import {
  BudgetNeedsPrice,
  BudgetReached,
  isFree,
  lockLimits,
  reserveBudget,
  type Spender,
  settleBudget,
} from '../../plans/budgets/reservations.ts'
import { addUsage, checkUsage, type UsageRecord } from '../../plans/usage/record.ts'
import type { Chunk } from '../feeds/chunks.ts'
import type { Model } from '../models/models.ts'
import { costOf, type ModelFacts } from '../models/prices.ts'
import { countTokens } from '../models/tokens/tokenizer.ts'
import type { Tokens } from '../models/tokens/tokens.ts'
import type { Run } from '../runs/run.ts'
import { RunFailed, type RunParts } from './work.ts'

/** A request to a model that is reserved and not yet settled. */
export interface ModelCall {
  id: string
  model: string
  price: ModelFacts['price']
  reserved: { tokens: number; cost_micro_usd: number | null }
  started_at: string
  maxOutputTokens: number
}

interface Plan {
  step: number
  purpose: 'step' | 'summary'
  promptTokens: number
  maxOutputTokens: number
}

/**
 * Reserves what the request can cost at most, and stores it before it is sent. Throws if a budget is used up. Ends the
 * transaction, after `rest` of it: all runs of the organization wait for the counters that this locks.
 */
export async function beginModelCall(
  sql: Transaction,
  { id: runId, holder }: Run,
  model: Model,
  { price }: ModelFacts,
  { step, purpose, promptTokens, maxOutputTokens }: Plan,
  rest: Promise<unknown>,
): Promise<ModelCall> {
  const most = { prompt_tokens: promptTokens, completion_tokens: maxOutputTokens }
  const reserved = { tokens: promptTokens + maxOutputTokens, cost_micro_usd: price && costOf(price, most) }
  const id = newId()
  const startedAt = new Date()
  const started_at = startedAt.toISOString()
  const spender = spenderOf(holder)
  const [limits] = await Promise.all([
    lockLimits(sql, spender),
    sql`
      insert into model_calls (organization_id, id, run_id, step, purpose, model, reserved_tokens,
                               reserved_cost_micro_usd, estimated_prompt_tokens, price, started_at)
      values (current_organization(), ${id}, ${runId}, ${step}, ${purpose}, ${model.name}, ${reserved.tokens},
              ${reserved.cost_micro_usd}, ${promptTokens}, ${price && JSON.stringify(price)}, ${started_at})`,
    rest,
  ])
  const reserving = reserveBudget(sql, spender, reserved, startedAt, limits)
  if (isFree(spender, limits)) sql.commit()
  await reserving
  return { id, model: model.name, price, reserved, started_at, maxOutputTokens }
}

/** A budget that is used up, in words for the user. */
export function explainBudget(error: unknown): unknown {
  if (error instanceof BudgetReached) return new RunFailed('BUDGET_REACHED', error.message, { cause: error })
  if (error instanceof BudgetNeedsPrice) {
    const message =
      'The agent can’t be used, because its model has no price and the organization has a budget in money.'
    return new RunFailed('NOT_CONFIGURED', `${message} An administrator needs to set the price.`, { cause: error })
  }
  return error
}

const spenderOf = ({ end_user, subjects, publishable_key_id }: Run['holder']): Spender => ({
  endUserId: end_user?.id ?? null,
  shares: subjects && { ...subjects, key: publishable_key_id },
})

/** For `measureTokens`: tells the operator about a provider that reports impossible numbers. */
export const warnOfUsage =
  ({ log }: Pick<RunParts, 'log'>, { id, organizationId }: Run, model: Model) =>
  (reported: object): void => {
    const about = { reported, model: model.name, run_id: id, organization_id: organizationId }
    log.warn(about, 'A model reported an impossible number of tokens, so its usage was estimated')
  }

/**
 * Charges a request, once: a second attempt to settle it changes nothing. Must be the last statement of its transaction,
 * because it may write an audit row. Returns what the user should know about their budget.
 */
export async function settleModelCall(
  sql: Sql,
  run: Spending,
  call: ModelCall,
  tokens: Tokens,
  finishReason: string,
): Promise<string[]> {
  const settled = await markSettled(sql, run, call, tokens, finishReason)
  if (!settled) return []
  const [, warnings] = await Promise.all([addToThread(sql, run, settled), charge(sql, run, call, settled)])
  return warnings
}

/** Adds what a request used to the total of its thread. */
export const addToThread = (sql: Sql, { threadId }: Spending, { prompt_tokens, completion_tokens }: Tokens) => sql`
  update threads set total_tokens = total_tokens + ${prompt_tokens + completion_tokens} where id = ${threadId}`

type Spending = Pick<Run, 'holder' | 'threadId'>

/** A request that is settled, but not charged yet. */
interface Settled extends Tokens {
  event: UsageRecord
  limits: SpenderLimits
  /** Whether nothing follows when it is charged. */
  isLast: boolean
}

/**
 * The first half of `settleModelCall`, which locks nothing that other runs need. Undefined if it was settled before. The
 * usage event is checked here, because the second half may be committed without waiting for it.
 */
export async function markSettled(
  sql: Sql,
  { holder, threadId }: Spending,
  { id, model, price }: ModelCall,
  tokens: Tokens,
  finishReason: string,
): Promise<Settled | undefined> {
  const { prompt_tokens, completion_tokens, is_estimated } = tokens
  const cost_micro_usd = price && costOf(price, tokens)
  const spender = spenderOf(holder)
  const [[settled], limits] = await Promise.all([
    sql<{ settled_at: string }>`
      update model_calls set prompt_tokens = ${prompt_tokens}, completion_tokens = ${completion_tokens},
        is_estimated = ${is_estimated}, cost_micro_usd = ${cost_micro_usd},
        finish_reason = ${finishReason}, settled_at = now()
      where id = ${id} and settled_at is null returning settled_at`,
    selectLimits(sql, spender.endUserId),
  ])
  if (!settled) return undefined
  const event = {
    id,
    organization_id: holder.organization_id,
    end_user_id: holder.end_user?.id ?? null,
    site_id: holder.site_id ?? null,
    thread_id: threadId,
    prompt_tokens,
    completion_tokens,
    model,
    finish_reason: finishReason,
    created_at: settled.settled_at,
    cost_micro_usd,
    is_estimated,
  }
  checkUsage(event)
  return { ...tokens, event, limits, isLast: isFree(spender, limits) }
}

/** The second half, except for the total of the thread. */
export async function charge(
  sql: Sql,
  { holder }: Spending,
  { reserved, started_at }: ModelCall,
  { event, limits }: Settled,
): Promise<string[]> {
  const used = { tokens: event.prompt_tokens + event.completion_tokens, cost_micro_usd: event.cost_micro_usd }
  // Sent together, because they lock totals that all runs of the organization change.
  const [, { warnings }] = await Promise.all([
    addUsage(sql, [event]),
    settleBudget(sql, spenderOf(holder), { reserved, used, at: new Date(started_at) }, limits),
  ])
  return warnings
    .filter(({ scope }) => scope === 'end_user')
    .map(({ period }) => `You have used 80 % of your budget for this ${period}.`)
}

/** The last chunk of an answer says what it cost. */
export async function describeFinish(sql: Sql, { id }: Run): Promise<Chunk> {
  const usage = await sql<{ model: string; prompt_tokens: number; completion_tokens: number }>`
    select model, sum(prompt_tokens) as prompt_tokens, sum(completion_tokens) as completion_tokens
    from model_calls where run_id = ${id} and settled_at is not null group by model order by min(started_at)`
  return { type: 'finish', finishReason: 'stop', messageMetadata: { usage } }
}

/** A request of a node that was lost, and the text that it had saved. */
export interface InterruptedCall extends ModelCall {
  estimated_prompt_tokens: number
  text: string
}

/** Locks the requests that nobody will settle anymore. */
export const selectInterruptedCalls = (sql: Sql, { id }: Run) => sql<InterruptedCall>`
  select id, model, price, started_at, estimated_prompt_tokens,
         reserved_tokens - estimated_prompt_tokens as "maxOutputTokens",
         jsonb_build_object('tokens', reserved_tokens, 'cost_micro_usd', reserved_cost_micro_usd) as reserved,
         coalesce((select string_agg(text, '' order by n) from step_texts
                   where run_id = ${id} and step = model_calls.step and model_calls.purpose = 'step'), '') as text
  from model_calls where run_id = ${id} and settled_at is null for update`

/** Charges them as estimated. Must be the last statement of its transaction. */
export async function settleInterruptedCalls(sql: Sql, run: Run, calls: readonly InterruptedCall[]): Promise<void> {
  for (const { estimated_prompt_tokens, text, ...call } of calls) {
    const completion_tokens = Math.min(await countTokens(text), call.maxOutputTokens)
    const tokens = { prompt_tokens: estimated_prompt_tokens, completion_tokens, is_estimated: true }
    await settleModelCall(sql, run, call, tokens, 'interrupted')
  }
}
