import { z } from 'zod'
import type { Service } from '../../kernel/foundation/service.ts'
import { tool } from '../../kernel/foundation/tool.ts'
import { accessDenied } from '../../kernel/lib/errors.ts'
import type { Billing } from './billing-provider.ts'
import * as contract from './contract.ts'
import * as subscriptions from './subscriptions.ts'

const StatusView = contract.getSubscriptionStatus.response
const { shape } = contract.getSubscription.response.unwrap()

/** The full record; without a subscription, everything except the plan is null. */
const FullView = z.strictObject({
  ...shape,
  id: shape.id.nullable(),
  status: StatusView.shape.status,
  product_id: shape.product_id.nullable(),
  customer_id: shape.customer_id.nullable(),
  created_at: shape.created_at.nullable(),
  updated_at: shape.updated_at.nullable(),
})

const empty = {
  grace_ends_at: null,
  id: null,
  product_id: null,
  customer_id: null,
  seats: null,
  created_at: null,
  updated_at: null,
}

export const getSubscription = tool({
  name: 'get_subscription',
  title: 'Get the subscription',
  description:
    'Get the current organization’s subscription. `active_check` returns only whether a subscription is active, `status` adds the plan and when it ends, and `full` returns the billing provider’s record, with nulls if the organization has no subscription.',
  access: 'org',
  input: z.strictObject({ detail: z.enum(['active_check', 'status', 'full']).default('status') }),
  output: z.union([StatusView.pick({ is_active: true }), StatusView, FullView]),
  annotations: { readOnlyHint: true, idempotentHint: true, openWorldHint: false },
  async handler(service, caller, { detail }) {
    const record = detail === 'full' ? await subscriptions.getSubscription(service, caller) : null
    if (record) return record
    const view = await subscriptions.getSubscriptionStatus(service, caller)
    const { has_subscription, is_active, ...known } = view
    return { active_check: { is_active }, status: view, full: { ...empty, ...known } }[detail]
  },
})

export const getBillingUrl = tool({
  name: 'get_billing_url',
  title: 'Get a billing link',
  description:
    'Get a billing link for the user to open in a browser: `checkout` to buy the plan of a `product_id`, or `portal` (admins only) to change or cancel the subscription. Getting the link charges nothing; the user pays on the page.',
  access: 'org',
  input: z
    .strictObject({
      type: z.enum(['checkout', 'portal']),
      product_id: contract.getCheckoutUrl.query.shape.product_id.optional().describe('Required for checkout'),
    })
    .refine(({ type, product_id }) => type === 'portal' || product_id !== undefined, {
      path: ['product_id'],
      error: 'Required for checkout',
    }),
  output: z.strictObject({ url_type: z.enum(['checkout', 'portal']), url: z.url() }),
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: true },
  async handler(service: Service & Billing, caller, { type, product_id = '' }) {
    if (type === 'checkout') {
      return { url_type: type, url: await subscriptions.getCheckoutUrl(service, caller, { product_id }) }
    }
    // The link lets its holder cancel, so it needs the admin role, as over REST.
    if (caller.role !== 'admin') throw accessDenied('This needs the admin role')
    return { url_type: type, url: await subscriptions.getPortalUrl(service, caller) }
  },
})

export const syncSubscription = tool({
  name: 'sync_subscription',
  title: 'Sync the subscription',
  description:
    'Read the current organization’s subscriptions again from the billing provider. Use it when a payment or cancellation doesn’t show in the plan yet.',
  access: 'org',
  input: z.strictObject({}),
  output: contract.syncSubscription.response,
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: true, openWorldHint: true },
  handler: subscriptions.syncSubscription,
})
