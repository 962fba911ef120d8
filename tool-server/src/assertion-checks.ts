import { type Checks, findBroken, isText, isTime, skew, splitScope } from './checks.ts'
import { hasType, type Jws } from './jws.ts'
import { isAsymmetric } from './signatures.ts'

/** In seconds. Identity providers give assertions about five minutes. */
const longestLifetime = 3600
const longestTokenId = 256

interface Expected {
  /** The identity provider of the client that brought the assertion. */
  issuer: string
  clientId: string
  resource: string
  /** The scopes that may be granted. An assertion with a scope has to name one of them. */
  scopes: readonly string[]
  /** In seconds. */
  now: number
}

const checks = {
  critical_header: ({ header }) => header.crit === undefined,
  algorithm: ({ header }) => isAsymmetric(header.alg),
  key_id: ({ header }) => isText(header.kid),
  type: (assertion) => hasType(assertion, 'oauth-id-jag+jwt'),
  issuer: ({ claims }, { issuer }) => claims.iss === issuer,
  audience: ({ claims }, { resource }) => onlyOne(claims.aud) === resource,
  client_id: ({ claims }, { clientId }) => claims.client_id === clientId,
  subject: ({ claims }) => isText(claims.sub),
  expired: ({ claims }, { now }) => isTime(claims.exp) && claims.exp > now - skew,
  issued_at: ({ claims }, { now }) => isTime(claims.iat) && claims.iat <= now + skew,
  not_before: ({ claims }, { now }) => claims.nbf === undefined || (isTime(claims.nbf) && claims.nbf <= now + skew),
  lifetime: ({ claims }) => Number(claims.exp) - Number(claims.iat) <= longestLifetime,
  resource: ({ claims }, { resource }) => claims.resource === undefined || onlyOne(claims.resource) === resource,
  scope: ({ claims }, { scopes }) =>
    claims.scope === undefined ? scopes.length > 0 : splitScope(claims.scope).some((scope) => scopes.includes(scope)),
  token_id: ({ claims }) => isText(claims.jti) && claims.jti.length <= longestTokenId,
  // Such an assertion is good only with a proof of possession, which is not asked for here.
  confirmation: ({ claims }) => claims.cnf === undefined,
} satisfies Checks<string, Expected>

export type AssertionReason = keyof typeof checks

/** All that can be said without the provider's key. */
export const findBrokenClaim = (assertion: Jws, expected: Expected): AssertionReason | undefined =>
  findBroken<AssertionReason, Expected>(checks, assertion, expected)

const onlyOne = (value: unknown): unknown => (Array.isArray(value) && value.length === 1 ? value[0] : value)
