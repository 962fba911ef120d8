import { bind } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'

import * as contract from './contract.ts'
import { createKey, listKeys, revealKey, revokeKey, updateKey } from './keys.ts'

export const publishableKeysRoom: Room<Service> = {
  tags: {
    'Publishable keys': 'Public keys that a web page uses to load the widget.',
  },
  routes: bind(contract, { listKeys, createKey, updateKey, revealKey, revokeKey }),
  tools: [],
}
