import { bind } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'

import {
  createServiceAccount,
  deleteServiceAccount,
  endPreviousServiceAccountKey,
  getServiceAccount,
  listServiceAccounts,
  rotateServiceAccountKey,
  updateServiceAccount,
} from './accounts.ts'
import * as contract from './contract.ts'

export const serviceAccountsRoom: Room<Service> = {
  tags: {
    'Service accounts': 'Secret keys for servers and CI jobs, which call the API without a signed-in user.',
  },
  routes: bind(contract, {
    listServiceAccounts,
    createServiceAccount,
    getServiceAccount,
    updateServiceAccount,
    rotateServiceAccountKey,
    endPreviousServiceAccountKey,
    deleteServiceAccount,
  }),
  tools: [],
}
