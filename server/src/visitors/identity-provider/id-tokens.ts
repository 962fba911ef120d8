import { base64url, compactVerify, decodeProtectedHeader } from 'jose'
import { InvalidJson, parseJson } from '../../kernel/lib/json.ts'
import { canonicalEmail } from '../../kernel/net/email-addresses.ts'
import { DiscoveryFailed } from './discovery.ts'
import type { IssuerKeys } from './issuer-keys.ts'
import type { TrustedIssuer } from './issuers.ts'
import { isEmailVerified } from './verified-emails.ts'

/** The claims of a token that passed every check. */
export interface VerifiedIdentity {
  /** As the provider's discovery document spells it. */
  issuer: string
  subject: string
  email: string
  email_verified: boolean
  /** Milliseconds since the Unix epoch, at most a day after the verification. */
  expires_at: number
  /** The other claims about the user, as JSON of at most 8 KiB. */
  metadata: string
}

/** Why a token was rejected. `code` is for the caller; the rest is for the administrator. */
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
/** Maximum lifetime of an identity, even if its token expires later. */
const maxLifetimeMs = 24 * 60 * 60_000
/** The last second of the year 9999. Later times are mistakes, such as a time in milliseconds. */
const lastTime = 253_402_300_799
/** RFC 5321, section 4.5.3.1: 64 characters before the @ and 255 after it. */
const maxEmailLength = 320
const maxMetadataBytes = 8 * 1024

type Claims = Record<string, unknown>
type Check = (claims: Claims, context: { trusted: TrustedIssuer; issuer: string; now: number }) => void

/** The checks of OpenID Connect Core 1.0, section 3.1.3.7. */
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
  { trusted, keys, now }: { trusted: TrustedIssuer; keys: IssuerKeys; now: number },
): Promise<VerifiedIdentity> {
  const { alg, kid } = readHeader(token)
  const { issuer, key } = await keys.find(trusted, kid, alg).catch((error) => {
    if (!(error instanceof DiscoveryFailed)) throw error
    throw new IdTokenRefused(`provider_${error.step}`, `Could not get the identity provider’s keys: ${error.message}`, {
      cause: error,
    })
  })
  if (!key)
    throw new IdTokenRefused('key', 'The provider doesn’t publish the key that signed the token', {
      seen: kid === undefined ? 'no kid' : show(kid),
    })
  const claims = await readClaims(token, key, alg)
  for (const check of checks) check(claims, { trusted, issuer, now: Math.floor(now / 1000) })
  return {
    issuer,
    subject: claims.sub as string,
    email: readEmail(claims),
    email_verified: isEmailVerified(issuer, claims),
    expires_at: Math.min(Math.floor((claims.exp as number) * 1000), now + maxLifetimeMs),
    metadata: JSON.stringify(profileOf(claims)),
  }
}

