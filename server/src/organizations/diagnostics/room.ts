import { route } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'

import * as contract from './contract.ts'
import * as refusals from './refusals.ts'
import * as tools from './tools.ts'
import * as warnings from './warnings.ts'

export const diagnosticsRoom: Room<Service> = {
  tags: {
    Diagnostics: 'Refused requests and risky settings, and how to fix them.',
  },
  routes: [route(contract.listRefusals, refusals.listRefusals), route(contract.listWarnings, warnings.listWarnings)],
  tools: [tools.echo, tools.verifyApiAccess],
}
