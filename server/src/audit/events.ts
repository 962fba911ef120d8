import type { OrgCaller } from '../access.ts'
import { accessDenied } from '../errors.ts'
import { BoundedMap } from '../lib/bounded-map.ts'
import type { Input, Output } from '../operation.ts'
import { missingFeature } from '../plans/plans.ts'
import type { Service } from '../service.ts'
import { formatHead } from './chain.ts'
import type * as contract from './contract.ts'
import { type ChainReport, verifyAuditChain } from './verify.ts'

type AuditEvent = Output<typeof contract.listAuditEvents>['events'][number]

export async function listAuditEvents(
  service: Service,
  { organization }: OrgCaller,
  { limit, ...filters }: Input<typeof contract.listAuditEvents>,
): Promise<Output<typeof contract.listAuditEvents>> {
  const { cursor = null, actor = null, action = null, target = null, start_date = null, end_date = null } = filters
  const rows = await service.database.asOrg(organization.id, async (sql) => {
    const refusal = await missingFeature(sql, 'audit_logs')
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

type Verified = ChainReport & { wholeAt: number }

/** What the page before found, per organization. */
const latest = new BoundedMap<string, Promise<Verified>>(1_000)

/** One after the other: pages that are asked for at once share the work. */
function verify(service: Service, organizationId: string): Promise<Verified> {
  const before = latest.get(organizationId) ?? Promise.resolve(undefined)
  const next = before.catch(() => undefined).then((known) => verifyFurther(service, organizationId, known))
  latest.set(organizationId, next)
  return next
}

/**
 * The whole chain is recomputed once a minute at most, a long one no sooner than after half a millisecond per row: a small
 * share of the time, however often somebody asks. A page in between recomputes what was added since the page before.
 */
async function verifyFurther(service: Service, organizationId: string, known: Verified | undefined): Promise<Verified> {
  const wholeAt = service.clock()
  if (!known || wholeAt - known.wholeAt >= Math.max(60_000, known.length / 2)) {
    return { ...(await verifyAuditChain(service, organizationId)), wholeAt }
  }
  if (known.broken) return known
  return { ...(await verifyAuditChain(service, organizationId, { from: known })), wholeAt: known.wholeAt }
}