/** The header only selects one of our algorithms and one of the provider's keys. A key or a URL in it is ignored. */
function readHeader(token: string): { alg: string; kid: string | undefined } {
  if (token.length > maxTokenLength) throw new IdTokenRefused('format', 'The token is longer than 16 KiB')
  if (!token.split('.').every(isCanonical)) throw new IdTokenRefused('format', 'This is not a JSON Web Token')
  try {
    const { alg, kid, crit } = decodeProtectedHeader(token)
    if (crit) throw new IdTokenRefused('format', 'The token’s header requires extensions, which aren’t supported')
    if (!alg || !algorithms.includes(alg)) {
      throw new IdTokenRefused('algorithm', 'The token’s algorithm isn’t supported', {
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

/** Decoders ignore unused bits, so one token could have several encodings. */
function isCanonical(part: string): boolean {
  try {
    return base64url.encode(base64url.decode(part)) === part
  } catch {
    return false
  }
}

async function readClaims(token: string, key: Parameters<typeof compactVerify>[1], alg: string): Promise<Claims> {
  const { payload } = await compactVerify(token, key, { algorithms: [alg] }).catch((cause) => {
    throw new IdTokenRefused('signature', 'The token’s signature doesn’t match the provider’s key', { cause })
  })
  const claims = parseClaims(payload)
  if (typeof claims === 'object' && claims !== null && !Array.isArray(claims)) return claims as Claims
  throw new IdTokenRefused('format', 'The token’s payload is not an object')
}

/** Rejects text that the database can't store, such as NUL, anywhere in the claims. */
function parseClaims(payload: Uint8Array): unknown {
  try {
    return parseJson(utf8.decode(payload))
  } catch (cause) {
    if (!(cause instanceof InvalidJson || cause instanceof TypeError)) throw cause
    const why = cause instanceof InvalidJson ? cause.message : 'It isn’t UTF-8'
    throw new IdTokenRefused('format', `The token’s payload can’t be used: ${why}`, { cause })
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

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

/** A token with several audiences must have been issued to an allowed one. */
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
  if (typeof exp !== 'number') throw new IdTokenRefused('expiry', 'The token has no expiry')
  if (!(Math.abs(exp) <= lastTime)) {
    throw new IdTokenRefused('expiry', 'The token’s expiry is not a time in seconds', { seen: show(exp) })
  }
  if (exp + skewSeconds <= now) {
    const times = { expected: `after ${iso(now)}`, seen: iso(exp) }
    throw new IdTokenRefused('expiry', 'The token has expired; sign in again', { code: 'TOKEN_EXPIRED', ...times })
  }
}

function checkNotBefore({ nbf }: Claims, { now }: { now: number }): void {
  if (nbf === undefined) return
  if (typeof nbf !== 'number' || nbf - skewSeconds > now) {
    throw new IdTokenRefused('not_before', 'The token isn’t valid yet; check the clocks of both servers', {
      expected: iso(now),
      seen: show(nbf),
    })
  }
}

function checkIssuedAt({ iat }: Claims, { now }: { now: number }): void {
  if (iat === undefined) return
  if (typeof iat !== 'number' || iat - skewSeconds > now) {
    throw new IdTokenRefused('issued_at', 'The token was issued in the future; check the clocks of both servers', {
      expected: iso(now),
      seen: show(iat),
    })
  }
}

function checkSubject({ sub }: Claims): void {
  if (typeof sub !== 'string' || sub === '' || sub.length > 255)
    throw new IdTokenRefused('subject', 'The token has no valid subject')
  if (sub.startsWith(previewSubject))
    throw new IdTokenRefused('subject', `Subjects that begin with ${previewSubject} are reserved`, { seen: show(sub) })
}

/** External IDs of members who try the agent in the dashboard begin with this. No identity provider can claim them. */
export const previewSubject = 'inlay-preview:'

function checkHostedDomain({ hd }: Claims, { trusted: { hostedDomain } }: { trusted: TrustedIssuer }): void {
  if (hostedDomain !== undefined && hd !== hostedDomain) {
    throw new IdTokenRefused('hosted_domain', 'The account belongs to another Google Workspace domain', {
      expected: hostedDomain,
      seen: show(hd),
    })
  }
}

/** Claims of the protocol, and those with a separate field. */
const protocolClaims = new Set([
  ...['iss', 'sub', 'aud', 'exp', 'nbf', 'iat', 'jti', 'azp', 'nonce', 'auth_time', 'at_hash', 'c_hash', 's_hash'],
  ...['acr', 'amr', 'sid', 'email'],
])

/** Omits an address that is too long to be valid. */
const readEmail = ({ email }: Claims): string =>
  typeof email === 'string' && email.length <= maxEmailLength ? canonicalEmail(email) : ''

/** Keeps as many claims as fit, the smallest first, so that a long list of groups doesn't prevent signing in. */
function profileOf(claims: Claims): Claims {
  const profile = Object.entries(claims).filter(([name]) => !protocolClaims.has(name))
  const sizes = new Map(profile.map(([name, value]) => [name, Buffer.byteLength(JSON.stringify({ [name]: value }))]))
  const sizeOf = (name: string) => sizes.get(name) ?? 0
  let room = maxMetadataBytes
  const kept = new Set<string>()
  for (const name of [...sizes.keys()].sort((a, b) => sizeOf(a) - sizeOf(b))) {
    room -= sizeOf(name)
    if (room < 0) break
    kept.add(name)
  }
  return Object.fromEntries(profile.filter(([name]) => kept.has(name)))
}

const show = (value: unknown) =>
  value === undefined ? 'none' : (JSON.stringify(value) ?? 'none').replace(/^"|"$/g, '').slice(0, 200)
const iso = (seconds: number) => (Math.abs(seconds) < 8e12 ? new Date(seconds * 1000).toISOString() : String(seconds))
