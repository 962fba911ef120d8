import { bind } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { AccessCleanup } from '../../organizations/access-cleanup/access-cleanup.ts'
import { carryOverEndUsers, listIssuers } from './carry-over.ts'
import * as contract from './contract.ts'
import { getEndUser, listEndUsers } from './end-users.ts'

export const endUsersRoom: Room<Service & { accessCleanup: AccessCleanup }> = {
  tags: {
    'End users': 'Signed-in users of the pages that embed the widget.',
  },
  routes: bind(contract, { listEndUsers, getEndUser, listIssuers, carryOverEndUsers }),
  tools: [],
}
