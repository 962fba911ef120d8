import { route } from '../foundation/operation.ts'
import type { Room } from '../foundation/room.ts'
import type { Service } from '../foundation/service.ts'

import * as access from './access.ts'
import * as contract from './contract.ts'

export const accessRoom: Room<Service> = {
  tags: {},
  routes: [route(contract.logout, access.logout)],
  tools: [],
}
