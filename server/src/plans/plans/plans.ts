import { freePlanId, type Plan } from '../../kernel/config/plan-file.ts'
import type { OrgCaller } from '../../kernel/foundation/caller.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { paymentRequired } from '../../kernel/lib/errors.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import type * as contract from './contract.ts'

/** The plans that the installation is configured with. */
type Plans = readonly Plan[]

/** Falls back to the free plan if the organization's plan was removed from the file. */
function planOf(plans: Plans, id: string): Plan {
  const plan = plans.find((one) => one.id === id) ?? plans.find((one) => one.id === freePlanId)
  if (!plan) throw new Error('The plans were not loaded')
  return plan
}

export const planOfProduct = (plans: Plans, productId: string): Plan | undefined =>
  plans.find(({ product_id }) => product_id === productId)

export async function listPlans({ config: { plans } }: Service): Promise<Output<typeof contract.listPlans>> {
  const described = plans.map(({ product_id, ...plan }) => ({
    ...plan,
    // A plan without usage always has seats and end users available.
    features: { ...plan.features, end_users: true, seats: true },
  }))
  return { plans: described, count: described.length }
}

export async function getPlanInfo(
  { database, config }: Service,
  { organization }: OrgCaller,
  { include }: Input<typeof contract.getPlanInfo>,
): Promise<Output<typeof contract.getPlanInfo>> {
  const [plan, seats, endUsers] = await database.asOrg(organization.id, (sql) =>
    Promise.all([currentPlan(config.plans, sql), countUsed(sql, 'seats'), countUsed(sql, 'end_users')]),
  )
  const { id, name, description, limits } = plan
  const features = {
    ...plan.features,
    end_users: whyBeyondPlan(plan, 'end_users', endUsers) === null,
    seats: whyBeyondPlan(plan, 'seats', seats) === null,
  }
  return {
    plan: { id, name, description },
    ...((include === 'features' || include === 'all') && { features }),
    ...(include !== 'basic' && { limits }),
    ...((include === 'usage' || include === 'all') && { usage: { seats_used: seats, end_users_used: endUsers } }),
  }
}

export async function getPlanUsage(
  { database }: Service,
  { organization }: OrgCaller,
): Promise<Output<typeof contract.getPlanUsage>> {
  return database.asOrg(organization.id, async (sql) => {
    const [seats, end_users, sites, skills] = await Promise.all([
      countUsed(sql, 'seats'),
      countUsed(sql, 'end_users'),
      countUsed(sql, 'sites'),
      countUsed(sql, 'skills'),
    ])
    return { seats, end_users, sites, skills }
  })
}

export async function checkFeature(
  { database, config: { plans } }: Service,
  { organization }: OrgCaller,
  { feature, current_usage }: Input<typeof contract.checkFeature>,
): Promise<Output<typeof contract.checkFeature>> {
  const reason = await database.asOrg(organization.id, async (sql) => {
    if (feature !== 'seats' && feature !== 'end_users') return missingFeature(plans, sql, feature)
    return whyBeyondPlan(await currentPlan(plans, sql), feature, current_usage ?? (await countUsed(sql, feature)))
  })
  return { feature, allowed: reason === null, reason }
}

type Feature = keyof Plan['features']

const featureNames: Record<Feature, string> = {
  sso: 'single sign-on',
  scim: 'directories',
  audit_logs: 'audit logs',
  custom_domains: 'custom domains',
}

/** Why the organization's plan doesn't include a feature; null if it does. */
export async function missingFeature(plans: Plans, sql: Sql, feature: Feature): Promise<string | null> {
  const plan = await currentPlan(plans, sql)
  return plan.features[feature] ? null : `The ${plan.name} plan does not include ${featureNames[feature]}`
}

/** For writes only: resources that were created under another plan stay readable. */
export async function requireFeature(plans: Plans, sql: Sql, feature: Feature): Promise<void> {
  const reason = await missingFeature(plans, sql, feature)
  if (reason) throw paymentRequired(reason)
}

type Limit = keyof Plan['limits']

const limitNames: Record<Limit, [one: string, many: string]> = {
  seats: ['seat', 'seats'],
  end_users: ['end user', 'end users'],
  sites: ['site', 'sites'],
  skills: ['skill', 'skills'],
}

/** Why one more would exceed the limit; null if it fits. */
function whyBeyondPlan({ limits }: Plan, limit: Limit, used: number): string | null {
  const allowed = limits[limit]
  if (allowed === 0 || used < allowed) return null
  return allowed === 1
    ? `Your plan includes 1 ${limitNames[limit][0]}, and it’s in use`
    : `Your plan includes ${allowed} ${limitNames[limit][1]}, and all are in use`
}

/**
 * Rejects an insert that exceeds a limit of the plan. Call it after the insert, in the same transaction: the lock
 * serializes concurrent inserts, so that they can't exceed the limit together.
 */
export async function requireWithinPlan(plans: Plans, sql: Sql, limit: Limit): Promise<void> {
  const [organization] = await sql<{ plan_id: string }>`
    select plan_id from organizations where id = current_organization() for no key update`
  const plan = planOf(plans, organization?.plan_id ?? '')
  if (plan.limits[limit] === 0) return
  const reason = whyBeyondPlan(plan, limit, (await countUsed(sql, limit)) - 1)
  if (reason) throw paymentRequired(reason)
}

/**
 * How many more fit into the plan, and what to tell the user about the rest. Call it in a transaction that has locked
 * the organization.
 */
export async function leftInPlan(plans: Plans, sql: Sql, limit: Limit): Promise<{ left: number; problem: string }> {
  const plan = await currentPlan(plans, sql)
  const allowed = plan.limits[limit]
  const problem = whyBeyondPlan(plan, limit, allowed) ?? ''
  return { left: allowed === 0 ? Number.POSITIVE_INFINITY : allowed - (await countUsed(sql, limit)), problem }
}

async function currentPlan(plans: Plans, sql: Sql): Promise<Plan> {
  const [organization] = await sql<{ plan_id: string }>`
    select plan_id from organizations where id = current_organization()`
  return planOf(plans, organization?.plan_id ?? '')
}

const selectUsed: Record<Limit, (sql: Sql) => Promise<{ used: number }[]>> = {
  // Names the organization as selectMembers does.
  seats: (sql) => sql`
    select (select count(*) from members
            where organization_id = (select current_organization()) and deactivated_at is null)
         + (select count(*) from invitations where organization_id = (select current_organization())) as used`,
  // Counts only previews, which are few: an index has them, and the kept total has all.
  end_users: (sql) => sql`
    select coalesce(sum(items), 0) - (
             select count(*) from end_users where preview_user_id is not null and merged_into is null) as used
    from list_totals where list = 'end_users'`,
  sites: (sql) => sql`select count(*) as used from sites where is_allowed`,
  skills: (sql) => sql`select count(*) as used from organization_skills where archived_at is null`,
}

export const countSeats = (sql: Sql): Promise<number> => countUsed(sql, 'seats')

async function countUsed(sql: Sql, limit: Limit): Promise<number> {
  const [row] = await selectUsed[limit](sql)
  return row?.used ?? 0
}
