import type { Service } from '../../kernel/foundation/service.ts'
import type { Role } from '../../kernel/foundation/shapes.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { recordAudit, type Trail } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { requireWithinPlan } from '../../plans/plans/plans.ts'
import { requestAccessCleanup } from '../access-cleanup/access-cleanup.ts'
import { recordFormerMembers } from '../organizations/former-members.ts'
import { directoryIssuer, requireAdmin } from '../organizations/members.ts'
import type { ChangedPeople } from './announce-changed-people.ts'
import { noteLeavers, recordLeavers, selectAddresses, selectDeprovisioned } from './deprovisioned.ts'
import { inviteUsers, withdrawInvitations, withdrawInvitationsTo } from './directory-invitations.ts'

/** A directory user, the role that their groups give them, and their membership, if they have one. */
interface Person {
  id: string
  email: string
  former: string[]
  name: string
  active: boolean
  granted: Role | null
  /** The organization has proven the domain of the address. */
  is_proven: boolean
  /** They left, declined or were removed, so the directory can't bring them back. */
  has_left: boolean
}

interface Member {
  id: string
  user_id: string
  email: string
  role: Role
  directory_role: Role | null
  hand_role: Role | null
  directory_user_id: string | null
  is_active: boolean
  /** Waits for the first sign-in of a user whom the directory created. */
  is_waiting: boolean
}

/** What a membership should be. */
interface Next {
  role: Role
  directoryRole: Role | null
  handRole: Role | null
  isActive: boolean
  directoryUserId: string | null
  /** The directory user whose end closes the membership. */
  closedBy: string | null
}

interface Change {
  member: Member
  next: Next
}

/**
 * Makes memberships follow the directory: users in a group with a role are members with that role, or are invited, and
 * inactive users have no access. Members who were added by an administrator keep at least their role. A membership
 * belongs to the user who has its address now, so renamed users leave it to the address's new user. The organization must
 * be locked (`lockMembers`), and the caller must have written everything else: the audit rows come last.
 */
export async function settleMembers(
  sql: Sql,
  plans: Service['config']['plans'],
  trail: Trail,
  directoryUserIds: readonly string[],
): Promise<ChangedPeople> {
  const { people, linked, withAddress, gone } = await readState(sql, await withHeirs(sql, directoryUserIds))
  const plan = planChanges({ people, linked, withAddress, gone })
  await deleteMembers(sql, plan.ended)
  await updateMembers(sql, plan.kept)
  await renameWaiting(sql, [...linked.keys()])
  const added = await addMembers(
    sql,
    plan.newcomers.filter(({ person }) => person.is_proven),
  )
  const toInvite = plan.newcomers.filter(({ person }) => !person.is_proven)
  const invited = await inviteUsers(
    sql,
    trail,
    toInvite.map(({ person, role }) => ({ id: person.id, email: person.email, role })),
  )
  const wanted = new Set(plan.newcomers.map(({ person }) => person.id))
  const withdrawn = await withdrawInvitations(
    sql,
    people.filter(({ id }) => !wanted.has(id)).map(({ id }) => id),
  )

  const deactivated = plan.kept
    .filter(({ member, next }) => member.is_active && !next.isActive)
    .map(({ member }) => member)
  const reactivated = plan.kept
    .filter(({ member, next }) => !member.is_active && next.isActive)
    .map(({ member }) => member)
  const moved = plan.kept.filter(({ member, next }) => member.role !== next.role)
  const lostAdmins = [...plan.ended, ...deactivated, ...moved.map(({ member }) => member)].some(isActingAdmin)
  if (lostAdmins) await requireAdmin(sql)
  if (added.length + reactivated.length + invited.length > 0) await requireWithinPlan(plans, sql, 'seats')
  const departed = [...plan.ended, ...deactivated].map(({ user_id }) => user_id)
  await requestAccessCleanup(sql, departed)
  await recordFormerMembers(sql, 'directory', plan.ended)

  const steps: [string, readonly { id: string; email: string; role: Role }[]][] = [
    ['member.added', added],
    ['member.removed', plan.ended],
    ['member.deactivated', deactivated],
    ['member.reactivated', reactivated],
    ['invitation.created', invited],
    ['invitation.deleted', withdrawn],
  ]
  for (const [action, rows] of steps) {
    for (const { id, email, role } of rows) await recordAudit(sql, trail, action, id, { email, role })
  }
  for (const { member, next } of moved) {
    await recordAudit(sql, trail, 'member.role_changed', member.id, { from: member.role, to: next.role })
  }
  const changed = [...added, ...reactivated, ...moved.map(({ member }) => member)].map(({ user_id }) => user_id)
  return { changed, departed, invited }
}

