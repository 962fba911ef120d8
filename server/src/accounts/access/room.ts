import { route } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'

import * as access from './access.ts'
import * as contract from './contract.ts'

export const accessRoom: Room<Service> = {
  tags: {},
  routes: [route(contract.logout, access.logout)],
  tools: [],
}
