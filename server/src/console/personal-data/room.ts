import type { Runs } from '../../agent/runs/runs.ts'
import { bind } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { AccessCleanup } from '../../organizations/access-cleanup/access-cleanup.ts'
import type { Billing } from '../../plans/subscriptions/billing-provider.ts'
import type { ToolCallRecorder } from '../../tools/call-records/recorder.ts'
import * as contract from './contract.ts'
import { eraseEndUser } from './end-user-erasure.ts'
import { deleteOrganization, type Erasures, getOrganizationErasure } from './erasures.ts'
import { exportEndUser } from './export.ts'

/** Exports and erases everything about an end user or an organization, so it knows the rooms that have some of it. */
export const personalDataRoom: Room<
  Service & Billing & { accessCleanup: AccessCleanup; erasures: Erasures; runs: Runs; toolCalls: ToolCallRecorder }
> = {
  tags: {},
  routes: bind(contract, { exportEndUser, eraseEndUser, deleteOrganization, getOrganizationErasure }),
  tools: [],
}
