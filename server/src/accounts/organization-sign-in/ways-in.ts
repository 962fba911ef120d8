import type { Service } from '../../kernel/foundation/service.ts'
import { requestJob } from '../../kernel/jobs/requests.ts'
import { recordAudit, type Trail } from '../../kernel/stores/audit/audit.ts'
import { announceAll } from '../../kernel/stores/changes.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { topics } from '../../kernel/stores/topics.ts'
import { parseDomain } from '../../organizations/directories/domains.ts'
import { missingFeature } from '../../plans/plans/plans.ts'

/** An organization's provider that users can sign in at right now. */
export interface WayIn {
  organization: { id: string; name: string }
  client: { issuer: string; id: string; secret: string | undefined }
}

/** Keeps the users of different organizations' providers apart, even if the providers have the same issuer. */
export const issuerOfUsers = (organizationId: string, issuer: string): string => `org:${organizationId}:${issuer}`

export const secretPlace = (organizationId: string): string =>
  `sign_in_providers.client_secret_sealed:${organizationId}`

/** The domain of an email address, in punycode; null if the address isn't valid. */
export function emailDomain(email: string): string | null {
  const [, domain] = /^[^\s@]+@([^\s@]+)$/.exec(email) ?? []
  return domain === undefined || email.length > 254 ? null : parseDomain(domain)
}

/** The plans that include sign-in at an organization's own provider. */
const plansWithSignIn = ({ plans }: Service['config']): string[] =>
  plans.filter(({ features }) => features.sso).map(({ id }) => id)

/** Whether any organization has a way in, so that the sign-in page has to ask for an address. */
export async function hasWaysIn({ config, database }: Pick<Service, 'config' | 'database'>): Promise<boolean> {
  const found = await database.asDomainChecker(
    (sql) => sql`
      select from sign_in_domains d
      join sign_in_providers p on p.organization_id = d.organization_id
      join organizations o on o.id = d.organization_id
      where d.verified_at is not null and o.plan_id = any(${plansWithSignIn(config)}::text[]) limit 1`,
  )
  return found.length > 0
}

/** The organization whose provider users with this address sign in at. Only the domain decides, never the account. */
export async function findOrganizationByEmail(service: Service, email: string): Promise<string | undefined> {
  const domain = emailDomain(email)
  if (domain === null) return undefined
  const [found] = await service.database.asEmailDomain(
    domain,
    (sql) => sql<{ organization_id: string }>`select organization_id from sign_in_domains where domain = ${domain}`,
  )
  return found && (await findWayIn(service, found.organization_id)) && found.organization_id
}

export async function findWayIn(service: Service, organizationId: string): Promise<WayIn | undefined> {
  const { config, database, secrets } = service
  return database.asOrg(organizationId, async (sql) => {
    const [found] = await sql<{ name: string; issuer: string; client_id: string; client_secret_sealed: string | null }>`
      select o.name, p.issuer, p.client_id, p.client_secret_sealed
      from sign_in_providers p join organizations o on o.id = p.organization_id
      where exists (select from sign_in_domains where verified_at is not null)`
    if (!found || (await missingFeature(config.plans, sql, 'sso'))) return undefined
    const { name, issuer, client_id, client_secret_sealed: sealed } = found
    const secret = sealed === null ? undefined : secrets.open(sealed, secretPlace(organizationId))
    return { organization: { id: organizationId, name }, client: { issuer, id: client_id, secret } }
  })
}

export const signInPlanCheck = 'sign_in_plan_check'
export const checkPlanEverySeconds = 60

/** Marks the organization's provider as one that users have a way in through, for as long as the plan includes it. */
export async function openProvider(sql: Sql): Promise<void> {
  const [opened] = await sql`update sign_in_providers set is_open = true where not is_open returning true`
  if (opened) await requestJob(sql, signInPlanCheck, { due: { inSeconds: checkPlanEverySeconds } })
}

/**
 * Ends the sessions of users who can no longer sign in at the organization's provider, and no longer trusts their
 * addresses. Call it in the transaction of every change that can close a way in, and `announceEnded` after the commit.
 * Sign-ins that are under way have locked the provider, so they are either refused or ended here.
 */
export async function endClosedWays(sql: Sql, plans: Service['config']['plans'], trail: Trail): Promise<string[]> {
  const { organizationId } = trail
  const [provider] = await sql<{ issuer: string }>`select issuer from sign_in_providers for update`
  const isIncluded = provider !== undefined && (await missingFeature(plans, sql, 'sso')) === null
  const verified = await sql<{ domain: string }>`select domain from sign_in_domains where verified_at is not null`
  const domains = isIncluded ? verified.map(({ domain }) => domain) : []
  const issuer = issuerOfUsers(organizationId, provider?.issuer ?? '')
  if (domains.length > 0) await openProvider(sql)
  else await sql`update sign_in_providers set is_open = false`
  const ended = await endUsersOf(sql, organizationId, { issuer, domains })
  if (ended.length > 0) {
    const data = { users: ended.length }
    await recordAudit(sql, trail, 'sign_in_provider.sessions_ended', organizationId, data)
  }
  return ended
}

/** Ends the sessions of all users of the organization's providers, except those who can still sign in. */
export async function endUsersOf(
  sql: Sql,
  organizationId: string,
  { issuer, domains }: { issuer: string; domains: readonly string[] } = { issuer: '', domains: [] },
): Promise<string[]> {
  const ended = await sql<{ id: string }>`
    update users set session_generation = session_generation + 1, email_verified = false, updated_at = now()
    where issuer like 'org:%' and split_part(issuer, ':', 2) = ${organizationId}
      and not (issuer = ${issuer} and split_part(email, '@', 2) = any(${domains}::text[]))
    returning id`
  return ended.map(({ id }) => id)
}

/** After the commit: nodes drop what they have cached about these users. */
export const announceEnded = ({ changes }: Pick<Service, 'changes'>, userIds: readonly string[]): void =>
  announceAll(changes, userIds.map(topics.user))
