import { type OrgCaller, trailOf } from '../../kernel/foundation/caller.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { notFound } from '../../kernel/lib/errors.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import { changeConnectors, selectStoredConnectors } from '../connectors/connectors.ts'
import type { deleteConnector as contract } from '../connectors/contract.ts'
import { disconnect } from './revocation.ts'

export async function deleteConnector(
  service: Service,
  caller: OrgCaller,
  { id }: Input<typeof contract>,
): Promise<Output<typeof contract>> {
  const organizationId = caller.organization.id
  const { connector, userIds } = await service.database.asOrg(organizationId, async (sql) => {
    const [connector] = await selectStoredConnectors(sql, id)
    if (!connector) throw notFound('connector', id)
    const users = await sql<{ id: string }>`
      select user_id as id from members
      union all select end_user_id from end_user_consents where connector_id = ${id}`
    return { connector, userIds: users.map((user) => user.id) }
  })
  // Tokens are revoked first, so that a failed deletion can be retried. Delegated tokens expire soon anyway.
  if (connector.kind === 'oauth')
    await disconnect(
      service,
      userIds.map((userId) => ({ organizationId, connector, userId })),
    )
  await changeConnectors(service, caller, async (sql) => {
    const [deleted] = await sql`delete from connectors where id = ${id} returning id`
    if (!deleted) throw notFound('connector', id)
    await recordAudit(sql, trailOf(caller), 'connector.deleted', id, { name: connector.name })
  })
  return { success: true }
}
