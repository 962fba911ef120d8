import type { Departures } from '../departures/departures.ts'
import type { Service } from '../foundation/service.ts'
import type { Role } from '../foundation/shapes.ts'
import { newId } from '../lib/ids.ts'
import { directoryIssuer, lockMembers, requireAdmin } from '../organizations/members.ts'
import { requireRoom } from '../plans/plans.ts'
import { recordAudit, type Trail } from '../stores/audit/audit.ts'
import { topics } from '../stores/bus-messages.ts'
import { announceAll } from '../stores/changes.ts'
import type { Sql } from '../stores/database.ts'

/** People whose access has changed, for `spreadChanges` after the commit. */
export interface ChangedPeople {
  /** Users with a new membership or role. */
  changed: string[]
  /** Users and end users whose access has ended. Their departures are recorded. */
  departed: string[]
}

/** A directory user, the role that their groups give them, and their membership, if they have one. */
interface Person {
  id: string
  email: string
  name: string
  active: boolean
  granted: Role | null
  member: Member | null
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
}

/**
 * Makes memberships follow the directory: users in a group with a role are members with that role, and inactive users
 * have no access. Members who were added by an administrator keep at least their role. The organization must be locked
 * (`lockMembers`), and the caller must have written everything else: the audit rows come last.
 */
export async function settleMembers(
  sql: Sql,
  plans: Service['config']['plans'],
  trail: Trail,
  directoryUserIds: readonly string[],
): Promise<ChangedPeople> {
  const people = await selectPeople(sql, directoryUserIds)
  const decisions = people.map((person) => ({ person, next: decide(person) }))
  const added = await addMembers(
    sql,
    decisions.flatMap(({ person, next }) => (person.member === null && next ? [{ person, role: next.role }] : [])),
  )
  const kept = decisions.flatMap(({ person: { id, member }, next }) =>
    member && next && !isUnchanged(id, member, next) ? [{ id, member, next }] : [],
  )
  const ended = decisions.flatMap(({ person: { member }, next }) => (member && !next ? [member] : []))
  await updateMembers(sql, kept)
  await deleteMembers(sql, ended)

  const deactivated = kept.filter(({ member, next }) => member.is_active && !next.isActive).map(({ member }) => member)
  const reactivated = kept.filter(({ member, next }) => !member.is_active && next.isActive).map(({ member }) => member)
  const moved = kept.filter(({ member, next }) => member.role !== next.role)
  const lostAdmins = [...ended, ...deactivated, ...moved.map(({ member }) => member)].some(isActingAdmin)
  if (lostAdmins) await requireAdmin(sql)
  if (added.length + reactivated.length > 0) await requireRoom(plans, sql, 'seats')
  const departed = [...ended, ...deactivated].map(({ user_id }) => user_id)
  await recordDepartures(sql, departed)

  for (const { id, email, role } of added) await recordAudit(sql, trail, 'member.added', id, { email, role })
  for (const { id, email, role } of ended) await recordAudit(sql, trail, 'member.removed', id, { email, role })
  for (const { id, email, role } of deactivated)
    await recordAudit(sql, trail, 'member.deactivated', id, { email, role })
  for (const { id, email, role } of reactivated)
    await recordAudit(sql, trail, 'member.reactivated', id, { email, role })
  for (const { member, next } of moved) {
    await recordAudit(sql, trail, 'member.role_changed', member.id, { from: member.role, to: next.role })
  }
  const changed = [...added, ...reactivated, ...moved.map(({ member }) => member)].map(({ user_id }) => user_id)
  return { changed, departed }
}

const isActingAdmin = ({ role, is_active }: Member): boolean => role === 'admin' && is_active

const isUnchanged = (id: string, member: Member, next: Next): boolean =>
  member.directory_user_id === id &&
  member.role === next.role &&
  member.directory_role === next.directoryRole &&
  member.hand_role === next.handRole &&
  member.is_active === next.isActive

interface Next {
  role: Role
  directoryRole: Role | null
  handRole: Role | null
  isActive: boolean
}

/** What a person's membership should be; undefined for none. */
function decide({ email, active, granted, member }: Person): Next | undefined {
  if (!member) {
    // Nobody could ever sign in without an address.
    return active && granted && email
      ? { role: granted, directoryRole: granted, handRole: null, isActive: true }
      : undefined
  }
  const byHand = member.directory_role === null ? member.role : member.hand_role
  // A deactivated member gets the same membership back.
  if (!active) {
    const { role, directory_role, hand_role } = member
    return { role, directoryRole: directory_role, handRole: hand_role, isActive: false }
  }
  const role = granted === 'admin' || byHand === 'admin' ? 'admin' : (granted ?? byHand)
  if (role === null) return undefined
  return { role, directoryRole: granted, handRole: granted && byHand, isActive: true }
}

