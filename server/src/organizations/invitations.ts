import type { OrgCaller } from '../access.ts'
import { recordAudit, trailOf } from '../audit/audit.ts'
import { duplicate, notFound } from '../errors.ts'
import { newId } from '../lib/ids.ts'
import type { Input, Output } from '../operation.ts'
import { requireRoom } from '../plans/plans.ts'
import type { Service } from '../service.ts'
import { topics } from '../stores/changes.ts'
import { isUniqueViolation } from '../stores/database.ts'
import type * as contract from './contract.ts'

type Invitation = Output<typeof contract.createInvitation>

export async function listInvitations({ database }: Service, { organization }: OrgCaller): Promise<Invitation[]> {
  return database.asOrg(
    organization.id,
    (sql) => sql<Invitation>`
      select id, email, role, invited_by, created_at from invitations order by created_at, id`,
  )
}

export async function createInvitation(
  { database }: Service,
  caller: OrgCaller,
  { email, role }: Input<typeof contract.createInvitation>,
): Promise<Invitation> {
  try {
    return await database.asOrg(caller.organization.id, async (sql) => {
      const [member] = await sql`select from members m join users u on u.id = m.user_id where u.email = ${email}`
      if (member) throw duplicate('member')
      const [invitation] = await sql<Invitation>`
        insert into invitations (organization_id, id, email, role, invited_by)
        values (current_organization(), ${newId()}, ${email}, ${role}, ${caller.user.email})
        returning id, email, role, invited_by, created_at`
      await requireRoom(sql, 'seats')
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

/** Turns every open invitation to a verified address into a membership. The caller has verified the address. */
export async function acceptInvitations(
  { database, changes }: Pick<Service, 'database' | 'changes'>,
  user: { id: string; email: string },
): Promise<void> {
  const open = await database.asInvitee(
    user.email,
    (sql) => sql<{ organization_id: string; id: string }>`
      select organization_id, id from invitations where email = ${user.email}`,
  )
  for (const { organization_id: organizationId, id } of open) {
    await database.asOrg(organizationId, async (sql) => {
      const [taken] = await sql<{ role: string }>`delete from invitations where id = ${id} returning role`
      if (!taken) return
      await sql`
        insert into members (organization_id, id, user_id, role)
        values (${organizationId}, ${newId()}, ${user.id}, ${taken.role}) on conflict (organization_id, user_id) do nothing`
      await recordAudit(sql, { organizationId, actor: user.email }, 'invitation.accepted', id, { role: taken.role })
    })
  }
  if (open.length > 0) changes.announce(topics.user(user.id))
}
