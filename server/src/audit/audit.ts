import type { OrgCaller } from '../access.ts'
import { newId } from '../lib/ids.ts'
import type { Sql } from '../stores/database.ts'

/** Whose trail a change belongs to, and who made it: a person's address, or `operator` for the command line. */
export interface Trail {
  organizationId: string
  actor: string
}

export const trailOf = ({ organization, user }: OrgCaller): Trail => ({
  organizationId: organization.id,
  actor: user.email,
})

/**
 * Writes the audit row of a change, in the change's own transaction: without it there is no change.
 * Call it last. It holds the organization's chain until the transaction ends, and a lock taken after that could
 * deadlock with a transaction that took the two in the other order.
 */
export async function recordAudit(
  sql: Sql,
  { organizationId, actor }: Trail,
  action: string,
  target: string,
  data: Record<string, unknown> = {},
): Promise<void> {
  await sql`
    insert into audit_events (organization_id, id, actor, action, target, data)
    values (${organizationId}, ${newId()}, ${actor}, ${action}, ${target}, ${JSON.stringify(data)}::jsonb)`
}
