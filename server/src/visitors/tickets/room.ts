import { bind } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { Identities } from '../end-users/identities.ts'
import type { KeyLookup } from '../publishable-keys/key-lookup.ts'
import * as contract from './contract.ts'
import { exchangeTicket } from './exchange.ts'
import type { PreviewTokens } from './preview-tokens.ts'
import type { Tickets } from './signed-tickets.ts'

type Needs = Service & {
  keyLookup: KeyLookup
  identities: Identities
  tickets: Tickets
  previewTokens: PreviewTokens
}

export const ticketsRoom: Room<Needs> = {
  tags: {
    Tickets: 'How a widget authenticates before it connects.',
  },
  routes: bind(contract, { exchangeTicket }),
  tools: [],
}
