import { randomBytes } from 'node:crypto'
import type { Service } from '../../kernel/foundation/service.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { oneTime } from '../../kernel/stores/one-time.ts'
import type { BillingProvider, ProvidedSubscription } from '../subscriptions/billing-provider.ts'

/**
 * A billing provider for development that charges nothing. It keeps one subscription per organization. Its links work
 * once, for anyone who has them; local-billing-pages.ts has the pages.
 */
const periodMs = 30 * 24 * 60 * 60 * 1000

type Parts = Pick<Service, 'kv' | 'clock' | 'config'>

export function createLocalBilling(parts: Parts): BillingProvider {
  const { publicUrl } = parts.config
  return {
    async checkoutUrl({ id: organizationId }, productId) {
      const token = await billingLink.issue(parts.kv, { organization_id: organizationId, product_id: productId })
      return `${publicUrl}/billing/checkout?${new URLSearchParams({ products: productId, customerExternalId: organizationId, token })}`
    },
    async portalUrl({ id }) {
      return `${publicUrl}/billing/portal?token=${await billingLink.issue(parts.kv, { organization_id: id })}`
    },
    async listSubscriptions(organizationId) {
      const subscription = await readSubscription(parts, organizationId)
      return subscription ? [subscription] : []
    },
    // Nothing is sold by the seat or by usage.
    setSeats: async () => undefined,
    reportUsage: undefined,
    planChanges: 'checkout',
    // Its webhooks are sent and received by the same process.
    webhookSecret: randomBytes(32).toString('base64url'),
    close: async () => undefined,
  }
}

/** With a product, a link to the checkout; without one, to the portal. */
interface Link {
  organization_id: string
  product_id?: string
}

export const billingLink = oneTime<Link>('billing-link', 60 * 60)

type LocalSubscription = ProvidedSubscription & { current_period_end: string }

const subscriptionKey = (organizationId: string) => `local-subscription:${organizationId}`

/** Renews or ends the stored subscription if its period has passed. */
export async function readSubscription(
  { kv, clock }: Parts,
  organizationId: string,
): Promise<LocalSubscription | undefined> {
  const stored = await kv.get<LocalSubscription>(subscriptionKey(organizationId))
  if (stored?.status !== 'active') return stored
  const overdueMs = clock() - Date.parse(stored.current_period_end)
  if (overdueMs < 0) return stored
  if (stored.cancel_at) return { ...stored, status: 'canceled', updated_at: stored.cancel_at }
  const end = Date.parse(stored.current_period_end) + (Math.floor(overdueMs / periodMs) + 1) * periodMs
  return { ...stored, current_period_end: iso(end), updated_at: iso(end - periodMs) }
}

/** Buying another product during an active subscription changes its product immediately. */
export async function subscribe(parts: Parts, organizationId: string, productId: string) {
  const now = parts.clock()
  const running = await readSubscription(parts, organizationId)
  const kept = running?.status === 'active' ? running : { id: `local_${newId()}`, created_at: iso(now) }
  const subscription: LocalSubscription = {
    id: kept.id,
    status: 'active',
    product_id: productId,
    customer_id: `local_${organizationId}`,
    seats: null,
    current_period_end: iso(now + periodMs),
    cancel_at: null,
    created_at: kept.created_at,
    updated_at: iso(now),
  }
  await parts.kv.set(subscriptionKey(organizationId), subscription)
}

const changes = {
  cancel: ({ current_period_end }: LocalSubscription) => ({ cancel_at: current_period_end }),
  cancel_now: (_: LocalSubscription, now: string) => ({ status: 'canceled' as const, cancel_at: now }),
  resume: () => ({ cancel_at: null }),
}
type Change = keyof typeof changes

/** An ended subscription can't be changed: buying again creates a new one. */
export async function changeSubscription(parts: Parts, organizationId: string, change: Change): Promise<void> {
  const now = iso(parts.clock())
  const running = await readSubscription(parts, organizationId)
  if (running?.status !== 'active') return
  const changed = { ...running, ...changes[change](running, now), updated_at: now }
  await parts.kv.set(subscriptionKey(organizationId), changed)
}

const iso = (ms: number): string => new Date(ms).toISOString()
