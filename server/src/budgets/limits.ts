import type { Sql } from '../stores/database.ts'
import type { Period } from './periods.ts'

export const units = ['tokens', 'cost_micro_usd'] as const
export type Unit = (typeof units)[number]

/** What a budget counts: everything, one end user's usage, or that of all anonymous visitors. */
export type Scope = 'organization' | 'end_user' | 'anonymous'

/** Null for no limit. */
export type Limits = Record<`${Period}_${Unit}`, number | null>

export interface OrganizationLimits {
  organization: Limits
  /** For each end user without limits of their own. */
  end_user_default: Limits
  anonymous: Limits
}

/** The organization's limits, and those of an end user. */
export interface SpenderLimits {
  general: OrganizationLimits
  own: Limits
}

/** Whether no limit applies to anyone who uses a budget of this scope, and the organization's. */
export const isUnlimited = ({ general, own }: SpenderLimits, scope: Scope): boolean =>
  [scope, 'organization' as const].every((each) => Object.values(limitsIn(each, general, own)).every(isNone))

const isNone = (limit: number | null): boolean => limit === null

/** The limits that apply in a scope. `own` are those of the end user. */
export function limitsIn(scope: Scope, general: OrganizationLimits, own: Limits): Limits {
  if (scope !== 'end_user') return general[scope]
  const { end_user_default } = general
  return {
    day_tokens: own.day_tokens ?? end_user_default.day_tokens,
    month_tokens: own.month_tokens ?? end_user_default.month_tokens,
    day_cost_micro_usd: own.day_cost_micro_usd ?? end_user_default.day_cost_micro_usd,
    month_cost_micro_usd: own.month_cost_micro_usd ?? end_user_default.month_cost_micro_usd,
  }
}

/** Administrators are warned when this share of a limit is used. */
const warningShare = 0.8

/** The first limit of a period that is nearly reached. */
export const findNearLimit = (limits: Limits, period: Period, used: Record<Unit, number>): Unit | undefined =>
  units.find((unit) => {
    const limit = limits[`${period}_${unit}`]
    return limit !== null && used[unit] >= limit * warningShare
  })

const none: Limits = { day_tokens: null, month_tokens: null, day_cost_micro_usd: null, month_cost_micro_usd: null }

/** Anyone can use a publishable key, so visitors have a limit until an administrator sets another, or none. */
const anonymousDefault: Limits = { ...none, day_tokens: 500_000 }

export async function selectLimits(sql: Sql, endUserId: string | null = null): Promise<SpenderLimits> {
  const rows = await sql<Limits & { scope: keyof OrganizationLimits | 'own' }>`
    select scope, day_tokens, month_tokens, day_cost_micro_usd, month_cost_micro_usd from budgets
    union all
    select 'own', day_tokens, month_tokens, day_cost_micro_usd, month_cost_micro_usd
    from end_user_budgets where end_user_id = ${endUserId}`
  const found = Object.fromEntries(rows.map(({ scope, ...limits }) => [scope, limits]))
  const { organization = none, end_user_default = none, anonymous = anonymousDefault, own = none } = found
  return { general: { organization, end_user_default, anonymous }, own }
}
