import { bind } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import * as contract from './contract.ts'
import { exportAuditEvents, listAuditEvents } from './events.ts'
import type { AuditVerifier } from './verifier.ts'

export const auditEventsRoom: Room<Service & { auditVerifier: AuditVerifier }> = {
  tags: {
    'Audit events': 'Every change, in a tamper-evident chain.',
  },
  routes: bind(contract, { listAuditEvents, exportAuditEvents }),
  tools: [],
}
