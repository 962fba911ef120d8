import { isDeepStrictEqual } from 'node:util'
import { freePlanId } from '../../kernel/config/plan-file.ts'
import { type OrgCaller, trailOf } from '../../kernel/foundation/caller.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { requestJob } from '../../kernel/jobs/requests.ts'
import { fail, failure, notFound, serviceUnavailable } from '../../kernel/lib/errors.ts'
import { recordAudit, type Trail } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { countSeats, planOfProduct } from '../plans/plans.ts'
import { type Billing, BillingFailed, type BillingProvider, type ProvidedSubscription } from './billing-provider.ts'
import type * as contract from './contract.ts'
import { billingErrors, portalErrors } from './contract.ts'

/** Kinds of jobs. */
export const billingSync = 'billing_sync'
export const billingSeats = 'billing_seats'

/** Subscriptions are read this often, in case a webhook was lost. */
export const readAgainSeconds = 24 * 60 * 60
/** If the provider doesn't store the seats as they were set, they're set again this often. */
const setSeatsAgainSeconds = 10

type Subscription = NonNullable<Output<typeof contract.getSubscription>>

export async function getSubscription(
  { database, config }: Service,
  { organization }: OrgCaller,
): Promise<Output<typeof contract.getSubscription>> {
  const [current] = await database.asOrg(organization.id, (sql) => selectSubscriptions(sql, config.billingGraceDays))
  return current ?? null
}