const isActingAdmin = ({ role, is_active, is_waiting }: Member): boolean => role === 'admin' && is_active && !is_waiting

interface State {
  people: Person[]
  /** Memberships that belong to these people, by directory user. */
  linked: Map<string, Member>
  /** Other memberships with an address of these people, the oldest first. */
  withAddress: (Member & { is_verified: boolean; is_free: boolean })[]
  /** Addresses of these people that have lost all access. */
  gone: Set<string>
}

function planChanges({ people, linked, withAddress, gone }: State) {
  const changes = new Map<string, Change>()
  const ended = new Map<string, Member>()
  const newcomers: { person: Person; role: Role }[] = []
  const active = new Set(people.filter((person) => person.active).map(({ email }) => email))
  const left = new Set(
    people.flatMap((person) => {
      const member = linked.get(person.id)
      return member && isLeftBehind(person, member, active) ? [member] : []
    }),
  )
  const free: Member[] = [...withAddress.filter(({ is_free }) => is_free), ...left]
  const findFree = ({ email }: Person) =>
    free.find((member) => member.email === email && !changes.has(member.id) && !ended.has(member.id))
  for (const person of people) {
    const own = linked.get(person.id)
    const isOpen = person.active || gone.has(person.email)
    const member = own && !left.has(own) ? own : isOpen ? findFree(person) : undefined
    const next = decide(person, member)
    if (member && next) changes.set(member.id, { member, next })
    else if (member) ended.set(member.id, member)
    else if (next && !person.has_left) newcomers.push({ person, role: next.role })
  }
  // Memberships that a renamed user left behind, and nobody took over.
  for (const person of people) {
    const member = linked.get(person.id)
    if (!member || changes.has(member.id) || ended.has(member.id)) continue
    const role = handRoleOf(member)
    if (role === null) ended.set(member.id, member)
    else changes.set(member.id, { member, next: { ...freed(role), ...(gone.has(member.email) && closed(person.id)) } })
  }
  for (const member of withAddress) {
    if (changes.has(member.id) || ended.has(member.id)) continue
    const { role, directory_role: directoryRole, hand_role: handRole, directory_user_id: directoryUserId } = member
    const same = { role, directoryRole, handRole, directoryUserId }
    const owner = people.find(({ email, former }) => email === member.email || former.includes(member.email))
    if (owner && member.is_active && gone.has(member.email)) {
      changes.set(member.id, { member, next: { ...same, ...closed(owner.id) } })
    } else if (!member.is_active && member.is_verified && active.has(member.email)) {
      changes.set(member.id, { member, next: { ...same, isActive: true, closedBy: null } })
    }
  }
  const kept = [...changes.values()].filter((change) => !isUnchanged(change))
  const stays = ({ id, is_active }: Member) => !ended.has(id) && (changes.get(id)?.next.isActive ?? is_active)
  const members = new Set([...linked.values(), ...withAddress].filter(stays).map(({ email }) => email))
  return { kept, ended: [...ended.values()], newcomers: newcomers.filter(({ person }) => !members.has(person.email)) }
}

