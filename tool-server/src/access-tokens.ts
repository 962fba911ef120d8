import { CompactSign, type CryptoKey, type JWTPayload } from 'jose'
import { type Checks, check, isText, splitScope, verifyJwt } from './jwt.ts'
import { Refused, refuse } from './refusals.ts'

/** The user for whom a tool is called, and the hub that calls it. */
export interface Caller {
  /** The user's id at the identity provider. It's only unique together with the issuer. */
  subject: string
  /** The identity provider. */
  issuer: string
  /** The hub's client id. */
  clientId: string
  scopes: string[]
  email?: string
  groups?: string[]
  roles?: string[]
}

export interface AccessTokensOptions {
  /** Issuer and audience of the tokens, because the server issues them for itself. */
  resource: string
  /** The first one signs, all of them verify. */
  secrets: readonly string[]
  /** Lifetime of a token, in seconds. */
  lifetime: number
  /** Maps each client id to its identity provider. */
  issuers: ReadonlyMap<unknown, string>
}

const header = { alg: 'HS256', typ: 'at+jwt' }

const checks: Checks<Pick<AccessTokensOptions, 'resource' | 'issuers'>> = {
  audience: ({ aud }, { resource }) => aud === resource,
  subject: ({ sub }) => isText(sub),
  // Removing a hub from the configuration also ends the tokens that it holds.
  client_id: ({ idp, client_id }, { issuers }) => isText(idp) && issuers.get(client_id) === idp,
}

/**
 * Only the server that signs these tokens verifies them, so a shared secret is enough, and faster than an asymmetric
 * signature.
 */
export function createAccessTokens({ resource, secrets, lifetime, issuers }: AccessTokensOptions) {
  let importing: Promise<CryptoKey[]> | undefined
  // Imports on first use, because Workers allow no asynchronous work before the first request.
  const importKeys = () => {
    importing ??= Promise.all(secrets.map(importSecret))
    return importing
  }

  async function issue(caller: Caller, now: number): Promise<string> {
    const { subject, issuer, clientId, scopes, email, groups, roles } = caller
    const [key] = (await importKeys()) as [CryptoKey]
    const iat = Math.floor(now / 1000)
    const claims = {
      iss: resource,
      aud: resource,
      sub: subject,
      idp: issuer,
      client_id: clientId,
      scope: scopes.join(' '),
      email,
      groups,
      roles,
      iat,
      exp: iat + lifetime,
      jti: crypto.randomUUID(),
    }
    // Takes about half as long as SignJWT, which clones the claims first.
    return new CompactSign(encoder.encode(JSON.stringify(claims))).setProtectedHeader(header).sign(key)
  }

  async function verify(authorization: string | undefined, wanted: readonly string[], now: number): Promise<Caller> {
    if (!authorization) refuse('missing')
    const token = /^Bearer +([\w.-]+)$/i.exec(authorization)?.[1] ?? refuse('format')
    const claims = await verifyWithAnyKey(token, now)
    check(checks, claims, { resource, issuers })
    const caller = readCaller(claims)
    if (!wanted.every((scope) => caller.scopes.includes(scope))) refuse('scope')
    return caller
  }

  async function verifyWithAnyKey(token: string, now: number): Promise<JWTPayload> {
    const options = {
      algorithms: [header.alg],
      typ: header.typ,
      issuer: resource,
      audience: resource,
      requiredClaims: ['exp'],
      currentDate: new Date(now),
      clockTolerance: 60,
    }
    for (const key of await importKeys()) {
      try {
        return await verifyJwt(token, () => key, options)
      } catch (error) {
        if (!(error instanceof Refused && error.reason === 'signature')) throw error
      }
    }
    return refuse('signature')
  }

  return { issue, verify }
}

const readCaller = (claims: JWTPayload): Caller => ({
  subject: String(claims.sub),
  issuer: String(claims.idp),
  clientId: String(claims.client_id),
  scopes: splitScope(claims.scope),
  ...readProfile(claims),
})

/** Optional claims about the user. Claims of an unexpected type are dropped. */
export const readProfile = ({ email, groups, roles }: JWTPayload) => ({
  ...(isText(email) && { email }),
  ...(isTexts(groups) && { groups }),
  ...(isTexts(roles) && { roles }),
})

const isTexts = (value: unknown): value is string[] => Array.isArray(value) && value.every(isText)

const encoder = new TextEncoder()

const importSecret = (secret: string): Promise<CryptoKey> =>
  crypto.subtle.importKey('raw', encoder.encode(secret), { name: 'HMAC', hash: 'SHA-256' }, false, ['sign', 'verify'])
