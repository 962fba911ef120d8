import { bind } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'

import * as contract from './contract.ts'
import {
  clearGovernanceProvider,
  getGovernanceProvider,
  testInterceptor,
  updateGovernanceProvider,
} from './governance-provider.ts'
import * as tools from './tools.ts'

export const governanceRoom: Room<Service> = {
  tags: {
    Governance: 'The provider that allows or blocks tool calls.',
  },
  routes: bind(contract, { getGovernanceProvider, updateGovernanceProvider, clearGovernanceProvider, testInterceptor }),
  tools: [tools.manageGovernanceProvider, tools.testGovernanceProvider],
}
