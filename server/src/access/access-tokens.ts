import { sign, verify as verifySignature } from 'node:crypto'
import { type JWTPayload, errors as joseErrors, jwtVerify } from 'jose'
import type { Service } from '../foundation/service.ts'
import { resources } from '../http/protected-resources.ts'
import { DiscoveryFailed } from '../identity-provider/discovery.ts'
import { createProviderKeys } from '../identity-provider/provider-keys.ts'
import { serviceUnavailable } from '../lib/errors.ts'
import { isId, newId } from '../lib/ids.ts'
import { fingerprint } from '../lib/secrets.ts'
import { readIdentity, signIn } from '../users/users.ts'
import { createSigningKeys } from './signing-keys.ts'

/** The claims of a verified bearer token. Its expiry and audience are checked on every use. */
export interface AccessToken {
  /** What it is revoked by: one token has one id, whatever its text looks like. */
  id: string
  user_id: string
  organization_id: string | undefined
  audience: readonly string[]
  /** Milliseconds since the Unix epoch. */
  expires_at: number
  /** What a client was allowed; undefined for tokens that were not issued to a client. */
  scopes?: readonly string[] | undefined
  /** The authorization that the token comes from, if it can still be ended. */
  grant_id?: string | undefined
  /** Whom it was issued to. */
  client_id?: string | undefined
}

/** Why a token is refused. The text is for the log: callers only learn that they must sign in. */
export class InvalidToken extends Error {
  override name = 'InvalidToken'
}

/** In the key-value store: where the server runs, so that the command line knows for which address its tokens must be. */
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
  const header = { alg: 'EdDSA', typ: 'at+jwt', kid }
  const claims = {
    iss: service.config.publicUrl,
    sub: userId,
    aud: audience,
    iat: now,
    exp: now + lifetimeSeconds,
    jti: newId(),
    ...(organizationId && { org_id: organizationId }),
  }
  const text = `${encode(header)}.${encode(claims)}`
  return `${text}.${sign(null, Buffer.from(text), privateKey).toString('base64url')}`
}

export function createTokenVerifier(service: Service): (token: string) => Promise<AccessToken> {
  const verifyOwn = createOwnTokenVerifier(service)
  const verifyExternal = service.config.signIn && externalTokenVerifier(service, service.config.signIn)
  return async (token) => {
    requireCanonical(token)
    // Only routes to the verifier, which checks the issuer again under a signature.
    const issuer = decode(token.split('.')[1])?.iss
    if (verifyExternal && issuer === service.config.signIn?.issuer) return verifyExternal(token)
    return verifyOwn(token)
  }
}

export function createOwnTokenVerifier(service: Service) {
  const keys = createSigningKeys(service)
  return async (token: string): Promise<AccessToken> => {
    requireCanonical(token)
    const [head = '', body = '', signature = '', ...rest] = token.split('.')
    const header = decode(head)
    if (rest.length > 0 || header?.alg !== 'EdDSA' || header.typ !== 'at+jwt' || typeof header.kid !== 'string') {
      throw new InvalidToken('Not an access token of this issuer')
    }
    const key = await keys.find(header.kid)
    if (!key) throw new InvalidToken('The signing key is unknown')
    if (!verifySignature(null, Buffer.from(`${head}.${body}`), key, Buffer.from(signature, 'base64url'))) {
      throw new InvalidToken('The signature does not match')
    }
    const claims = decode(body) as JWTPayload
    if (claims.iss !== service.config.publicUrl) throw new InvalidToken('Another issuer made the token')
    if (!isId(claims.sub ?? '')) throw new InvalidToken('The token names nobody')
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

/** Tokens of the operator's own sign-in provider: people are known from their first request on. */
function externalTokenVerifier(service: Service, { issuer, audience }: { issuer: string; audience: string }) {
  const { api, mcp } = resources(service.config.publicUrl)
  const keys = createProviderKeys(service)
  const findKey = async ({ kid, alg }: { kid?: string | undefined; alg: string }) => {
    const { key } = await keys.find({ issuer, audiences: [audience] }, kid, alg)
    if (!key) throw new InvalidToken('The signing key is unknown')
    return key
  }
  return async (token: string): Promise<AccessToken> => {
    const { payload } = await jwtVerify(token, findKey, {
      issuer,
      audience,
      algorithms: ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA'],
      clockTolerance: 60,
      currentDate: new Date(service.clock()),
    }).catch((cause) => {
      if (cause instanceof DiscoveryFailed) throw serviceUnavailable('The sign-in provider does not answer', cause)
      throw cause instanceof joseErrors.JOSEError ? new InvalidToken(cause.message, { cause }) : cause
    })
    const identity = readIdentity(issuer, payload)
    if (!identity) throw new InvalidToken('The claim sub or email is missing')
    const user = await signIn(service, identity)
    // Without the signature: some algorithms allow several valid ones for the same token.
    const id = fingerprint(payload.jti ? `${issuer} ${payload.jti}` : token.slice(0, token.lastIndexOf('.')))
    // The operator's audience stands for the whole service.
    return { ...readClaims(payload), id, user_id: user.id, audience: [api, mcp] }
  }
}

function readClaims(claims: JWTPayload): Omit<AccessToken, 'id' | 'user_id'> {
  if (typeof claims.exp !== 'number') throw new InvalidToken('The token never expires')
  return {
    organization_id: readOrganization(claims),
    audience: [claims.aud ?? []].flat(),
    expires_at: claims.exp * 1000,
  }
}

/** Both names of the claim are in use; a token that says two different things is not trusted at all. */
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

/** Decoders skip padding, other characters and spare bits, so without this a token would have many texts. */
function requireCanonical(token: string): void {
  for (const part of token.split('.')) {
    if (Buffer.from(part, 'base64url').toString('base64url') !== part)
      throw new InvalidToken('The token is not encoded in canonical form')
  }
}

const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')

function decode(part: string | undefined): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(part ?? '', 'base64url').toString())
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}
