import { route } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'

import * as contract from './contract.ts'
import * as keys from './keys.ts'

export const publishableKeysRoom: Room<Service> = {
  tags: {
    'Publishable keys': 'Public keys that a web page uses to load the widget.',
  },
  routes: [
    route(contract.listKeys, keys.listKeys),
    route(contract.createKey, keys.createKey),
    route(contract.updateKey, keys.updateKey),
    route(contract.revealKey, keys.revealKey),
    route(contract.revokeKey, keys.revokeKey),
  ],
  tools: [],
}
