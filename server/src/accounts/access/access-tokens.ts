import {
  decodeJwt,
  errors,
  type JWTPayload,
  type JWTVerifyGetKey,
  type JWTVerifyOptions,
  jwtVerify,
  SignJWT,
} from 'jose'
import type { Service } from '../../kernel/foundation/service.ts'
import { resources } from '../../kernel/http/protected-resources.ts'
import { serviceUnavailable } from '../../kernel/lib/errors.ts'
import { isId, newId } from '../../kernel/lib/ids.ts'
import { fingerprint } from '../../kernel/lib/secrets.ts'
import { DiscoveryFailed } from '../../visitors/identity-provider/discovery.ts'
import { createIssuerKeys } from '../../visitors/identity-provider/issuer-keys.ts'
import { readIdentity, signIn } from '../users/users.ts'
import { createSigningKeys } from './signing-keys.ts'

/** How far the issuer's clock may be ahead of or behind ours. */
export const clockToleranceMs = 60_000

/** The claims of a verified bearer token. Its expiry and audience are checked on every use. */
export interface AccessToken {
  /** Revocation uses this id, because the same token can be encoded in several ways. */
  id: string
  user_id: string
  organization_id: string | undefined
  audience: readonly string[]
  /** Milliseconds since the Unix epoch. */
  expires_at: number
  /** Undefined for tokens that weren't issued to a client. */
  scopes?: readonly string[] | undefined
  /** The grant that the token was issued under, if it has one. */
  grant_id?: string | undefined
  client_id?: string | undefined
}

/** The message is for the log only: the response just says that authentication is required. */
export class InvalidToken extends Error {
  override name = 'InvalidToken'
}

/** Key under which the server stores its URL, so that the command line issues tokens for the right audience. */
export const serverUrlKey = 'server-url'

export interface AccessTokenRequest {
  userId: string
  organizationId?: string | undefined
  audience: readonly string[]
  lifetimeSeconds: number
}

/** A JWT access token of the built-in issuer (RFC 9068). */
export async function issueAccessToken(
  service: Pick<Service, 'kv' | 'clock'> & { config: { publicUrl: string } },
  { userId, organizationId, audience, lifetimeSeconds }: AccessTokenRequest,
): Promise<string> {
  const { kid, privateKey } = await createSigningKeys(service).current()
  const now = Math.floor(service.clock() / 1000)
  return new SignJWT(organizationId ? { org_id: organizationId } : {})
    .setProtectedHeader({ alg: 'EdDSA', typ: 'at+jwt', kid })
    .setIssuer(service.config.publicUrl)
    .setSubject(userId)
    .setAudience([...audience])
    .setIssuedAt(now)
    .setExpirationTime(now + lifetimeSeconds)
    .setJti(newId())
    .sign(privateKey)
}

export function createTokenVerifier(service: Service): (token: string) => Promise<AccessToken> {
  const verifyOwn = createOwnTokenVerifier(service)
  const verifyExternal = service.config.signIn && externalTokenVerifier(service, service.config.signIn)
  return async (token) => {
    requireCanonical(token)
    // Unverified, so it only selects the verifier, which checks the issuer again after the signature.
    if (verifyExternal && issuerOf(token) === service.config.signIn?.issuer) return verifyExternal(token)
    return verifyOwn(token)
  }
}

export function createOwnTokenVerifier(service: Service) {
  const keys = createSigningKeys(service)
  const findKey: JWTVerifyGetKey = async ({ kid }) => {
    const key = kid === undefined ? undefined : await keys.find(kid)
    if (!key) throw new InvalidToken('The signing key is unknown')
    return key
  }
  const options = { issuer: service.config.publicUrl, typ: 'at+jwt', algorithms: ['EdDSA'] }
  return async (token: string): Promise<AccessToken> => {
    requireCanonical(token)
    const claims = await verify(token, findKey, { ...options, currentDate: new Date(service.clock()) })
    if (!isId(claims.sub ?? '')) throw new InvalidToken('The claim sub is not a user ID')
    const { client_id, scope, grant_id } = claims
    return {
      ...readClaims(claims),
      id: requireString(claims.jti, 'jti'),
      user_id: requireString(claims.sub, 'sub'),
      scopes: client_id === undefined ? undefined : String(scope ?? '').split(' '),
      grant_id: grant_id === undefined ? undefined : requireString(grant_id, 'grant_id'),
      client_id: client_id === undefined ? undefined : requireString(client_id, 'client_id'),
    }
  }
}

/** Verifies tokens of the operator's sign-in provider. A user is created on their first request. */
function externalTokenVerifier(service: Service, { issuer, audience }: { issuer: string; audience: string }) {
  const { api, mcp } = resources(service.config.publicUrl)
  const keys = createIssuerKeys(service)
  const findKey: JWTVerifyGetKey = async ({ kid, alg }) => {
    const { key } = await keys.find({ issuer, audiences: [audience] }, kid, alg)
    if (!key) throw new InvalidToken('The signing key is unknown')
    return key
  }
  return async (token: string): Promise<AccessToken> => {
    const payload = await verify(token, findKey, {
      issuer,
      audience,
      algorithms: ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA'],
      currentDate: new Date(service.clock()),
    }).catch((cause) => {
      if (cause instanceof DiscoveryFailed) throw serviceUnavailable('The sign-in provider isn’t responding', cause)
      throw cause
    })
    const identity = readIdentity(issuer, payload)
    if (!identity) throw new InvalidToken('The claim sub or email is missing')
    const user = await signIn(service, identity)
    // Excludes the signature, because some algorithms allow several valid signatures for the same token.
    const id = fingerprint(payload.jti ? `${issuer} ${payload.jti}` : token.slice(0, token.lastIndexOf('.')))
    // The operator's audience covers all resources.
    return { ...readClaims(payload), id, user_id: user.id, audience: [api, mcp] }
  }
}

async function verify(token: string, findKey: JWTVerifyGetKey, options: JWTVerifyOptions): Promise<JWTPayload> {
  try {
    return (await jwtVerify(token, findKey, { clockTolerance: clockToleranceMs / 1000, ...options })).payload
  } catch (error) {
    throw error instanceof errors.JOSEError ? new InvalidToken(error.message, { cause: error }) : error
  }
}

function readClaims(claims: JWTPayload): Omit<AccessToken, 'id' | 'user_id'> {
  if (typeof claims.exp !== 'number') throw new InvalidToken('The claim exp is missing')
  return {
    organization_id: readOrganization(claims),
    audience: [claims.aud ?? []].flat(),
    expires_at: claims.exp * 1000,
  }
}

/** Providers use either claim name; a token in which the two differ is rejected. */
function readOrganization({ org_id, organization_id }: JWTPayload): string | undefined {
  if (org_id !== undefined && organization_id !== undefined && org_id !== organization_id) {
    throw new InvalidToken('org_id and organization_id differ')
  }
  const id = org_id ?? organization_id
  return typeof id === 'string' && id !== '' ? id : undefined
}

function requireString(value: unknown, claim: string): string {
  if (typeof value !== 'string' || value === '') throw new InvalidToken(`The claim ${claim} is missing`)
  return value
}

/** Base64 decoders ignore padding, invalid characters and spare bits, so without this a token has many encodings. */
function requireCanonical(token: string): void {
  for (const part of token.split('.')) {
    if (Buffer.from(part, 'base64url').toString('base64url') !== part)
      throw new InvalidToken('The token is not encoded in canonical form')
  }
}

function issuerOf(token: string): string | undefined {
  try {
    return decodeJwt(token).iss
  } catch {
    // The verifier says what is wrong with it.
    return undefined
  }
}
