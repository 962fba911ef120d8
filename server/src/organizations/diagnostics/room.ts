import { bind } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'

import * as contract from './contract.ts'
import { listRefusals } from './refusals.ts'
import * as tools from './tools.ts'
import { listWarnings } from './warnings.ts'

export const diagnosticsRoom: Room<Service> = {
  tags: {
    Diagnostics: 'Refused requests and risky settings, and how to fix them.',
  },
  routes: bind(contract, { listRefusals, listWarnings }),
  tools: [tools.echo, tools.verifyApiAccess],
}