/** Whether a user no longer has the address of their membership, or another active user has it now. */
function isLeftBehind(
  { email, former, active, is_proven }: Person,
  member: Member,
  taken: ReadonlySet<string>,
): boolean {
  if (member.is_waiting) return !is_proven && member.email !== email
  if (!active) return taken.has(member.email)
  return member.email !== email && former.includes(member.email)
}

const handRoleOf = ({ role, directory_role, hand_role }: Member): Role | null =>
  directory_role === null ? role : hand_role

const freed = (role: Role): Next => ({
  role,
  directoryRole: null,
  handRole: null,
  isActive: true,
  directoryUserId: null,
  closedBy: null,
})

const closed = (by: string) => ({ isActive: false, closedBy: by })

const isUnchanged = ({ member, next }: Change): boolean =>
  member.directory_user_id === next.directoryUserId &&
  member.role === next.role &&
  member.directory_role === next.directoryRole &&
  member.hand_role === next.handRole &&
  member.is_active === next.isActive

/** What a person's membership should be; undefined for none. */
function decide({ id, email, active, granted }: Person, member: Member | undefined): Next | undefined {
  const own = { directoryUserId: id, isActive: true, closedBy: null }
  if (!member) {
    // Nobody could ever sign in without an address.
    return active && granted && email ? { ...own, role: granted, directoryRole: granted, handRole: null } : undefined
  }
  // A deactivated member gets the same membership back.
  if (!active) {
    const { role, directory_role, hand_role } = member
    return { ...own, ...closed(id), role, directoryRole: directory_role, handRole: hand_role }
  }
  const byHand = handRoleOf(member)
  const role = granted === 'admin' || byHand === 'admin' ? 'admin' : (granted ?? byHand)
  return role === null ? undefined : { ...own, role, directoryRole: granted, handRole: granted && byHand }
}

/** Adds the active users who now have an address that these users had, because they take its memberships over. */
async function withHeirs(sql: Sql, ids: readonly string[]): Promise<string[]> {
  const heirs = await sql<{ id: string }>`
    select heir.id from directory_users heir
    where heir.active and heir.email <> '' and heir.email in (
      select email from directory_users where id = any(${ids}::uuid[])
      union select email from directory_former_addresses where user_id = any(${ids}::uuid[]))`
  return [...new Set([...ids, ...heirs.map(({ id }) => id)])]
}

async function readState(sql: Sql, ids: readonly string[]): Promise<State> {
  const people = await sql<Person>`
    select u.id, u.email, u.name, u.active,
      array(select f.email from directory_former_addresses f where f.user_id = u.id) as former, (
        select case when bool_or(g.role = 'admin') then 'admin' when bool_or(g.role = 'member') then 'member' end
        from directory_group_members gm join directory_groups g on g.id = gm.group_id where gm.user_id = u.id) as granted,
      exists (select from sign_in_domains d where d.domain = split_part(u.email, '@', 2) and d.verified_at is not null) as is_proven,
      exists (select from former_members f where f.email = u.email and f.ended_by <> 'directory')
        or exists (select from former_members f where f.directory_user_id = u.id and f.ended_by <> 'directory') as has_left
    from directory_users u where u.id = any(${ids}::uuid[]) order by u.id`
  const addresses = [...new Set(people.flatMap(({ email, former }) => [email, ...former]))].filter(
    (email) => email !== '',
  )
  const [members, gone] = await Promise.all([selectMembers(sql, ids, addresses), selectDeprovisioned(sql, addresses)])
  const asked = new Set(ids)
  const isLinked = ({ directory_user_id }: Member) => directory_user_id !== null && asked.has(directory_user_id)
  return {
    people,
    linked: new Map(members.filter(isLinked).map((member) => [member.directory_user_id as string, member])),
    withAddress: members.filter((member) => !isLinked(member)),
    gone: new Set(gone.map(({ email }) => email)),
  }
}

/** Free ones belong to no directory user, or to one who now has another address. */
const selectMembers = (sql: Sql, directoryUserIds: readonly string[], emails: readonly string[]) => sql<
  State['withAddress'][number]
