import { route } from '../foundation/operation.ts'
import type { Room } from '../foundation/room.ts'
import type { Service } from '../foundation/service.ts'
import * as contract from './contract.ts'
import { listThreadRuns } from './trace.ts'

export const runsRoom: Room<Service> = {
  tags: {},
  routes: [route(contract.listThreadRuns, listThreadRuns)],
  tools: [],
}
