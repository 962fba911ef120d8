import type { Service } from '../../kernel/foundation/service.ts'
import { matchesOrigin } from '../../kernel/net/origins.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { selectDeprovisioned } from '../../organizations/directories/deprovisioned.ts'
import { type IdentityProviderConfig, readIdentityProvider } from '../identity-provider/identity-provider.ts'
import { describeIdentityProvider, findTrustedIssuer, type TrustedIssuer } from '../identity-provider/issuers.ts'
import { allowedOrigins } from '../publishable-keys/key-lookup.ts'
import type { Previewer, TicketHolder } from './signed-tickets.ts'

/**
 * Whether the conditions under which a ticket was issued still hold. `terms_changed`: its origin is no longer allowed,
 * or the identity provider that its ID token was verified with is no longer trusted. `member_left`: it was for a preview
 * in the dashboard, by a member who has left or whose sessions were ended. `user_deactivated`: a directory has deactivated
 * or deleted the user.
 */
export type Standing = 'stands' | 'key_revoked' | 'user_removed' | 'user_deactivated' | 'member_left' | 'terms_changed'

const prints = new WeakMap<IdentityProviderConfig, string>()

/** Identifies the provider settings that an ID token was verified with. Cached, because every exchange needs it. */
export function fingerprintIdentityProvider(config: IdentityProviderConfig, trusted: TrustedIssuer): string {
  const known = prints.get(config)
  if (known) return known
  const print = describeIdentityProvider(trusted)
  prints.set(config, print)
  return print
}

/** Checks holders of one organization against the database in one transaction. The results are in the same order. */
export const checkStanding = (
  { database, config }: Pick<Service, 'database' | 'config'>,
  organizationId: string,
  holders: readonly TicketHolder[],
): Promise<Standing[]> => database.asOrg(organizationId, (sql) => findStanding(sql, config, holders))

/** The same for one holder who asks to be let in. */
export const checkHolder = async (
  { database, config }: Pick<Service, 'database' | 'config'>,
  holder: TicketHolder,
): Promise<Standing> =>
  (await database.asHolder(holder, (sql) => findStanding(sql, config, [holder])))[0] ?? 'key_revoked'

/** The same in the caller's transaction. */
export async function findStanding(
  sql: Sql,
  { mode }: Service['config'],
  holders: readonly TicketHolder[],
): Promise<Standing[]> {
  const keyIds = [...new Set(holders.map(({ publishable_key_id }) => publishable_key_id))]
  const endUserIds = [...new Set(holders.flatMap(({ end_user }) => end_user?.id ?? []))]
  const previewers = [...new Set(holders.flatMap(({ end_user }) => end_user?.previewer?.user_id ?? []))]
  const emails = [...new Set(holders.flatMap(({ end_user }) => end_user?.verified_email ?? []))]
  const [keys, endUsers, members, provider, deprovisioned] = await Promise.all([
    sql<{ id: string; allowed_origins: string[] }>`
      select id, allowed_origins from publishable_keys where id = any(${keyIds}::uuid[]) and revoked_at is null`,
    endUserIds.length === 0
      ? []
      : sql<{ id: string }>`select id from end_users where id = any(${endUserIds}::uuid[]) and merged_into is null`,
    previewers.length === 0 ? [] : selectGenerations(sql, previewers),
    readIdentityProvider(sql),
    emails.length === 0 ? [] : selectDeprovisioned(sql, emails),
  ])
  const print = currentFingerprint(provider, mode)
  const originsOf = new Map(keys.map(({ id, allowed_origins }) => [id, allowedOrigins({ allowed_origins, provider })]))
  const existing = new Set(endUsers.map(({ id }) => id))
  const generations = new Map(members.map(({ user_id, session_generation }) => [user_id, session_generation]))
  const isMember = ({ user_id, sign_in }: Previewer): boolean => {
    const generation = generations.get(user_id)
    return generation !== undefined && (!sign_in || sign_in.generation === generation)
  }
  const inactive = new Set(deprovisioned.map(({ email }) => email))
  // Cached, because thousands of tabs share a few origins, and each comparison parses the origin.
  const matches = new Map<string, boolean>()
  const isAllowed = (keyId: string, origin: string | undefined, allowed: readonly string[]): boolean => {
    if (allowed.length === 0) return true
    if (origin === undefined) return false
    const known = matches.get(`${keyId} ${origin}`)
    const result = known ?? matchesOrigin(origin, allowed)
    if (known === undefined) matches.set(`${keyId} ${origin}`, result)
    return result
  }
  return holders.map(({ publishable_key_id, origin, end_user }) => {
    const allowed = originsOf.get(publishable_key_id)
    if (!allowed) return 'key_revoked'
    if (end_user && !existing.has(end_user.id)) return 'user_removed'
    if (end_user?.verified_email && inactive.has(end_user.verified_email)) return 'user_deactivated'
    // Its origin is Inlay's own, which the exchange has checked.
    if (end_user?.previewer) return isMember(end_user.previewer) ? 'stands' : 'member_left'
    if (end_user && end_user.provider !== print) return 'terms_changed'
    return isAllowed(publishable_key_id, origin, allowed) ? 'stands' : 'terms_changed'
  })
}

/** How often the sessions of these members were ended. Those who have left aren't found. */
const selectGenerations = (sql: Sql, userIds: readonly string[]) => sql<{
  user_id: string
  session_generation: number
}>`
  select m.user_id, u.session_generation from members m join users u on u.id = m.user_id
  where m.user_id = any(${userIds}::uuid[]) and m.deactivated_at is null`

/** Undefined if no provider is trusted. No ID token is valid then. */
function currentFingerprint(provider: IdentityProviderConfig, mode: 'development' | 'production'): string | undefined {
  const trusted = findTrustedIssuer(provider, mode)
  return trusted && describeIdentityProvider(trusted)
}
