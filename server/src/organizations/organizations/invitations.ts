import { type OrgCaller, trailOf } from '../../kernel/foundation/caller.ts'
import { beforeAll, oneMore, type Paged, takePage } from '../../kernel/foundation/cursors.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { Role } from '../../kernel/foundation/shapes.ts'
import { againAt, type JobKind } from '../../kernel/jobs/jobs.ts'
import { accessDenied, duplicate, notFound } from '../../kernel/lib/errors.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { fingerprint } from '../../kernel/lib/secrets.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import { isUniqueViolation, type Sql } from '../../kernel/stores/database.ts'
import { topics } from '../../kernel/stores/topics.ts'
import { requireWithinPlan } from '../../plans/plans/plans.ts'
import { dropMailAbout } from '../mail/outbox.ts'
import type * as contract from './contract.ts'
import { forgetFormerMember, recordFormerMembers } from './former-members.ts'
import {
  invitationExpiry,
  invitationsPage,
  lifetimeDays,
  mayMail,
  newLink,
  queueInvitation,
  requestExpiry,
} from './invitation-links.ts'
import { lockMembers } from './members.ts'

type Invitation = Output<typeof contract.createInvitation>

export async function listInvitations(
  service: Service,
  { organization }: OrgCaller,
  { limit, offset, cursor: [at, id] = beforeAll }: Input<typeof contract.listInvitations>,
): Promise<Paged<Invitation[]>> {
  const found = await service.database.asOrg(
    organization.id,
    (sql) => sql<Invitation>`
      select id, email, role, invited_by, ${invitationsPage(service)}::text as url, mailed_link_hash is not null as mailed,
             created_at, expires_at
      from invitations where organization_id = (select current_organization()) and expires_at > now()
        and (created_at, id) > (${at}::timestamptz, ${id}::uuid)
      order by created_at, id limit ${oneMore(limit)} offset ${offset}`,
  )
  const { rows: body, next_cursor } = takePage(found, limit, (invitation) => [invitation.created_at, invitation.id])
  return { body, next_cursor }
}

export async function createInvitation(
  service: Service,
  caller: OrgCaller,
  { email, role }: Input<typeof contract.createInvitation>,
): Promise<Invitation> {
  const isMailed = await mayMail(service, caller.organization.id, email)
  try {
    return await service.database.asOrg(caller.organization.id, async (sql) => {
      if (await isEveryAccountMember(sql, email)) throw duplicate('member')
      await deleteExpired(sql, caller.organization.id, email)
      const id = newId()
      await sql`
        insert into invitations (organization_id, id, email, role, invited_by)
        values (current_organization(), ${id}, ${email}, ${role}, ${caller.actor})`
      await requireWithinPlan(service.config.plans, sql, 'seats')
      const invitation = await issueLinks(service, sql, caller, { id, email, isMailed })
      await recordAudit(sql, trailOf(caller), 'invitation.created', id, { email, role })
      return invitation
    })
  } catch (error) {
    throw isUniqueViolation(error, 'invitations_email') ? duplicate('invitation') : error
  }
}

/**
 * Whether nobody with the address could still accept. An account at the organization's own provider and another one can
 * have the same address, and each needs an invitation. It doesn't depend on which accounts exist elsewhere.
 */
async function isEveryAccountMember(sql: Sql, email: string): Promise<boolean> {
  const [known] = await sql<{ members: number; at_provider: number; is_closed: boolean; has_provider: boolean }>`
    select count(*) as members, count(*) filter (where u.issuer like 'org:' || current_organization() || ':%') as at_provider,
           coalesce(bool_or(m.deactivated_at is not null), false) as is_closed,
           exists (select from sign_in_domains d join sign_in_providers p on p.organization_id = d.organization_id
                   where d.domain = split_part(${email}, '@', 2) and d.verified_at is not null) as has_provider
    from members m join users u on u.id = m.user_id
    where m.organization_id = (select current_organization()) and u.email = ${email}`
  if (!known || known.members === 0) return false
  const isAtProviderOnly = known.at_provider === known.members
  const isElsewhereOnly = known.at_provider === 0 && known.has_provider
  return known.is_closed || !(isAtProviderOnly || isElsewhereOnly)
}

export async function renewInvitation(
  service: Service,
  caller: OrgCaller,
  { id }: Input<typeof contract.renewInvitation>,
): Promise<Invitation> {
  const { body: open } = await listInvitations(service, caller, { offset: 0 })
  const known = open.find((invitation) => invitation.id === id)
  if (!known) throw notFound('invitation', id)
  const { email } = known
  const isMailed = await mayMail(service, caller.organization.id, email)
  return service.database.asOrg(caller.organization.id, async (sql) => {
    await dropMailAbout(sql, [id])
    const invitation = await issueLinks(service, sql, caller, { id, email, isMailed })
    await recordAudit(sql, trailOf(caller), 'invitation.renewed', id, { email })
    return invitation
  })
}

