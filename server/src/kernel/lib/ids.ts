import { randomBytes, randomUUIDv7 } from 'node:crypto'

let lastTime = ''
let counter = 0

/**
 * Returns a UUIDv7. The ids of one process sort by creation, so that primary keys stay clustered and sorting by id is
 * sorting by age. Node's own are random within a millisecond; here the 12 bits after the time are a counter (RFC 9562,
 * section 6.2).
 */
export function newId(): string {
  let id = randomUUIDv7()
  // The counter fits at least 2,048 ids in a millisecond. When it overflows, wait for the next millisecond.
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

/** Lets callers treat malformed ids like unknown ones before they reach a uuid column, which would throw. */
export const isId = (text: string): boolean => uuid.test(text)

const pooledBytes = 6 * 1024
let pool = ''
let used = 0

/**
 * Random base64url characters, 6 bits each. Uses a pool, because the system needs about as much time for many bytes as
 * for a few.
 */
export function randomText(length: number): string {
  if (used + length > pool.length) {
    pool = randomBytes(pooledBytes).toString('base64url')
    used = 0
  }
  used += length
  return pool.slice(used - length, used)
}
