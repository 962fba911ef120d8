import type { Stores } from '../stores/stores.ts'
import { hashRecords, recordedAction, type ToolCallRecord } from './recorder.ts'

interface ToolCallReport {
  /** Batches and records that fit, from the first one on. */
  batches: number
  records: number
  /** The first batch that doesn't fit, and why. */
  broken?: { batch_id: string; problem: string }
}

interface BatchEvent {
  sequence: number
  batch_id: string
  data: { count: number; first_id: string; last_id: string; hash: string }
}

const eventsAtOnce = 100

/** Compares an organization's records with its audit events. `verifyAuditChain` tells whether the events are genuine. */
export async function verifyToolCalls(
  { database }: Pick<Stores, 'database'>,
  organizationId: string,
): Promise<ToolCallReport> {
  let [batches, records, last] = [0, 0, 0]
  for (;;) {
    const events = await database.asOrg(
      organizationId,
      (sql) => sql<BatchEvent>`
        select sequence, target as batch_id, data from audit_events
        where action = ${recordedAction} and sequence > ${last} order by sequence limit ${eventsAtOnce}`,
    )
    for (const { sequence, batch_id, data } of events) {
      const found = await database.asOrg(
        organizationId,
        (sql) => sql<ToolCallRecord>`
          select id, at, user_id, user_email, client_id, source_type, source, tool, definition_hash, arguments_hash,
                 approval, governance, outcome, failure_code, duration_ms
          from tool_calls where id between ${data.first_id} and ${data.last_id} and batch_id = ${batch_id} order by id`,
      )
      if (found.length !== data.count)
        return broken(batch_id, `${found.length} of ${data.count} records are left of the batch`)
      if (hashRecords(found) !== data.hash) return broken(batch_id, 'a record of the batch was changed')
      batches += 1
      records += found.length
      last = sequence
    }
    if (events.length < eventsAtOnce) break
  }
  // In one statement, so that a batch that is written meanwhile shows with its event.
  const [stray] = await database.asOrg(
    organizationId,
    (sql) => sql<{ id: string; batch_id: string }>`
      select id, batch_id from tool_calls call where not exists (
        select from audit_events event
        where event.action = ${recordedAction} and event.target = call.batch_id::text
          and call.id between (event.data->>'first_id')::uuid and (event.data->>'last_id')::uuid)
      order by id limit 1`,
  )
  return stray ? broken(stray.batch_id, `the record ${stray.id} belongs to no audit event`) : { batches, records }

  function broken(batch_id: string, problem: string): ToolCallReport {
    return { batches, records, broken: { batch_id, problem } }
  }
}
