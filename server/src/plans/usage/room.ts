import { bind } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'

import * as contract from './contract.ts'
import {
  getDailyUsage,
  getEndUserStats,
  getUsageStats,
  listEndUserHistory,
  listEndUserUsage,
  listModelUsage,
  listSiteUsage,
} from './usage.ts'

export const usageRoom: Room<Service> = {
  tags: {
    Usage: 'Requests, tokens and costs per day, per site, per end user and per model.',
  },
  routes: bind(contract, {
    getDailyUsage,
    getUsageStats,
    listSiteUsage,
    listEndUserUsage,
    listModelUsage,
    getEndUserStats,
    listEndUserHistory,
  }),
  tools: [],
}
