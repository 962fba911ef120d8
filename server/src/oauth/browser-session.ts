import { randomBytes } from 'node:crypto'
import type { Context } from 'hono'
import type { Provider } from 'oidc-provider'
import type { Caller } from '../access.ts'
import type { Service } from '../service.ts'
import type { NodeEnv } from './authorization-server.ts'
import { findPerson } from './grants.ts'
import { type OwnPage, ownPagesClientId } from './own-pages.ts'
import { signInOfSession } from './records.ts'

/** The user who is signed in in the browser that asks for one of our own pages. */
export async function findSignedIn(
  service: Service,
  provider: Provider,
  c: Context<NodeEnv>,
): Promise<Caller['user'] | undefined> {
  const session = await provider.Session.get(provider.createContext(c.env.incoming, c.env.outgoing))
  return session.accountId ? findPerson(service, session.accountId, signInOfSession(session)) : undefined
}

/** Signs the user in, in this browser, and sends them to one of our pages. The code that comes along is not used. */
export function signInUrl(publicUrl: string, page: OwnPage, state = ''): string {
  const query = new URLSearchParams({
    client_id: ownPagesClientId,
    response_type: 'code',
    scope: 'openid',
    redirect_uri: publicUrl + page,
    state,
    code_challenge: randomBytes(32).toString('base64url'),
    code_challenge_method: 'S256',
  })
  return `/oauth/authorize?${query}`
}
