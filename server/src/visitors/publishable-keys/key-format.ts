import { randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'

/** `pk` for publishable keys, `sk` for the secret keys of service accounts. */
type KeyKind = 'pk' | 'sk'

/**
 * `pk_live_` + 32 random bytes in base 62 + a checksum. Secret scanners find it, a double click selects it, and a
 * mistyped key is rejected without a lookup.
 */
export function generateKey(kind: KeyKind, mode: 'development' | 'production'): string {
  const body = base62(BigInt(`0x${randomBytes(32).toString('hex')}`), 43)
  const start = `${kind}_${mode === 'production' ? 'live' : 'test'}_${body}`
  return start + checksum(start)
}

export function isWellFormedKey(kind: KeyKind, text: string): boolean {
  const match = /^([ps]k_(?:live|test)_[0-9A-Za-z]{43})([0-9A-Za-z]{6})$/.exec(text)
  return match?.[1] !== undefined && text.startsWith(kind) && checksum(match[1]) === match[2]
}

const checksum = (text: string) => base62(BigInt(crc32(text)), 6)

const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

function base62(value: bigint, length: number): string {
  let text = ''
  for (let rest = value; text.length < length; rest /= 62n) text = digits[Number(rest % 62n)] + text
  return text
}
