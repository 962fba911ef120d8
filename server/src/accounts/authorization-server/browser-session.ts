import { randomBytes } from 'node:crypto'
import type { Context } from 'hono'
import type { Provider } from 'oidc-provider'
import type { Service } from '../../kernel/foundation/service.ts'
import type { BrowserSession, NodeEnv } from '../../kernel/http/browser-session.ts'
import { signInOfSession } from '../access/records.ts'
import { ownPagesClientId } from './clients/own-clients.ts'
import { findSignedInUser } from './grants.ts'

const recentSeconds = 15 * 60

export function createBrowserSession(service: Service, currentOidcServer: () => Promise<Provider>): BrowserSession {
  async function readSession({ env: { incoming, outgoing } }: Context<NodeEnv>) {
    const provider = await currentOidcServer()
    return provider.Session.get(provider.createContext(incoming, outgoing))
  }

  /** The resulting authorization code is never redeemed: the session is all that counts. */
  const authorizeUrl = (page: string, parameters: Record<string, string>) => {
    const query = new URLSearchParams({
      client_id: ownPagesClientId,
      response_type: 'code',
      scope: 'openid',
      redirect_uri: service.config.publicUrl + page,
      code_challenge: randomBytes(32).toString('base64url'),
      code_challenge_method: 'S256',
      ...parameters,
    })
    return `/oauth/authorize?${query}`
  }

  return {
    async find(c) {
      const session = await readSession(c)
      return session.accountId ? findSignedInUser(service, session.accountId, signInOfSession(session)) : undefined
    },
    async isRecent(c) {
      const { loginTs = 0 } = await readSession(c)
      return service.clock() / 1000 - loginTs < recentSeconds
    },
    signInUrl: (page, state = '') => authorizeUrl(page, { state }),
    signInAgainUrl: (page) => authorizeUrl(page, { prompt: 'login' }),
  }
}
