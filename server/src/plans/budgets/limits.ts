import type { Sql } from '../../kernel/stores/database.ts'
import type { Period } from './periods.ts'

export const units = ['tokens', 'cost_micro_usd'] as const
export type Unit = (typeof units)[number]

/**
 * Anonymous visitors' usage is also counted for each network address, visitor and publishable key, so that one stranger
 * can't use up the budget of all others.
 */
export const shares = ['address', 'visitor', 'key'] as const
export type Share = (typeof shares)[number]

/** What a budget counts: everything, one end user's usage, that of all anonymous visitors, or a share of the latter. */
export type Scope = 'organization' | 'end_user' | 'anonymous' | Share

/** Null for no limit. */
export type Limits = Record<`${Period}_${Unit}`, number | null>

export interface OrganizationLimits extends Record<Share, Limits> {
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

/** Whether no limit applies in any of these scopes. */
export const isUnlimited = ({ general, own }: SpenderLimits, scopes: readonly Scope[]): boolean =>
  scopes.every((scope) => Object.values(limitsIn(scope, general, own)).every(isNone))

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

/** Anyone can use a publishable key, so visitors have limits until an administrator sets others, or none. */
const defaults: OrganizationLimits = {
  organization: none,
  end_user_default: none,
  anonymous: { ...none, day_tokens: 500_000 },
  // Many people may share an address.
  address: { ...none, day_tokens: 200_000 },
  visitor: { ...none, day_tokens: 100_000 },
  key: none,
}

export async function selectLimits(sql: Sql, endUserId: string | null = null): Promise<SpenderLimits> {
  const rows = await sql<Limits & { scope: keyof OrganizationLimits | 'own' }>`
    select scope, day_tokens, month_tokens, day_cost_micro_usd, month_cost_micro_usd from budgets
    union all
    select 'own', day_tokens, month_tokens, day_cost_micro_usd, month_cost_micro_usd
    from end_user_budgets where end_user_id = ${endUserId}`
  const { own = none, ...saved } = Object.fromEntries(rows.map(({ scope, ...limits }) => [scope, limits]))
  return { general: { ...defaults, ...saved }, own }
}
