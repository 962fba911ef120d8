import { route } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'

import * as contract from './contract.ts'
import * as domains from './domains.ts'
import * as provider from './provider.ts'

export const organizationSignInRoom: Room<Service> = {
  tags: {
    'Single sign-on': 'The OpenID provider where users of your email domains sign in to Inlay.',
  },
  routes: [
    route(contract.getOrganizationSignIn, provider.getOrganizationSignIn),
    route(contract.setSignInProvider, provider.setSignInProvider),
    route(contract.deleteSignInProvider, provider.deleteSignInProvider),
    route(contract.addSignInDomain, domains.addSignInDomain),
    route(contract.verifySignInDomain, domains.verifySignInDomain),
    route(contract.removeSignInDomain, domains.removeSignInDomain),
  ],
  tools: [],
}
