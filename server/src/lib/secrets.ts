import { createCipheriv, createDecipheriv, hash, hkdfSync } from 'node:crypto'
import { randomText } from './ids.ts'

/**
 * Encryption at rest. An envelope names the key that made it, so a new secret can be put in front of the list while
 * everything sealed by an older one stays readable until it is sealed again.
 * The associated data is the place the value lives in: a ciphertext moved to another row or key does not open.
 */
export interface Secrets {
  /** `v1.<key id>.<iv>.<ciphertext and tag>` */
  seal(plaintext: string, place: string): string
  open(envelope: string, place: string): string
  /** False for an envelope that a rotation has still to seal again. */
  isCurrent(envelope: string): boolean
  /** Each secret of the list, newest first, turned into an unrelated key for one purpose. */
  derive(purpose: string): DerivedKey[]
}

export interface DerivedKey {
  /** Public name of the secret the key comes from. */
  id: string
  key: Buffer
}

export class UnreadableSecret extends Error {
  override name = 'UnreadableSecret'
}

/** For values that are worth nothing when they can't be opened: moved here from elsewhere, or sealed by a secret that is gone. */
export function ignoreUnreadable(error: unknown): undefined {
  if (!(error instanceof UnreadableSecret)) throw error
}

export function createSecrets(secrets: readonly string[]): Secrets {
  const ids = secrets.map((secret) => hkdf(secret, 'inlay key id').toString('hex').slice(0, 8))
  const derive = (purpose: string) =>
    secrets.map((secret, index) => ({ id: ids[index] as string, key: hkdf(secret, `inlay ${purpose}`) }))

  const encryptionKeys = derive('encryption')
  const [current] = encryptionKeys
  if (!current) throw new Error('At least one secret is needed')
  const keyById = new Map(encryptionKeys.map(({ id, key }) => [id, key]))

  return {
    derive,
    isCurrent: (envelope) => envelope.startsWith(`v1.${current.id}.`),
    seal(plaintext, place) {
      const iv = randomText(16)
      const cipher = createCipheriv('aes-256-gcm', current.key, Buffer.from(iv, 'base64url')).setAAD(Buffer.from(place))
      const sealed = Buffer.concat([cipher.update(plaintext, 'utf8'), cipher.final(), cipher.getAuthTag()])
      return `v1.${current.id}.${iv}.${sealed.toString('base64url')}`
    },
    open(envelope, place) {
      const [version, id = '', iv = '', sealed = '', more] = envelope.split('.')
      if (version !== 'v1' || !id || more !== undefined) throw new UnreadableSecret('This is not a sealed value')
      const key = keyById.get(id)
      if (!key) throw new UnreadableSecret(`No secret with the id ${id} is configured`)
      const [nonce, bytes] = [decode(iv), decode(sealed)]
      if (nonce.length !== 12 || bytes.length < 16) throw new UnreadableSecret('This is not a sealed value')
      try {
        const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: 16 })
          .setAAD(Buffer.from(place))
          .setAuthTag(bytes.subarray(-16))
        return decipher.update(bytes.subarray(0, -16), undefined, 'utf8') + decipher.final('utf8')
      } catch (cause) {
        throw new UnreadableSecret('The value was changed, or belongs to another place', { cause })
      }
    },
  }
}

/** Several texts decode to the same bytes; only the one that was written is taken. */
function decode(text: string): Buffer {
  const bytes = Buffer.from(text, 'base64url')
  if (bytes.toString('base64url') !== text) throw new UnreadableSecret('The value was changed')
  return bytes
}

/** What is stored of a value that is looked up but never shown: keys, tokens, tickets. */
export const fingerprint = (value: string): string => hash('sha256', value, 'base64url')

const hkdf = (secret: string, info: string): Buffer => Buffer.from(hkdfSync('sha256', secret, 'inlay', info, 32))
