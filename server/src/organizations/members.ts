import { type Departures, recordDeparture } from '../departures/departures.ts'
import { type OrgCaller, trailOf } from '../foundation/caller.ts'
import type { Input, Output } from '../foundation/operation.ts'
import type { Service } from '../foundation/service.ts'
import { failure, notFound } from '../lib/errors.ts'
import { requireRoom } from '../plans/plans.ts'
import { recordAudit, type Trail } from '../stores/audit/audit.ts'
import { topics } from '../stores/bus-messages.ts'
import type { Sql } from '../stores/database.ts'
import type * as contract from './contract.ts'

type Needs = Service & { departures: Departures }

type Member = Output<typeof contract.updateMember>

export async function listMembers({ database }: Service, { organization }: OrgCaller): Promise<Member[]> {
  return database.asOrg(organization.id, (sql) => selectMembers(sql))
}

export async function updateMember(
  { database, changes }: Service,
  caller: OrgCaller,
  { id, role }: Input<typeof contract.updateMember>,
): Promise<Member> {
  const member = await database.asOrg(caller.organization.id, async (sql) => {
    await lockMembers(sql)
    const { before, otherAdmins } = await readMember(sql, (member) => member.id === id, id)
    if (before.role === role) return before
    if (before.role === 'admin' && otherAdmins === 0) throw lastAdmin()
    await sql`update members set role = ${role} where id = ${id}`
    await recordAudit(sql, trailOf(caller), 'member.role_changed', id, { from: before.role, to: role })
    return { ...before, role }
  })
  changes.announce(topics.user(member.user.id))
  return member
}

export async function removeMember(
  service: Needs,
  caller: OrgCaller,
  { id }: Input<typeof contract.removeMember>,
): Promise<Output<typeof contract.removeMember>> {
  await endMembership(service, caller, 'member.removed', (member) => member.id === id, id)
  return { success: true }
}

export async function leaveOrganization(
  service: Needs,
  caller: OrgCaller,
): Promise<Output<typeof contract.leaveOrganization>> {
  await endMembership(service, caller, 'member.left', ({ user }) => user.id === caller.user.id, caller.user.id)
  return { success: true }
}

async function endMembership(
  service: Needs,
  caller: OrgCaller,
  action: 'member.removed' | 'member.left',
  isMeant: (member: Member) => boolean,
  id: string,
): Promise<void> {
  const member = await service.database.asOrg(caller.organization.id, async (sql) => {
    await lockMembers(sql)
    const { before, otherAdmins } = await readMember(sql, isMeant, id)
    if (before.role === 'admin' && otherAdmins === 0) throw lastAdmin()
    await sql`delete from members where id = ${before.id}`
    await recordDeparture(sql, before.user.id)
    await recordAudit(sql, trailOf(caller), action, before.id, { email: before.user.email, role: before.role })
    return before
  })
  await service.departures.finish(caller.organization.id, member.user.id)
}

/** For directories: a deactivated member has no access, uses no seat, and can't rejoin until reactivated. */
export const deactivateMember = (service: Needs, trail: Trail, id: string) => setActive(service, trail, id, false)

export const reactivateMember = (service: Needs, trail: Trail, id: string) => setActive(service, trail, id, true)

async function setActive(service: Needs, trail: Trail, id: string, isActive: boolean): Promise<void> {
  const { database, changes } = service
  const member = await database.asOrg(trail.organizationId, async (sql) => {
    await lockMembers(sql)
    const [before] = await sql<{ user_id: string; email: string; role: string; is_active: boolean }>`
      select u.id as user_id, u.email, m.role, m.deactivated_at is null as is_active
      from members m join users u on u.id = m.user_id where m.id = ${id}`
    if (!before) throw notFound('member', id)
    // Directories repeat their updates.
    if (before.is_active === isActive) return before
    if (isActive) {
      await sql`update members set deactivated_at = null where id = ${id}`
      await requireRoom(service.config.plans, sql, 'seats')
    } else {
      const { otherAdmins } = await readMember(sql, (member) => member.id === id, id)
      if (before.role === 'admin' && otherAdmins === 0) throw lastAdmin()
      await sql`update members set deactivated_at = now() where id = ${id}`
      await recordDeparture(sql, before.user_id)
    }
    const action = isActive ? 'member.reactivated' : 'member.deactivated'
    await recordAudit(sql, trail, action, id, { email: before.email, role: before.role })
    return before
  })
  if (isActive) changes.announce(topics.user(member.user_id))
  else await service.departures.finish(trail.organizationId, member.user_id)
}

/** Serializes membership changes, so that two admins who remove each other concurrently can't both succeed. */
const lockMembers = (sql: Sql) => sql`select from organizations where id = current_organization() for no key update`

async function readMember(sql: Sql, isMeant: (member: Member) => boolean, id: string) {
  const all = await selectMembers(sql)
  const before = all.find(isMeant)
  if (!before) throw notFound('member', id)
  return { before, otherAdmins: all.filter((member) => member.role === 'admin' && member !== before).length }
}

const selectMembers = (sql: Sql) => sql<Member>`
  select m.id, m.role, m.created_at, jsonb_build_object(
    'id', u.id, 'email', u.email, 'name', u.name, 'avatar_url', u.avatar_url,
    'created_at', iso_timestamp(u.created_at), 'updated_at', iso_timestamp(u.updated_at)) as user
  from members m join users u on u.id = m.user_id
  where m.deactivated_at is null
  order by m.created_at, m.id`

const lastAdmin = () =>
  failure(
    409,
    'CONFLICT',
    'The last admin can’t be demoted or removed, and can’t leave. Make another member an admin first.',
    { data: { code: 'LAST_ADMIN' } },
  )
