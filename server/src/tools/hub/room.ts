import { bind } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import * as contract from './contract.ts'
import type { Hub } from './hub.ts'
import { countOpenTabs, listSources, listTools } from './hub.ts'
import * as tools from './tools.ts'

export const hubRoom: Room<Service & { hub: Hub }> = {
  tags: {
    Hub: 'Tools on your open pages.',
  },
  routes: bind(contract, { listSources, listTools, countOpenTabs }),
  tools: [tools.listTools, tools.listSources, tools.callTool],
}
