import { base64url, errors, type JWTPayload, type JWTVerifyGetKey, type JWTVerifyOptions, jwtVerify } from 'jose'
import { type Reason, Refused, refuse } from './refusals.ts'

/** Maximum length of a token, in characters. */
const maxLength = 16 * 1024

/** The algorithms that are accepted for public keys. */
export const asymmetricAlgorithms = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'],
]

type VerifyOptions = JWTVerifyOptions & Required<Pick<JWTVerifyOptions, 'algorithms' | 'typ' | 'currentDate'>>

/** The reasons to report for a malformed token, and for one with another algorithm. */
interface Naming {
  format: Reason
  algorithm: Reason
}

/** Verifies the signature, the header and the claims in `options` with jose. */
export async function verifyJwt(
  token: string,
  getKey: JWTVerifyGetKey,
  options: VerifyOptions,
  naming: Naming = { format: 'format', algorithm: 'type' },
): Promise<JWTPayload> {
  if (!isCanonical(token)) refuse(naming.format)
  try {
    return (await jwtVerify(token, getKey, options)).payload
  } catch (error) {
    throw error instanceof Refused ? error : toRefused(error, naming)
  }
}

/**
 * jose also accepts base64url with padding, whitespace or non-zero spare bits. A signature doesn't cover its own
 * encoding, so without this check the same token could be written in several ways.
 */
function isCanonical(token: string): boolean {
  if (token.length > maxLength || !/^[\w-]+\.[\w-]+\.[\w-]+$/.test(token)) return false
  const signature = token.slice(token.lastIndexOf('.') + 1)
  try {
    return base64url.encode(base64url.decode(signature)) === signature
  } catch {
    return false
  }
}

const reasonOfClaim: Record<string, Reason> = {
  typ: 'type',
  iss: 'issuer',
  aud: 'audience',
  exp: 'expired',
  iat: 'issued_at',
  nbf: 'not_before',
}

function toRefused(error: unknown, naming: Naming): Refused {
  if (error instanceof errors.JWTClaimValidationFailed || error instanceof errors.JWTExpired) {
    return new Refused(reasonOfClaim[error.claim] as Reason)
  }
  if (error instanceof errors.JWSSignatureVerificationFailed) return new Refused('signature')
  if (error instanceof errors.JWSInvalid || error instanceof errors.JWTInvalid) return new Refused(naming.format)
  if (error instanceof errors.JOSEAlgNotAllowed) return new Refused(naming.algorithm)
  // jose supports all allowed algorithms, so the only unsupported thing left is a critical header parameter.
  if (error instanceof errors.JOSENotSupported) return new Refused('critical_header')
  if (error instanceof errors.JWKSNoMatchingKey) return new Refused('unknown_key')
  // jose can't use the key: it's private, too short, invalid, or has the same id as another.
  return new Refused('unknown_key', { cause: error })
}

/** Conditions for a token's claims. The key is the reason for refusing the token if the condition is false. */
export type Checks<Expected> = Partial<Record<Reason, (claims: JWTPayload, expected: Expected) => boolean>>

/** Runs the checks in their order of declaration. */
export function check<Expected>(checks: Checks<Expected>, claims: JWTPayload, expected: Expected): void {
  for (const [reason, holds] of Object.entries(checks)) if (!holds(claims, expected)) refuse(reason as Reason)
}

/** The time between `iat` and `exp`, in seconds. */
export const lifetimeOf = ({ exp, iat }: JWTPayload): number => Number(exp) - Number(iat)

export const isText = (value: unknown): value is string => typeof value === 'string' && value !== ''

export const splitScope = (scope: unknown): string[] =>
  typeof scope === 'string' ? scope.split(' ').filter((each) => each !== '') : []
