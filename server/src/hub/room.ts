import { route } from '../foundation/operation.ts'
import type { Room } from '../foundation/room.ts'
import type { Service } from '../foundation/service.ts'
import * as contract from './contract.ts'
import type { Hub } from './hub.ts'
import * as hub from './hub.ts'
import * as tools from './tools.ts'

export const hubRoom: Room<Service & { hub: Hub }> = {
  tags: {
    Hub: 'Tools on your open pages.',
  },
  routes: [
    route(contract.listSources, hub.listSources),
    route(contract.listTools, hub.listTools),
    route(contract.countOpenTabs, hub.countOpenTabs),
  ],
  tools: [tools.listTools, tools.listSources, tools.callTool],
}
