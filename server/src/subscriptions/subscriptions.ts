import { isDeepStrictEqual } from 'node:util'
import { freePlanId } from '../config/plan-file.ts'
import { type OrgCaller, trailOf } from '../foundation/caller.ts'
import type { Input, Output } from '../foundation/operation.ts'
import type { Service } from '../foundation/service.ts'
import { fail, notFound } from '../lib/errors.ts'
import { planOfProduct } from '../plans/plans.ts'
import { recordAudit, type Trail } from '../stores/audit/audit.ts'
import type { Sql } from '../stores/database.ts'
import type { Billing, BillingProvider, ProvidedSubscription } from './billing-provider.ts'
import type * as contract from './contract.ts'
import { billingErrors } from './contract.ts'

type Subscription = NonNullable<Output<typeof contract.getSubscription>>

export async function getSubscription(
  { database }: Service,
  { organization }: OrgCaller,
): Promise<Output<typeof contract.getSubscription>> {
  const [current] = await database.asOrg(organization.id, (sql) => selectSubscriptions(sql))
  return current ?? null
}

export async function getSubscriptionStatus(
  { database }: Service,
  { organization }: OrgCaller,
): Promise<Output<typeof contract.getSubscriptionStatus>> {
  return database.asOrg(organization.id, async (sql) => {
    const [current] = await selectSubscriptions(sql)
    if (current) {
      const { status, plan_id, current_period_end, cancel_at } = current
      return { has_subscription: true, is_active: isActive(current), status, plan_id, current_period_end, cancel_at }
    }
    const [row] = await sql<{ plan_id: string }>`select plan_id from organizations where id = current_organization()`
    return {
      has_subscription: false,
      is_active: false,
      status: 'none',
      plan_id: row?.plan_id ?? freePlanId,
      current_period_end: null,
      cancel_at: null,
    }
  })
}

export async function listProducts({
  billing,
  config: { plans },
}: Service & Billing): Promise<Output<typeof contract.listProducts>> {
  const sold = billing ? plans : []
  return { products: sold.flatMap(({ id, product_id }) => (product_id ? { product_id, plan_id: id } : [])) }
}

export async function getCheckoutUrl(
  service: Service & Billing,
  { organization }: OrgCaller,
  { product_id }: Input<typeof contract.getCheckoutUrl>,
): Promise<string> {
  const billing = requireBilling(service)
  if (!planOfProduct(service.config.plans, product_id)) throw notFound('product', product_id)
  return billing.checkoutUrl(organization.id, product_id)
}

export async function getPortalUrl(service: Billing, { organization }: OrgCaller): Promise<string> {
  return requireBilling(service).portalUrl(organization.id)
}

export async function syncSubscription(
  service: Service & Billing,
  caller: OrgCaller,
): Promise<Output<typeof contract.syncSubscription>> {
  return syncFromBillingProvider(service, trailOf(caller))
}

/**
 * Replaces the stored subscriptions with the provider's, and sets the plan that they pay for. The provider is read
 * before the transaction, so that a failure changes nothing. Of two concurrent syncs, the one that started later wins.
 */
export async function syncFromBillingProvider(
  service: Pick<Service, 'clock' | 'config' | 'database'> & Billing,
  trail: Trail,
): Promise<Output<typeof contract.syncSubscription>> {
  const askedAt = new Date(service.clock()).toISOString()
  const found = await requireBilling(service).listSubscriptions(trail.organizationId)
  return service.database.asOrg(trail.organizationId, async (sql) => {
    const [organization] = await sql<{ plan_id: string; is_newer: boolean }>`
      select plan_id, billing_read_at > ${askedAt} as is_newer
      from organizations where id = current_organization() for no key update`
    const before = await selectSubscriptions(sql)
    // An organization that never had a subscription keeps the plan that the operator assigned.
    if (organization?.is_newer || before.length + found.length === 0) return { synced: 0, deleted: 0 }

    for (const subscription of found) {
      const planId = planOfProduct(service.config.plans, subscription.product_id)?.id ?? freePlanId
      await upsertSubscription(sql, subscription, planId)
    }
    const gone = await sql`delete from subscriptions where not id = any(${found.map(({ id }) => id)}) returning id`
    const after = await selectSubscriptions(sql)
    const [current] = after
    const planId = current && isActive(current) ? current.plan_id : freePlanId
    await sql`
      update organizations
      set billing_read_at = ${askedAt}, plan_id = ${planId},
          updated_at = case when plan_id = ${planId} then updated_at else now() end
      where id = current_organization()`
    const counts = { synced: found.length, deleted: gone.length }
    if (planId !== organization?.plan_id || !isDeepStrictEqual(before, after)) {
      await recordAudit(sql, trail, 'subscription.synced', trail.organizationId, { ...counts, plan_id: planId })
    }
    return counts
  })
}

const isActive = ({ status }: Pick<ProvidedSubscription, 'status'>): boolean =>
  status === 'active' || status === 'trialing'

function requireBilling({ billing }: Billing): BillingProvider {
  if (!billing) throw fail(billingErrors.BILLING_NOT_CONFIGURED, 'BILLING_NOT_CONFIGURED')
  return billing
}

/** A subscription to a product without a plan is stored with the free plan. */
async function upsertSubscription(sql: Sql, subscription: ProvidedSubscription, planId: string): Promise<void> {
  const { id, status, product_id, customer_id, current_period_end, cancel_at, created_at, updated_at } = subscription
  await sql`
    insert into subscriptions (organization_id, id, status, plan_id, product_id, customer_id,
                               current_period_end, cancel_at, created_at, updated_at)
    values (current_organization(), ${id}, ${status}, ${planId}, ${product_id},
            ${customer_id}, ${current_period_end}, ${cancel_at}, ${created_at}, ${updated_at})
    on conflict (organization_id, id) do update set
      status = excluded.status, plan_id = excluded.plan_id, product_id = excluded.product_id,
      customer_id = excluded.customer_id, current_period_end = excluded.current_period_end,
      cancel_at = excluded.cancel_at, created_at = excluded.created_at, updated_at = excluded.updated_at`
}

/** Sorted so that the effective subscription comes first: active before ended, then the newest. */
const selectSubscriptions = (sql: Sql) => sql<Subscription>`
  select id, status, plan_id, product_id, customer_id, current_period_end, cancel_at, created_at, updated_at
  from subscriptions order by status in ('active', 'trialing') desc, created_at desc, id desc`
