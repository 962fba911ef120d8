import { route } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'

import * as accounts from './accounts.ts'
import * as contract from './contract.ts'

export const serviceAccountsRoom: Room<Service> = {
  tags: {
    'Service accounts': 'Secret keys for servers and CI jobs, which call the API without a signed-in user.',
  },
  routes: [
    route(contract.listServiceAccounts, accounts.listServiceAccounts),
    route(contract.createServiceAccount, accounts.createServiceAccount),
    route(contract.getServiceAccount, accounts.getServiceAccount),
    route(contract.updateServiceAccount, accounts.updateServiceAccount),
    route(contract.rotateServiceAccountKey, accounts.rotateServiceAccountKey),
    route(contract.endPreviousServiceAccountKey, accounts.endPreviousServiceAccountKey),
    route(contract.deleteServiceAccount, accounts.deleteServiceAccount),
  ],
  tools: [],
}
