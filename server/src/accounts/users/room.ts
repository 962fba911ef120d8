import { bind } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'

import * as contract from './contract.ts'
import * as tools from './tools.ts'
import { getMe } from './users.ts'

export const usersRoom: Room<Service> = {
  tags: {
    Users: 'The signed-in user.',
  },
  routes: bind(contract, { getMe }),
  tools: [tools.getProfile],
}
