import type { CryptoKey } from 'jose'
import { type Checks, findBroken, isText, isTexts, isTime, skew, splitScope } from './checks.ts'
import { hasType, type Jws, readJws, tokenSigner } from './jws.ts'
import { Refused } from './refusals.ts'
import { signaturesOf, type Verify } from './signatures.ts'

/** The person for whom a tool is used, and the hub that uses it. */
export interface Caller {
  /** Who the person is at their identity provider. It names one person only together with the issuer. */
  subject: string
  /** The identity provider. */
  issuer: string
  /** The hub. */
  clientId: string
  scopes: string[]
  email?: string
  groups?: string[]
  roles?: string[]
}

export interface AccessTokensOptions {
  /** Issuer and audience alike: the server writes these tokens for itself. */
  resource: string
  /** The first signs, all of them verify. */
  secrets: readonly string[]
  /** In seconds. */
  lifetime: number
  /** Of each client id, the identity provider. */
  issuers: ReadonlyMap<unknown, string>
}

interface Expected extends Pick<AccessTokensOptions, 'resource' | 'issuers'> {
  /** In seconds. */
  now: number
}

const checks = {
  issuer: ({ claims }, { resource }) => claims.iss === resource,
  audience: ({ claims }, { resource }) => claims.aud === resource,
  subject: ({ claims }) => isText(claims.sub),
  // A hub that is no longer trusted loses the tokens that are out.
  client_id: ({ claims }, { issuers }) => isText(claims.idp) && issuers.get(claims.client_id) === claims.idp,
  expired: ({ claims }, { now }) => isTime(claims.exp) && claims.exp > now - skew,
} satisfies Checks<string, Expected>

export type AccessReason = 'missing' | 'format' | 'type' | 'signature' | keyof typeof checks | 'scope'

/**
 * Only the server that signs these tokens reads them, so a secret that its nodes share is enough, and a check costs a
 * fraction of that of an asymmetric signature.
 */
export function createAccessTokens({ resource, secrets, lifetime, issuers }: AccessTokensOptions) {
  const prepare = once(async () => {
    const keys = await Promise.all(secrets.map(importSecret))
    return {
      sign: tokenSigner(keys[0] as CryptoKey, { alg: 'HS256', typ: 'at+jwt' }),
      verifies: keys.map((key) => signaturesOf(key, 'HS256').verify),
    }
  })

  async function issue(caller: Caller, now: number): Promise<string> {
    const { subject, issuer, clientId, scopes, email, groups, roles } = caller
    const { sign } = await prepare()
    const iat = Math.floor(now)
    return sign({
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
    })
  }

  async function verify(authorization: string | undefined, wanted: readonly string[], now: number): Promise<Caller> {
    if (!authorization) refuse('missing')
    const token = readJws(bearer.exec(authorization)?.[1] ?? '') ?? refuse('format')
    if (!hasType(token, 'at+jwt') || token.header.alg !== 'HS256') refuse('type')
    if (!(await isSignedByAny((await prepare()).verifies, token))) refuse('signature')
    const broken = findBroken<keyof typeof checks, Expected>(checks, token, { resource, issuers, now })
    if (broken) refuse(broken)
    const caller = readCaller(token.claims)
    if (!wanted.every((scope) => caller.scopes.includes(scope))) refuse('scope')
    return caller
  }

  return { issue, verify }
}

const bearer = /^Bearer +([\w.-]+)$/i

function refuse(reason: AccessReason): never {
  throw new Refused(reason)
}

async function isSignedByAny(verifies: readonly Verify[], { signed, signature }: Jws): Promise<boolean> {
  for (const verify of verifies) if (await verify(signed, signature)) return true
  return false
}

const readCaller = (claims: Record<string, unknown>): Caller => ({
  subject: String(claims.sub),
  issuer: String(claims.idp),
  clientId: String(claims.client_id),
  scopes: splitScope(claims.scope),
  ...readProfile(claims),
})

/** What a token may also say about a person. A claim of another type is left out. */
export const readProfile = ({ email, groups, roles }: Record<string, unknown>) => ({
  ...(isText(email) && { email }),
  ...(isTexts(groups) && { groups }),
  ...(isTexts(roles) && { roles }),
})

/** Extractable, because the secret is in this process anyway and Node asks for it. */
const importSecret = (secret: string): Promise<CryptoKey> =>
  crypto.subtle.importKey('raw', new TextEncoder().encode(secret), { name: 'HMAC', hash: 'SHA-256' }, true, [
    'sign',
    'verify',
  ])

function once<T>(make: () => T): () => T {
  let made: T | undefined
  return () => {
    made ??= make()
    return made
  }
}
