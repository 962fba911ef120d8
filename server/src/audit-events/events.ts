import { LRUCache } from 'lru-cache'
import type { OrgCaller } from '../foundation/caller.ts'
import type { Input, Output } from '../foundation/operation.ts'
import type { Service } from '../foundation/service.ts'
import { accessDenied, fail } from '../lib/errors.ts'
import { missingFeature } from '../plans/plans.ts'
import { emptyChain, formatHead, readHead } from '../stores/audit/chain.ts'
import type { Database } from '../stores/database.ts'
import * as contract from './contract.ts'
import { type ChainReport, verifyAuditChain } from './verify.ts'

type AuditEvent = Output<typeof contract.listAuditEvents>['events'][number]

export async function listAuditEvents(
  service: Service,
  { organization }: OrgCaller,
  { limit, ...filters }: Input<typeof contract.listAuditEvents>,
): Promise<Output<typeof contract.listAuditEvents>> {
  const { cursor = null, actor = null, action = null, target = null, start_date = null, end_date = null } = filters
  const rows = await service.database.asOrg(organization.id, async (sql) => {
    const refusal = await missingFeature(service.config.plans, sql, 'audit_logs')
    if (refusal) throw accessDenied(refusal)
    return sql<AuditEvent>`
      select id, sequence, actor, action, target, data, created_at, encode(hash, 'hex') as hash
      from audit_events
      where (${cursor}::bigint is null or sequence < ${cursor}::bigint)
        and (${actor}::text is null or actor = ${actor})
        and (${action}::text is null or action = ${action})
        and (${target}::text is null or target = ${target})
        and (${start_date}::timestamptz is null or created_at >= ${start_date}::timestamptz)
        and (${end_date}::timestamptz is null or created_at <= ${end_date}::timestamptz)
      order by sequence desc limit ${limit + 1}`
  })
  const events = rows.slice(0, limit)
  const { length, head, broken } = await verify(service, organization.id)
  return {
    events,
    next_cursor: rows.length > limit ? String(events.at(-1)?.sequence) : null,
    verification: {
      status: broken ? 'broken' : 'intact',
      length,
      head: formatHead({ organizationId: organization.id, sequence: length, hash: head }),
      broken_at: broken?.sequence ?? null,
    },
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
    const known = start.sequence === 0 ? emptyChain : chain?.hash
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
          select id, sequence, actor, action, target, data, created_at, encode(hash, 'hex') as hash
          from audit_events where sequence > ${after} and sequence <= ${length}
          order by sequence limit ${exportedAtOnce}`,
      )
      if (events.length === 0) return
      yield events.map((event) => ({ ...event, head: formatHead({ organizationId: organization.id, ...event }) }))
      last = events.at(-1)?.sequence ?? length
    }
  }
}

type Verified = ChainReport & { wholeAt: number }

/** The result of the latest verification, per organization of a database. */
const verifications = new WeakMap<Database, LRUCache<string, Promise<Verified>>>()

/** Verifies one request after the other, so that concurrent requests share the work. */
function verify(service: Service, organizationId: string): Promise<Verified> {
  const latest = verifications.get(service.database) ?? new LRUCache({ max: 1_000 })
  verifications.set(service.database, latest)
  const before = latest.get(organizationId) ?? Promise.resolve(undefined)
  const next = before.catch(() => undefined).then((known) => verifyFurther(service, organizationId, known))
  latest.set(organizationId, next)
  return next
}

/**
 * Recomputes the whole chain at most once a minute, and less often if it's long (every 0.5 ms per row), so that frequent
 * requests can't keep the server busy. Requests in between only verify the rows added since the last one.
 */
async function verifyFurther(service: Service, organizationId: string, known: Verified | undefined): Promise<Verified> {
  const wholeAt = service.clock()
  if (!known || wholeAt - known.wholeAt >= Math.max(60_000, known.length / 2)) {
    return { ...(await verifyAuditChain(service, organizationId)), wholeAt }
  }
  if (known.broken) return known
  return { ...(await verifyAuditChain(service, organizationId, { from: known })), wholeAt: known.wholeAt }
}
