import { createHmac, createSecretKey, timingSafeEqual } from 'node:crypto'
import type { DerivedKey } from '../lib/secrets.ts'

export interface Signer<T> {
  sign(value: T): string
  /** Undefined unless it's the exact text that was issued, because the signature covers the encoded text. */
  open(text: string): T | undefined
}

/** Values as `<key id>.<contents>.<HMAC-SHA-256 of both>`. The first key signs; all keys verify. */
export function createSigner<T>(derived: readonly DerivedKey[], longest: number): Signer<T> {
  const keys = derived.map(({ id, key }) => ({ id, key: createSecretKey(key) }))
  const [current] = keys as [(typeof keys)[number]]
  const sign = (key: (typeof keys)[number], text: string) =>
    createHmac('sha256', key.key).update(text).digest('base64url')

  return {
    sign(value) {
      const text = `${current.id}.${Buffer.from(JSON.stringify(value)).toString('base64url')}`
      return `${text}.${sign(current, text)}`
    },
    open(text) {
      if (text.length > longest) return undefined
      const [keyId, contents = '', signature = '', more] = text.split('.')
      const key = keys.find(({ id }) => id === keyId)
      if (!key || more !== undefined) return undefined
      const [given, wanted] = [Buffer.from(signature), Buffer.from(sign(key, `${keyId}.${contents}`))]
      if (given.length !== wanted.length || !timingSafeEqual(given, wanted)) return undefined
      return JSON.parse(Buffer.from(contents, 'base64url').toString())
    },
  }
}
