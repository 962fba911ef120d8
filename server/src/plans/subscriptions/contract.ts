import { z } from 'zod'
import { operation } from '../../kernel/foundation/operation.ts'
import { Timestamp } from '../../kernel/foundation/shapes.ts'
import { variant } from '../../kernel/lib/errors.ts'

export const SubscriptionStatus = z.enum([
  'incomplete',
  'incomplete_expired',
  'trialing',
  'active',
  'past_due',
  'canceled',
  'unpaid',
  'paused',
])

const Subscription = z
  .strictObject({
    id: z.string().describe('ID of the subscription at the billing provider'),
    status: SubscriptionStatus.describe('Status of the subscription, as reported by the billing provider'),
    plan_id: z.string().describe('ID of the plan that the subscription pays for'),
    product_id: z.string().describe('ID of the product at the billing provider'),
    customer_id: z.string().describe('ID of the customer at the billing provider'),
    seats: z
      .int()
      .nullable()
      .describe('Number of seats that the subscription pays for; null if it isn’t sold by the seat'),
    current_period_end: Timestamp.nullable().describe(
      'When the period that is paid for ends; null if the provider doesn’t say',
    ),
    cancel_at: Timestamp.nullable().describe('When the subscription ends; null if it renews'),
    grace_ends_at: Timestamp.nullable().describe(
      'Until when the organization keeps its plan although a payment failed; null unless the status is `past_due`',
    ),
    created_at: Timestamp.describe('When the subscription was created'),
    updated_at: Timestamp.describe('When the subscription was last changed'),
  })
  .meta({ id: 'Subscription' })

const StatusView = z
  .strictObject({
    has_subscription: z.boolean().describe('Whether the organization has a subscription in any state'),
    is_active: z.boolean().describe('Whether the subscription is `active` or `trialing`'),
    status: z.enum([...SubscriptionStatus.options, 'none']).describe('State of the subscription; `none` without one'),
    plan_id: z
      .string()
      .describe('ID of the plan of the subscription; without one, the plan that the organization is on'),
    current_period_end: Timestamp.nullable().describe(
      'When the period that is paid for ends; null without a subscription, or if the provider doesn’t say',
    ),
    cancel_at: Timestamp.nullable().describe('When the subscription ends; null if it renews'),
  })
  .meta({ id: 'SubscriptionStatus' })

/** A 404, because unlike a 503 it doesn't invite clients to retry. */
export const billingErrors = {
  BILLING_NOT_CONFIGURED: variant(404, 'BILLING_NOT_CONFIGURED', 'This installation has no billing provider'),
}

export const portalErrors = {
  ...billingErrors,
  NO_BILLING_ACCOUNT: variant(
    404,
    'NO_BILLING_ACCOUNT',
    'This organization hasn’t bought anything yet, so it has no billing portal. Choose a plan first.',
  ),
}

const subscriptions = { tag: 'Subscriptions' } as const

export const getSubscription = operation({
  ...subscriptions,
  id: 'getSubscription',
  method: 'get',
  path: '/subscriptions',
  access: 'org',
  summary: 'Get the organization’s subscription',
  description:
    'Returns the full record, or null if the organization has no subscription. If it has several, an active one comes first, then one whose payment is overdue, then the newest.',
  response: Subscription.nullable(),
  errors: [],
  example: {
    response: {
      id: 'sub_EXAMPLE',
      status: 'active',
      plan_id: 'team',
      product_id: 'prod_EXAMPLE',
      customer_id: 'cus_EXAMPLE',
      seats: 1,
      current_period_end: '2026-12-01T00:00:00.000Z',
      cancel_at: null,
      grace_ends_at: '2026-11-14T16:05:12.480Z',
      created_at: '2026-11-02T09:30:00.000Z',
      updated_at: '2026-11-14T16:05:12.480Z',
    },
  },
})

