import type { Service } from '../../kernel/foundation/service.ts'
import { Failure } from '../../kernel/lib/errors.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { canonicalEmail } from '../../kernel/net/email-addresses.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { topics } from '../../kernel/stores/topics.ts'
import { claimMemberships } from '../../organizations/directories/claims.ts'
import { selectDeprovisioned } from '../../organizations/directories/deprovisioned.ts'
import { isFormerMember } from '../../organizations/organizations/former-members.ts'
import { directoryIssuer, lockMembers } from '../../organizations/organizations/members.ts'
import { missingFeature, requireWithinPlan } from '../../plans/plans/plans.ts'
import { isEmailVerified } from '../../visitors/identity-provider/verified-emails.ts'
import type { Admission } from '../sign-in/external.ts'
import { recordSignIn } from '../sign-in/sign-in-audit.ts'
import { type Identity, readIdentity, saveUser, type User } from '../users/users.ts'
import { emailDomain, issuerOfUsers, openProvider, type WayIn } from './ways-in.ts'

/** OpenID Connect Core, section 2. */
const longestSubject = 255
const longestPicture = 2000

/** Finds or adds the user whom an organization's provider describes, if they have a place in any organization. */
export async function admitFromOrganization(
  service: Service,
  way: WayIn,
  claims: Record<string, unknown>,
  address: string,
): Promise<Admission> {
  const { organization } = way
  const identity = readOrganizationIdentity(way, claims)
  if (!identity) return { is: 'no_address' }
  const isExpected = await hasPlace(service, identity)
  try {
    const outcome = await service.database.asOrg(organization.id, (sql) =>
      enter(service, sql, way, { identity, isExpected, hostedDomain: claims.hd }),
    )
    if ('title' in outcome) return { is: 'explained', ...outcome }
    service.changes.announce(topics.user(outcome.id))
    await claimMemberships(service, outcome)
    await recordSignIn(service, outcome.id, { method: 'organization provider', address })
    return { is: 'admitted', user: outcome }
  } catch (error) {
    if (error instanceof Failure && error.envelope.code === 'PAYMENT_REQUIRED') {
      const text = `${organization.name} has no free seat for you. Ask an administrator of ${organization.name} to free one, or to change the plan.`
      return { is: 'explained', title: 'There’s no seat for you', text }
    }
    throw error
  }
}

/** The address counts as verified unless the provider says that it isn't: `enter` checks its domain. */
function readOrganizationIdentity(
  { organization, client: { issuer } }: WayIn,
  claims: Record<string, unknown>,
): Identity | undefined {
  const identity = readIdentity(issuerOfUsers(organization.id, issuer), claims)
  const domain = identity && emailDomain(identity.email)
  if (!identity || !domain || identity.subject.length > longestSubject) return undefined
  const says = claims.email_verified ?? claims.xms_edov
  return {
    ...identity,
    email: canonicalEmail(identity.email),
    email_verified: says === undefined || isEmailVerified(issuer, claims),
    avatar_url: identity.avatar_url.length > longestPicture ? '' : identity.avatar_url,
  }
}

interface Explanation {
  title: string
  text: string
}

/** One transaction, so that a change of the provider or its domains either refuses the user or ends their session. */
async function enter(
  { config: { plans } }: Service,
  sql: Sql,
  { organization, client }: WayIn,
  { identity, isExpected, hostedDomain }: { identity: Identity; isExpected: boolean; hostedDomain: unknown },
): Promise<User | Explanation> {
  await lockMembers(sql)
  const [provider] = await sql<{ issuer: string; joins_on_first_sign_in: boolean }>`
    select issuer, joins_on_first_sign_in from sign_in_providers for no key update`
  if (provider?.issuer !== client.issuer || (await missingFeature(plans, sql, 'sso')) !== null)
    return closed(organization.name)
  const domain = emailDomain(identity.email)
  const [verified] = await sql`select from sign_in_domains where domain = ${domain} and verified_at is not null`
  if (!verified) return foreignAddress(organization.name, identity.email)
  if (client.issuer === googleIssuer && !(await isOwnWorkspace(sql, hostedDomain))) return ownAccount(organization.name)

  const joins = provider.joins_on_first_sign_in && !isExpected && (await mayJoin(sql, identity))
  if (!isExpected && !joins) return noPlace(organization.name, identity.email)
  await openProvider(sql)
  const { user } = await saveUser(sql, identity)
  if (joins) await join(sql, plans, organization.id, user)
  return user
}

