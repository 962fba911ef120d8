import type { Service } from '../foundation/service.ts'
import type { BillingProvider } from './billing-provider.ts'
import { createLocalBilling } from './local-billing.ts'

/** Undefined in production, where the provider that takes no money must not be. */
export const createBilling = (service: Service): BillingProvider | undefined =>
  service.config.mode === 'development' ? createLocalBilling(service) : undefined
