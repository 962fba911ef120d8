import type { Service } from '../../kernel/foundation/service.ts'
import type { Role } from '../../kernel/foundation/shapes.ts'
import { Failure } from '../../kernel/lib/errors.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { topics } from '../../kernel/stores/topics.ts'
import { isFormerMember } from '../organizations/former-members.ts'
import { directoryIssuer, lockMembers } from '../organizations/members.ts'
import { settleMembers } from './membership.ts'

type Claimant = { id: string; email: string }

/**
 * Gives a user who signs in the memberships that directories created for their verified address before. The first of
 * several accounts with the address gets them. Memberships that were closed with the user's former address open again if
 * a directory has the new one.
 */
export async function claimMemberships(
  { config, database, changes }: Pick<Service, 'config' | 'database' | 'changes'>,
  user: Claimant,
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
  const closed = await database.asReturning(
    user.id,
    (sql) => sql<{ organization_id: string }>`select organization_id from members where user_id = ${user.id}`,
  )
  for (const { organization_id } of closed) await reopen({ config, database }, organization_id, user)
  if (waiting.length + closed.length > 0) changes.announce(topics.user(user.id))
}

async function reopen(
  { config, database }: Pick<Service, 'config' | 'database'>,
  organizationId: string,
  { id, email }: Claimant,
): Promise<void> {
  try {
    await database.asOrg(organizationId, async (sql) => {
      await lockMembers(sql)
      const found = await sql<{ id: string }>`
        select d.id from users u join directory_users d on d.email = u.email
        where u.id = ${id} and u.email_verified and d.active`
      await settleMembers(
        sql,
        config.plans,
        { organizationId, actor: email, actorId: id },
        found.map((one) => one.id),
      )
    })
  } catch (error) {
    // Without a free seat, the membership stays closed, and the user can still sign in.
    if (!(error instanceof Failure && error.envelope.code === 'PAYMENT_REQUIRED')) throw error
  }
}

interface Waiting {
  id: string
  role: Role
  directory_role: Role | null
  directory_user_id: string | null
  notice_due: boolean
}

async function moveMembership(sql: Sql, organizationId: string, from: string, { id, email }: Claimant): Promise<void> {
  await lockMembers(sql)
  const [waiting] = await sql<Waiting>`
    select id, role, directory_role, directory_user_id, notice_due from members where user_id = ${from}`
  // Another sign-in was faster.
  if (!waiting) return
  await sql`delete from members where user_id = ${from}`
  await sql`delete from users where id = ${from}`
  const { directory_role, directory_user_id, role, notice_due } = waiting
  if (await isFormerMember(sql, { user_id: id, email }, { except: 'directory' })) {
    await recordAudit(sql, { organizationId, actor: email, actorId: id }, 'member.removed', waiting.id, { email, role })
    return
  }
  const [own] = await sql<{ id: string; role: Role; is_linked: boolean }>`
    select id, role, directory_user_id is not null and deactivated_at is null as is_linked from members where user_id = ${id}`
  if (!own) {
    await sql`
      insert into members (organization_id, id, user_id, role, directory_role, directory_user_id, notice_due)
      values (current_organization(), ${waiting.id}, ${id}, ${role}, ${directory_role}, ${directory_user_id}, ${notice_due})`
  } else if (!own.is_linked) {
    await sql`
      update members set directory_user_id = ${directory_user_id}, directory_role = ${directory_role},
        hand_role = case when directory_role is null then role else hand_role end,
        role = ${own.role === 'admin' ? 'admin' : role}, deactivated_at = null, closed_by = null
      where id = ${own.id}`
  }
  await recordAudit(
    sql,
    { organizationId, actor: email, actorId: id },
    'member.signed_in_first',
    own?.id ?? waiting.id,
    { email },
  )
}
