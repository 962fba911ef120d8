import { bind } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'

import * as contract from './contract.ts'
import { addSignInDomain, removeSignInDomain, verifySignInDomain } from './domains.ts'
import { deleteSignInProvider, getOrganizationSignIn, setSignInProvider } from './provider.ts'

export const organizationSignInRoom: Room<Service> = {
  tags: {
    'Single sign-on': 'The OpenID provider where users of your email domains sign in to Inlay.',
  },
  routes: bind(contract, {
    getOrganizationSignIn,
    setSignInProvider,
    deleteSignInProvider,
    addSignInDomain,
    verifySignInDomain,
    removeSignInDomain,
  }),
  tools: [],
}