/** The mailed link differs from the administrator's: only the owner of the address has it, so it proves the address. */
async function issueLinks(
  service: Service,
  sql: Sql,
  caller: OrgCaller,
  { id, email, isMailed }: { id: string; email: string; isMailed: boolean },
): Promise<Invitation> {
  const [shown, mailed] = [newLink(service), newLink(service)]
  const [invitation] = await sql<Invitation>`
    update invitations
    set link_hash = ${shown.hash}, mailed_link_hash = ${isMailed ? mailed.hash : null},
        expires_at = now() + ${lifetimeDays} * interval '1 day'
    where id = ${id}
    returning id, email, role, invited_by, ${shown.url}::text as url, mailed_link_hash is not null as mailed,
              created_at, expires_at`
  if (!invitation) throw notFound('invitation', id)
  await requestExpiry(sql)
  if (isMailed) {
    const { name: organization } = caller.organization
    await queueInvitation(service, sql, { id, email, url: mailed.url, organization, invitedBy: caller.actor })
  }
  return invitation
}

export async function deleteInvitation(
  { database }: Service,
  caller: OrgCaller,
  { id }: Input<typeof contract.deleteInvitation>,
): Promise<Output<typeof contract.deleteInvitation>> {
  await database.asOrg(caller.organization.id, async (sql) => {
    const [gone] = await sql<{ email: string; directory_user_id: string | null }>`
      delete from invitations where id = ${id} returning email, directory_user_id`
    if (!gone) throw notFound('invitation', id)
    await dropMailAbout(sql, [id])
    // Otherwise the directory would invite them again with its next change.
    if (gone.directory_user_id !== null) await recordFormerMembers(sql, 'administrator', [gone])
    await recordAudit(sql, trailOf(caller), 'invitation.deleted', id, { email: gone.email })
  })
  return { success: true }
}

/** Deletes an organization's expired invitations, or only the one to an address, so that they take no seats. */
async function deleteExpired(sql: Sql, organizationId: string, email?: string): Promise<void> {
  // The link of a directory's invitation expires; the invitation is open for as long as the directory gives the role.
  const kept = await sql<{ id: string }>`
    update invitations
    set link_hash = null, mailed_link_hash = null, expires_at = now() + ${lifetimeDays} * interval '1 day'
    where expires_at <= now() and directory_user_id is not null returning id`
  await dropMailAbout(
    sql,
    kept.map(({ id }) => id),
  )
  const gone = await sql<{ id: string; email: string }>`
    delete from invitations where expires_at <= now() and (${email ?? null}::text is null or email = ${email ?? null})
    returning id, email`
  if (gone.length === 0) return
  const ids = gone.map(({ id }) => id)
  await dropMailAbout(sql, ids)
  const trail = { organizationId, actor: 'inlay' }
  for (const { id, email } of gone) await recordAudit(sql, trail, 'invitation.expired', id, { email })
}

/** Deletes an organization's invitations when they expire. */
export const expiringInvitations: JobKind = {
  name: invitationExpiry,
  atOnce: 2,
  run: (job) =>
    job.settle(async (sql) => {
      await deleteExpired(sql, job.organizationId)
      const [next] = await sql<{ at: string | null }>`
        select min(expires_at) as at from invitations where organization_id = (select current_organization())`
      return againAt(next?.at)
    }),
}

/** An open invitation, as the holder of one of its links sees it. */
export interface LinkedInvitation {
  id: string
  email: string
  role: Role
  invited_by: string
  organization: { id: string; name: string; slug: string }
  /** Whether the link was mailed, so that its holder owns the address. */
  is_mailed: boolean
}

export async function findInvitationByLink(
  { database }: Pick<Service, 'database'>,
  token: string,
): Promise<LinkedInvitation | undefined> {
  const hash = fingerprint(token)
  const [invitation] = await database.asKeyHolder(
    hash,
    (sql) => sql<LinkedInvitation>`
      select i.id, i.email, i.role, i.invited_by, coalesce(i.mailed_link_hash = ${hash}, false) as is_mailed,
             jsonb_build_object('id', o.id, 'name', o.name, 'slug', o.slug) as organization
      from invitations i join organizations o on o.id = i.organization_id
      where ${hash} in (i.link_hash, i.mailed_link_hash) and i.expires_at > now()`,
  )
  return invitation
}

/** The signed-in user; the rest is read from the database. */
type Invitee = { user: { id: string } }

