import type { Departures } from '../departures/departures.ts'
import * as endUsers from '../end-users/contract.ts'
import { route } from '../foundation/operation.ts'
import type { Room } from '../foundation/room.ts'
import type { Service } from '../foundation/service.ts'
import type { Runs } from '../runs/runs.ts'
import type { Billing } from '../subscriptions/billing-provider.ts'
import type { ToolCallRecorder } from '../tool-calls/recorder.ts'
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
