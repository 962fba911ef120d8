import { randomBytes, randomUUIDv7 } from 'node:crypto'

let lastTime = ''
let counter = 0

/**
 * Ids of one process sort by creation, so that primary keys stay clustered and a list by id is in the order things were
 * made. Node's own are random within a millisecond; here the twelve bits after the time count (RFC 9562, section 6.2).
 */
export function newId(): string {
  let id = randomUUIDv7()
  // A millisecond has room for two thousand at least; whoever makes more waits for the next one.
  while (timeOf(id) <= lastTime && counter === 0xfff) id = randomUUIDv7()
  if (timeOf(id) > lastTime) {
    lastTime = timeOf(id)
    counter = Number.parseInt(id.slice(15, 18), 16) & 0x7ff
  } else {
    counter += 1
  }
  return `${lastTime}-7${counter.toString(16).padStart(3, '0')}-${id.slice(19)}`
}

const timeOf = (id: string) => id.slice(0, 13)

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** An id that does not look like one is answered like an unknown one, before it reaches a uuid column. */
export const isId = (text: string): boolean => uuid.test(text)

const pooledBytes = 6 * 1024
let pool = ''
let used = 0

/**
 * Random characters of base64url, 6 bits each. The system is asked for many at once, because that takes it as long as a
 * few do.
 */
export function randomText(length: number): string {
  if (used + length > pool.length) {
    pool = randomBytes(pooledBytes).toString('base64url')
    used = 0
  }
  used += length
  return pool.slice(used - length, used)
}
