import type { z } from 'zod'
import type { SubscriptionStatus } from './contract.ts'

/** What a billing provider does for us. The organization's id is the customer's external id there. */
export interface BillingProvider {
  checkoutUrl(organizationId: string, productId: string): Promise<string>
  portalUrl(organizationId: string): Promise<string>
  /** All of them, whatever their state, or an error: half an answer would end a subscription that is paid for. */
  listSubscriptions(organizationId: string): Promise<ProvidedSubscription[]>
}

/** Undefined where the operator configured none. */
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
