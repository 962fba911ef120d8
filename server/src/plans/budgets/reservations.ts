import { notFound } from '../../kernel/lib/errors.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import { type Sql, violatedConstraint } from '../../kernel/stores/database.ts'
import {
  findNearLimit,
  isUnlimited,
  type Limits,
  limitsIn,
  type Scope,
  type Share,
  type SpenderLimits,
  selectLimits,
  shares,
  type Unit,
  units,
} from './limits.ts'
import { type Period, resetOf, startOf } from './periods.ts'

/** Whose budget is used, besides the organization's. */
export interface Spender {
  /** Null for an anonymous visitor. */
  endUserId: string | null
  /** Whose share an anonymous visitor uses, as UUIDs. */
  shares?: Record<Share, string> | undefined
}

export interface Amount {
  tokens: number
  /** Null if the model has no price. */
  cost_micro_usd: number | null
}

/** A budget of which 80 % are used. */
export interface BudgetWarning {
  scope: Scope
  period: Period
  unit: Unit
  limit: number
  used: number
}

/** A budget is used up. The message is for the user, and says when it resets. */
export class BudgetReached extends Error {
  override readonly name = 'BudgetReached'
  readonly scope: Scope
  readonly unit: Unit
  readonly period: Period
  readonly resets_at: string

  constructor({ scope, unit, period, resets_at, isTooLarge }: Reached) {
    super(isTooLarge ? describeTooLarge(period) : describeReached(scope, period, resets_at))
    this.scope = scope
    this.unit = unit
    this.period = period
    this.resets_at = resets_at
  }
}

/** A budget in money applies to a model without a price. The message is for administrators. */
export class BudgetNeedsPrice extends Error {
  override readonly name = 'BudgetNeedsPrice'

  constructor() {
    super(
      'A budget in money applies, but the price of the model is unknown. Add the model to the file in INLAY_MODEL_PRICES, use another model, or set a budget in tokens instead.',
    )
  }
}

interface Reached {
  scope: Scope
  unit: Unit
  period: Period
  resets_at: string
  /** Whether the call alone exceeds the limit, so that it wouldn't help to wait. */
  isTooLarge: boolean
}

const owners: Record<Scope, string> = {
  organization: 'The assistant has reached its limit',
  end_user: "You've reached your limit",
  anonymous: "Visitors who aren't signed in have reached their limit",
  address: "Visitors from your network who aren't signed in have reached their limit",
  visitor: "You've reached your limit",
  key: "Visitors of this site who aren't signed in have reached their limit",
}
const spans: Record<Period, string> = { day: 'for today', month: 'for this month' }
const longDate = new Intl.DateTimeFormat('en-GB', { dateStyle: 'long', timeZone: 'UTC' })

const describeReached = (scope: Scope, period: Period, resetsAt: string): string =>
  `${owners[scope]} ${spans[period]}. It resets on ${longDate.format(new Date(resetsAt))} at 00:00 UTC.`

const describeTooLarge = (period: Period): string =>
  `A reply in this conversation could use more than the limit for a whole ${period}. Start a new conversation, or ask an administrator to raise the limit.`

/**
 * Reserves the most that a model call can use, in the caller's transaction. The counters are locked until it ends, so
 * that concurrent calls can't exceed a limit together. Throws a BudgetReached or a BudgetNeedsPrice, and then reserves
 * nothing, even if the caller commits.
 */
export async function reserveBudget(
  sql: Sql,
  spender: Spender,
  amount: Amount,
  now: Date,
  limits: SpenderLimits | Promise<SpenderLimits> = lockLimits(sql, spender),
): Promise<void> {
  const [{ general, own }, counters] = await Promise.all([limits, addReservation(sql, spender, amount, now)])
  const limited = counters.map((counter) => ({ ...counter, limits: limitsIn(counter.scope, general, own) }))
  const refusal = findRefusal(limited, amount, now)
  if (!refusal) return
  await settleCounters(sql, spender, { reserved: amount, used: nothing, at: now })
  throw refusal
}

