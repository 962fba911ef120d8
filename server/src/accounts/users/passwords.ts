import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { serviceUnavailable } from '../../kernel/lib/errors.ts'
import { createFairQueue, QueueFull } from '../../kernel/lib/shares/fair-queue.ts'

interface Cost {
  N: number
  r: number
  p: number
}

/** OWASP's recommendation: 32 MiB and a few tenths of a second. Only tests change it. */
export const passwordCost: Cost = { N: 2 ** 15, r: 8, p: 3 }
const hashBytes = 32
const saltBytes = 16

const scryptAsync = promisify<string, Buffer, number, Cost & { maxmem: number }, Buffer>(scrypt)
/**
 * Uses half of Node's thread pool, so that DNS and file access keep working under a flood. The last job in a full queue
 * waits for about ten seconds.
 */
const queue = createFairQueue({ atATime: 2, waiting: 40 })
const newPasswords = 'new passwords'

const derive = (lane: string, password: string, salt: Buffer, { N, r, p }: Cost): Promise<Buffer> =>
  queue(lane, () => scryptAsync(password.normalize('NFKC'), salt, hashBytes, { N, r, p, maxmem: 256 * N * r }))

/** `scrypt$N$r$p$salt$hash`; it includes the parameters, so that they can be raised later. */
const print = ({ N, r, p }: Cost, salt: Buffer, hash: Buffer): string =>
  ['scrypt', N, r, p, salt.toString('base64url'), hash.toString('base64url')].join('$')

function parse(text: string) {
  const [, N, r, p, salt, hash] = /^scrypt\$(\d+)\$(\d+)\$(\d+)\$([\w-]+)\$([\w-]{43})$/.exec(text) ?? []
  if (!salt || !hash) throw new Error('A stored password hash is malformed')
  return {
    cost: { N: Number(N), r: Number(r), p: Number(p) },
    salt: Buffer.from(salt, 'base64url'),
    hash: Buffer.from(hash, 'base64url'),
  }
}

export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(saltBytes)
  const hash = await derive(newPasswords, password, salt, passwordCost).catch((error) => {
    throw error instanceof QueueFull ? serviceUnavailable('Too many passwords are being checked', error) : error
  })
  return print(passwordCost, salt, hash)
}

/** Checked for accounts that don't exist, so that a sign-in takes the same time with and without an account. */
const placeholder = { salt: randomBytes(saltBytes), hash: randomBytes(hashBytes) }

/** Throws `QueueFull` if too many checks are waiting. Clients take turns by address. */
export async function isPassword(
  password: string,
  stored: string | null | undefined,
  address: string,
): Promise<boolean> {
  const known = stored ?? undefined
  const { cost, salt, hash } = known === undefined ? { cost: passwordCost, ...placeholder } : parse(known)
  return timingSafeEqual(await derive(address, password, salt, cost), hash)
}

/** Whether the hash was made with other parameters than the current ones. */
export const isOutdated = (stored: string): boolean => {
  const { N, r, p } = parse(stored).cost
  return N !== passwordCost.N || r !== passwordCost.r || p !== passwordCost.p
}
