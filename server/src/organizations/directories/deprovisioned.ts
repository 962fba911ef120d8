import type { Sql } from '../../kernel/stores/database.ts'
import { requestAccessCleanup } from '../access-cleanup/access-cleanup.ts'

/** ID tokens are valid for at most this long, so nobody has one of a user who was deleted earlier. */
const leaverHours = 24

/**
 * The addresses that no active directory user has, and that a directory deactivated, deleted, or took from a user. They
 * must be canonical.
 */
export const selectDeprovisioned = (sql: Sql, emails: readonly string[]) => sql<{ email: string }>`
  select email from unnest(${emails}::text[]) as asked (email)
  where not exists (select from directory_users u where u.email = asked.email and u.active)
    and (exists (select from directory_users u where u.email = asked.email)
      or exists (select from directory_former_addresses f where f.email = asked.email)
      or exists (select from directory_leavers l
                 where l.email = asked.email and l.left_at > now() - make_interval(hours => ${leaverHours})))`

/** Records addresses that a user had, or that a request would have given to them, unless it is their address now. */
export async function noteFormerAddresses(sql: Sql, directoryUserId: string, emails: readonly string[]): Promise<void> {
  await sql`
    insert into directory_former_addresses (organization_id, user_id, email)
    select current_organization(), u.id, former.email
    from directory_users u cross join unnest(${emails}::text[]) as former (email)
    where u.id = ${directoryUserId} and former.email not in ('', u.email) on conflict do nothing`
}

/** The user's address and all former ones. */
export async function selectAddresses(sql: Sql, directoryUserId: string): Promise<string[]> {
  const rows = await sql<{ email: string }>`
    select email from directory_users where id = ${directoryUserId} and email <> ''
    union select email from directory_former_addresses where user_id = ${directoryUserId}`
  return rows.map(({ email }) => email)
}

/** Also forgets those who left earlier. */
export async function noteLeavers(sql: Sql, emails: readonly string[]): Promise<void> {
  await sql`delete from directory_leavers where left_at < now() - make_interval(hours => ${leaverHours})`
  await sql`
    insert into directory_leavers (organization_id, email)
    select current_organization(), email from unnest(${emails}::text[]) as n (email)
    on conflict (organization_id, email) do update set left_at = now()`
}

/** Requests the cleanup of the end users with these addresses, if they no longer get tickets. Returns their IDs. */
export async function recordLeavers(sql: Sql, emails: readonly string[]): Promise<string[]> {
  const gone = await selectDeprovisioned(sql, emails)
  if (gone.length === 0) return []
  const endUsers = await sql<{ id: string }>`
    select id from end_users where email_key = any(${gone.map(({ email }) => email)}::text[]) order by id`
  const ids = endUsers.map(({ id }) => id)
  await sql`delete from confirmed_browsers where end_user_id = any(${ids}::uuid[])`
  await requestAccessCleanup(sql, ids)
  return ids
}
