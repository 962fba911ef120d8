import { bind } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { Billing } from './billing-provider.ts'
import * as contract from './contract.ts'
import {
  getCheckoutUrl,
  getPortalUrl,
  getSubscription,
  getSubscriptionStatus,
  listProducts,
  syncSubscription,
} from './subscriptions.ts'
import * as tools from './tools.ts'

export const subscriptionsRoom: Room<Service & Billing> = {
  tags: {
    Subscriptions: 'What an organization pays for, according to the billing provider.',
  },
  routes: bind(contract, {
    getSubscription,
    getSubscriptionStatus,
    listProducts,
    getCheckoutUrl,
    getPortalUrl,
    syncSubscription,
  }),
  tools: [tools.getSubscription, tools.getBillingUrl, tools.syncSubscription],
}
