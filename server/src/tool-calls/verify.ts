import { hash } from 'node:crypto'
import type { Stores } from '../stores/stores.ts'
import { readRecords, recordedAction } from './batch.ts'

interface ToolCallReport {
  /** Number of valid batches and records before the first invalid one. */
  batches: number
  records: number
  /** The first invalid batch, and why it's invalid. */
  broken?: { batch_id: string; problem: string }
}

interface RecordedBatch {
  sequence: number
  batch_id: string
  data: { count: number; hash: string }
  /** Null if the batch is missing, like the other columns. */
  records: Buffer | null
  count: number
  first_at: string
  last_at: string
  users: string[]
}

/** Compares an organization's records with its audit events. `verifyAuditChain` verifies the events themselves. */
export async function verifyToolCalls(
  { database }: Pick<Stores, 'database'>,
  organizationId: string,
): Promise<ToolCallReport> {
  let [batches, records, last] = [0, 0, 0]
  for (;;) {
    const [event] = await database.asOrg(
      organizationId,
      (sql) => sql<RecordedBatch>`
        select event.sequence, event.target as batch_id, event.data,
               batch.records, batch.count, batch.first_at, batch.last_at,
               array(select user_id from tool_call_users where batch_id = batch.id order by user_id) as users
        from audit_events event left join tool_call_batches batch on batch.id::text = event.target
        where event.action = ${recordedAction} and event.sequence > ${last} order by event.sequence limit 1`,
    )
    if (!event) break
    const problem = await findProblem(event)
    if (problem) return broken(event.batch_id, problem)
    batches += 1
    records += event.data.count
    last = event.sequence
  }
  // One statement, so that a batch that is being written is seen together with its event.
  const [stray] = await database.asOrg(
    organizationId,
    (sql) => sql<{ id: string }>`
      select id from tool_call_batches batch where not exists (
        select from audit_events where action = ${recordedAction} and target = batch.id::text)
      order by id limit 1`,
  )
  return stray ? broken(stray.id, 'the batch has no audit event') : { batches, records }

  function broken(batch_id: string, problem: string): ToolCallReport {
    return { batches, records, broken: { batch_id, problem } }
  }
}

/** The hash covers the records. The other columns index them and must match. */
async function findProblem({
  data,
  records,
  count,
  first_at,
  last_at,
  users,
}: RecordedBatch): Promise<string | undefined> {
  if (!records) return `the batch of ${data.count} records is missing`
  if (hash('sha256', records) !== data.hash) return 'the records of the batch were changed'
  const calls = await readRecords(records)
  const times = calls.map(({ at }) => at).sort()
  const callers = [...new Set(calls.map(({ user_id }) => user_id))].sort()
  const isFindable =
    count === calls.length && first_at === times[0] && last_at === times.at(-1) && users.join() === callers.join()
  return isFindable ? undefined : 'the index columns of the batch were changed'
}
