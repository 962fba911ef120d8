import { route } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'

import * as contract from './contract.ts'
import * as plans from './plans.ts'
import * as tools from './tools.ts'

export const plansRoom: Room<Service> = {
  tags: {
    Plans: 'Plans, with their features and limits.',
  },
  routes: [
    route(contract.listPlans, plans.listPlans),
    route(contract.getPlanInfo, plans.getPlanInfo),
    route(contract.getPlanUsage, plans.getPlanUsage),
    route(contract.checkFeature, plans.checkFeature),
  ],
  tools: [tools.listPlans, tools.getPlanInfo, tools.checkFeature],
}
