import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import type pg from 'pg'

const unzip = promisify<Buffer, Buffer>(gunzip)
const rowsAtOnce = 1_000

/** The part of 0049 that SQL can't do: converts compressed batches of tool calls to rows, without the callers' addresses. Holds one batch in memory. */
export async function unpackToolCalls(client: pg.Client): Promise<void> {
  for (let after = { organization_id: lowestId, id: lowestId }; ; ) {
    const { rows } = await client.query<{ organization_id: string; id: string; records: Buffer }>(
      `select organization_id, id, records from tool_call_batches
       where (organization_id, id) > ($1, $2) order by organization_id, id limit 1`,
      [after.organization_id, after.id],
    )
    const [batch] = rows
    if (!batch) break
    const lines = (await unzip(batch.records)).toString().split('\n').slice(0, -1)
    for (let first = 0; first < lines.length; first += rowsAtOnce) {
      const records = lines.slice(first, first + rowsAtOnce).map((line) => JSON.parse(line, cleanText))
      await client.query(insertRecords, [batch.organization_id, JSON.stringify(records)])
    }
    after = batch
  }
  await client.query('drop table tool_call_users, tool_call_batches')
}

const lowestId = '00000000-0000-0000-0000-000000000000'

/** PostgreSQL's text can't hold NUL and lone surrogates. */
const cleanText = (_: string, value: unknown) =>
  typeof value === 'string' ? value.replaceAll('\0', '').toWellFormed() : value

const insertRecords = `
  insert into tool_call_records (
    organization_id, at, id, user_id, client_id, client_name, source_type, source, tool, definition_hash, arguments_hash,
    approval, approval_at, governance, outcome, failure_code, duration_ms)
  select $1, 'epoch'::timestamptz + at * interval '1 millisecond', id, user_id, client_id, client_name, source_type, source,
         tool, definition_hash, arguments_hash, approval, 'epoch'::timestamptz + approval_at * interval '1 millisecond',
         governance, outcome, failure_code, duration_ms
  from json_to_recordset($2) as call (
    at bigint, id uuid, user_id uuid, client_id text, client_name text, source_type text, source text, tool text,
    definition_hash text, arguments_hash text, approval text, approval_at bigint, governance text, outcome text,
    failure_code text, duration_ms bigint)
  on conflict do nothing`
