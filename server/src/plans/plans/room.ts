import { bind } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'

import * as contract from './contract.ts'
import { checkFeature, getPlanInfo, getPlanUsage, listPlans } from './plans.ts'
import * as tools from './tools.ts'

export const plansRoom: Room<Service> = {
  tags: {
    Plans: 'Plans, with their features and limits.',
  },
  routes: bind(contract, { listPlans, getPlanInfo, getPlanUsage, checkFeature }),
  tools: [tools.listPlans, tools.getPlanInfo, tools.checkFeature],
}
