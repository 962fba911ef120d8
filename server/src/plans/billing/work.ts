import type { Service } from '../../kernel/foundation/service.ts'
import { keepDoing } from '../../kernel/lib/clock.ts'
import { type Billing, BillingFailed, type BillingProvider } from '../subscriptions/billing-provider.ts'
import { syncFromBillingProvider } from '../subscriptions/subscriptions.ts'
import { type BillingTask, requestWork } from '../subscriptions/work-requests.ts'
import { followMembers } from './seats.ts'
import { forgetUsage, reportUsage } from './usage-reports.ts'

/** Does what is to be done at the billing provider, also after crashes and while the provider is unreachable. */
export interface BillingWork {
  /** Does an organization's task if it was requested and no other node does it. Never fails: it is retried later. */
  run(organizationId: string, task: BillingTask): Promise<void>
  close(): Promise<void>
}

type WorkParts = Pick<Service, 'config' | 'database' | 'log'> & Billing

type Outcome = 'done' | 'requested again' | 'provider away'

const everyMs = 10_000
const mostAtOnce = 100
/** Longer than a task takes. After a crash, another node waits for it. */
const leaseSeconds = 30
const firstRetrySeconds = 5
const lastRetrySeconds = 15 * 60
const readAgainDays = 1

const tasks: Record<
  BillingTask,
  (parts: WorkParts, billing: BillingProvider, organizationId: string) => Promise<unknown>
> = {
  sync: (parts, _, organizationId) => syncFromBillingProvider(parts, { organizationId, actor: 'billing provider' }),
  seats: followMembers,
  usage: reportUsage,
}

/** Without a billing provider, it only deletes usage that nobody will ask for. */
export function createBillingWork(parts: WorkParts, repeatMs = everyMs): BillingWork {
  const { billing, database, log } = parts
  const forgetting = forgetUsage(parts)
  if (!billing) return { run: async () => undefined, close: () => forgetting.close() }
  /** What this node does, by organization and task. */
  const inProgress = new Map<string, Promise<Outcome>>()
  let isClosed = false

  /** Waits for an attempt that this node has begun before, so that a caller sees the effect. */
  async function attempt(organizationId: string, task: BillingTask): Promise<Outcome> {
    const key = `${organizationId} ${task}`
    await inProgress.get(key)?.catch(() => undefined)
    const work = attemptOnce(organizationId, task)
    inProgress.set(key, work)
    try {
      return await work
    } finally {
      if (inProgress.get(key) === work) inProgress.delete(key)
    }
  }

  async function attemptOnce(organizationId: string, task: BillingTask): Promise<Outcome> {
    const claim = isClosed ? undefined : await claimWork(parts, organizationId, task)
    if (!claim) return 'done'
    try {
      await tasks[task](parts, billing as BillingProvider, organizationId)
      return await finishWork(parts, organizationId, task, claim.requests)
    } catch (error) {
      const { retryAfterSeconds = 0 } = error instanceof BillingFailed ? error : {}
      const backoff = Math.min(firstRetrySeconds * 2 ** Math.min(claim.attempts, 20), lastRetrySeconds)
      const seconds = Math.min(Math.max(backoff, retryAfterSeconds), 2 * lastRetrySeconds)
      log.warn({ err: error, organization: organizationId, task, seconds }, 'Billing failed; retrying')
      await postponeWork(parts, organizationId, task, seconds)
      return error instanceof BillingFailed && error.isRefusal ? 'done' : 'provider away'
    }
  }

  async function runDue(): Promise<void> {
    while (!isClosed) {
      const due = await database.asBiller(
        (sql) => sql<{ organization_id: string; task: BillingTask }>`
          select organization_id, task from billing_work
          where due_at <= now() and (leased_until is null or leased_until <= now())
          order by due_at limit ${mostAtOnce}`,
      )
      if (due.length === 0) return
      for (const { organization_id, task } of due) {
        // While the provider is away, one request per repetition is enough to notice when it is back.
        if ((await attempt(organization_id, task)) === 'provider away') return
      }
    }
  }

  async function repeat(): Promise<void> {
    try {
      await findWork(parts, billing as BillingProvider)
      await runDue()
    } catch (error) {
      log.warn({ err: error }, 'Could not find out what to do at the billing provider; retrying')
    }
  }

  const repeated = keepDoing(repeat, repeatMs)
  return {
    async run(organizationId, task) {
      try {
        while ((await attempt(organizationId, task)) === 'requested again');
      } catch (error) {
        log.warn({ err: error, organization: organizationId, task }, 'Billing failed; retrying')
      }
    },
    async close() {
      isClosed = true
      await Promise.all([repeated.close(), forgetting.close()])
      await Promise.allSettled(inProgress.values())
    },
  }
}

