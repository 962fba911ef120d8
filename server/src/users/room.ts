import { route } from '../foundation/operation.ts'
import type { Room } from '../foundation/room.ts'
import type { Service } from '../foundation/service.ts'

import * as contract from './contract.ts'
import * as tools from './tools.ts'
import * as users from './users.ts'

export const usersRoom: Room<Service> = {
  tags: {
    Users: 'The signed-in user.',
  },
  routes: [route(contract.getMe, users.getMe)],
  tools: [tools.getProfile],
}
