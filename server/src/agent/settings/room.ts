import { bind } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { Models } from '../models/models.ts'
import * as contract from './contract.ts'
import { testAgentModel } from './model-test.ts'
import { getAgentConfig, updateAgentConfig } from './settings.ts'

export const agentRoom: Room<Service & { models: Models }> = {
  tags: {
    Agent: 'The organization’s own agent: its texts, its instructions and its model.',
  },
  routes: bind(contract, { getAgentConfig, updateAgentConfig, testAgentModel }),
  tools: [],
}
