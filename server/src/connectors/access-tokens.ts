import { UnreadableSecret } from '../lib/secrets.ts'
import type { Foundation } from '../service.ts'
import { openConnector } from './connectors.ts'
import type { Delegate } from './delegates.ts'
import { readServerMetadata } from './server-metadata.ts'
import { type IssuedToken, redeemAssertion, requestAssertion } from './token-exchange.ts'

/** As the interface lists it. The identity assertion grant gives no refresh token. */
interface CachedToken {
  access_token: string
  /** Milliseconds since the Unix epoch. */
  expires_at: number
  refresh_token?: string
  scopes: string[]
}

/** The access tokens of people at tool servers. They are kept in the key-value store alone, which encrypts them. */
export interface AccessTokens {
  get(delegate: Delegate): Promise<string>
  /** The tool server does not accept it any more. */
  drop(delegate: Delegate, accessToken: string): Promise<void>
}

export function createAccessTokens(foundation: Foundation): AccessTokens {
  const { kv, clock } = foundation
  const underWay = new Map<string, Promise<string>>()

  async function read(key: string): Promise<CachedToken | undefined> {
    try {
      return await kv.get<CachedToken>(key)
    } catch (error) {
      // Moved here from elsewhere, or sealed by a secret that is gone.
      if (error instanceof UnreadableSecret) return undefined
      throw error
    }
  }

  async function issue(key: string, delegate: Delegate): Promise<string> {
    const { access_token, expires_in, scopes } = await issueToken(foundation, delegate)
    const seconds = timeToLive(expires_in)
    if (seconds > 0) {
      const entry: CachedToken = { access_token, expires_at: clock() + Number(expires_in) * 1000, scopes }
      await kv.set(key, entry, seconds)
    }
    return access_token
  }

  return {
    async get(delegate) {
      const { connector } = delegate
      const key = keyOf(delegate)
      const cached = await read(key)
      // Since it was issued fewer scopes may have been allowed.
      const isGood = cached && cached.expires_at > clock() && isSubset(cached.scopes, connector.scopes)
      if (isGood) return cached.access_token
      const flight = `${key} ${connector.updated_at}`
      const pending = underWay.get(flight) ?? issue(key, delegate).finally(() => underWay.delete(flight))
      underWay.set(flight, pending)
      return pending
    },
    async drop(delegate, accessToken) {
      const key = keyOf(delegate)
      // Somebody else's call may have noticed before, and have got a better one.
      if ((await read(key))?.access_token === accessToken) await kv.delete(key)
    },
  }
}

/** The whole flow, without remembering anything. */
async function issueToken(service: Foundation, { connector, identity, trusted }: Delegate): Promise<IssuedToken> {
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

/** In the key-value store. */
export const keyOf = ({ organizationId, connector, identity }: Delegate): string =>
  `token:${[organizationId, connector.id, identity.end_user_id].map(encodeURIComponent).join(':')}`

const isSubset = (some: readonly string[], all: readonly string[]) => some.every((each) => all.includes(each))