const googleIssuer = 'https://accounts.google.com'

/**
 * Anybody can make a Google account with an address of the domain, and keeps it after leaving. Only accounts that a
 * Workspace manages have its domain in `hd`.
 */
async function isOwnWorkspace(sql: Sql, hostedDomain: unknown): Promise<boolean> {
  if (typeof hostedDomain !== 'string') return false
  const domain = emailDomain(`user@${hostedDomain}`)
  const [verified] = await sql`select from sign_in_domains where domain = ${domain} and verified_at is not null`
  return verified !== undefined
}

/** Whether the user is a member anywhere, or is invited, or a directory has announced them. */
async function hasPlace({ database }: Service, { issuer, subject, email, email_verified }: Identity): Promise<boolean> {
  const [known] = await database.asService(
    (sql) => sql<{ id: string }>`select id from users where issuer = ${issuer} and subject = ${subject}`,
  )
  const memberships = known
    ? await database.asUser(
        known.id,
        (sql) => sql`select from members where user_id = ${known.id} and deactivated_at is null limit 1`,
      )
    : []
  if (memberships.length > 0) return true
  if (!email_verified) return false
  const invitations = await database.asInvitee(
    email,
    (sql) => sql`select from invitations where email = ${email} and expires_at > now() limit 1`,
  )
  const announced = await database.asService(
    (sql) => sql`select from users where email = ${email} and issuer = ${directoryIssuer} limit 1`,
  )
  return invitations.length + announced.length > 0
}

/** Users who left or were removed, or whom a directory deactivated, don't come back by themselves. */
async function mayJoin(sql: Sql, { issuer, subject, email, email_verified }: Identity): Promise<boolean> {
  if (!email_verified) return false
  const [known] = await sql<{ id: string; is_member: boolean }>`
    select u.id, exists (select from members m where m.user_id = u.id) as is_member
    from users u where u.issuer = ${issuer} and u.subject = ${subject}`
  if (known?.is_member || (await isFormerMember(sql, { user_id: known?.id ?? null, email }))) return false
  return (await selectDeprovisioned(sql, [email])).length === 0
}

async function join(sql: Sql, plans: Service['config']['plans'], organizationId: string, user: User): Promise<void> {
  const { id: userId, email } = user
  const id = newId()
  await sql`
    insert into members (organization_id, id, user_id, role) values (current_organization(), ${id}, ${userId}, 'member')`
  await requireWithinPlan(plans, sql, 'seats')
  await recordAudit(sql, { organizationId, actor: email, actorId: userId }, 'member.added', id, {
    email,
    role: 'member',
  })
}

const closed = (name: string): Explanation => ({
  title: 'You can’t sign in this way',
  text: `${name} no longer uses this sign-in provider. Sign in another way, or ask an administrator of ${name}.`,
})

const foreignAddress = (name: string, email: string): Explanation => ({
  title: 'You can’t sign in with this address',
  text: `Your sign-in provider says that your address is ${email}, and ${name} hasn’t verified its domain. Use an account of ${name}, or ask its administrators to add the domain.`,
})

const ownAccount = (name: string): Explanation => ({
  title: 'You can’t sign in with this account',
  text: `This Google account isn’t managed by the Google Workspace of ${name}. Choose the account that ${name} gave you, or ask its administrators to verify the Workspace’s primary domain.`,
})

const noPlace = (name: string, email: string): Explanation => ({
  title: `You’re not a member of ${name}`,
  text: `Ask an administrator of ${name} to invite ${email}, then sign in again.`,
})
