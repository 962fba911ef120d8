import { route } from '../foundation/operation.ts'
import type { Room } from '../foundation/room.ts'
import type { Service } from '../foundation/service.ts'
import type { Tickets } from '../tickets/signed-tickets.ts'
import * as contract from './contract.ts'
import { type AgentSessions, startAgentSession } from './sessions.ts'

export const agUiRoom: Room<Service & { tickets: Tickets; agentSessions: AgentSessions }> = {
  tags: {},
  routes: [route(contract.startAgentSession, startAgentSession)],
  tools: [],
}