/** Invitations to the user's address, newest first; none if the address isn't verified. */
export async function listMyInvitations(
  { database }: Pick<Service, 'database'>,
  { user }: Invitee,
): Promise<Output<typeof contract.listMyInvitations>> {
  const email = await findVerifiedEmail(database, user.id)
  if (email === undefined) return []
  return database.asInvitee(
    email,
    (sql) => sql<Output<typeof contract.listMyInvitations>[number]>`
      select i.id, i.role, i.invited_by, i.created_at,
             jsonb_build_object('id', o.id, 'name', o.name, 'slug', o.slug) as organization
      from invitations i join organizations o on o.id = i.organization_id
      where i.email = ${email} and i.expires_at > now() order by i.created_at desc, i.id desc limit ${mostShown}`,
  )
}

export async function acceptInvitation(
  { database, changes }: Pick<Service, 'database' | 'changes'>,
  { user }: Invitee,
  { id }: Input<typeof contract.acceptInvitation>,
): Promise<Output<typeof contract.acceptInvitation>> {
  const { organizationId, email } = await findMyInvitation(database, user.id, id)
  await database.asOrg(organizationId, (sql) => acceptFor(sql, organizationId, { id, email, userId: user.id }))
  changes.announce(topics.user(user.id))
  return { success: true }
}

/** Makes a user a member, in the organization's transaction. The caller has checked that the invitation is for them. */
export async function acceptFor(
  sql: Sql,
  organizationId: string,
  { id, email, userId }: { id: string; email: string; userId: string },
): Promise<void> {
  await lockMembers(sql)
  const { role, directory_role, hand_role, directory_user_id } = await takeInvitation(sql, id, email)
  const [member] = await sql<{ is_active: boolean }>`
    select deactivated_at is null as is_active from members where user_id = ${userId}`
  if (member?.is_active) throw accessDenied('You are already a member. The invitation is for your other account')
  // Unlike at a sign-in, users whom a directory has deleted can come back, because an administrator invited them since.
  const [closed] = await sql`
    select where not exists (select from directory_users where email = ${email} and active)
      and (exists (select from directory_users where email = ${email})
        or exists (select from directory_former_addresses where email = ${email}))`
  if (member || closed) throw accessDenied('The organization’s directory has deactivated your membership')
  await sql`
    insert into members (organization_id, id, user_id, role, directory_role, hand_role, directory_user_id)
    values (${organizationId}, ${newId()}, ${userId}, ${role}, ${directory_role}, ${hand_role}, ${directory_user_id})`
  await forgetFormerMember(sql, { user_id: userId, email })
  const trail = { organizationId, actor: email, actorId: userId }
  await recordAudit(sql, trail, 'invitation.accepted', id, { email, role })
}

export async function declineInvitation(
  { database }: Pick<Service, 'database'>,
  { user }: Invitee,
  { id }: Input<typeof contract.declineInvitation>,
): Promise<Output<typeof contract.declineInvitation>> {
  const { organizationId, email } = await findMyInvitation(database, user.id, id)
  await database.asOrg(organizationId, async (sql) => {
    const { role, directory_user_id } = await takeInvitation(sql, id, email)
    // Otherwise the directory would invite them again with its next change.
    if (directory_user_id) await recordFormerMembers(sql, 'member', [{ email, user_id: user.id, directory_user_id }])
    const trail = { organizationId, actor: email, actorId: user.id }
    await recordAudit(sql, trail, 'invitation.declined', id, { email, role })
  })
  return { success: true }
}

/** Anyone can create organizations and invite users, so the list is limited. */
const mostShown = 100

export async function findVerifiedEmail(database: Service['database'], userId: string): Promise<string | undefined> {
  const [user] = await database.asService(
    (sql) => sql<{ email: string }>`select email from users where id = ${userId} and email_verified`,
  )
  return user?.email
}

async function findMyInvitation(database: Service['database'], userId: string, id: string) {
  const email = await findVerifiedEmail(database, userId)
  if (email === undefined) throw notFound('invitation', id)
  const [invitation] = await database.asInvitee(
    email,
    (sql) => sql<{ organization_id: string }>`
      select organization_id from invitations where id = ${id} and email = ${email} and expires_at > now()`,
  )
  if (!invitation) throw notFound('invitation', id)
  return { organizationId: invitation.organization_id, email }
}

interface Taken {
  role: Role
  directory_role: Role | null
  hand_role: Role | null
  directory_user_id: string | null
}

/** Deletes the invitation, so the second of two concurrent decisions fails. */
async function takeInvitation(sql: Sql, id: string, email: string): Promise<Taken> {
  const [taken] = await sql<Taken>`
    delete from invitations where id = ${id} and email = ${email} and expires_at > now()
    returning role, directory_role, hand_role, directory_user_id`
  if (!taken) throw notFound('invitation', id)
  await dropMailAbout(sql, [id])
  return taken
}
