import { importJWK, type JWK } from 'jose'
import { signaturesOf, type Verify } from './signatures.ts'

const smallestModulus = 2048

/** Published keys, each imported once for each algorithm that it is used with. */
export class PublicKeys {
  readonly #published: readonly JWK[]
  readonly #imported = new Map<string, Promise<Verify | undefined>>()

  constructor(published: readonly JWK[]) {
    this.#published = published
  }

  find(keyId: unknown, alg: string): Promise<Verify | undefined> | undefined {
    const name = `${alg} ${keyId}`
    const imported = this.#imported.get(name)
    if (imported) return imported
    const jwk = this.#published.find((each) => each.kid === keyId && isFor(each, alg))
    if (!jwk) return undefined
    const importing = importVerify(jwk, alg)
    this.#imported.set(name, importing)
    return importing
  }
}

/** A symmetric or a private key has no place among published ones. */
const isFor = ({ kty, use, alg, key_ops, d }: JWK, wanted: string): boolean =>
  kty !== 'oct' &&
  d === undefined &&
  (use === undefined || use === 'sig') &&
  (alg === undefined || alg === wanted) &&
  (key_ops === undefined || key_ops.includes('verify'))

/** Undefined for a key that does not fit its algorithm, or is too short. */
async function importVerify(jwk: JWK, alg: string): Promise<Verify | undefined> {
  const key = await importJWK(jwk, alg, { extractable: true }).catch(() => undefined)
  if (!key || key instanceof Uint8Array) return undefined
  const { modulusLength = smallestModulus } = key.algorithm as { modulusLength?: number }
  return modulusLength < smallestModulus ? undefined : signaturesOf(key, alg).verify
}
