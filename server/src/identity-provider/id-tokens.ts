import { compactVerify, decodeProtectedHeader } from 'jose'
import { DiscoveryFailed } from './discovery.ts'
import type { TrustedIssuer } from './issuers.ts'
import type { ProviderKeys } from './provider-keys.ts'

/** The claims of a token that passed every check. */
export interface VerifiedIdentity {
  subject: string
  email: string
  email_verified: boolean
  /** Milliseconds since the Unix epoch. */
  expires_at: number
  /** The other claims about the person, as JSON. */
  metadata: string
}

/** Why a token is not believed. `code` is for the caller; the rest is for the administrator who has to put it right. */
export class IdTokenRefused extends Error {
  override name = 'IdTokenRefused'
  readonly step: string
  readonly code: 'INVALID_TOKEN' | 'TOKEN_EXPIRED'
  readonly expected: string | undefined
  readonly seen: string | undefined

  constructor(
    step: string,
    message: string,
    found: { expected?: string; seen?: string; code?: 'TOKEN_EXPIRED'; cause?: unknown } = {},
  ) {
    super(message, { cause: found.cause })
    this.step = step
    this.code = found.code ?? 'INVALID_TOKEN'
    this.expected = found.expected
    this.seen = found.seen
  }
}

const skewSeconds = 60
const algorithms = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA']
const maxTokenLength = 16 * 1024

type Claims = Record<string, unknown>
type Check = (claims: Claims, context: { trusted: TrustedIssuer; issuer: string; now: number }) => void

/** OpenID Connect Core 1.0, section 3.1.3.7. A missing check shows as a missing line. */
const checks: Check[] = [
  checkIssuer,
  checkAudience,
  checkAuthorizedParty,
  checkExpiry,
  checkNotBefore,
  checkIssuedAt,
  checkSubject,
  checkHostedDomain,
]

export async function verifyIdToken(
  token: string,
  { trusted, keys, now }: { trusted: TrustedIssuer; keys: ProviderKeys; now: number },
): Promise<VerifiedIdentity> {
  const { alg, kid } = readHeader(token)
  const { issuer, key } = await keys.find(trusted, kid, alg).catch((error) => {
    if (!(error instanceof DiscoveryFailed)) throw error
    throw new IdTokenRefused(`provider_${error.step}`, `The identity provider cannot be asked: ${error.message}`, {
      cause: error,
    })
  })
  if (!key)
    throw new IdTokenRefused('key', 'The provider publishes no key with the id of the token’s', {
      seen: kid ?? 'no kid',
    })
  const claims = await readClaims(token, key, alg)
  for (const check of checks) check(claims, { trusted, issuer, now: Math.floor(now / 1000) })
  return {
    subject: claims.sub as string,
    email: typeof claims.email === 'string' ? claims.email.toLowerCase() : '',
    email_verified: claims.email_verified === true,
    expires_at: (claims.exp as number) * 1000,
    metadata: JSON.stringify(profileOf(claims)),
  }
}

/** The header only chooses an algorithm of our list and a key of the provider's; a key or an address in it is ignored. */
function readHeader(token: string): { alg: string; kid: string | undefined } {
  if (token.length > maxTokenLength) throw new IdTokenRefused('format', 'The token is longer than 16 KiB')
  try {
    const { alg, kid, crit } = decodeProtectedHeader(token)
    if (crit) throw new IdTokenRefused('format', 'The token’s header asks for extensions')
    if (!alg || !algorithms.includes(alg)) {
      throw new IdTokenRefused('algorithm', 'The token’s algorithm is not accepted', {
        expected: algorithms.join(', '),
        seen: String(alg).slice(0, 20),
      })
    }
    return { alg, kid: typeof kid === 'string' ? kid : undefined }
  } catch (cause) {
    throw cause instanceof IdTokenRefused
      ? cause
      : new IdTokenRefused('format', 'This is not a JSON Web Token', { cause })
  }
}

