import { openConnector } from '../connectors/connectors.ts'
import { StepFailed } from '../connectors/steps.ts'
import { type ConsentedToken, consentKey, expireToken, isAllowed, readToken, renewToken } from '../consent/consent.ts'
import { type IssuedToken, redeemAssertion, requestAssertion } from '../delegation/token-exchange.ts'
import type { Service } from '../foundation/service.ts'
import { type Delegate, delegateKey, type Vouched } from './delegates.ts'
import { createTokenSourcesCache } from './token-sources.ts'

/** The access tokens of people at tool servers. They are kept in the key-value store alone, which encrypts them. */
export interface AccessTokens {
  get(delegate: Delegate): Promise<string>
  /** While `work` runs, its requests and those of the user's other calls share one token, even one too short to cache. */
  share<T>(delegate: Delegate, work: () => Promise<T>): Promise<T>
  /** The tool server does not accept it any more, or misses a scope in it. */
  drop(delegate: Delegate, accessToken: string, lackedScope?: string): Promise<void>
}

export function createAccessTokens(service: Service): AccessTokens {
  const { kv, clock, config } = service
  const sources = createTokenSourcesCache(service)
  const underWay = new Map<string, Promise<string>>()
  /** Of the calls that run, by what their token depends on. An entry ends with the last of its calls. */
  const running = new Map<string, Running>()

  async function issue(delegate: Delegate): Promise<string> {
    if (!delegate.vouched) return renew(delegate)
    const { access_token, expires_in, scopes } = await issueToken(delegate, delegate.vouched)
    // There is no refresh token: the assertion grant gives none.
    const entry: ConsentedToken = {
      access_token,
      expires_at: clock() + readLifetime(expires_in) * 1000,
      scopes,
      provider: delegate.vouched.identity.provider,
    }
    const seconds = timeToLive(expires_in)
    const calls = running.get(delegateKey(delegate))
    if (seconds > 0) await kv.set(consentKey(delegate), entry, seconds)
    else if (calls) calls.token = entry
    return access_token
  }

  /** The whole flow, without cached tokens. */
  function issueToken(delegate: Delegate, { identity, trusted }: Vouched): Promise<IssuedToken> {
    return sources.use(delegate, trusted, async ({ provider, server }) => {
      const delegation = openConnector(service, delegate.connector)
      const assertion = await requestAssertion(service, provider, identity.id_token, delegation, server)
      return redeemAssertion(service, assertion, delegation, server)
    })
  }

  async function renew(delegate: Delegate): Promise<string> {
    const { connector } = delegate
    const page = `${config.publicUrl}/connect/${connector.id}`
    const first = await renewToken(service, delegate)
    // Servers give back all that was once granted, unless they are told what of it is still allowed.
    const renewed = first && !isAllowed(first.scopes, connector) ? await renewToken(service, delegate) : first
    if (!renewed) throw new StepFailed('consent', `Allow it first, in your browser: ${page}`)
    if (isAllowed(renewed.scopes, connector)) return renewed.access_token
    throw new StepFailed('consent', `The server grants more than an administrator allows. Allow it anew: ${page}`, {
      expected: connector.scopes.join(' '),
      seen: renewed.scopes.join(' '),
    })
  }

  return {
    async get(delegate) {
      const { connector, vouched } = delegate
      const flight = delegateKey(delegate)
      const stored = delegate.token ?? (await readToken(service, delegate))
      const cached = running.get(flight)?.token ?? stored
      const isCurrent = cached && cached.expires_at > clock() && cached.provider === vouched?.identity.provider
      // Since it was issued fewer scopes may have been allowed.
      if (isCurrent && isAllowed(cached.scopes, connector)) return cached.access_token
      // The next request of the same call must not find it again.
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
      // Somebody else's call may have noticed before, and have got a better one.
      if ((await readToken(service, delegate))?.access_token !== accessToken) return
      await (delegate.vouched ? kv.delete(consentKey(delegate)) : expireToken(service, delegate, lackedScope))
    },
  }
}

interface Running {
  count: number
  /** Only a token that is too short for the cache. */
  token: ConsentedToken | undefined
}

const longestSeconds = 3600
const leadSeconds = 300

/** How long to cache a token, in seconds; 0 for a token that only the calls that run share. */
export const timeToLive = (expiresIn: unknown): number =>
  Math.max(0, Math.min(readLifetime(expiresIn) - leadSeconds, longestSeconds))

/** In seconds. Some servers send the number as a string; 0 for anything else. */
function readLifetime(expiresIn: unknown): number {
  const isNumeric = typeof expiresIn === 'number' || (typeof expiresIn === 'string' && /^\d{1,12}$/.test(expiresIn))
  const seconds = isNumeric ? Number(expiresIn) : 0
  return Number.isFinite(seconds) ? Math.max(0, seconds) : 0
}