/** Reads the limits for a reservation that follows in the same transaction. */
export async function lockLimits(sql: Sql, { endUserId }: Spender): Promise<SpenderLimits> {
  const [, limits] = await Promise.all([
    // Before the counters, as when an end user is erased, so that the two can't deadlock.
    sql`select from end_users where id = ${endUserId} for key share`,
    selectLimits(sql, endUserId),
  ])
  return limits
}

/** Whether a spender's calls can neither be refused nor cause a warning. */
export const isFree = (spender: Spender, limits: SpenderLimits): boolean =>
  isUnlimited(
    limits,
    listSubjects(spender).map(({ scope }) => scope),
  )

/**
 * Replaces a reservation with what was used, in the periods in which it was reserved. If 80 % of a limit are used now,
 * writes an audit row, once in each period, but not for shares, of which strangers can have any number. Call it last in
 * a transaction, because of that row; see recordAudit.
 */
export async function settleBudget(
  sql: Sql,
  spender: Spender,
  settlement: Settlement,
  limits: SpenderLimits | Promise<SpenderLimits> = selectLimits(sql, spender.endUserId),
): Promise<{ warnings: BudgetWarning[] }> {
  const [{ general, own }, counters] = await Promise.all([limits, settleCounters(sql, spender, settlement)])
  const warnings: BudgetWarning[] = []
  for (const counter of counters) {
    const { scope, period, warned_at } = counter
    if (isShare(scope)) continue
    const limits = limitsIn(scope, general, own)
    const unit = findNearLimit(limits, period, counter)
    if (!unit || warned_at !== null) continue
    const warning = { scope, period, unit, limit: limits[`${period}_${unit}`] ?? 0, used: counter[unit] }
    await recordWarning(sql, counter, warning)
    warnings.push(warning)
  }
  return { warnings }
}

export interface Settlement {
  reserved: Amount
  used: Amount
  /** When it was reserved. */
  at: Date
}

const nothing: Amount = { tokens: 0, cost_micro_usd: 0 }

interface Counter {
  organization_id: string
  scope: Scope
  subject: string
  period: Period
  starts_on: string
  tokens: number
  cost_micro_usd: number
  warned_at: string | null
}

/** Stands for the subject of counters that aren't of one end user. */
export const noSubject = '00000000-0000-0000-0000-000000000000'

const isShare = (scope: Scope): scope is Share => (shares as readonly Scope[]).includes(scope)

const listSubjects = ({
  endUserId,
  shares = {} as Record<Share, string>,
}: Spender): { scope: Scope; subject: string }[] => [
  endUserId === null ? { scope: 'anonymous', subject: noSubject } : { scope: 'end_user', subject: endUserId },
  { scope: 'organization', subject: noSubject },
  ...Object.entries(shares).map(([scope, subject]) => ({ scope: scope as Share, subject })),
]

/** The keys of the counters that a spender uses: a day of each subject, and a month of those that aren't shares. */
function countersOf(spender: Spender, at: Date) {
  const subjects = listSubjects(spender)
  const day = startOf('day', at)
  const month = startOf('month', at)
  const keys = subjects.flatMap(({ scope, subject }) => {
    const ofDay = { scope, subject, period: 'day', starts_on: day }
    return isShare(scope) ? [ofDay] : [ofDay, { scope, subject, period: 'month', starts_on: month }]
  })
  return {
    keys: JSON.stringify(keys),
    scopes: subjects.map(({ scope }) => scope),
    subjects: subjects.map(({ subject }) => subject),
    day,
    month,
  }
}