/** A member without a directory who has the user's verified address counts as the same person. */
async function selectPeople(sql: Sql, ids: readonly string[]): Promise<Person[]> {
  const [people, linked] = await Promise.all([
    sql<Omit<Person, 'member'>>`
      select u.id, u.email, u.name, u.active, (
          select case when bool_or(g.role = 'admin') then 'admin' when bool_or(g.role = 'member') then 'member' end
          from directory_group_members gm join directory_groups g on g.id = gm.group_id where gm.user_id = u.id) as granted
      from directory_users u where u.id = any(${ids}::uuid[]) order by u.id`,
    sql<Member>`
      select m.id, m.user_id, a.email, m.role, m.directory_role, m.hand_role, m.directory_user_id,
             m.deactivated_at is null as is_active
      from members m join users a on a.id = m.user_id where m.directory_user_id = any(${ids}::uuid[])`,
  ])
  const memberOf = new Map(linked.map((member) => [member.directory_user_id, member]))
  const emails = people.filter(({ id, email }) => email !== '' && !memberOf.has(id)).map(({ email }) => email)
  const others = emails.length === 0 ? [] : await selectUnlinked(sql, emails)
  const withEmail = new Map(others.map((member) => [member.email, member]))
  return people.map((person) => {
    const member = memberOf.get(person.id) ?? withEmail.get(person.email) ?? null
    if (member && !memberOf.has(person.id)) withEmail.delete(person.email)
    return { ...person, member }
  })
}

const selectUnlinked = (sql: Sql, emails: readonly string[]) => sql<Member>`
  select m.id, m.user_id, a.email, m.role, m.directory_role, m.hand_role, m.directory_user_id,
         m.deactivated_at is null as is_active
  from users a join members m on m.user_id = a.id
  where a.email = any(${emails}) and a.email_verified and m.directory_user_id is null order by m.created_at desc, m.id desc`

interface Newcomer {
  person: Person
  role: Role
}

