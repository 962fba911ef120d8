import { route } from '../foundation/operation.ts'
import type { Room } from '../foundation/room.ts'
import type { Service } from '../foundation/service.ts'
import type { Billing } from '../subscriptions/billing-provider.ts'
import * as contract from './contract.ts'
import * as erasures from './erasures.ts'

export const erasuresRoom: Room<Service & Billing & { erasures: erasures.Erasures }> = {
  tags: {},
  routes: [
    route(contract.deleteOrganization, erasures.deleteOrganization),
    route(contract.getOrganizationErasure, erasures.getOrganizationErasure),
  ],
  tools: [],
}
