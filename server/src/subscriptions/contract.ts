import { z } from 'zod'
import { variant } from '../errors.ts'
import { operation } from '../operation.ts'
import { Timestamp } from '../shapes.ts'

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
    id: z.string().describe('The billing provider’s id'),
    status: SubscriptionStatus,
    plan_id: z.string(),
    product_id: z.string().describe('The billing provider’s product'),
    customer_id: z.string().describe('The billing provider’s customer'),
    current_period_end: Timestamp.nullable(),
    cancel_at: Timestamp.nullable(),
    created_at: Timestamp,
    updated_at: Timestamp,
  })
  .meta({ id: 'Subscription' })

const StatusView = z
  .strictObject({
    has_subscription: z.boolean(),
    is_active: z.boolean().describe('True for the states `active` and `trialing`'),
    status: z.enum([...SubscriptionStatus.options, 'none']).describe('`none` without a subscription'),
    plan_id: z.string().describe('Without a subscription: the plan that the organization is on'),
    current_period_end: Timestamp.nullable(),
    cancel_at: Timestamp.nullable(),
  })
  .meta({ id: 'SubscriptionStatus' })

/** 404 is one of the interface's answers here, and unlike 503 it invites nobody to try again. */
export const billingErrors = {
  BILLING_NOT_CONFIGURED: variant(404, 'BILLING_NOT_CONFIGURED', 'This installation has no billing provider'),
}

const subscriptions = { tag: 'Subscriptions' } as const

export const getSubscription = operation({
  ...subscriptions,
  id: 'getSubscription',
  method: 'get',
  path: '/subscriptions',
  access: 'org',
  summary: 'The organization’s subscription, or null',
  description: 'Of several an active one, and of those the newest.',
  response: Subscription.nullable(),
  errors: [],
})

export const getSubscriptionStatus = operation({
  ...subscriptions,
  id: 'getSubscriptionStatus',
  method: 'get',
  path: '/subscriptions/status',
  access: 'org',
  summary: 'Whether the organization has a subscription, and until when',
  response: StatusView,
  errors: [],
})

export const getCheckoutUrl = operation({
  ...subscriptions,
  id: 'getCheckoutUrl',
  method: 'get',
  path: '/subscriptions/checkout',
  access: 'org',
  summary: 'Where to send somebody who wants to buy a plan',
  query: z.strictObject({
    product_id: z.string().min(1).max(200).describe('The billing provider’s product of the plan'),
  }),
  response: z.url().describe('Carries the organization’s id as `customerExternalId`'),
  errors: ['RESOURCE_NOT_FOUND'],
  ownErrors: billingErrors,
})

export const getPortalUrl = operation({
  ...subscriptions,
  id: 'getPortalUrl',
  method: 'get',
  path: '/subscriptions/portal',
  access: 'admin',
  summary: 'Where to change or cancel the subscription',
  response: z.url(),
  errors: [],
  ownErrors: billingErrors,
})

export const syncSubscription = operation({
  ...subscriptions,
  id: 'syncSubscription',
  method: 'post',
  path: '/subscriptions/sync',
  access: 'org',
  summary: 'Read the subscriptions again from the billing provider',
  response: z.strictObject({
    synced: z.int().describe('Subscriptions that the provider has'),
    deleted: z.int().describe('Subscriptions that it no longer has'),
  }),
  errors: [],
  ownErrors: billingErrors,
})
