import { randomBytes } from 'node:crypto'
import type { Provider } from 'oidc-provider'
import { signInOfSession } from '../access/records.ts'
import type { Service } from '../foundation/service.ts'
import type { BrowserSession } from '../http/browser-session.ts'
import { ownPagesClientId } from './clients/own-clients.ts'
import { findSignedInUser } from './grants.ts'

export const createBrowserSession = (service: Service, currentOidcServer: () => Promise<Provider>): BrowserSession => ({
  async find({ env: { incoming, outgoing } }) {
    const provider = await currentOidcServer()
    const session = await provider.Session.get(provider.createContext(incoming, outgoing))
    return session.accountId ? findSignedInUser(service, session.accountId, signInOfSession(session)) : undefined
  },
  /** The resulting authorization code is never redeemed: the session is all that counts. */
  signInUrl(page, state = '') {
    const query = new URLSearchParams({
      client_id: ownPagesClientId,
      response_type: 'code',
      scope: 'openid',
      redirect_uri: service.config.publicUrl + page,
      state,
      code_challenge: randomBytes(32).toString('base64url'),
      code_challenge_method: 'S256',
    })
    return `/oauth/authorize?${query}`
  },
})