async function readClaims(token: string, key: Parameters<typeof compactVerify>[1], alg: string): Promise<Claims> {
  try {
    const { payload } = await compactVerify(token, key, { algorithms: [alg] })
    const claims: unknown = JSON.parse(new TextDecoder().decode(payload))
    if (typeof claims === 'object' && claims !== null && !Array.isArray(claims)) return claims as Claims
  } catch (cause) {
    throw new IdTokenRefused('signature', 'The token’s signature is not the provider’s', { cause })
  }
  throw new IdTokenRefused('format', 'The token’s payload is not an object')
}

function checkIssuer({ iss }: Claims, { issuer }: { issuer: string }): void {
  if (iss !== issuer)
    throw new IdTokenRefused('issuer', 'The token comes from another issuer', { expected: issuer, seen: show(iss) })
}

function checkAudience({ aud }: Claims, { trusted: { audiences } }: { trusted: TrustedIssuer }): void {
  if (audiences === null) return
  const seen = [aud].flat()
  if (!seen.some((one) => typeof one === 'string' && audiences.includes(one))) {
    throw new IdTokenRefused(
      'audience',
      'The token is for another application; add its client ID to the allowed audiences',
      {
        expected: audiences.join(', '),
        seen: show(aud),
      },
    )
  }
}

/** With several audiences the token must have been issued to one that we allow. */
function checkAuthorizedParty({ aud, azp }: Claims, { trusted: { audiences } }: { trusted: TrustedIssuer }): void {
  if (!Array.isArray(aud) || aud.length < 2 || azp === undefined || audiences === null) return
  if (typeof azp !== 'string' || !audiences.includes(azp)) {
    throw new IdTokenRefused('authorized_party', 'The token was issued to another application', {
      expected: audiences.join(', '),
      seen: show(azp),
    })
  }
}

function checkExpiry({ exp }: Claims, { now }: { now: number }): void {
  if (typeof exp !== 'number' || !Number.isFinite(exp)) throw new IdTokenRefused('expiry', 'The token has no expiry')
  if (exp + skewSeconds <= now) {
    const times = { expected: `after ${iso(now)}`, seen: iso(exp) }
    throw new IdTokenRefused('expiry', 'The token has expired; sign in again', { code: 'TOKEN_EXPIRED', ...times })
  }
}

function checkNotBefore({ nbf }: Claims, { now }: { now: number }): void {
  if (nbf === undefined) return
  if (typeof nbf !== 'number' || nbf - skewSeconds > now) {
    throw new IdTokenRefused('not_before', 'The token is not valid yet; compare the clocks', {
      expected: iso(now),
      seen: show(nbf),
    })
  }
}

function checkIssuedAt({ iat }: Claims, { now }: { now: number }): void {
  if (iat === undefined) return
  if (typeof iat !== 'number' || iat - skewSeconds > now) {
    throw new IdTokenRefused('issued_at', 'The token was issued in the future; compare the clocks', {
      expected: iso(now),
      seen: show(iat),
    })
  }
}

function checkSubject({ sub }: Claims): void {
  if (typeof sub !== 'string' || sub === '' || sub.length > 255)
    throw new IdTokenRefused('subject', 'The token names nobody')
}

function checkHostedDomain({ hd }: Claims, { trusted: { hostedDomain } }: { trusted: TrustedIssuer }): void {
  if (hostedDomain !== undefined && hd !== hostedDomain) {
    throw new IdTokenRefused('hosted_domain', 'The account belongs to another Google Workspace domain', {
      expected: hostedDomain,
      seen: show(hd),
    })
  }
}

/** Claims of the protocol, and those that have a field of their own. */
const protocolClaims = new Set([
  ...['iss', 'sub', 'aud', 'exp', 'nbf', 'iat', 'jti', 'azp', 'nonce', 'auth_time', 'at_hash', 'c_hash', 's_hash'],
  ...['acr', 'amr', 'sid', 'email'],
])

const profileOf = (claims: Claims) =>
  Object.fromEntries(Object.entries(claims).filter(([name]) => !protocolClaims.has(name)))

const show = (value: unknown) =>
  value === undefined ? 'none' : (JSON.stringify(value) ?? 'none').replace(/^"|"$/g, '').slice(0, 200)
const iso = (seconds: number) => (Math.abs(seconds) < 8e12 ? new Date(seconds * 1000).toISOString() : String(seconds))
