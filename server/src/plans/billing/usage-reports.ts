import type { Service } from '../../kernel/foundation/service.ts'
import { keepDoing } from '../../kernel/lib/clock.ts'
import type { Database } from '../../kernel/stores/database.ts'
import {
  type Billing,
  BillingFailed,
  type BillingProvider,
  type ReportedUsage,
} from '../subscriptions/billing-provider.ts'
import { requestWork } from '../subscriptions/work-requests.ts'

const batchSize = 500

/**
 * Reports a batch of an organization's usage, and requests the next one. A crash after sending repeats the batch, whose
 * events the provider recognizes by their ids.
 */
export async function reportUsage(
  { database, log }: Pick<Service, 'database' | 'log'>,
  { reportUsage: send }: BillingProvider,
  organizationId: string,
): Promise<void> {
  if (!send) return
  const events = await database.asOrg(
    organizationId,
    (sql) => sql<ReportedUsage>`
      select id, organization_id, model, prompt_tokens, completion_tokens, cost_micro_usd, created_at
      from unreported_usage join usage_events using (organization_id, created_at, id)
      where refusal is null order by id limit ${batchSize}`,
  )
  const refusals: Refused[] = []
  await sendSplitting(send, events, refusals)
  // If none is accepted, the reason may be something else, and they're sent again later.
  if (refusals.length > 0 && refusals.length === events.length) throw refusals[0]?.error
  for (const { event, error } of refusals) {
    log.error(
      { event: event.id, organization: organizationId, err: error },
      'The billing provider refuses a usage event',
    )
  }
  await database.asOrg(organizationId, async (sql) => {
    const refused = refusals.map(({ event }) => event.id)
    await sql`
      update unreported_usage set refusal = given.reason
      from unnest(${refused}::uuid[], ${refusals.map(({ error }) => error.message)}::text[]) as given (id, reason)
      where unreported_usage.id = given.id`
    await sql`delete from unreported_usage where refusal is null and id = any(${events.map(({ id }) => id)})`
    if (events.length === batchSize) await requestWork(sql, 'usage')
  })
}

const keptDays = 90
const forgetEveryMs = 60 * 60_000
const mostForgotten = 10_000

/**
 * Deletes usage that was never reported: after 90 days, and right away if the operator has removed the provider. New
 * usage is no longer marked as unreported then.
 */
export function forgetUsage(
  { database, log, billing }: Pick<Service, 'database' | 'log'> & Billing,
  everyMs = forgetEveryMs,
): { close(): Promise<void> } {
  const days = billing?.reportUsage ? keptDays : 0
  async function forget(): Promise<void> {
    const found = await database.asBiller(
      (sql) => sql<{ organization_id: string }>`
        select distinct organization_id from unreported_usage
        where recorded_at < now() - make_interval(days => ${days}) limit 100`,
    )
    for (const { organization_id } of found) await forgetUsageOf(database, organization_id, days)
    if (found.length > 0) log.info({ organizations: found.length, days }, 'Deleted usage that was not reported')
  }
  return keepDoing(
    () => forget().catch((error) => log.warn({ err: error }, 'Could not delete unreported usage; retrying')),
    everyMs,
  )
}

async function forgetUsageOf({ asOrg }: Database, organizationId: string, days: number): Promise<void> {
  for (let count = mostForgotten; count === mostForgotten; ) {
    const deleted = await asOrg(organizationId, async (sql) => {
      if (days === 0) {
        await sql`update organizations set reports_usage = false where id = current_organization() and reports_usage`
      }
      return sql`
        delete from unreported_usage where id in (
          select id from unreported_usage
          where recorded_at < now() - make_interval(days => ${days}) order by id limit ${mostForgotten})
        returning true`
    })
    count = deleted.length
  }
}

interface Refused {
  event: ReportedUsage
  error: BillingFailed
}

/** More refusals than this aren't about single events. */
const mostRefusals = 20

/** One bad event makes the provider refuse its whole batch, so the batch is split until only that event is left out. */
async function sendSplitting(
  send: NonNullable<BillingProvider['reportUsage']>,
  events: readonly ReportedUsage[],
  refusals: Refused[],
): Promise<void> {
  const [first] = events
  if (!first) return
  try {
    await send(events)
  } catch (error) {
    const isAboutEvents = error instanceof BillingFailed && [400, 413, 422].includes(error.status ?? 0)
    if (!isAboutEvents || refusals.length === mostRefusals) throw error
    if (events.length === 1) return void refusals.push({ event: first, error })
    const half = Math.ceil(events.length / 2)
    await sendSplitting(send, events.slice(0, half), refusals)
    await sendSplitting(send, events.slice(half), refusals)
  }
}
