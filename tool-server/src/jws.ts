import { base64url, type CryptoKey } from 'jose'
import { signaturesOf } from './signatures.ts'

/** A signed token, taken apart. Nothing in it is believed yet. */
export interface Jws {
  header: Record<string, unknown>
  claims: Record<string, unknown>
  signed: Uint8Array<ArrayBuffer>
  signature: Uint8Array<ArrayBuffer>
}

/** Longer tokens are not looked at. */
const maxLength = 16 * 1024
const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { fatal: true })

export function readJws(token: string): Jws | undefined {
  if (token.length > maxLength) return undefined
  const [header, claims, signature, more] = token.split('.', 4)
  if (!header || !claims || !signature || more !== undefined) return undefined
  try {
    return {
      header: readObject(header),
      claims: readObject(claims),
      signed: encoder.encode(`${header}.${claims}`),
      signature: readCanonical(signature),
    }
  } catch {
    return undefined
  }
}

function readObject(part: string): Record<string, unknown> {
  const value: unknown = JSON.parse(decoder.decode(base64url.decode(part)))
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new TypeError('Not an object')
  return value as Record<string, unknown>
}

/** Nothing signs the signature: of all the spellings that decode to the same bytes, only one is accepted. */
function readCanonical(part: string): Uint8Array<ArrayBuffer> {
  const bytes = base64url.decode(part)
  if (base64url.encode(bytes) !== part) throw new TypeError('Not canonical')
  return bytes as Uint8Array<ArrayBuffer>
}

/** RFC 7515, section 4.1.9: media types are compared without case, and `application/` may be left out. */
export const hasType = ({ header }: Jws, type: string): boolean =>
  typeof header.typ === 'string' && header.typ.toLowerCase().replace(/^application\//, '') === type

interface TokenHeader {
  alg: string
  typ: string
  kid?: string
}

/** A function that signs claims as tokens with this header: of the tokens, only the claims differ. */
export function tokenSigner(key: CryptoKey, header: TokenHeader): (claims: object) => Promise<string> {
  const { sign } = signaturesOf(key, header.alg)
  const encodedHeader = base64url.encode(JSON.stringify(header))
  return async (claims) => {
    const signed = `${encodedHeader}.${base64url.encode(JSON.stringify(claims))}`
    return `${signed}.${base64url.encode(await sign(encoder.encode(signed)))}`
  }
}
