import { randomBytes } from 'node:crypto'

const poolBytes = 6 * 1024
let text = ''
let used = 0

/**
 * Random characters of base64url, 6 bits each. The system is asked for many at once, because that takes it as long as a
 * few do.
 */
export function randomText(length: number): string {
  if (used + length > text.length) {
    text = randomBytes(poolBytes).toString('base64url')
    used = 0
  }
  used += length
  return text.slice(used - length, used)
}
