import type { Service } from '../foundation/service.ts'
import type { BillingProvider } from './billing-provider.ts'
import { createLocalBilling } from './local-billing.ts'

/** Local billing charges nothing, so it is never used in production. */
export const createBilling = (service: Service): BillingProvider | undefined =>
  service.config.mode === 'development' ? createLocalBilling(service) : undefined
