import type { OrgCaller } from '../access.ts'
import type { Input, Output } from '../operation.ts'
import type { Service } from '../service.ts'
import type * as contract from './contract.ts'
import type { ToolCallRecord } from './recorder.ts'

/** A position after every record. */
const start = { at: 'infinity', id: 'ffffffff-ffff-ffff-ffff-ffffffffffff' }

export async function listToolCalls(
  { database }: Service,
  { organization }: OrgCaller,
  { limit, cursor, ...filters }: Input<typeof contract.listToolCalls>,
): Promise<Output<typeof contract.listToolCalls>> {
  const { user_id = null, tool = null, outcome = null, start_date = '-infinity', end_date = 'infinity' } = filters
  const before = cursor === undefined ? start : readCursor(cursor)
  const rows = await database.asOrg(
    organization.id,
    (sql) => sql<ToolCallRecord>`
      select id, at, user_id, user_email, client_id, source_type, source, tool, definition_hash, arguments_hash,
             approval, governance, outcome, failure_code, duration_ms
      from tool_calls
      where (at, id) < (${before.at}::timestamptz, ${before.id}::uuid)
        and at between ${start_date}::timestamptz and ${end_date}::timestamptz
        and (${user_id}::uuid is null or user_id = ${user_id}::uuid)
        and (${tool}::text is null or tool = ${tool}::text)
        and (${outcome}::text is null or outcome = ${outcome}::text)
      order by at desc, id desc limit ${limit + 1}`,
  )
  const tool_calls = rows.slice(0, limit)
  const last = tool_calls.at(-1)
  return { tool_calls, next_cursor: last && rows.length > limit ? `${Date.parse(last.at)}_${last.id}` : null }
}

function readCursor(cursor: string): typeof start {
  const [at = '', id = ''] = cursor.split('_')
  return { at: new Date(Number(at)).toISOString(), id }
}
