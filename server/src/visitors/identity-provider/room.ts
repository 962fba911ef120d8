import { bind } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'

import * as contract from './contract.ts'
import { getAllowedDomains, getConfig, setAllowedDomains, testProvider, updateConfig } from './identity-provider.ts'
import * as tools from './tools.ts'

export const identityProviderRoom: Room<Service> = {
  tags: {
    'Identity provider': 'The identity provider whose users can use the widget, and the origins that can embed it.',
  },
  routes: bind(contract, { getConfig, updateConfig, testProvider, getAllowedDomains, setAllowedDomains }),
  tools: [tools.manageIdpConfig, tools.testIdpConnection],
}
