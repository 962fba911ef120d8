import { hash, timingSafeEqual } from 'node:crypto'
import type { DerivedKey } from './secrets.ts'

export interface Signer<T> {
  sign(value: T): string
  /** Undefined unless it's the exact text that was issued, because the signature covers the encoded text. */
  open(text: string): T | undefined
}

/** Values as `<key id>.<contents>.<HMAC-SHA-256 of both>`. The first key signs; all keys verify. */
export function createSigner<T>(derived: readonly DerivedKey[], longest: number): Signer<T> {
  const keys = derived.map(({ id, key }) => ({ id, sign: createMac(key, longest) }))
  const [current] = keys as [(typeof keys)[number]]

  return {
    sign(value) {
      const text = `${current.id}.${Buffer.from(JSON.stringify(value)).toString('base64url')}`
      return `${text}.${current.sign(text)}`
    },
    open(text) {
      if (text.length > longest) return undefined
      const [keyId, contents = '', signature = '', more] = text.split('.')
      const key = keys.find(({ id }) => id === keyId)
      if (!key || more !== undefined) return undefined
      const [given, wanted] = [Buffer.from(signature), Buffer.from(key.sign(`${keyId}.${contents}`))]
      if (given.length !== wanted.length || !timingSafeEqual(given, wanted)) return undefined
      return JSON.parse(Buffer.from(contents, 'base64url').toString())
    },
  }
}

const blockBytes = 64
const hashBytes = 32

/**
 * HMAC-SHA-256 (RFC 2104) of ASCII texts, in base64url. Two hashes in one call each, because creating and using an `Hmac`
 * takes twice as long; see the tickets in bench/README.md.
 */
export function createMac(key: Uint8Array, longest: number): (text: string) => string {
  const inner = Buffer.alloc(blockBytes + longest, 0x36)
  const outer = Buffer.alloc(blockBytes + hashBytes, 0x5c)
  for (const [index, byte] of key.entries()) {
    inner[index] = byte ^ 0x36
    outer[index] = byte ^ 0x5c
  }
  return (text) => {
    if (text.length > longest) throw new RangeError(`The text has more than ${longest} characters`)
    const length = blockBytes + inner.write(text, blockBytes, 'latin1')
    outer.write(hash('sha256', inner.subarray(0, length), 'latin1'), blockBytes, 'latin1')
    return hash('sha256', outer, 'base64url')
  }
}
