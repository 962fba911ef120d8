import type { Role } from '../../kernel/foundation/shapes.ts'
import { newId } from '../../kernel/lib/ids.ts'
import type { Trail } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { dropMailAbout } from '../mail/outbox.ts'
import { requestExpiry } from '../organizations/invitation-links.ts'

export interface Invited {
  id: string
  email: string
  role: Role
}

/**
 * Invites directory users whose addresses the organization hasn't proven. A directory's invitation is open for as long as
 * the directory gives the role; only its mailed link expires. Returns the new ones.
 */
export async function inviteUsers(
  sql: Sql,
  { actor }: Trail,
  users: readonly { id: string; email: string; role: Role }[],
): Promise<Invited[]> {
  if (users.length === 0) return []
  const [ids, emails, roles] = [
    users.map(({ id }) => id),
    users.map(({ email }) => email),
    users.map(({ role }) => role),
  ]
  const renamed = await sql<{ id: string }>`
    delete from invitations i using unnest(${ids}::uuid[], ${emails}::text[]) as n (user_id, email)
    where i.directory_user_id = n.user_id and i.email <> n.email returning i.id`
  await dropMailAbout(
    sql,
    renamed.map(({ id }) => id),
  )
  const invitedBy = actor.replace(/^directory (.*)$/s, 'Directory “$1”')
  const rows = await sql<Invited & { is_new: boolean }>`
    insert into invitations (organization_id, id, email, role, directory_role, directory_user_id, invited_by)
    select current_organization(), n.id, n.email, n.role, n.role, n.user_id, ${invitedBy}
    from unnest(${users.map(newId)}::uuid[], ${ids}::uuid[], ${emails}::text[], ${roles}::text[]) as n (id, user_id, email, role)
    on conflict (organization_id, email) do update
    set directory_user_id = excluded.directory_user_id, directory_role = excluded.directory_role,
        hand_role = case when invitations.directory_role is null then invitations.role else invitations.hand_role end,
        role = case when 'admin' in (excluded.role, case when invitations.directory_role is null then invitations.role else invitations.hand_role end)
               then 'admin' else 'member' end,
        expires_at = greatest(invitations.expires_at, excluded.expires_at)
    returning id, email, role, xmax = 0 as is_new`
  await requestExpiry(sql)
  return rows.filter(({ is_new }) => is_new).map(({ id, email, role }) => ({ id, email, role }))
}

/** Ends the invitations of users to whom the directory no longer gives a role. Those by administrators stay open. */
export async function withdrawInvitations(sql: Sql, directoryUserIds: readonly string[]): Promise<Invited[]> {
  if (directoryUserIds.length === 0) return []
  await sql`
    update invitations set role = hand_role, hand_role = null, directory_role = null, directory_user_id = null
    where directory_user_id = any(${directoryUserIds}::uuid[]) and hand_role is not null`
  const ended = await sql<Invited>`
    delete from invitations where directory_user_id = any(${directoryUserIds}::uuid[]) returning id, email, role`
  await dropMailAbout(
    sql,
    ended.map(({ id }) => id),
  )
  return ended
}

/** Ends all invitations to these addresses. */
export async function withdrawInvitationsTo(sql: Sql, emails: readonly string[]): Promise<void> {
  const ended = await sql<{ id: string }>`delete from invitations where email = any(${emails}::text[]) returning id`
  if (ended.length === 0) return
  await dropMailAbout(
    sql,
    ended.map(({ id }) => id),
  )
}
