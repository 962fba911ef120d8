import type { Runs } from '../../agent/runs/runs.ts'
import { route } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { Departures } from '../../organizations/departures/departures.ts'
import type { Billing } from '../../plans/subscriptions/billing-provider.ts'
import type { ToolCallRecorder } from '../../tools/call-records/recorder.ts'
import * as endUsers from '../../visitors/end-users/contract.ts'
import * as contract from './contract.ts'
import { eraseEndUser } from './end-user-erasure.ts'
import * as erasures from './erasures.ts'
import { exportEndUser } from './export.ts'

/** Exports and erases everything about an end user or an organization, so it knows the rooms that have some of it. */
export const personalDataRoom: Room<
  Service & Billing & { departures: Departures; erasures: erasures.Erasures; runs: Runs; toolCalls: ToolCallRecorder }
> = {
  tags: {},
  routes: [
    route(endUsers.exportEndUser, exportEndUser),
    route(endUsers.eraseEndUser, eraseEndUser),
    route(contract.deleteOrganization, erasures.deleteOrganization),
    route(contract.getOrganizationErasure, erasures.getOrganizationErasure),
  ],
  tools: [],
}
