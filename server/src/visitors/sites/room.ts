import { bind } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'

import * as contract from './contract.ts'
import { deleteSite, listSites } from './sites.ts'

export const sitesRoom: Room<Service> = {
  tags: {
    Sites: 'Origins that the widget is embedded in.',
  },
  routes: bind(contract, { listSites, deleteSite }),
  tools: [],
}
