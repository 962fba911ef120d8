import { route } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'

import * as contract from './contract.ts'
import * as idp from './identity-provider.ts'
import * as tools from './tools.ts'

export const identityProviderRoom: Room<Service> = {
  tags: {
    'Identity provider': 'The identity provider whose users can use the widget, and the origins that can embed it.',
  },
  routes: [
    route(contract.getConfig, idp.getConfig),
    route(contract.updateConfig, idp.updateConfig),
    route(contract.testProvider, idp.testProvider),
    route(contract.getAllowedDomains, idp.getAllowedDomains),
    route(contract.setAllowedDomains, idp.setAllowedDomains),
  ],
  tools: [tools.manageIdpConfig, tools.testIdpConnection],
}
