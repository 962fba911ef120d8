import { route } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'

import * as contract from './contract.ts'
import * as governance from './governance-provider.ts'
import * as tools from './tools.ts'

export const governanceRoom: Room<Service> = {
  tags: {
    Governance: 'The provider that allows or blocks tool calls.',
  },
  routes: [
    route(contract.getGovernanceProvider, governance.getGovernanceProvider),
    route(contract.updateGovernanceProvider, governance.updateGovernanceProvider),
    route(contract.clearGovernanceProvider, governance.clearGovernanceProvider),
    route(contract.testInterceptor, governance.testInterceptor),
  ],
  tools: [tools.manageGovernanceProvider, tools.testGovernanceProvider],
}
