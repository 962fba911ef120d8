import { membershipChanged, type OrgCaller } from '../access.ts'
import { recordAudit, trailOf } from '../audit/audit.ts'
import { failure, notFound } from '../errors.ts'
import type { Input, Output } from '../operation.ts'
import type { Service } from '../service.ts'
import type { Sql } from '../stores/database.ts'
import type * as contract from './contract.ts'

type Member = Output<typeof contract.updateMember>

export async function listMembers({ database }: Service, { organization }: OrgCaller): Promise<Member[]> {
  return database.asOrg(organization.id, (sql) => selectMembers(sql))
}

export async function updateMember(
  { database, bus }: Service,
  caller: OrgCaller,
  { id, role }: Input<typeof contract.updateMember>,
): Promise<Member> {
  const member = await database.asOrg(caller.organization.id, async (sql) => {
    const { before, otherAdmins } = await lockMember(sql, id)
    if (before.role === role) return before
    if (before.role === 'admin' && otherAdmins === 0) throw lastAdmin()
    await sql`update members set role = ${role} where id = ${id}`
    await recordAudit(sql, trailOf(caller), 'member.role_changed', id, { from: before.role, to: role })
    return { ...before, role }
  })
  await bus.publish(membershipChanged, { user_id: member.user.id })
  return member
}

export async function removeMember(
  { database, bus }: Service,
  caller: OrgCaller,
  { id }: Input<typeof contract.removeMember>,
): Promise<Output<typeof contract.removeMember>> {
  const member = await database.asOrg(caller.organization.id, async (sql) => {
    const { before, otherAdmins } = await lockMember(sql, id)
    if (before.role === 'admin' && otherAdmins === 0) throw lastAdmin()
    await sql`delete from members where id = ${id}`
    await recordAudit(sql, trailOf(caller), 'member.removed', id, { email: before.user.email, role: before.role })
    return before
  })
  await bus.publish(membershipChanged, { user_id: member.user.id })
  return { success: true }
}

/** Of two admins who remove each other at once, the second must see what the first did: changes of members queue. */
async function lockMember(sql: Sql, id: string): Promise<{ before: Member; otherAdmins: number }> {
  await sql`select from organizations where id = current_organization() for no key update`
  const all = await selectMembers(sql)
  const before = all.find((member) => member.id === id)
  if (!before) throw notFound('member', id)
  return { before, otherAdmins: all.filter((member) => member.role === 'admin' && member.id !== id).length }
}

const selectMembers = (sql: Sql) => sql<Member>`
  select m.id, m.role, m.created_at, jsonb_build_object(
    'id', u.id, 'email', u.email, 'name', u.name, 'avatar_url', u.avatar_url,
    'created_at', iso_timestamp(u.created_at), 'updated_at', iso_timestamp(u.updated_at)) as user
  from members m join users u on u.id = m.user_id
  order by m.created_at, m.id`

const lastAdmin = () =>
  failure(409, 'CONFLICT', 'The last admin can be neither demoted nor removed', { data: { code: 'LAST_ADMIN' } })