export async function getSubscriptionStatus(
  { database, config }: Service,
  { organization }: OrgCaller,
): Promise<Output<typeof contract.getSubscriptionStatus>> {
  return database.asOrg(organization.id, async (sql) => {
    const [current] = await selectSubscriptions(sql, config.billingGraceDays)
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
  return {
    products: sold.flatMap(({ id, product_id }) => (product_id ? { product_id, plan_id: id } : [])),
    plan_changes: billing?.planChanges ?? 'checkout',
  }
}

export async function getCheckoutUrl(
  service: Service & Billing,
  { organization }: OrgCaller,
  { product_id }: Input<typeof contract.getCheckoutUrl>,
): Promise<string> {
  const billing = requireBilling(service)
  if (!planOfProduct(service.config.plans, product_id)) throw notFound('product', product_id)
  await limitRequests(service, organization.id)
  const seats = await service.database.asOrg(organization.id, countSeats)
  const url = await billing.checkoutUrl(organization, product_id, seats).catch(explainFailure)
  // Finds the purchase even if the provider's webhook never arrives. Its own job, because another sync may run before.
  const key = `checkout ${Math.floor(service.clock() / checkoutsMs)}`
  await service.database.asOrg(organization.id, (sql) =>
    requestJob(sql, billingSync, { key, due: { inSeconds: readAfterCheckoutSeconds } }),
  )
  return url
}

/** A checkout is usually completed within this time. */
const readAfterCheckoutSeconds = 60 * 60
/** Checkouts of this time are looked for together. */
const checkoutsMs = 10 * 60_000

export async function getPortalUrl(
  service: Service & Billing,
  { organization }: OrgCaller,
): Promise<Output<typeof contract.getPortalUrl>> {
  const billing = requireBilling(service)
  await limitRequests(service, organization.id)
  return billing.portalUrl(organization).catch((error) => {
    const isUnknown = error instanceof BillingFailed && (error.status === 404 || error.status === 422)
    if (isUnknown) throw fail(portalErrors.NO_BILLING_ACCOUNT, 'NO_BILLING_ACCOUNT', {}, { cause: error })
    return explainFailure(error)
  })
}

export async function syncSubscription(
  service: Service & Billing,
  caller: OrgCaller,
): Promise<Output<typeof contract.syncSubscription>> {
  requireBilling(service)
  await limitRequests(service, caller.organization.id)
  return syncFromBillingProvider(service, trailOf(caller)).catch(explainFailure)
}

/**
 * Replaces the stored subscriptions with the provider's, and sets the plan that they pay for. The provider is read
 * before the transaction, so that a failure changes nothing. Of two concurrent syncs, the one that started later wins.
 * A subscription never returns to an earlier state, even if the provider's response is older than the stored one.
 * Requests what follows: other seats, and the next sync.
 */
export async function syncFromBillingProvider(
  service: Pick<Service, 'config' | 'database'> & Billing,
  trail: Trail,
): Promise<Output<typeof contract.syncSubscription>> {
  const billing = requireBilling(service)
  const { plans, billingGraceDays } = service.config
  // The database's time, because the clocks of two nodes may differ.
  const [asked] = await service.database.asService((sql) => sql<{ at: string }>`select clock_timestamp()::text as at`)
  const askedAt = asked?.at ?? ''
  const found = await billing.listSubscriptions(trail.organizationId)
  return service.database.asOrg(trail.organizationId, async (sql) => {
    const [organization] = await sql<{ plan_id: string; was_read: boolean; is_newer: boolean }>`
      select plan_id, billing_read_at is not null as was_read, billing_read_at > ${askedAt}::timestamptz as is_newer
      from organizations where id = current_organization() for no key update`
    const before = await selectSubscriptions(sql, billingGraceDays)
    if (organization?.is_newer) return { synced: 0, deleted: 0 }
    if (before.length + found.length === 0) {
      // An organization that never had a subscription keeps the plan that the operator assigned.
      if (organization?.was_read) await requestNextSync(sql, billingGraceDays)
      return { synced: 0, deleted: 0 }
    }

    for (const subscription of found) {
      const planId = planOfProduct(plans, subscription.product_id)?.id ?? freePlanId
      await upsertSubscription(sql, subscription, planId)
    }
    const gone = await sql`delete from subscriptions where not id = any(${found.map(({ id }) => id)}) returning id`
    const after = await selectSubscriptions(sql, billingGraceDays)
    const [current] = after
    const planId = current && (isActive(current) || (await isInGrace(sql, current))) ? current.plan_id : freePlanId
    const reportsUsage =
      billing.reportUsage !== undefined && !!current && (isActive(current) || current.status === 'past_due')
    await sql`
      update organizations
      set billing_read_at = ${askedAt}::timestamptz, plan_id = ${planId}, reports_usage = ${reportsUsage},
          updated_at = case when plan_id = ${planId} then updated_at else now() end
      where id = current_organization()`
    const counts = { synced: found.length, deleted: gone.length }
    if (planId !== organization?.plan_id || !isDeepStrictEqual(before, after)) {
      await recordAudit(sql, trail, 'subscription.synced', trail.organizationId, { ...counts, plan_id: planId })
    }
    const { subscriptionIds } = await findWrongSeats(sql)
    if (subscriptionIds.length > 0) await requestJob(sql, billingSeats, { due: { inSeconds: setSeatsAgainSeconds } })
    await requestNextSync(sql, billingGraceDays)
    return counts
  })
}

/** The next sync is within a day, and not after a time to pay ends. */
async function requestNextSync(sql: Sql, graceDays: number): Promise<void> {
  const [next] = await sql<{ at: string }>`
    select least(now() + make_interval(secs => ${readAgainSeconds}), min(ends_at))::text as at from (
      select past_due_since + make_interval(days => ${graceDays}) as ends_at from subscriptions where status = 'past_due'
    ) as overdue where ends_at > now()`
  if (next) await requestJob(sql, billingSync, { due: next })
}

/**
 * The subscriptions by the seat that don't pay for as many seats as there are members and open invitations. A
 * subscription that will end can't be changed.
 */
export async function findWrongSeats(sql: Sql): Promise<{ seats: number; subscriptionIds: string[] }> {
  const seats = Math.max(1, await countSeats(sql))
  const wrong = await sql<{ id: string }>`
    select id from subscriptions
    where seats is not null and seats <> ${seats} and status in ('active', 'trialing') and cancel_at is null`
  return { seats, subscriptionIds: wrong.map(({ id }) => id) }
}

/** Whether the billing provider would charge the organization again. Asks the provider, because a webhook may be late. */
export async function hasRenewal({ billing }: Billing, organizationId: string): Promise<boolean> {
  const subscriptions = (await billing?.listSubscriptions(organizationId).catch(explainFailure)) ?? []
  return subscriptions.some(({ status, cancel_at }) => cancel_at === null && !endedStatuses.includes(status))
}

const endedStatuses: readonly ProvidedSubscription['status'][] = ['canceled', 'incomplete', 'incomplete_expired']

const isActive = ({ status }: Pick<ProvidedSubscription, 'status'>): boolean =>
  status === 'active' || status === 'trialing'

/** By the database's time, because the clocks of two nodes may differ. */
async function isInGrace(sql: Sql, { grace_ends_at }: Subscription): Promise<boolean> {
  const [row] = await sql<{ is_in: boolean }>`select ${grace_ends_at}::timestamptz > now() as is_in`
  return row?.is_in ?? false
}

function requireBilling({ billing }: Billing): BillingProvider {
  if (!billing) throw fail(billingErrors.BILLING_NOT_CONFIGURED, 'BILLING_NOT_CONFIGURED')
  return billing
}

const mostRequests = 30
const requestsWithinSeconds = 60

/** The provider limits all organizations together, so one of them must not use up the limit. */
async function limitRequests({ kv }: Service, organizationId: string): Promise<void> {
  const count = await kv.count(`billing-requests:${organizationId}`, requestsWithinSeconds)
  if (count <= mostRequests) return
  throw failure(
    429,
    'TOO_MANY_REQUESTS',
    'Your organization asked the billing provider too often. Try again in a minute.',
    {
      headers: { 'retry-after': String(requestsWithinSeconds) },
    },
  )
}

/** The caller learns whether to wait or to ask the operator. The details are only logged. */
function explainFailure(error: unknown): never {
  if (!(error instanceof BillingFailed)) throw error
  const isTheirs = error.status === undefined || error.status === 429 || error.status >= 500
  throw serviceUnavailable(
    isTheirs
      ? 'The billing provider isn’t available right now. Try again in a minute.'
      : 'The billing provider refused the request. Ask your operator to run: npx inlay doctor',
    error,
  )
}

/** A subscription to a product without a plan is stored with the free plan. */
async function upsertSubscription(sql: Sql, subscription: ProvidedSubscription, planId: string): Promise<void> {
  const { id, status, product_id, customer_id, seats, current_period_end, cancel_at, created_at, updated_at } =
    subscription
  // Never in the future, whatever the provider's clock says.
  const overdue = status === 'past_due' ? updated_at : null
  await sql`
    insert into subscriptions (organization_id, id, status, plan_id, product_id, customer_id, seats,
                               current_period_end, cancel_at, created_at, updated_at, past_due_since)
    values (current_organization(), ${id}, ${status}, ${planId}, ${product_id},
            ${customer_id}, ${seats}, ${current_period_end}, ${cancel_at}, ${created_at}, ${updated_at},
            case when ${overdue}::timestamptz < now() then ${overdue}::timestamptz
                 when ${status} = 'past_due' then now() end)
    on conflict (organization_id, id) do update set
      status = excluded.status, plan_id = excluded.plan_id, product_id = excluded.product_id,
      customer_id = excluded.customer_id, seats = excluded.seats, current_period_end = excluded.current_period_end,
      cancel_at = excluded.cancel_at, created_at = excluded.created_at, updated_at = excluded.updated_at,
      past_due_since = case when excluded.status = 'past_due'
        then coalesce(subscriptions.past_due_since, excluded.past_due_since) end
    where subscriptions.updated_at <= excluded.updated_at`
}

/** Sorted so that the effective subscription comes first: active, then overdue, then the newest. */
const selectSubscriptions = (sql: Sql, graceDays: number) => sql<Subscription>`
  select id, status, plan_id, product_id, customer_id, seats, current_period_end, cancel_at,
    past_due_since + make_interval(days => ${graceDays}) as grace_ends_at, created_at, updated_at
  from subscriptions
  order by status in ('active', 'trialing') desc, status = 'past_due' desc, created_at desc, id desc`
