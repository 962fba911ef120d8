import { isDeepStrictEqual } from 'node:util'
import { type OrgCaller, trailOf } from '../../kernel/foundation/caller.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { notFound } from '../../kernel/lib/errors.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import type * as contract from './contract.ts'
import { findNearLimit, type Limits, limitsIn, type OrganizationLimits, type Scope, selectLimits } from './limits.ts'
import { type Period, resetOf, startOf } from './periods.ts'
import { noSubject } from './reservations.ts'

type Budgets = Output<typeof contract.getBudgets>
type EndUserBudget = Output<typeof contract.getEndUserBudget>
type PeriodState = EndUserBudget['state']['day']

export async function getBudgets({ database, clock }: Service, { organization }: OrgCaller): Promise<Budgets> {
  const now = new Date(clock())
  return database.asOrg(organization.id, async (sql) => describeBudgets(sql, (await selectLimits(sql)).general, now))
}

export async function updateBudgets(
  { database, clock }: Service,
  caller: OrgCaller,
  changes: Input<typeof contract.updateBudgets>,
): Promise<Budgets> {
  const { id } = caller.organization
  const now = new Date(clock())
  const { anonymous_shares: shares = {} } = changes
  return database.asOrg(id, async (sql) => {
    // Locks the organization, because a budget has no row before its first change.
    await sql`select from organizations where id = current_organization() for no key update`
    const { general: before } = await selectLimits(sql)
    const after = {
      organization: changeLimits(before.organization, changes.organization),
      end_user_default: changeLimits(before.end_user_default, changes.end_user_default),
      anonymous: changeLimits(before.anonymous, changes.anonymous),
      address: changeLimits(before.address, { day_tokens: shares.day_tokens_per_address }),
      visitor: changeLimits(before.visitor, { day_tokens: shares.day_tokens_per_visitor }),
      key: changeLimits(before.key, { day_tokens: shares.day_tokens_per_key }),
    }
    const budgets = await describeBudgets(sql, after, now)
    if (isDeepStrictEqual(after, before)) return budgets
    await saveLimits(sql, after)
    await recordAudit(sql, trailOf(caller), 'budgets.updated', id, changes)
    return budgets
  })
}

export async function getEndUserBudget(
  { database, clock }: Service,
  { organization }: OrgCaller,
  { id }: Input<typeof contract.getEndUserBudget>,
): Promise<EndUserBudget> {
  const now = new Date(clock())
  return database.asOrg(organization.id, async (sql) => {
    const [known] = await sql`select from end_users where id = ${id}`
    if (!known) throw notFound('end_user', id)
    const { general, own } = await selectLimits(sql, id)
    return describeEndUserBudget(sql, id, general, own, now)
  })
}

export async function updateEndUserBudget(
  { database, clock }: Service,
  caller: OrgCaller,
  { id, ...changes }: Input<typeof contract.updateEndUserBudget>,
): Promise<EndUserBudget> {
  const now = new Date(clock())
  return database.asOrg(caller.organization.id, async (sql) => {
    const [known] = await sql`select from end_users where id = ${id} for no key update`
    if (!known) throw notFound('end_user', id)
    const { general, own: before } = await selectLimits(sql, id)
    const after = changeLimits(before, changes)
    const budget = await describeEndUserBudget(sql, id, general, after, now)
    if (isDeepStrictEqual(after, before)) return budget
    await saveEndUserLimits(sql, id, after)
    await recordAudit(sql, trailOf(caller), 'end_user_budget.updated', id, changes)
    return budget
  })
}

type Changes = Omit<Input<typeof contract.updateEndUserBudget>, 'id'>

/** Limits that aren't in the changes stay as they are. */
function changeLimits(before: Limits, changes: Changes = {}): Limits {
  const { day_tokens = before.day_tokens, month_tokens = before.month_tokens } = changes
  const { day_cost_micro_usd = before.day_cost_micro_usd, month_cost_micro_usd = before.month_cost_micro_usd } = changes
  return { day_tokens, month_tokens, day_cost_micro_usd, month_cost_micro_usd }
}

