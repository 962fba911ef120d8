import type { Service } from '../../kernel/foundation/service.ts'
import { againAt, type Job, type JobEnd, type JobOutcome } from '../../kernel/jobs/jobs.ts'
import {
  type Billing,
  BillingFailed,
  type BillingProvider,
  type ReportedUsage,
} from '../subscriptions/billing-provider.ts'

const batchSize = 500
const keptDays = 90
const mostForgotten = 10_000

/**
 * Reports a batch of an organization's usage. A crash after sending repeats the batch, whose events the provider
 * recognizes by their ids. Usage that was never reported is deleted: after 90 days, and right away if the operator has
 * removed the provider.
 */
export async function reportUsage(
  { billing, log }: Pick<Service, 'log'> & Billing,
  job: Job,
): Promise<JobOutcome | JobEnd> {
  const send = billing?.reportUsage
  const days = send ? keptDays : 0
  const forgotten = await forgetUsage(job, days)
  if (forgotten > 0) log.info({ organization: job.organizationId, days }, 'Deleted usage that was not reported')
  if (!send) return 'done'
  const events = await job.transaction(
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
      { event: event.id, organization: job.organizationId, err: error },
      'The billing provider refuses a usage event',
    )
  }
  return job.settle(async (sql) => {
    const refused = refusals.map(({ event }) => event.id)
    await sql`
      update unreported_usage set refusal = given.reason
      from unnest(${refused}::uuid[], ${refusals.map(({ error }) => error.message)}::text[]) as given (id, reason)
      where unreported_usage.id = given.id`
    await sql`delete from unreported_usage where refusal is null and id = any(${events.map(({ id }) => id)})`
    if (events.length === batchSize) return { again: { inSeconds: 0 } }
    const [oldest] = await sql<{ forgotten_at: string | null }>`
      select (min(recorded_at) + make_interval(days => ${keptDays}))::text as forgotten_at from unreported_usage
      where organization_id = (select current_organization())`
    return againAt(oldest?.forgotten_at)
  })
}

/** Returns how many events were deleted. Without a provider, new usage is no longer marked as unreported, either. */
async function forgetUsage(job: Job, days: number): Promise<number> {
  for (let total = 0; ; ) {
    const { length } = await job.transaction(async (sql) => {
      if (days === 0) {
        await sql`update organizations set reports_usage = false where id = current_organization() and reports_usage`
      }
      return sql`
        delete from unreported_usage where id in (
          select id from unreported_usage
          where organization_id = (select current_organization())
            and recorded_at < now() - make_interval(days => ${days}) order by id limit ${mostForgotten})
        returning true`
    })
    total += length
    if (length < mostForgotten) return total
    job.signal.throwIfAborted()
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
