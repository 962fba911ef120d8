import type { CryptoKey } from 'jose'

type Bytes = Uint8Array<ArrayBuffer>
export type Sign = (signed: Bytes) => Bytes | Promise<Bytes>
export type Verify = (signed: Bytes, signature: Bytes) => boolean | Promise<boolean>

interface Algorithm {
  name: string
  hash: string | null
  saltLength?: number
}

/** By the name in JOSE. Neither `none` nor anything unknown is here. */
const algorithms = new Map<unknown, Algorithm>([
  ['HS256', { name: 'HMAC', hash: 'SHA-256' }],
  ['RS256', { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' }],
  ['RS384', { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-384' }],
  ['RS512', { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-512' }],
  ['PS256', { name: 'RSA-PSS', hash: 'SHA-256', saltLength: 32 }],
  ['PS384', { name: 'RSA-PSS', hash: 'SHA-384', saltLength: 48 }],
  ['PS512', { name: 'RSA-PSS', hash: 'SHA-512', saltLength: 64 }],
  ['ES256', { name: 'ECDSA', hash: 'SHA-256' }],
  ['ES384', { name: 'ECDSA', hash: 'SHA-384' }],
  ['ES512', { name: 'ECDSA', hash: 'SHA-512' }],
  ['EdDSA', { name: 'Ed25519', hash: null }],
  ['Ed25519', { name: 'Ed25519', hash: null }],
])

export const isAsymmetric = (alg: unknown): alg is string => alg !== 'HS256' && algorithms.has(alg)

/**
 * Keys are jose's: it knows which fit an algorithm, and imports them for it. The operations are not, because jose takes a
 * token apart anew for each, and because on Node a grant costs nearly twice as much with WebCrypto as with Node's own.
 */
export function makeSignatures(node: typeof import('node:crypto') | undefined) {
  const bind = node ? (key: CryptoKey, alg: Algorithm) => bindToNode(node, key, alg) : bindToWebCrypto
  return (key: CryptoKey, alg: string): { sign: Sign; verify: Verify } => {
    const algorithm = algorithms.get(alg)
    if (algorithm?.name !== key.algorithm.name) throw new TypeError(`The key is not one for ${alg}`)
    return bind(key, algorithm)
  }
}

export const signaturesOf = makeSignatures(globalThis.process?.getBuiltinModule?.('node:crypto'))

function bindToWebCrypto(key: CryptoKey, algorithm: Algorithm): { sign: Sign; verify: Verify } {
  const { subtle } = crypto
  const parameters = { name: algorithm.name, hash: algorithm.hash ?? '', saltLength: algorithm.saltLength ?? 0 }
  return {
    sign: async (signed) => new Uint8Array(await subtle.sign(parameters, key, signed)),
    verify: (signed, signature) => subtle.verify(parameters, key, signature, signed),
  }
}

function bindToNode(
  node: typeof import('node:crypto'),
  cryptoKey: CryptoKey,
  { name, hash, saltLength }: Algorithm,
): { sign: Sign; verify: Verify } {
  const key = node.KeyObject.from(cryptoKey as Parameters<typeof node.KeyObject.from>[0])
  if (name === 'HMAC') {
    const sign = (signed: Bytes) => new Uint8Array(node.createHmac('sha256', key).update(signed).digest())
    return {
      sign,
      verify: (signed, signature) => signature.length === 32 && node.timingSafeEqual(sign(signed), signature),
    }
  }
  const padding = name === 'RSA-PSS' && { padding: node.constants.RSA_PKCS1_PSS_PADDING, saltLength: saltLength ?? 0 }
  const options = { key, dsaEncoding: 'ieee-p1363' as const, ...padding }
  return {
    sign: (signed) => new Uint8Array(node.sign(hash, signed, options)),
    // On another thread: it takes as long as everything else about a request.
    verify: (signed, signature) =>
      new Promise((resolve, reject) => {
        node.verify(hash, signed, options, signature, (error, isValid) => (error ? reject(error) : resolve(isValid)))
      }),
  }
}
