import type { Service } from '../../kernel/foundation/service.ts'
import type { BillingProvider } from '../subscriptions/billing-provider.ts'
import { createLocalBilling } from './local-billing.ts'

/** Local billing charges nothing, so it is never used in production. */
export async function createBilling(service: Service): Promise<BillingProvider | undefined> {
  const { mode, polar, publicUrl, allowedPrivateNetworks } = service.config
  if (polar) {
    // Only loaded if it is used, because the SDK takes a while.
    const { createPolarBilling } = await import('./polar-billing.ts')
    return createPolarBilling({ polar, publicUrl, allowedPrivateNetworks })
  }
  return mode === 'development' ? createLocalBilling(service) : undefined
}