>`
  select m.id, m.user_id, a.email, m.role, m.directory_role, m.hand_role, m.directory_user_id,
         m.deactivated_at is null as is_active, a.issuer = ${directoryIssuer} as is_waiting, a.email_verified as is_verified,
         (a.email_verified or a.issuer = ${directoryIssuer})
           and (m.directory_user_id is null or d.email <> a.email or not d.active) as is_free
  from members m join users a on a.id = m.user_id left join directory_users d on d.id = m.directory_user_id
  where m.organization_id = (select current_organization()) and m.id = any(array(
    select id from members where directory_user_id = any(${directoryUserIds}::uuid[])
    union
    select id from members where user_id = any(array(select id from users where email = any(${emails}::text[])))))
  order by m.created_at, m.id`

/** Uses the account with the person's verified address, or one that waits for their first sign-in. */
async function addMembers(
  sql: Sql,
  newcomers: readonly { person: Person; role: Role }[],
): Promise<Pick<Member, 'id' | 'user_id' | 'email' | 'role'>[]> {
  if (newcomers.length === 0) return []
  const emails = newcomers.map(({ person }) => person.email)
  const accounts = await sql<{ id: string; email: string }>`
    select distinct on (email) id, email from users
    where email = any(${emails}) and email_verified order by email, updated_at desc, id`
  const accountOf = new Map(accounts.map(({ email, id }) => [email, id]))
  const rows = newcomers.map(({ person, role }) => ({ person, role, id: newId(), userId: accountOf.get(person.email) }))
  const strangers = rows
    .filter(({ userId }) => userId === undefined)
    .map((row) => Object.assign(row, { userId: newId() }))
  await sql`
    insert into users (id, issuer, subject, email, name)
    select id, ${directoryIssuer}, subject, email, name
    from unnest(${strangers.map(({ userId }) => userId)}::uuid[], ${strangers.map(({ person }) => person.id)}::text[],
                ${strangers.map(({ person }) => person.email)}::text[],
                ${strangers.map(({ person }) => person.name || person.email)}::text[]) as n (id, subject, email, name)`
  await withdrawInvitationsTo(sql, emails)
  // Another directory may have sent the same person.
  return sql`
    with added as (
      insert into members (organization_id, id, user_id, role, directory_role, directory_user_id)
      select current_organization(), id, user_id, role, role, directory_user_id
      from unnest(${rows.map(({ id }) => id)}::uuid[], ${rows.map(({ userId }) => userId)}::uuid[],
                  ${rows.map(({ role }) => role)}::text[], ${rows.map(({ person }) => person.id)}::uuid[])
           as n (id, user_id, role, directory_user_id)
      on conflict (organization_id, user_id) do nothing returning id, user_id, role
    )
    select added.id, user_id, role, email from added join users on users.id = user_id order by added.id`
}

/** The accounts that wait for a first sign-in have the directory's address and name. */
async function renameWaiting(sql: Sql, directoryUserIds: readonly string[]): Promise<void> {
  if (directoryUserIds.length === 0) return
  await sql`
    update users u set email = d.email, name = coalesce(nullif(d.name, ''), d.email), updated_at = now()
    from directory_users d join members m on m.directory_user_id = d.id
    where d.id = any(${directoryUserIds}::uuid[]) and u.id = m.user_id and u.issuer = ${directoryIssuer}
      and (u.email, u.name) is distinct from (d.email, coalesce(nullif(d.name, ''), d.email))`
}

