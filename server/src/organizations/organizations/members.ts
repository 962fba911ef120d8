import { type MemberCaller, type OrgCaller, trailOf } from '../../kernel/foundation/caller.ts'
import { beforeAll, oneMore, type Paged, takePage } from '../../kernel/foundation/cursors.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { failure, notFound } from '../../kernel/lib/errors.ts'
import { recordAudit, requireRole } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { topics } from '../../kernel/stores/topics.ts'
import { type AccessCleanup, requestAccessCleanup } from '../access-cleanup/access-cleanup.ts'
import { dropMailAbout } from '../mail/outbox.ts'
import type * as contract from './contract.ts'
import { recordFormerMembers } from './former-members.ts'

type Needs = Service & { accessCleanup: AccessCleanup }

type Member = Output<typeof contract.updateMember>

export async function listMembers(
  { database }: Service,
  { organization }: OrgCaller,
  { limit, offset, cursor }: Input<typeof contract.listMembers>,
): Promise<Paged<Member[]>> {
  const page = { limit: oneMore(limit), offset, after: cursor ?? beforeAll }
  const found = await database.asOrg(organization.id, (sql) => selectMembers(sql, page))
  const { rows: body, next_cursor } = takePage(found, limit, ({ created_at, id }) => [created_at, id])
  return { body, next_cursor }
}

export async function updateMember(
  { database, changes }: Service,
  caller: OrgCaller,
  { id, role }: Input<typeof contract.updateMember>,
): Promise<Member> {
  const member = await database.asOrg(caller.organization.id, async (sql) => {
    await lockMembers(sql)
    await requireRole(sql, caller)
    const before = await readMember(sql, (member) => member.id === id, id)
    if (before.role === role) return before
    await sql`update members set role = ${role} where id = ${id}`
    if (before.role === 'admin') await requireAdmin(sql)
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
  caller: MemberCaller,
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
    await requireRole(sql, caller)
    // Everyone can leave, also members to whom a directory gives their role.
    const before = action === 'member.left' ? await findMember(sql, isMeant, id) : await readMember(sql, isMeant, id)
    const [gone] = await sql<{ directory_user_id: string | null }>`
      delete from members where id = ${before.id} returning directory_user_id`
    if (before.role === 'admin') await requireAdmin(sql)
    await sql`delete from users where id = ${before.user.id} and issuer = ${directoryIssuer}`
    await recordFormerMembers(sql, action === 'member.left' ? 'member' : 'administrator', [
      { email: before.user.email, user_id: before.user.id, directory_user_id: gone?.directory_user_id ?? null },
    ])
    // They come back by a new invitation, not by one that is open.
    const withdrawn = await sql<{ id: string }>`delete from invitations where email = ${before.user.email} returning id`
    await dropMailAbout(
      sql,
      withdrawn.map((invitation) => invitation.id),
    )
    await requestAccessCleanup(sql, [before.user.id])
    await recordAudit(sql, trailOf(caller), action, before.id, { email: before.user.email, role: before.role })
    return before
  })
  await service.accessCleanup.finish(caller.organization.id, member.user.id)
}

/** Serializes membership changes, so that two admins who remove each other concurrently can't both succeed. */
export const lockMembers = (sql: Sql) =>
  sql`select from organizations where id = current_organization() for no key update`

/** Finds a member whose role and membership are in the administrators' hands. */
async function readMember(sql: Sql, isMeant: (member: Member) => boolean, id: string): Promise<Member> {
  const before = await findMember(sql, isMeant, id)
  const [managed] = await sql<{ directory: string }>`
    select d.name as directory from members m
    join directory_users u on u.id = m.directory_user_id join directories d on d.id = u.directory_id
    where m.id = ${before.id} and m.directory_role is not null`
  if (managed) throw managedByDirectory(managed.directory)
  return before
}

async function findMember(sql: Sql, isMeant: (member: Member) => boolean, id: string): Promise<Member> {
  const found = (await selectMembers(sql)).find(isMeant)
  if (!found) throw notFound('member', id)
  return found
}

/** Call it after the change, in its transaction. Members who have never signed in can't administer anything yet. */
export async function requireAdmin(sql: Sql): Promise<void> {
  const [admin] = await sql`
    select from members m join users u on u.id = m.user_id
    where m.organization_id = (select current_organization()) and m.role = 'admin' and m.deactivated_at is null
      and u.issuer <> ${directoryIssuer} limit 1`
  if (!admin) throw lastAdmin()
}

interface Page {
  limit: number | null
  offset: number
  after: readonly [at: string, id: string]
}

/**
 * Names the organization although row-level security does too: members have more policies, for other tasks, with which
 * PostgreSQL would read the members of all organizations.
 */
const selectMembers = (
  sql: Sql,
  { limit, offset, after: [at, id] }: Page = { limit: null, offset: 0, after: beforeAll },
) => sql<Member>`
  select m.id, m.role, m.created_at, jsonb_build_object(
    'id', u.id, 'email', u.email, 'name', u.name, 'avatar_url', u.avatar_url,
    'created_at', iso_timestamp(u.created_at), 'updated_at', iso_timestamp(u.updated_at)) as user
  from members m join users u on u.id = m.user_id
  where m.organization_id = (select current_organization()) and m.deactivated_at is null
    and (m.created_at, m.id) > (${at}::timestamptz, ${id}::uuid)
  order by m.created_at, m.id limit ${limit} offset ${offset}`

/** Issuer of the accounts of members who were added by a directory and have not signed in yet. */
export const directoryIssuer = 'directory'

const managedByDirectory = (directory: string) =>
  failure(
    409,
    'CONFLICT',
    `The directory “${directory}” gives this member their role. Change their groups there, or the group’s role here.`,
    { data: { code: 'MANAGED_BY_DIRECTORY' } },
  )

const lastAdmin = () =>
  failure(
    409,
    'CONFLICT',
    'The last admin can’t be demoted or removed, and can’t leave. Make another member an admin first.',
    { data: { code: 'LAST_ADMIN' } },
  )
