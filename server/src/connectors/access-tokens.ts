import type { Foundation } from '../service.ts'
import { openConnector } from './connectors.ts'
import { type ConsentedToken, expireToken, isAllowed, keyOf, readToken, renewToken } from './consent.ts'
import type { Delegate } from './delegates.ts'
import { readServerMetadata } from './server-metadata.ts'
import { StepFailed } from './steps.ts'
import { type IssuedToken, redeemAssertion, requestAssertion } from './token-exchange.ts'

/** The access tokens of people at tool servers. They are kept in the key-value store alone, which encrypts them. */
export interface AccessTokens {
  get(delegate: Delegate): Promise<string>
  /** The tool server does not accept it any more, or misses a scope in it. */
  drop(delegate: Delegate, accessToken: string, lackedScope?: string): Promise<void>
}

export function createAccessTokens(foundation: Foundation): AccessTokens {
  const { kv, clock, config } = foundation
  const underWay = new Map<string, Promise<string>>()

  async function issue(delegate: Delegate): Promise<string> {
    if (!delegate.vouched) return renew(delegate)
    const { access_token, expires_in, scopes } = await issueToken(foundation, delegate, delegate.vouched)
    const seconds = timeToLive(expires_in)
    if (seconds > 0) {
      // There is no refresh token: the assertion grant gives none.
      const entry: ConsentedToken = { access_token, expires_at: clock() + Number(expires_in) * 1000, scopes }
      await kv.set(keyOf(delegate), entry, seconds)
    }
    return access_token
  }

  async function renew(delegate: Delegate): Promise<string> {
    const { connector } = delegate
    const page = `${config.publicUrl}/connect/${connector.id}`
    const first = await renewToken(foundation, delegate)
    // Servers give back all that was once granted, unless they are told what of it is still allowed.
    const renewed = first && !isAllowed(first.scopes, connector) ? await renewToken(foundation, delegate) : first
    if (!renewed) throw new StepFailed('consent', `Allow it first, in your browser: ${page}`)
    if (isAllowed(renewed.scopes, connector)) return renewed.access_token
    throw new StepFailed('consent', `The server grants more than an administrator allows. Allow it anew: ${page}`, {
      expected: connector.scopes.join(' '),
      seen: renewed.scopes.join(' '),
    })
  }

  return {
    async get(delegate) {
      const { connector } = delegate
      const cached = delegate.token ?? (await readToken(foundation, delegate))
      // Since it was issued fewer scopes may have been allowed.
      const isGood = cached && cached.expires_at > clock() && isAllowed(cached.scopes, connector)
      if (isGood) return cached.access_token
      const flight = `${keyOf(delegate)} ${connector.updated_at}`
      const pending = underWay.get(flight) ?? issue(delegate).finally(() => underWay.delete(flight))
      underWay.set(flight, pending)
      return pending
    },
    async drop(delegate, accessToken, lackedScope) {
      delegate.token = undefined
      // Somebody else's call may have noticed before, and have got a better one.
      if ((await readToken(foundation, delegate))?.access_token !== accessToken) return
      await (delegate.vouched ? kv.delete(keyOf(delegate)) : expireToken(foundation, delegate, lackedScope))
    },
  }
}

/** The whole flow, without remembering anything. */
async function issueToken(
  service: Foundation,
  { connector }: Delegate,
  { identity, trusted }: NonNullable<Delegate['vouched']>,
): Promise<IssuedToken> {
  const delegation = openConnector(service, connector)
  const metadata = await readServerMetadata(service, connector.server_url)
  const assertion = await requestAssertion(service, trusted, identity.id_token, delegation, metadata)
  return redeemAssertion(service, assertion, delegation, metadata)
}

const longestSeconds = 3600
const leadSeconds = 300

/** In seconds; 0 for a token that is used once and not kept. */
export function timeToLive(expiresIn: unknown): number {
  if (typeof expiresIn !== 'number' || !Number.isFinite(expiresIn)) return 0
  return Math.max(0, Math.min(expiresIn - leadSeconds, longestSeconds))
}
