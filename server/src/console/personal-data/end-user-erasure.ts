import type { Runs } from '../../agent/runs/runs.ts'
import { eraseThreads, lockEndUserThreads } from '../../agent/threads/threads.ts'
import { type OrgCaller, trailOf } from '../../kernel/foundation/caller.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { notFound } from '../../kernel/lib/errors.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import {
  type AccessCleanup,
  isCleanupRequested,
  requestAccessCleanup,
} from '../../organizations/access-cleanup/access-cleanup.ts'
import { lockEvents } from '../../plans/usage/record.ts'
import { eraseEndUserUsage } from '../../plans/usage/usage.ts'
import { eraseEndUserContents } from '../../tools/call-records/contents.ts'
import type * as contract from './contract.ts'

/** A user who keeps writing can't put off the erasure: the last attempt also erases runs that go on. */
const mostAttempts = 10

/**
 * Deletes the end user, their threads and the contents of their tool calls. Keeps their usage without the identity.
 * Repeating the request succeeds. The user's runs end first, so that what they have used is charged; those that begin
 * meanwhile end before another attempt.
 */
export async function eraseEndUser(
  { activity, database, accessCleanup, runs }: Service & { accessCleanup: AccessCleanup; runs: Runs },
  caller: OrgCaller,
  { id }: Input<typeof contract.eraseEndUser>,
): Promise<Output<typeof contract.eraseEndUser>> {
  const organizationId = caller.organization.id
  const erase = async (sql: Sql, isLastAttempt: boolean) => {
    // In the same order as the transactions of runs, so that they can't deadlock: threads, then the end user.
    await lockEvents(sql)
    const threadIds = await lockEndUserThreads(sql, id)
    const [known] = await sql<{ email: string; external_id: string }>`
      select email, external_id from end_users where id = ${id} for update`
    if (!known) {
      if (!(await isCleanupRequested(sql, id))) throw notFound('end_user', id)
      await requestAccessCleanup(sql, [id])
      return true
    }
    if (!isLastAttempt && (await isActive(sql, id, threadIds))) return false
    await eraseEndUserUsage(sql, id)
    await eraseThreads(sql, threadIds)
    await eraseEndUserContents(sql, id)
    await sql`delete from refusals where lower(seen) in (lower(${known.email}), lower(${known.external_id}))`
    await sql`delete from end_users where id = ${id}`
    await requestAccessCleanup(sql, [id])
    await recordAudit(sql, trailOf(caller), 'end_user.erased', id)
    return true
  }
  // Refusals that name the end user may not be written yet.
  await activity.flush()
  for (let left = mostAttempts - 1, isErased = false; !isErased; left -= 1) {
    await runs.endAllOf(organizationId, id)
    isErased = await database.asOrg(organizationId, (sql) => erase(sql, left === 0))
  }
  await accessCleanup.finish(organizationId, id)
  return { success: true }
}

/** Whether a run of the end user is active, or a thread began after their threads were locked. */
async function isActive(sql: Sql, id: string, threadIds: string[]): Promise<boolean> {
  const [active] = await sql`
    select from runs
    where organization_id = (select current_organization()) and thread_id = any(${threadIds})
      and status in ('running', 'waiting')
    union all select from threads where end_user_id = ${id} and id <> all(${threadIds}::uuid[])`
  return active !== undefined
}
