import { randomBytes } from 'node:crypto'
import { fingerprint } from '../lib/secrets.ts'
import { keepNewest } from './keep-newest.ts'
import type { Kv } from './kv.ts'

/** Values that can be taken once with a random token. Only the token's hash is stored. */
interface OneTime<T> {
  issue(kv: Kv, value: T): Promise<string>
  /** Returns the value without taking it. */
  read(kv: Kv, token: string): Promise<T | undefined>
  /** Exactly one of several concurrent callers gets the value. */
  take(kv: Kv, token: string): Promise<T | undefined>
}

/** `limit` is the maximum number of stored tokens; set it if tokens are issued without authentication. */
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
