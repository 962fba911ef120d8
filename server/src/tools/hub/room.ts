import { route } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'
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
