import { recordAudit, trailOf } from '../audit/audit.ts'
import type { OrgCaller } from '../caller.ts'
import { notFound } from '../errors.ts'
import type { Input, Output } from '../operation.ts'
import type { Service } from '../service.ts'
import { changeConnectors, selectStoredConnectors } from './connectors.ts'
import type { deleteConnector as contract } from './contract.ts'
import { disconnect } from './revocation.ts'

export async function deleteConnector(
  service: Service,
  caller: OrgCaller,
  { id }: Input<typeof contract>,
): Promise<Output<typeof contract>> {
  const organizationId = caller.organization.id
  const { connector, members } = await service.database.asOrg(organizationId, async (sql) => {
    const [connector] = await selectStoredConnectors(sql, id)
    if (!connector) throw notFound('connector', id)
    return { connector, members: await sql<{ user_id: string }>`select user_id from members` }
  })
  // Before the deletion, which can be repeated if this fails. Tokens that were issued without consent soon expire.
  if (connector.kind === 'oauth')
    await disconnect(
      service,
      members.map(({ user_id }) => ({ organizationId, connector, userId: user_id })),
    )
  await changeConnectors(service, caller, async (sql) => {
    const [deleted] = await sql`delete from connectors where id = ${id} returning id`
    if (!deleted) throw notFound('connector', id)
    await recordAudit(sql, trailOf(caller), 'connector.deleted', id, { name: connector.name })
  })
  return { success: true }
}