export const getSubscriptionStatus = operation({
  ...subscriptions,
  id: 'getSubscriptionStatus',
  method: 'get',
  path: '/subscriptions/status',
  access: 'org',
  summary: 'Get the subscription status',
  description:
    'Returns a short summary, also for an organization without a subscription. Use it to decide whether to show an upgrade button.',
  response: StatusView,
  errors: [],
  example: {
    response: {
      has_subscription: true,
      is_active: true,
      status: 'active',
      plan_id: 'team',
      current_period_end: '2026-12-01T00:00:00.000Z',
      cancel_at: null,
    },
  },
})

export const listProducts = operation({
  ...subscriptions,
  id: 'listProducts',
  method: 'get',
  path: '/subscriptions/products',
  access: 'org',
  summary: 'List the plans that can be bought',
  description:
    'Returns the plans that the billing provider sells, with the product ID that a checkout needs. The list is empty if this installation has no billing provider.',
  response: z.strictObject({
    products: z
      .array(
        z
          .strictObject({
            product_id: z.string().describe('ID of the product at the billing provider'),
            plan_id: z.string().describe('ID of the plan'),
          })
          .meta({ id: 'Product' }),
      )
      .describe('The products, smallest plan first'),
    plan_changes: z
      .enum(['checkout', 'portal'])
      .describe(
        'Where an organization changes to another plan while it has a subscription that hasn’t ended. Without one, it uses a checkout.',
      ),
  }),
  errors: [],
  example: { response: { products: [{ product_id: 'prod_EXAMPLE', plan_id: 'team' }], plan_changes: 'checkout' } },
})

export const getCheckoutUrl = operation({
  ...subscriptions,
  id: 'getCheckoutUrl',
  method: 'get',
  path: '/subscriptions/checkout',
  access: 'org',
  summary: 'Get a checkout link',
  description:
    'Returns a URL as a JSON string. Redirect the user to it to buy the plan; the URL carries the organization’s ID, so that the purchase is assigned to it. The response is a 404: `RESOURCE_NOT_FOUND` if no plan has this product, `BILLING_NOT_CONFIGURED` if this installation has no billing provider.',
  query: z.strictObject({
    product_id: z.string().min(1).max(200).describe('ID that the plan’s product has at the billing provider'),
  }),
  response: z.url().describe('Carries the organization’s id as `customerExternalId`'),
  errors: ['RESOURCE_NOT_FOUND'],
  ownErrors: billingErrors,
  example: {
    response:
      'https://billing.example.com/checkout?product=prod_EXAMPLE&customerExternalId=019a8c3e-5b70-7c41-9f2e-3d6b8a4c10b2',
  },
})

export const getPortalUrl = operation({
  ...subscriptions,
  id: 'getPortalUrl',
  method: 'get',
  path: '/subscriptions/portal',
  access: 'admin',
  summary: 'Get a link to the billing portal',
  description:
    'Returns a URL as a JSON string. Redirect the user to it to change or cancel the subscription or to see invoices. The response is a 404: `NO_BILLING_ACCOUNT` if the organization hasn’t bought anything yet, `BILLING_NOT_CONFIGURED` if this installation has no billing provider.',
  response: z.url(),
  errors: [],
  ownErrors: portalErrors,
  example: { response: 'https://billing.example.com/portal' },
})

export const syncSubscription = operation({
  ...subscriptions,
  id: 'syncSubscription',
  method: 'post',
  path: '/subscriptions/sync',
  access: 'org',
  summary: 'Sync subscriptions from the billing provider',
  description:
    'Use this if a purchase or a cancellation doesn’t show up. The organization’s plan is updated to match its subscriptions. The response is a 404 with `BILLING_NOT_CONFIGURED` if this installation has no billing provider.',
  response: z.strictObject({
    synced: z.int().describe('Number of subscriptions that the provider has'),
    deleted: z.int().describe('Number of subscriptions that the provider no longer has'),
  }),
  errors: [],
  ownErrors: billingErrors,
  example: { response: { synced: 1, deleted: 0 } },
})
