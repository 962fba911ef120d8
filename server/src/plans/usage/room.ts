import { route } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'

import * as contract from './contract.ts'
import * as usage from './usage.ts'

export const usageRoom: Room<Service> = {
  tags: {
    Usage: 'Requests, tokens and costs per day, per site, per end user and per model.',
  },
  routes: [
    route(contract.getDailyUsage, usage.getDailyUsage),
    route(contract.getUsageStats, usage.getUsageStats),
    route(contract.listSiteUsage, usage.listSiteUsage),
    route(contract.listEndUserUsage, usage.listEndUserUsage),
    route(contract.listModelUsage, usage.listModelUsage),
    route(contract.getEndUserStats, usage.getEndUserStats),
    route(contract.listEndUserHistory, usage.listEndUserHistory),
  ],
  tools: [],
}
