import { bind } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { Tickets } from '../../visitors/tickets/signed-tickets.ts'
import * as contract from './contract.ts'
import { type AgentSessions, startAgentSession } from './sessions.ts'

export const agUiRoom: Room<Service & { tickets: Tickets; agentSessions: AgentSessions }> = {
  tags: {},
  routes: bind(contract, { startAgentSession }),
  tools: [],
}