async function describeBudgets(sql: Sql, limits: OrganizationLimits, now: Date): Promise<Budgets> {
  const counters = await selectCounters(sql, null, now)
  const state = (scope: 'organization' | 'anonymous') => describeState(counters, scope, limits[scope], now)
  const { organization, end_user_default, anonymous, address, visitor, key } = limits
  return {
    organization,
    end_user_default,
    anonymous,
    anonymous_shares: {
      day_tokens_per_address: address.day_tokens,
      day_tokens_per_visitor: visitor.day_tokens,
      day_tokens_per_key: key.day_tokens,
    },
    state: { organization: state('organization'), anonymous: state('anonymous') },
  }
}

async function describeEndUserBudget(
  sql: Sql,
  endUserId: string,
  general: OrganizationLimits,
  own: Limits,
  now: Date,
): Promise<EndUserBudget> {
  const effective = limitsIn('end_user', general, own)
  const counters = await selectCounters(sql, endUserId, now)
  return { ...own, effective, state: describeState(counters, 'end_user', effective, now) }
}

interface Counter {
  scope: Scope
  period: Period
  tokens: number
  cost_micro_usd: number
  reserved_tokens: number
  reserved_cost_micro_usd: number
}

/** The current counters of an end user, or those of the organization and its anonymous visitors. */
const selectCounters = (sql: Sql, endUserId: string | null, now: Date) => sql<Counter>`
  select scope, period, tokens, cost_micro_usd, reserved_tokens, reserved_cost_micro_usd from budget_periods
  where scope = any(${endUserId === null ? ['organization', 'anonymous'] : ['end_user']})
    and subject = ${endUserId ?? noSubject}
    and (period = 'day' and starts_on = ${startOf('day', now)} or period = 'month' and starts_on = ${startOf('month', now)})`

function describeState(counters: readonly Counter[], scope: Scope, limits: Limits, now: Date): EndUserBudget['state'] {
  const describe = (period: Period): PeriodState => {
    const counter = counters.find((each) => each.scope === scope && each.period === period)
    const used = { tokens: counter?.tokens ?? 0, cost_micro_usd: counter?.cost_micro_usd ?? 0 }
    return {
      starts_on: startOf(period, now),
      resets_at: resetOf(period, now),
      used_tokens: used.tokens,
      reserved_tokens: counter?.reserved_tokens ?? 0,
      used_cost_micro_usd: used.cost_micro_usd,
      reserved_cost_micro_usd: counter?.reserved_cost_micro_usd ?? 0,
      is_nearly_reached: findNearLimit(limits, period, used) !== undefined,
    }
  }
  return { day: describe('day'), month: describe('month') }
}

async function saveLimits(sql: Sql, limits: OrganizationLimits): Promise<void> {
  for (const [scope, { day_tokens, month_tokens, day_cost_micro_usd, month_cost_micro_usd }] of Object.entries(
    limits,
  )) {
    await sql`
      insert into budgets (organization_id, scope, day_tokens, month_tokens, day_cost_micro_usd, month_cost_micro_usd)
      values (current_organization(), ${scope}, ${day_tokens}, ${month_tokens}, ${day_cost_micro_usd},
              ${month_cost_micro_usd})
      on conflict (organization_id, scope) do update set
        day_tokens = excluded.day_tokens, month_tokens = excluded.month_tokens,
        day_cost_micro_usd = excluded.day_cost_micro_usd, month_cost_micro_usd = excluded.month_cost_micro_usd`
  }
}

const saveEndUserLimits = (
  sql: Sql,
  endUserId: string,
  { day_tokens, month_tokens, day_cost_micro_usd, month_cost_micro_usd }: Limits,
) => sql`
  insert into end_user_budgets
    (organization_id, end_user_id, day_tokens, month_tokens, day_cost_micro_usd, month_cost_micro_usd)
  values (current_organization(), ${endUserId}, ${day_tokens}, ${month_tokens}, ${day_cost_micro_usd},
          ${month_cost_micro_usd})
  on conflict (organization_id, end_user_id) do update set
    day_tokens = excluded.day_tokens, month_tokens = excluded.month_tokens,
    day_cost_micro_usd = excluded.day_cost_micro_usd, month_cost_micro_usd = excluded.month_cost_micro_usd`
