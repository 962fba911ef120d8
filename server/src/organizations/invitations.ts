import { type OrgCaller, trailOf } from '../foundation/caller.ts'
import type { Input, Output } from '../foundation/operation.ts'
import type { Service } from '../foundation/service.ts'
import { accessDenied, duplicate, notFound } from '../lib/errors.ts'
import { newId } from '../lib/ids.ts'
import { requireRoom } from '../plans/plans.ts'
import { recordAudit } from '../stores/audit/audit.ts'
import { topics } from '../stores/bus-messages.ts'
import { isUniqueViolation, type Sql } from '../stores/database.ts'
import type * as contract from './contract.ts'

type Invitation = Output<typeof contract.createInvitation>

/** The same link for everyone: the page shows the invitations of the user who opens it. */
const urlOf = ({ config }: Service) => `${config.publicUrl}/invitations`

export async function listInvitations(service: Service, { organization }: OrgCaller): Promise<Invitation[]> {
  return service.database.asOrg(
    organization.id,
    (sql) => sql<Invitation>`
      select id, email, role, invited_by, ${urlOf(service)}::text as url, created_at from invitations order by created_at, id`,
  )
}

export async function createInvitation(
  service: Service,
  caller: OrgCaller,
  { email, role }: Input<typeof contract.createInvitation>,
): Promise<Invitation> {
  try {
    return await service.database.asOrg(caller.organization.id, async (sql) => {
      const [member] = await sql`select from members m join users u on u.id = m.user_id where u.email = ${email}`
      if (member) throw duplicate('member')
      const [invitation] = await sql<Invitation>`
        insert into invitations (organization_id, id, email, role, invited_by)
        values (current_organization(), ${newId()}, ${email}, ${role}, ${caller.user.email})
        returning id, email, role, invited_by, ${urlOf(service)}::text as url, created_at`
      await requireRoom(service.config.plans, sql, 'seats')
      await recordAudit(sql, trailOf(caller), 'invitation.created', invitation?.id ?? '', { email, role })
      return invitation as Invitation
    })
  } catch (error) {
    throw isUniqueViolation(error, 'invitations_email') ? duplicate('invitation') : error
  }
}

export async function deleteInvitation(
  { database }: Service,
  caller: OrgCaller,
  { id }: Input<typeof contract.deleteInvitation>,
): Promise<Output<typeof contract.deleteInvitation>> {
  await database.asOrg(caller.organization.id, async (sql) => {
    const [gone] = await sql<{ email: string }>`delete from invitations where id = ${id} returning email`
    if (!gone) throw notFound('invitation', id)
    await recordAudit(sql, trailOf(caller), 'invitation.deleted', id, { email: gone.email })
  })
  return { success: true }
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
      where i.email = ${email} order by i.created_at desc, i.id desc limit ${mostShown}`,
  )
}

export async function acceptInvitation(
  { database, changes }: Pick<Service, 'database' | 'changes'>,
  { user }: Invitee,
  { id }: Input<typeof contract.acceptInvitation>,
): Promise<Output<typeof contract.acceptInvitation>> {
  const { organizationId, email } = await findMyInvitation(database, user.id, id)
  await database.asOrg(organizationId, async (sql) => {
    const { role } = await takeInvitation(sql, id, email)
    await sql`
      insert into members (organization_id, id, user_id, role)
      values (${organizationId}, ${newId()}, ${user.id}, ${role}) on conflict (organization_id, user_id) do nothing`
    const [left] = await sql`select from members where user_id = ${user.id} and deactivated_at is not null`
    if (left) throw accessDenied('The organization’s directory has deactivated your membership')
    await recordAudit(sql, { organizationId, actor: email }, 'invitation.accepted', id, { email, role })
  })
  changes.announce(topics.user(user.id))
  return { success: true }
}

export async function declineInvitation(
  { database }: Pick<Service, 'database'>,
  { user }: Invitee,
  { id }: Input<typeof contract.declineInvitation>,
): Promise<Output<typeof contract.declineInvitation>> {
  const { organizationId, email } = await findMyInvitation(database, user.id, id)
  await database.asOrg(organizationId, async (sql) => {
    const { role } = await takeInvitation(sql, id, email)
    await recordAudit(sql, { organizationId, actor: email }, 'invitation.declined', id, { email, role })
  })
  return { success: true }
}

/** Anyone can create organizations and invite users, so the list is limited. */
const mostShown = 100

async function findVerifiedEmail(database: Service['database'], userId: string): Promise<string | undefined> {
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
      select organization_id from invitations where id = ${id} and email = ${email}`,
  )
  if (!invitation) throw notFound('invitation', id)
  return { organizationId: invitation.organization_id, email }
}

/** Deletes the invitation, so the second of two concurrent decisions fails. */
async function takeInvitation(sql: Sql, id: string, email: string): Promise<{ role: string }> {
  const [taken] = await sql<{ role: string }>`
    delete from invitations where id = ${id} and email = ${email} returning role`
  if (!taken) throw notFound('invitation', id)
  return taken
}
