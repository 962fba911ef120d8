import type { z } from 'zod'
import type { SubscriptionStatus } from './contract.ts'

/** A billing provider knows an organization's id as the customer's external id. */
export interface BillingProvider {
  /** The number of seats counts for products that are sold by the seat. */
  checkoutUrl(organization: Customer, productId: string, seats: number): Promise<string>
  portalUrl(organization: Customer): Promise<string>
  /** Returns all subscriptions in any state, or throws: a partial result would end a subscription that is paid for. */
  listSubscriptions(organizationId: string): Promise<ProvidedSubscription[]>
  /** Sets the number of seats that a subscription by the seat pays for. */
  setSeats(subscriptionId: string, seats: number): Promise<void>
  /** Undefined if the provider doesn't bill by usage. It must ignore an event whose id it already has. */
  reportUsage: ((events: readonly ReportedUsage[]) => Promise<void>) | undefined
  /** Where an organization changes to another plan while it has a subscription that hasn't ended. */
  planChanges: 'checkout' | 'portal'
  /** Signs the webhooks that the provider sends. */
  webhookSecret: string
  close(): Promise<void>
}

/** Undefined if the operator configured no billing provider. */
export interface Billing {
  billing: BillingProvider | undefined
}

export interface Customer {
  id: string
  slug: string
}

export interface ProvidedSubscription {
  id: string
  status: z.infer<typeof SubscriptionStatus>
  product_id: string
  customer_id: string
  /** Null if the subscription isn't sold by the seat. */
  seats: number | null
  current_period_end: string | null
  cancel_at: string | null
  created_at: string
  updated_at: string
}

/** One model call. */
export interface ReportedUsage {
  id: string
  organization_id: string
  model: string
  prompt_tokens: number
  completion_tokens: number
  /** Null if the model has no price. */
  cost_micro_usd: number | null
  created_at: string
}

/** Why the billing provider didn't do what it was asked for. */
export class BillingFailed extends Error {
  override readonly name = 'BillingFailed'
  /** The status of its response. Undefined if there was none. */
  readonly status: number | undefined
  /** When the provider allows the next request. */
  readonly retryAfterSeconds: number | undefined

  constructor(
    message: string,
    options: ErrorOptions & { status?: number; retryAfterSeconds?: number | undefined } = {},
  ) {
    super(message, options)
    this.status = options.status
    this.retryAfterSeconds = options.retryAfterSeconds
  }

  /** The provider understood the request and refuses it, so the same request won't succeed later. */
  get isRefusal(): boolean {
    return this.status !== undefined && [400, 402, 403, 404, 409, 410, 413, 422].includes(this.status)
  }
}
