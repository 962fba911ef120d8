import type { Sql } from '../../kernel/stores/database.ts'

interface FormerMember {
  email: string
  user_id?: string | null
  directory_user_id?: string | null
}

type EndedBy = 'member' | 'administrator' | 'directory'

/** Records that memberships ended, so that nothing but a new invitation brings these people back. */
export async function recordFormerMembers(sql: Sql, by: EndedBy, people: readonly FormerMember[]): Promise<void> {
  if (people.length === 0) return
  await sql`
    insert into former_members (organization_id, id, user_id, directory_user_id, email, ended_by)
    select current_organization(), gen_random_uuid(), user_id, directory_user_id, email, ${by}
    from unnest(${people.map(({ user_id }) => user_id ?? null)}::uuid[],
                ${people.map(({ directory_user_id }) => directory_user_id ?? null)}::uuid[],
                ${people.map(({ email }) => email)}::text[]) as n (user_id, directory_user_id, email)`
}

/** For a user who accepted a new invitation, or whom the operator has added. */
export const forgetFormerMember = (sql: Sql, { user_id, email }: { user_id: string; email: string }) =>
  sql`delete from former_members where user_id = ${user_id} or email = ${email}`

/** Whether the user was a member before, under this address or another. `except` doesn't count. */
export async function isFormerMember(
  sql: Sql,
  { user_id, email }: { user_id: string | null; email: string },
  { except = null }: { except?: EndedBy | null } = {},
): Promise<boolean> {
  const [former] = await sql`
    select from former_members
    where (user_id = ${user_id} or email = ${email}) and ended_by is distinct from ${except} limit 1`
  return former !== undefined
}
