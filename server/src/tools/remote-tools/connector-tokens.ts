import type { Service } from '../../kernel/foundation/service.ts'
import { openConnector } from '../connectors/connectors.ts'
import { ConsentNeeded } from '../connectors/steps.ts'
import { type ConsentedToken, consentKey, expireToken, isAllowed, readToken, renewToken } from '../consent/consent.ts'
import { type IssuedToken, redeemAssertion, requestAssertion } from '../delegation/token-exchange.ts'
import { type Delegate, delegateKey, type Vouched } from './delegates.ts'
import { createTokenSourcesCache } from './token-sources.ts'

/** Users' access tokens for tool servers. They're stored only in the key-value store, which encrypts them. */
export interface AccessTokens {
  get(delegate: Delegate): Promise<string>
  /** Lets `work` and the user's other running calls share one token, even one too short-lived to cache. */
  share<T>(delegate: Delegate, work: () => Promise<T>): Promise<T>
  /** Drops a token that the tool server rejected or that lacks a scope. */
  drop(delegate: Delegate, accessToken: string, lackedScope?: string): Promise<void>
}

export function createAccessTokens(service: Service): AccessTokens {
  const { kv, clock, config } = service
  const sources = createTokenSourcesCache(service)
  const underWay = new Map<string, Promise<string>>()
  /** Running calls by `delegateKey`. An entry is removed with its last call. */
  const running = new Map<string, Running>()

  async function issue(delegate: Delegate): Promise<string> {
    if (!delegate.vouched) return renew(delegate)
    const { access_token, expires_in, scopes } = await issueToken(delegate, delegate.vouched)
    // The assertion grant issues no refresh token.
    const entry: ConsentedToken = {
      access_token,
      expires_at: clock() + readLifetime(expires_in) * 1000,
      scopes,
      provider: delegate.provider,
    }
    const seconds = timeToLive(expires_in)
    const calls = running.get(delegateKey(delegate))
    if (seconds > 0) await kv.set(consentKey(delegate), entry, seconds)
    else if (calls) calls.token = entry
    return access_token
  }

  /** Runs the whole flow without cached tokens. */
  function issueToken(delegate: Delegate, { identity, trusted }: Vouched): Promise<IssuedToken> {
    return sources.use(delegate, trusted, async ({ provider, server }) => {
      const delegation = openConnector(service, delegate.connector, trusted)
      const assertion = await requestAssertion(service, provider, identity.id_token, delegation, server)
      return redeemAssertion(service, assertion, delegation, server)
    })
  }

  async function renew(delegate: Delegate): Promise<string> {
    const { connector, provider } = delegate
    // End users get a link of their own; see tools/consent/end-user-consents.ts.
    const page = provider === undefined ? `: ${config.publicUrl}/connect/${connector.id}` : '.'
    const first = await renewToken(service, delegate)
    // The first renewal may return scopes that are no longer allowed; the second one requests only allowed scopes.
    const renewed = first && !isAllowed(first.scopes, connector) ? await renewToken(service, delegate) : first
    if (!renewed) throw new ConsentNeeded(`Connect your account in your browser first${page}`)
    if (isAllowed(renewed.scopes, connector)) return renewed.access_token
    throw new ConsentNeeded(`The server granted more scopes than an administrator allows. Connect again${page}`, {
      expected: connector.scopes.join(' '),
      seen: renewed.scopes.join(' '),
    })
  }

  return {
    async get(delegate) {
      const { connector, provider } = delegate
      const flight = delegateKey(delegate)
      const stored = delegate.token ?? (await readToken(service, delegate))
      const cached = running.get(flight)?.token ?? stored
      const isCurrent = cached && cached.expires_at > clock() && cached.provider === provider
      // The allowed scopes may have been reduced since the token was issued.
      if (isCurrent && isAllowed(cached.scopes, connector)) return cached.access_token
      // The next request of the same call must not use it again.
      delegate.token = undefined
      const pending = underWay.get(flight) ?? issue(delegate).finally(() => underWay.delete(flight))
      underWay.set(flight, pending)
      return pending
    },
    async share(delegate, work) {
      const flight = delegateKey(delegate)
      const calls = running.get(flight) ?? { count: 0, token: undefined }
      running.set(flight, calls)
      calls.count += 1
      try {
        return await work()
      } finally {
        calls.count -= 1
        if (calls.count === 0) running.delete(flight)
      }
    },
    async drop(delegate, accessToken, lackedScope) {
      delegate.token = undefined
      const calls = running.get(delegateKey(delegate))
      if (calls?.token?.access_token === accessToken) calls.token = undefined
      // Another call may have already replaced the token.
      if ((await readToken(service, delegate))?.access_token !== accessToken) return
      await (delegate.vouched ? kv.delete(consentKey(delegate)) : expireToken(service, delegate, lackedScope))
    },
  }
}

interface Running {
  count: number
  /** Set only for a token that is too short-lived to cache. */
  token: ConsentedToken | undefined
}

const longestSeconds = 3600
const leadSeconds = 300

/** How long to cache a token, in seconds; 0 for a token that only running calls share. */
export const timeToLive = (expiresIn: unknown): number =>
  Math.max(0, Math.min(readLifetime(expiresIn) - leadSeconds, longestSeconds))

/** Lifetime in seconds, which some servers send as a string; 0 for anything else. */
function readLifetime(expiresIn: unknown): number {
  const isNumeric = typeof expiresIn === 'number' || (typeof expiresIn === 'string' && /^\d{1,12}$/.test(expiresIn))
  const seconds = isNumeric ? Number(expiresIn) : 0
  return Number.isFinite(seconds) ? Math.max(0, seconds) : 0
}
