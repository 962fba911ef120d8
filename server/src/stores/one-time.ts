import { randomBytes } from 'node:crypto'
import { fingerprint } from '../lib/secrets.ts'
import { keepNewest } from './keep-newest.ts'
import type { Kv } from './kv.ts'

/** A value that is handed out once, for a random token. The store knows the token's hash alone. */
interface OneTime<T> {
  issue(kv: Kv, value: T): Promise<string>
  /** Leaves it in place. */
  read(kv: Kv, token: string): Promise<T | undefined>
  /** Exactly one of several callers gets it. */
  take(kv: Kv, token: string): Promise<T | undefined>
}

/** `limit` bounds the number of tokens that are kept; needed where anybody can have one issued. */
export function oneTime<T>(kind: string, lifetimeSeconds: number, limit?: number): OneTime<T> {
  const keyOf = (token: string) => `${kind}:${fingerprint(token)}`
  return {
    async issue(kv, value) {
      const token = randomBytes(32).toString('base64url')
      if (limit) await keepNewest(kv, { kind, limit, seconds: lifetimeSeconds }, keyOf(token))
      await kv.set(keyOf(token), value, lifetimeSeconds)
      return token
    },
    read: (kv, token) => kv.get(keyOf(token)),
    take: (kv, token) => kv.take(keyOf(token)),
  }
}
