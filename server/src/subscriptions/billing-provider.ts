import type { z } from 'zod'
import type { SubscriptionStatus } from './contract.ts'

/** A billing provider knows an organization's id as the customer's external id. */
export interface BillingProvider {
  checkoutUrl(organizationId: string, productId: string): Promise<string>
  portalUrl(organizationId: string): Promise<string>
  /** Returns all subscriptions in any state, or throws: a partial result would end a subscription that is paid for. */
  listSubscriptions(organizationId: string): Promise<ProvidedSubscription[]>
}

/** Undefined if the operator configured no billing provider. */
export interface Billing {
  billing: BillingProvider | undefined
}

export interface ProvidedSubscription {
  id: string
  status: z.infer<typeof SubscriptionStatus>
  product_id: string
  customer_id: string
  current_period_end: string | null
  cancel_at: string | null
  created_at: string
  updated_at: string
}
