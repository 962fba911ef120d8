import type { OrgCaller } from '../access.ts'
import { recordAudit, trailOf } from '../audit/audit.ts'
import { forgetIdentity } from '../connectors/held-identities.ts'
import { disconnectPerson } from '../connectors/revocation.ts'
import { notFound } from '../errors.ts'
import type { Input, Output } from '../operation.ts'
import type { Service } from '../service.ts'
import { topics } from '../stores/changes.ts'
import { eraseEndUserThreads } from '../threads/threads.ts'
import { eraseEndUserUsage } from '../usage/usage.ts'
import type * as contract from './contract.ts'

/**
 * The end user goes, with threads and the identity in usage; usage itself stays counted. Once the transaction has
 * committed the erasure can't fail any more: what is left to do outside the database is done now, or later by
 * `keepErasing`, on any node.
 */
export async function eraseEndUser(
  service: Service,
  caller: OrgCaller,
  { id }: Input<typeof contract.eraseEndUser>,
): Promise<Output<typeof contract.eraseEndUser>> {
  const organizationId = caller.organization.id
  await service.database.asOrg(organizationId, async (sql) => {
    const [known] = await sql`select from end_users where id = ${id} for update`
    if (!known) {
      const [unfinished] = await sql`select from erasures where end_user_id = ${id}`
      if (unfinished) return
      throw notFound('end_user', id)
    }
    await eraseEndUserUsage(sql, id)
    await eraseEndUserThreads(sql, id)
    await sql`delete from end_users where id = ${id}`
    await sql`insert into erasures (organization_id, end_user_id) values (current_organization(), ${id})`
    await recordAudit(sql, trailOf(caller), 'end_user.erased', id)
  })
  await tryToFinish(service, organizationId, id)
  return { success: true }
}

const finishEveryMs = 30_000
const mostAtOnce = 100

/** Finishes what crashes and engines that were away left over, at the start and from time to time. */
export function keepErasing(service: Service, everyMs = finishEveryMs): { close(): Promise<void> } {
  const { database, log } = service
  async function finishAll(): Promise<void> {
    try {
      const unfinished = await database.asEraser(
        (sql) => sql<{ organization_id: string; end_user_id: string }>`
          select organization_id, end_user_id from erasures order by created_at limit ${mostAtOnce}`,
      )
      for (const { organization_id, end_user_id } of unfinished)
        await tryToFinish(service, organization_id, end_user_id)
    } catch (error) {
      log.warn({ err: error }, 'unfinished erasures could not be listed')
    }
  }

  let finishing = finishAll()
  const timer = setInterval(() => {
    finishing = finishing.then(finishAll)
  }, everyMs)
  timer.unref()
  return {
    async close() {
      clearInterval(timer)
      await finishing
    },
  }
}

/** Every step can be repeated, also by two nodes at once. */
async function tryToFinish(service: Service, organizationId: string, endUserId: string): Promise<void> {
  try {
    service.changes.announce(topics.endUser(endUserId))
    await forgetIdentity(service, organizationId, endUserId)
    await disconnectPerson(service, organizationId, endUserId)
    await service.database.asOrg(organizationId, (sql) => sql`delete from erasures where end_user_id = ${endUserId}`)
  } catch (error) {
    service.log.warn({ err: error }, 'the erasure of an end user is not finished; it will be tried again')
  }
}
