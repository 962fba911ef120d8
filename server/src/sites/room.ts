import { route } from '../foundation/operation.ts'
import type { Room } from '../foundation/room.ts'
import type { Service } from '../foundation/service.ts'

import * as contract from './contract.ts'
import * as sites from './sites.ts'

export const sitesRoom: Room<Service> = {
  tags: {
    Sites: 'Origins that the widget is embedded in.',
  },
  routes: [route(contract.listSites, sites.listSites), route(contract.deleteSite, sites.deleteSite)],
  tools: [],
}
