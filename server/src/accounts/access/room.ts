import { bind } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'

import { logout } from './access.ts'
import * as contract from './contract.ts'

export const accessRoom: Room<Service> = {
  tags: {},
  routes: bind(contract, { logout }),
  tools: [],
}