/** Returns the counters with everything that is used or reserved. They are always locked in the same order. */
async function addReservation(sql: Sql, spender: Spender, amount: Amount, now: Date): Promise<Counter[]> {
  const { keys } = countersOf(spender, now)
  try {
    return await sql<Counter>`
      insert into budget_periods as kept
        (organization_id, scope, subject, period, starts_on, reserved_tokens, reserved_cost_micro_usd)
      select current_organization(), scope, subject, period, starts_on,
             ${amount.tokens}::bigint, ${amount.cost_micro_usd ?? 0}::bigint
      from jsonb_to_recordset(${keys}) as counter (scope text, subject uuid, period text, starts_on date)
      order by scope, period
      on conflict (organization_id, scope, subject, period, starts_on) do update set
        reserved_tokens = kept.reserved_tokens + excluded.reserved_tokens,
        reserved_cost_micro_usd = kept.reserved_cost_micro_usd + excluded.reserved_cost_micro_usd
      returning organization_id, scope, subject, period, starts_on, tokens + reserved_tokens as tokens,
                cost_micro_usd + reserved_cost_micro_usd as cost_micro_usd, warned_at`
  } catch (error) {
    const isErased = violatedConstraint(error) === 'budget_periods_end_user'
    throw isErased ? notFound('end_user', spender.endUserId ?? '') : error
  }
}

/** Returns the counters with what is used. Those of an end user who was erased in the meantime are gone. */
async function settleCounters(sql: Sql, spender: Spender, { reserved, used, at }: Settlement): Promise<Counter[]> {
  const { scopes, subjects, day, month } = countersOf(spender, at)
  const [, counters] = await Promise.all([
    sql`
      select from budget_periods
      where scope = any(${scopes}) and subject = any(${subjects})
        and (period = 'day' and starts_on = ${day} or period = 'month' and starts_on = ${month})
      order by scope, period for update`,
    sql<Counter>`
      update budget_periods set
        tokens = tokens + ${used.tokens}::bigint,
        cost_micro_usd = cost_micro_usd + ${used.cost_micro_usd ?? 0}::bigint,
        reserved_tokens = greatest(reserved_tokens - ${reserved.tokens}::bigint, 0),
        reserved_cost_micro_usd = greatest(reserved_cost_micro_usd - ${reserved.cost_micro_usd ?? 0}::bigint, 0)
      where scope = any(${scopes}) and subject = any(${subjects})
        and (period = 'day' and starts_on = ${day} or period = 'month' and starts_on = ${month})
      returning organization_id, scope, subject, period, starts_on, tokens, cost_micro_usd, warned_at`,
  ])
  return counters
}

/** If several limits are exceeded, the one that resets last decides when the user can continue. */
function findRefusal(
  counters: readonly (Counter & { limits: Limits })[],
  amount: Amount,
  now: Date,
): BudgetReached | BudgetNeedsPrice | undefined {
  const hasMoneyLimit = counters.some(({ limits, period }) => limits[`${period}_cost_micro_usd`] !== null)
  if (hasMoneyLimit && amount.cost_micro_usd === null) return new BudgetNeedsPrice()
  const reached = counters.flatMap(({ limits, ...counter }) =>
    units.flatMap((unit): Reached[] => {
      const { scope, period } = counter
      const limit = limits[`${period}_${unit}`]
      if (limit === null || counter[unit] <= limit) return []
      const isTooLarge = (amount[unit] ?? 0) > limit
      return [{ scope, unit, period, resets_at: resetOf(period, now), isTooLarge }]
    }),
  )
  const [last] = reached.toSorted(
    (one, other) => Number(other.isTooLarge) - Number(one.isTooLarge) || other.resets_at.localeCompare(one.resets_at),
  )
  return last && new BudgetReached(last)
}

async function recordWarning(sql: Sql, counter: Counter, warning: BudgetWarning): Promise<void> {
  const { organization_id, scope, subject, period, starts_on } = counter
  await sql`
    update budget_periods set warned_at = now()
    where scope = ${scope} and subject = ${subject} and period = ${period} and starts_on = ${starts_on}`
  const target = scope === 'end_user' ? subject : organization_id
  const trail = { organizationId: organization_id, actor: 'agent' }
  await recordAudit(sql, trail, 'budget.nearly_reached', target, { ...warning, starts_on })
}
