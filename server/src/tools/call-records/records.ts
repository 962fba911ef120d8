import type { z } from 'zod'
import type { Sql } from '../../kernel/stores/database.ts'
import type { ToolCallRecord as Shape } from './contract.ts'

export type ToolCallRecord = z.input<typeof Shape>

/** A record before it is written: with the caller's ID, which the address is looked up by when it is read. */
export interface StoredCall extends Omit<ToolCallRecord, 'at' | 'approval_at' | 'user_email'> {
  /** Milliseconds since 1970. */
  at: number
  approval_at: number | null
}

/** Records that exist are left as they are. */
export const insertRecords = (sql: Sql, calls: readonly StoredCall[]) => sql`
  insert into tool_call_records (
    organization_id, at, id, user_id, client_id, client_name, source_type, source, tool, definition_hash, arguments_hash,
    approval, approval_at, governance, outcome, failure_code, duration_ms)
  select current_organization(), 'epoch'::timestamptz + at * interval '1 millisecond', id, user_id, client_id,
         client_name, source_type, source, tool, definition_hash, arguments_hash, approval,
         'epoch'::timestamptz + approval_at * interval '1 millisecond', governance, outcome, failure_code, duration_ms
  from json_to_recordset(${JSON.stringify(calls)}::json) as call (
    at bigint, id uuid, user_id uuid, client_id text, client_name text, source_type text, source text, tool text,
    definition_hash text, arguments_hash text, approval text, approval_at bigint, governance text, outcome text,
    failure_code text, duration_ms bigint)
  on conflict do nothing`

/** A position between records, which are ordered by time and id. */
export interface CallPosition {
  at: string
  id: string
}

export interface Filters {
  /** Only records before this position, exclusive. */
  before: CallPosition
  notBefore: string
  user_id: string | null
  tool: string | null
  outcome: string | null
  limit: number
}

/**
 * The newest records that match. Only the branch for the first given filter runs, so that PostgreSQL reads the index of
 * that filter whatever the others are.
 */
export const selectRecords = (
  sql: Sql,
  { before, notBefore, user_id, tool, outcome, limit }: Filters,
) => sql<ToolCallRecord>`
  with found as (
    (select at, id from tool_call_records
     where ${user_id}::uuid is not null and user_id = ${user_id}::uuid
       and (${tool}::text is null or tool = ${tool}) and (${outcome}::text is null or outcome = ${outcome})
       and at >= ${notBefore}::timestamptz and (at, id) < (${before.at}::timestamptz, ${before.id}::uuid)
     order by at desc, id desc limit ${limit})
    union all
    (select at, id from tool_call_records
     where ${user_id}::uuid is null and ${tool}::text is not null and tool = ${tool}
       and (${outcome}::text is null or outcome = ${outcome})
       and at >= ${notBefore}::timestamptz and (at, id) < (${before.at}::timestamptz, ${before.id}::uuid)
     order by at desc, id desc limit ${limit})
    union all
    (select at, id from tool_call_records
     where ${user_id}::uuid is null and ${tool}::text is null and ${outcome}::text is not null and outcome = ${outcome}
       and at >= ${notBefore}::timestamptz and (at, id) < (${before.at}::timestamptz, ${before.id}::uuid)
     order by at desc, id desc limit ${limit})
    union all
    (select at, id from tool_call_records
     where ${user_id}::uuid is null and ${tool}::text is null and ${outcome}::text is null
       and at >= ${notBefore}::timestamptz and (at, id) < (${before.at}::timestamptz, ${before.id}::uuid)
     order by at desc, id desc limit ${limit})
  )
  select call.id, call.at, call.user_id, coalesce(person.email, account.email, '') as user_email, client_id, client_name,
         source_type, source, tool, definition_hash, arguments_hash, approval, approval_at, governance, outcome,
         failure_code, duration_ms
  from found join tool_call_records call on call.organization_id = (select current_organization())
    and call.at = found.at and call.id = found.id
  left join end_users person on person.id = call.user_id
  left join users account on account.id = call.user_id
  order by call.at desc, call.id desc`