/** Only one node gets the task. */
async function claimWork({ database }: WorkParts, organizationId: string, task: BillingTask) {
  const [claim] = await database.asOrg(
    organizationId,
    (sql) => sql<{ requests: number; attempts: number }>`
      update billing_work set leased_until = now() + ${leaseSeconds} * interval '1 second'
      where task = ${task} and due_at <= now() and (leased_until is null or leased_until <= now())
      returning requests, attempts`,
  )
  return claim
}

/** A request that came after the task began needs it once more, after the tasks of others. */
const finishWork = ({ database }: WorkParts, organizationId: string, task: BillingTask, requests: number) =>
  database.asOrg(organizationId, async (sql): Promise<Outcome> => {
    await sql`delete from billing_work where task = ${task} and requests = ${requests}`
    const again = await sql`
      update billing_work set leased_until = null, attempts = 0, due_at = greatest(due_at, now()) where task = ${task} returning task`
    return again.length > 0 ? 'requested again' : 'done'
  })

const postponeWork = ({ database }: WorkParts, organizationId: string, task: BillingTask, seconds: number) =>
  database.asOrg(
    organizationId,
    (sql) => sql`
      update billing_work
      set leased_until = null, attempts = attempts + 1, due_at = now() + ${seconds} * interval '1 second'
      where task = ${task}`,
  )

/** Requests what follows from the stored data: this also finds what a lost webhook or a crash left undone. */
async function findWork({ database, config }: WorkParts, billing: BillingProvider): Promise<void> {
  const found = await database.asBiller(async (sql) => ({
    sync: await sql<Found>`
      select id as organization_id from organizations
      where (billing_read_at < now() - ${readAgainDays} * interval '1 day'
             or exists (
               -- The time to pay has ended since the last read.
               select from subscriptions
               where organization_id = organizations.id and status = 'past_due'
                 and past_due_since + make_interval(days => ${config.billingGraceDays}) between billing_read_at and now()))
        and not exists (select from billing_work work where work.organization_id = id and task = 'sync')
      order by billing_read_at limit ${mostAtOnce}`,
    seats: await sql<Found>`
      select organization_id from subscriptions subscription
      where seats is not null and status in ('active', 'trialing') and cancel_at is null
        and seats <> greatest(1, (
          select count(*) from members
          where members.organization_id = subscription.organization_id and deactivated_at is null) + (
          select count(*) from invitations where invitations.organization_id = subscription.organization_id))
        and not exists (
          select from billing_work work where work.organization_id = subscription.organization_id and task = 'seats')
      limit ${mostAtOnce}`,
    usage: billing.reportUsage
      ? await sql<Found>`
          with recursive waiting as (
            (select organization_id from unreported_usage where refusal is null order by organization_id limit 1)
            union all
            select (select organization_id from unreported_usage usage
                    where refusal is null and usage.organization_id > waiting.organization_id
                    order by organization_id limit 1)
            from waiting where organization_id is not null
          )
          select organization_id from waiting
          where organization_id is not null and not exists (
            select from billing_work work where work.organization_id = waiting.organization_id and task = 'usage')
          limit ${mostAtOnce}`
      : [],
  }))
  for (const [task, organizations] of Object.entries(found) as [BillingTask, Found[]][]) {
    for (const { organization_id } of organizations) {
      await database.asOrg(organization_id, (sql) => requestWork(sql, task))
    }
  }
}

type Found = { organization_id: string }