/** Uses the account with the person's verified address, or one that waits for their first sign-in. */
async function addMembers(
  sql: Sql,
  newcomers: readonly Newcomer[],
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
  await sql`delete from invitations where email = any(${emails})`
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

async function updateMembers(sql: Sql, kept: readonly { id: string; member: Member; next: Next }[]): Promise<void> {
  if (kept.length === 0) return
  await sql`
    update members m
    set role = n.role, directory_role = n.directory_role, hand_role = n.hand_role, directory_user_id = n.directory_user_id,
        deactivated_at = case when n.is_active then null else coalesce(m.deactivated_at, now()) end
    from unnest(${kept.map(({ member }) => member.id)}::uuid[], ${kept.map(({ next }) => next.role)}::text[],
                ${kept.map(({ next }) => next.directoryRole)}::text[], ${kept.map(({ next }) => next.handRole)}::text[],
                ${kept.map(({ id }) => id)}::uuid[], ${kept.map(({ next }) => next.isActive)}::boolean[])
         as n (id, role, directory_role, hand_role, directory_user_id, is_active)
    where m.id = n.id`
}

/** Also deletes the accounts of those who never signed in. */
async function deleteMembers(sql: Sql, ended: readonly Member[]): Promise<void> {
  if (ended.length === 0) return
  await sql`delete from members where id = any(${ended.map(({ id }) => id)}::uuid[])`
  await sql`
    delete from users where id = any(${ended.map(({ user_id }) => user_id)}::uuid[]) and issuer = ${directoryIssuer}`
}

async function recordDepartures(sql: Sql, personIds: readonly string[]): Promise<void> {
  if (personIds.length === 0) return
  await sql`
    insert into departures (organization_id, person_id)
    select current_organization(), id from unnest(${personIds}::uuid[]) as n (id) order by id on conflict do nothing`
}

/** Ends the membership of a user whom the directory deletes, before the row is deleted. The caller audits it. */
export async function endMembershipOf(sql: Sql, directoryUserId: string): Promise<Member | undefined> {
  const [person] = await selectPeople(sql, [directoryUserId])
  const member = person?.member
  if (!member) return undefined
  await deleteMembers(sql, [member])
  if (isActingAdmin(member)) await requireAdmin(sql)
  await recordDepartures(sql, [member.user_id])
  return member
}

/** Leaves the members of a deleted directory to the administrators, without those whom it had deactivated. */
export async function releaseMembers(sql: Sql, directoryId: string): Promise<void> {
  await sql`
    delete from members where deactivated_at is not null
      and directory_user_id in (select id from directory_users where directory_id = ${directoryId})`
  await sql`
    update members set directory_role = null, hand_role = null
    where directory_user_id in (select id from directory_users where directory_id = ${directoryId})`
}

/** Records the departure of the end users with these addresses, if they no longer get tickets. Returns their IDs. */
export async function recordLeavers(sql: Sql, emails: readonly string[]): Promise<string[]> {
  const gone = await selectDeprovisioned(sql, emails)
  if (gone.length === 0) return []
  const endUsers = await sql<{ id: string }>`
    select id from end_users where email_key = any(${gone.map(({ email }) => email)}::text[]) order by id`
  const ids = endUsers.map(({ id }) => id)
  await recordDepartures(sql, ids)
  return ids
}

/** ID tokens are valid for at most this long, so nobody has one of a user who was deleted earlier. */
const leaverHours = 24

/** The addresses, in lower case, whose users a directory deactivated or deleted. */
export const selectDeprovisioned = (sql: Sql, emails: readonly string[]) => sql<{ email: string }>`
  select email from unnest(${emails}::text[]) as asked (email)
  where not exists (select from directory_users u where u.email = asked.email and u.active)
    and (exists (select from directory_users u where u.email = asked.email)
      or exists (select from directory_leavers l
                 where l.email = asked.email and l.left_at > now() - make_interval(hours => ${leaverHours})))`

/** Also forgets those who left earlier. */
export async function noteLeaver(sql: Sql, email: string): Promise<void> {
  await sql`delete from directory_leavers where left_at < now() - make_interval(hours => ${leaverHours})`
  if (email === '') return
  await sql`
    insert into directory_leavers (organization_id, email) values (current_organization(), ${email})
    on conflict (organization_id, email) do update set left_at = now()`
}

const departuresAtOnce = 8

/** After the commit: ends all access of those who left, on every node, before it returns. */
export async function spreadChanges(
  { changes, departures }: Service & { departures: Departures },
  organizationId: string,
  { changed, departed }: ChangedPeople,
): Promise<void> {
  const all = [...changed.map(topics.user), ...departed.flatMap((id) => [topics.endUser(id), topics.user(id)])]
  announceAll(changes, all)
  for (let first = 0; first < departed.length; first += departuresAtOnce) {
    const batch = departed.slice(first, first + departuresAtOnce)
    await Promise.all(batch.map((id) => departures.finish(organizationId, id)))
  }
}

/**
 * Gives a user who signs in the memberships that directories created for their verified address before. The first of
 * several accounts with the address gets them.
 */
export async function claimMemberships(
  { database, changes }: Pick<Service, 'database' | 'changes'>,
  user: { id: string; email: string },
): Promise<void> {
  const waiting = await database.asService(
    (sql) => sql<{ id: string }>`
      select waiting.id from users own join users waiting on waiting.email = own.email
      where own.id = ${user.id} and own.email_verified and waiting.issuer = ${directoryIssuer}`,
  )
  for (const { id } of waiting) {
    const places = await database.asUser(
      id,
      (sql) => sql<{ organization_id: string }>`select organization_id from members where user_id = ${id}`,
    )
    for (const { organization_id } of places) {
      await database.asOrg(organization_id, (sql) => moveMembership(sql, organization_id, id, user))
    }
  }
  if (waiting.length > 0) changes.announce(topics.user(user.id))
}

async function moveMembership(
  sql: Sql,
  organizationId: string,
  from: string,
  { id, email }: { id: string; email: string },
): Promise<void> {
  await lockMembers(sql)
  const [placeholder] = await sql<Omit<Member, 'email' | 'is_active'>>`
    select id, user_id, role, directory_role, hand_role, directory_user_id from members where user_id = ${from}`
  // Another sign-in was faster.
  if (!placeholder) return
  await sql`delete from members where user_id = ${from}`
  await sql`delete from users where id = ${from}`
  const { directory_role, directory_user_id, role } = placeholder
  const [own] = await sql<{ id: string; role: Role; is_linked: boolean }>`
    select id, role, directory_user_id is not null as is_linked from members where user_id = ${id}`
  if (!own) {
    await sql`
      insert into members (organization_id, id, user_id, role, directory_role, directory_user_id)
      values (current_organization(), ${placeholder.id}, ${id}, ${role}, ${directory_role}, ${directory_user_id})`
  } else if (!own.is_linked) {
    await sql`
      update members set directory_user_id = ${directory_user_id}, directory_role = ${directory_role}, hand_role = role,
        role = ${own.role === 'admin' ? 'admin' : role}
      where id = ${own.id}`
  }
  await recordAudit(sql, { organizationId, actor: email }, 'member.signed_in_first', own?.id ?? placeholder.id, {
    email,
  })
}
