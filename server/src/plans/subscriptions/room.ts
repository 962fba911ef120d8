import { route } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { Billing } from './billing-provider.ts'
import * as contract from './contract.ts'
import * as subscriptions from './subscriptions.ts'
import * as tools from './tools.ts'

export const subscriptionsRoom: Room<Service & Billing> = {
  tags: {
    Subscriptions: 'What an organization pays for, according to the billing provider.',
  },
  routes: [
    route(contract.getSubscription, subscriptions.getSubscription),
    route(contract.getSubscriptionStatus, subscriptions.getSubscriptionStatus),
    route(contract.listProducts, subscriptions.listProducts),
    route(contract.getCheckoutUrl, subscriptions.getCheckoutUrl),
    route(contract.getPortalUrl, subscriptions.getPortalUrl),
    route(contract.syncSubscription, subscriptions.syncSubscription),
  ],
  tools: [tools.getSubscription, tools.getBillingUrl, tools.syncSubscription],
}
