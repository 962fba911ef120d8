import type { OrgCaller } from '../../kernel/foundation/caller.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { accessDenied, fail } from '../../kernel/lib/errors.ts'
import { emptyChain, findDropped, formatHead, readHead } from '../../kernel/stores/audit/chain.ts'
import { missingFeature } from '../../plans/plans/plans.ts'
import * as contract from './contract.ts'
import { type AuditVerifier, describeVerification } from './verifier.ts'

type AuditEvent = Output<typeof contract.listAuditEvents>['events'][number]

export async function listAuditEvents(
  service: Service & { auditVerifier: AuditVerifier },
  { organization }: OrgCaller,
  { limit, ...filters }: Input<typeof contract.listAuditEvents>,
): Promise<Output<typeof contract.listAuditEvents>> {
  const {
    cursor = null,
    actor = null,
    actor_id = null,
    action = null,
    target = null,
    start_date = null,
    end_date = null,
  } = filters
  const [rows, verification] = await service.database.asOrg(organization.id, async (sql) => {
    const refusal = await missingFeature(service.config.plans, sql, 'audit_logs')
    if (refusal) throw accessDenied(refusal)
    // So that PostgreSQL reads the index and the months that suit the given filters, instead of those that suit any.
    await sql`select set_config('plan_cache_mode', 'force_custom_plan', true)`
    const events = sql<AuditEvent>`
      select id, sequence, actor, actor_id, action, target, data, created_at, encode(hash, 'hex') as hash
      from audit_events
      where (${cursor}::bigint is null or sequence < ${cursor}::bigint)
        and (${actor}::text is null or actor = ${actor})
        and (${actor_id}::uuid is null or actor_id = ${actor_id}::uuid)
        and (${action}::text is null or action = ${action})
        and (${target}::text is null or target = ${target})
        and (${start_date}::timestamptz is null or created_at >= ${start_date}::timestamptz)
        and (${end_date}::timestamptz is null or created_at <= ${end_date}::timestamptz)
      order by sequence desc limit ${limit + 1}`
    return Promise.all([events, describeVerification(sql, service, organization.id)])
  })
  const events = rows.slice(0, limit)
  return {
    events,
    next_cursor: rows.length > limit ? String(events.at(-1)?.sequence) : null,
    verification,
  }
}

type ExportedEvent = Output<typeof contract.exportAuditEvents>

const exportedAtOnce = 200
/** Limits how long a caller whose access was revoked can keep reading. */
const longestExportMs = 5 * 60_000

/** Streams every event after a head, up to the event that is the newest when the export starts. */
export async function exportAuditEvents(
  { database, clock, config }: Service,
  { organization }: OrgCaller,
  { from }: Input<typeof contract.exportAuditEvents>,
): Promise<AsyncIterable<ExportedEvent[]>> {
  const beginning = { organizationId: organization.id, sequence: 0, hash: emptyChain }
  const start = (from && readHead(from)) || beginning
  const length = await database.asOrg(organization.id, async (sql) => {
    const refusal = await missingFeature(config.plans, sql, 'audit_logs')
    if (refusal) throw accessDenied(refusal)
    const [chain] = await sql<{ length: number; hash: string | null }>`
      select chain.length, encode(event.hash, 'hex') as hash
      from audit_chains chain left join audit_events event on event.sequence = ${start.sequence}`
    const known = start.sequence === 0 ? emptyChain : (chain?.hash ?? (await findDropped(sql, start.sequence)))
    if (start.organizationId !== organization.id || start.hash !== known)
      throw fail(contract.exportErrors.AUDIT_HEAD_NOT_FOUND, 'AUDIT_HEAD_NOT_FOUND')
    return chain?.length ?? 0
  })
  return readPages(start.sequence)

  async function* readPages(last: number): AsyncGenerator<ExportedEvent[]> {
    const end = clock() + longestExportMs
    while (last < length && clock() < end) {
      const after = last
      const events = await database.asOrg(
        organization.id,
        (sql) => sql<AuditEvent>`
          select id, sequence, actor, actor_id, action, target, data, created_at, encode(hash, 'hex') as hash
          from audit_events where sequence > ${after} and sequence <= ${length}
          order by sequence limit ${exportedAtOnce}`,
      )
      if (events.length === 0) return
      yield events.map((event) => ({ ...event, head: formatHead({ organizationId: organization.id, ...event }) }))
      last = events.at(-1)?.sequence ?? length
    }
  }
}
