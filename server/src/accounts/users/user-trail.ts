import type { Service } from '../../kernel/foundation/service.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'

interface Happening {
  action: string
  /** Defaults to the user's email address. */
  actor?: string
  data?: Record<string, unknown>
}

/** Upper bound for the work of one sign-in, regardless of how many organizations the user belongs to. */
const mostTrails = 50

/**
 * Records an event of a user in the audit trail of each of their organizations, in the transaction of the change. Call
 * it last: it leaves the transaction in the last of these organizations. The order of the organizations is fixed to
 * prevent deadlocks, because each chain stays locked until the transaction ends.
 */
export async function recordForUser(sql: Sql, userId: string, { action, actor, data }: Happening): Promise<void> {
  await sql`select set_config('inlay.user_id', ${userId}, true)`
  const memberships = await sql<{ organization_id: string; email: string }>`
    select m.organization_id, u.email from members m join users u on u.id = m.user_id
    where m.user_id = ${userId} and m.deactivated_at is null order by m.organization_id limit ${mostTrails}`
  for (const { organization_id: organizationId, email } of memberships) {
    await sql`select set_config('inlay.organization_id', ${organizationId}, true)`
    const trail = actor === undefined ? { organizationId, actor: email, actorId: userId } : { organizationId, actor }
    await recordAudit(sql, trail, action, userId, data)
  }
}

/** For events that change nothing else in the database. */
export const recordHappening = (
  { database }: Pick<Service, 'database'>,
  userId: string,
  happening: Happening,
): Promise<void> => database.asService((sql) => recordForUser(sql, userId, happening))
