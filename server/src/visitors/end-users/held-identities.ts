import type { Service } from '../../kernel/foundation/service.ts'
import { fingerprint, ignoreUnreadable } from '../../kernel/lib/secrets.ts'
import { canonicalEmail } from '../../kernel/net/email-addresses.ts'
import type { Sql } from '../../kernel/stores/database.ts'

/** An ID token that was verified when its end user connected. Stored only in the key-value store until it expires. */
export interface HeldIdentity {
  end_user_id: string
  id_token: string
  verified_email: string
  /** Fingerprint of the provider's settings that verified the token. It isn't used with other settings. */
  provider: string
}

/** ID tokens are only kept if a connector needs them. */
export async function isIdentityNeeded(sql: Sql): Promise<boolean> {
  const [row] = await sql<{
    is_needed: boolean
  }>`select exists (select from connectors where kind = 'id_jag') as is_needed`
  return row?.is_needed ?? false
}

export async function holdIdentity(
  { kv, clock }: Pick<Service, 'kv' | 'clock'>,
  organizationId: string,
  identity: HeldIdentity,
  expiresAt: number,
): Promise<void> {
  const seconds = (expiresAt - clock()) / 1000
  if (!(seconds > 0)) return
  await kv.set(identityKey(organizationId, identity.end_user_id), identity, seconds)
  await kv.set(addressKey(organizationId, identity.verified_email), identity.end_user_id, seconds)
}

/**
 * Finds the identity of the end user who last connected with a verified email address. A correct `guess` of the end
 * user ID saves a round trip, because both lookups run at once.
 */
export async function findIdentity(
  { kv }: Pick<Service, 'kv'>,
  organizationId: string,
  email: string,
  guess: string | undefined,
): Promise<HeldIdentity | undefined> {
  const wanted = canonicalEmail(email)
  const read = async (endUserId: string | undefined) =>
    endUserId === undefined ? undefined : readHeldIdentity({ kv }, organizationId, endUserId)
  const [endUserId, guessed] = await Promise.all([kv.get<string>(addressKey(organizationId, wanted)), read(guess)])
  const identity = endUserId === guess ? guessed : await read(endUserId)
  // The same end user may have connected with another address since.
  return identity?.verified_email === wanted ? identity : undefined
}

/** The identity of an end user whose ID is known. */
export const readHeldIdentity = (
  { kv }: Pick<Service, 'kv'>,
  organizationId: string,
  endUserId: string,
): Promise<HeldIdentity | undefined> => kv.get<HeldIdentity>(identityKey(organizationId, endUserId))

/** Also disables access tokens that were issued for the identity. Safe to repeat, even after a crash. */
export async function forgetIdentity(
  { kv }: Pick<Service, 'kv'>,
  organizationId: string,
  endUserId: string,
): Promise<void> {
  const key = identityKey(organizationId, endUserId)
  const identity = await kv.get<HeldIdentity>(key).catch(ignoreUnreadable)
  if (identity) {
    const key = addressKey(organizationId, identity.verified_email)
    if ((await kv.get<string>(key).catch(ignoreUnreadable)) === endUserId) await kv.delete(key)
  }
  await kv.delete(key)
}

const identityKey = (organizationId: string, endUserId: string) => `identity:${organizationId}:${endUserId}`
const addressKey = (organizationId: string, email: string) => `identity-of:${organizationId}:${fingerprint(email)}`
