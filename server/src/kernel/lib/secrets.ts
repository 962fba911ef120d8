import { createCipheriv, createDecipheriv, hash, hkdfSync } from 'node:crypto'
import { randomText } from './ids.ts'

/**
 * Encryption at rest. An envelope contains the id of its key, so a new secret can be added to the front of the list,
 * and values sealed with an older one stay readable until they are sealed again. The associated data is the value's
 * place, so a ciphertext that was moved to another row or key can't be opened.
 */
export interface Secrets {
  /** `v1.<key id>.<iv>.<ciphertext and tag>` */
  seal(plaintext: string, place: string): string
  open(envelope: string, place: string): string
  /** False for an envelope that a key rotation hasn't sealed again yet. */
  isCurrent(envelope: string): boolean
  /** Derives an independent key for one purpose from each secret, newest first. */
  derive(purpose: string): DerivedKey[]
}

export interface DerivedKey {
  /** Public id of the secret that the key is derived from. */
  id: string
  key: Buffer
}

export class UnreadableSecret extends Error {
  override name = 'UnreadableSecret'
}

/**
 * Use for values that can be discarded if they can't be opened: they were moved, or their secret is no longer
 * configured.
 */
export function ignoreUnreadable(error: unknown): undefined {
  if (!(error instanceof UnreadableSecret)) throw error
}

export function createSecrets(secrets: readonly string[]): Secrets {
  const ids = secrets.map((secret) => hkdf(secret, 'inlay key id').toString('hex').slice(0, 8))
  const derive = (purpose: string) =>
    secrets.map((secret, index) => ({ id: ids[index] as string, key: hkdf(secret, `inlay ${purpose}`) }))

  const encryptionKeys = derive('encryption')
  const [current] = encryptionKeys
  if (!current) throw new Error('At least one secret is required')
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
        throw new UnreadableSecret('The value was modified, or belongs to another place', { cause })
      }
    },
  }
}

/** Several texts decode to the same bytes; only the canonical one is accepted. */
function decode(text: string): Buffer {
  const bytes = Buffer.from(text, 'base64url')
  if (bytes.toString('base64url') !== text) throw new UnreadableSecret('The value was modified')
  return bytes
}

/** Stored instead of values that are looked up but never shown: keys, tokens, tickets. */
export const fingerprint = (value: string | Buffer): string => hash('sha256', value, 'base64url')

const hkdf = (secret: string, info: string): Buffer => Buffer.from(hkdfSync('sha256', secret, 'inlay', info, 32))
