import { bind } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import * as contract from './contract.ts'
import { listThreadRuns } from './trace.ts'

export const runsRoom: Room<Service> = {
  tags: {},
  routes: bind(contract, { listThreadRuns }),
  tools: [],
}