async function updateMembers(sql: Sql, kept: readonly Change[]): Promise<void> {
  if (kept.length === 0) return
  // A directory user can't have two memberships, not even for a moment.
  await sql`update members set directory_user_id = null where id = any(${kept.map(({ member }) => member.id)}::uuid[])`
  await sql`
    update members m
    set role = n.role, directory_role = n.directory_role, hand_role = n.hand_role, directory_user_id = n.directory_user_id,
        deactivated_at = case when n.is_active then null else coalesce(m.deactivated_at, now()) end, closed_by = n.closed_by
    from unnest(${kept.map(({ member }) => member.id)}::uuid[], ${kept.map(({ next }) => next.role)}::text[],
                ${kept.map(({ next }) => next.directoryRole)}::text[], ${kept.map(({ next }) => next.handRole)}::text[],
                ${kept.map(({ next }) => next.directoryUserId)}::uuid[], ${kept.map(({ next }) => next.isActive)}::boolean[],
                ${kept.map(({ next }) => next.closedBy)}::uuid[])
         as n (id, role, directory_role, hand_role, directory_user_id, is_active, closed_by)
    where m.id = n.id`
}

/** Also deletes the accounts of those who never signed in. */
async function deleteMembers(sql: Sql, ended: readonly Member[]): Promise<void> {
  if (ended.length === 0) return
  await sql`delete from members where id = any(${ended.map(({ id }) => id)}::uuid[])`
  await sql`
    delete from users where id = any(${ended.map(({ user_id }) => user_id)}::uuid[]) and issuer = ${directoryIssuer}`
}

/**
 * Ends all memberships with an address of a user whom the directory deletes, and deletes the user. The caller audits what
 * is returned. Another active directory user with the address takes its membership over.
 */
export async function deleteDirectoryUser(
  sql: Sql,
  plans: Service['config']['plans'],
  trail: Trail,
  directoryUserId: string,
): Promise<ChangedPeople & { ended: Member[] }> {
  const addresses = await selectAddresses(sql, directoryUserId)
  const heirs = (await withHeirs(sql, [directoryUserId])).filter((id) => id !== directoryUserId)
  await noteLeavers(sql, addresses)
  const withdrawn = await withdrawInvitations(sql, [directoryUserId])
  const members = await selectMembers(sql, [directoryUserId], addresses)
  await sql`
    update members set role = hand_role, directory_role = null, hand_role = null
    where directory_user_id = ${directoryUserId} and hand_role is not null`
  await sql`delete from directory_users where id = ${directoryUserId}`
  const gone = new Set((await selectDeprovisioned(sql, addresses)).map(({ email }) => email))
  const isOwn = ({ directory_user_id }: Member) => directory_user_id === directoryUserId
  const ended = members.filter((member) => gone.has(member.email) || (isOwn(member) && heirs.length === 0))
  await deleteMembers(sql, ended)
  await withdrawInvitationsTo(sql, [...gone])
  if (ended.some(isActingAdmin)) await requireAdmin(sql)
  const ids = ended.map(({ user_id }) => user_id)
  await requestAccessCleanup(sql, ids)
  await recordFormerMembers(sql, 'directory', ended)
  const leavers = await recordLeavers(sql, addresses)
  const { changed, departed, invited } = await settleMembers(sql, plans, trail, heirs)
  for (const { id, email, role } of ended) await recordAudit(sql, trail, 'member.removed', id, { email, role })
  for (const { id, email, role } of withdrawn) await recordAudit(sql, trail, 'invitation.deleted', id, { email, role })
  return { changed, departed: [...departed, ...ids, ...leavers], invited, ended }
}

/** Leaves the members of a deleted directory to the administrators, without those whom it had deactivated. */
export async function releaseMembers(sql: Sql, directoryId: string): Promise<void> {
  await sql`
    delete from members where deactivated_at is not null and coalesce(directory_user_id, closed_by)
      in (select id from directory_users where directory_id = ${directoryId})`
  await sql`
    update members set directory_role = null, hand_role = null
    where directory_user_id in (select id from directory_users where directory_id = ${directoryId})`
  const users = await sql<{ id: string }>`select id from directory_users where directory_id = ${directoryId}`
  await withdrawInvitations(
    sql,
    users.map(({ id }) => id),
  )
}
