import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import {
  makePolarCustomer,
  type PolarCustomer,
  type PolarInstallation,
  startPolarInstallation,
} from '../../../test/polar/installation.ts'
import { createJobs, type Jobs } from '../../kernel/jobs/jobs.ts'
import { requestJob } from '../../kernel/jobs/requests.ts'
import { newId } from '../../kernel/lib/ids.ts'
import type { Billing } from '../subscriptions/billing-provider.ts'
import { billingSync } from '../subscriptions/subscriptions.ts'
import { billingUsage, recordUsage, type UsageRecord } from '../usage/record.ts'
import { workingAtBillingProvider } from './billing-jobs.ts'

let installation: PolarInstallation
beforeAll(async () => {
  installation = await startPolarInstallation()
})
afterEach(() => {
  installation.polar.trouble = undefined
  expect(installation.polar.problems).toEqual([])
})
afterAll(() => installation.close())

/** An organization with a subscription. */
async function makeSubscriber(
  product: 'team' | 'bySeat' = 'team',
  seats: number | null = null,
): Promise<PolarCustomer> {
  const customer = await makePolarCustomer(installation)
  installation.polar.subscribe(customer.id, { product_id: installation.polar.products[product], seats })
  await customer.request('POST', '/subscriptions/sync')
  return customer
}

/** Another node. */
function startNode(changes: Partial<Billing> = {}): Jobs {
  const { service } = installation.app
  const jobs = createJobs(service)
  const served = jobs.serve(workingAtBillingProvider({ ...service, ...changes }))
  onTestFinished(() => served.close())
  return jobs
}

interface WaitingJob {
  kind: string
  hours: number
}

/** When the organization's jobs are due. */
const schedule = ({ id }: PolarCustomer) =>
  installation.app.service.database.asOrg(
    id,
    (sql) => sql<WaitingJob>`
      select kind, round(extract(epoch from due_at - now()) / 3600)::int as hours from jobs
      where kind like 'billing_%' order by kind`,
  )

/** What a day of waiting does. */
const makeDue = ({ id }: PolarCustomer, kind: string) =>
  installation.app.service.database.asOrg(
    id,
    (sql) => sql`update jobs set due_at = now() where kind = ${kind} and lease is null`,
  )

const usage = (organizationId: string, changes: Partial<UsageRecord> = {}): UsageRecord => ({
  id: newId(),
  organization_id: organizationId,
  end_user_id: null,
  site_id: null,
  thread_id: null,
  prompt_tokens: 10,
  completion_tokens: 5,
  is_estimated: false,
  cost_micro_usd: 70,
  model: 'm',
  finish_reason: 'stop',
  created_at: new Date().toISOString(),
  ...changes,
})

/** Records usage, and returns the events' ids. */
async function use(customer: PolarCustomer, count: number, changes?: Partial<UsageRecord>): Promise<string[]> {
  const events = Array.from({ length: count }, () => usage(customer.id, changes))
  await recordUsage(installation.app.service, events)
  return events.map(({ id }) => id)
}

const unreported = ({ id }: PolarCustomer) =>
  installation.app.service.database.asOrg(id, (sql) => sql`select id, refusal from unreported_usage order by id`)

const missing = (ids: string[]) => ids.filter((id) => !installation.polar.events.has(id))
const duplicatesOf = async (work: () => Promise<void>) => {
  const before = installation.polar.duplicates
  await work()
  return installation.polar.duplicates - before
}

test('usage is reported with our ids, once, in batches', async () => {
  const customer = await makeSubscriber()
  const ids = await use(customer, 1_200)
  const requests = installation.polar.requests.length
  const duplicates = await duplicatesOf(async () => {
    startNode()
    startNode()
    await customer.hurry()
    await vi.waitFor(async () => expect(await unreported(customer)).toEqual([]))
  })
  expect(missing(ids)).toEqual([])
  expect(duplicates).toBe(0)
  const sent = installation.polar.requests.slice(requests).filter((name) => name === 'POST /v1/events/ingest')
  expect(sent).toHaveLength(3)
  expect(installation.polar.events.get(ids[0] ?? '')).toMatchObject({
    name: 'inlay.model_call',
    external_customer_id: customer.id,
    metadata: { model: 'm', prompt_tokens: 10, completion_tokens: 5, total_tokens: 15, cost_micro_usd: 70 },
  })
})

test('usage of an organization without a subscription is not reported', async () => {
  const customer = await makePolarCustomer(installation)
  await use(customer, 1)
  expect(await unreported(customer)).toEqual([])
})

test('usage that is recorded twice is reported once', async () => {
  const customer = await makeSubscriber()
  const event = usage(customer.id)
  await recordUsage(installation.app.service, event)
  await recordUsage(installation.app.service, event)
  expect(await unreported(customer)).toEqual([{ id: event.id, refusal: null }])
})

test('usage that is recorded while a batch is sent is reported afterwards', async () => {
  const { polar } = installation
  const customer = await makeSubscriber()
  const ids = await use(customer, 1)
  polar.trouble = async (name) => {
    if (name === 'POST /v1/events/ingest') {
      polar.trouble = undefined
      ids.push(...(await use(customer, 1)))
    }
    return undefined
  }
  await vi.waitFor(async () => {
    await customer.hurry()
    expect(await unreported(customer)).toEqual([])
  })
  expect(ids).toHaveLength(2)
  expect(missing(ids)).toEqual([])
})

test('a response that is lost after Polar stored the events repeats the batch, and Polar ignores it', async () => {
  const { polar } = installation
  const customer = await makeSubscriber()
  const ids = await use(customer, 3)
  polar.trouble = (name) => (name === 'POST /v1/events/ingest' ? 'hang up late' : undefined)
  await customer.hurry()
  await vi.waitFor(async () =>
    expect(await customer.work()).toMatchObject([{ kind: billingUsage, attempts: 1, is_leased: false }]),
  )
  expect(await unreported(customer)).toHaveLength(3)
  polar.trouble = undefined
  const duplicates = await duplicatesOf(async () => {
    await customer.hurry()
    await vi.waitFor(async () => expect(await unreported(customer)).toEqual([]))
  })
  expect(missing(ids)).toEqual([])
  expect(duplicates).toBe(3)
})

test('one event that Polar refuses is set aside with the reason, and all others are reported', async () => {
  const { polar } = installation
  const customer = await makeSubscriber()
  const [bad = ''] = await use(customer, 1)
  const ids = await use(customer, 20)
  polar.trouble = (name, body) => {
    const { events = [] } = (body ?? {}) as { events?: { external_id: string }[] }
    const isRefused = name === 'POST /v1/events/ingest' && events.some(({ external_id }) => external_id === bad)
    return isRefused ? { status: 422, body: '{"detail":[]}' } : undefined
  }
  await customer.hurry()
  await vi.waitFor(async () => expect(await unreported(customer)).toHaveLength(1))
  expect(await unreported(customer)).toEqual([{ id: bad, refusal: 'Polar responded with 422: {"detail":[]}' }])
  expect(missing(ids)).toEqual([])
  expect(await schedule(customer), 'the refused one is forgotten after 90 days').toContainEqual({
    kind: billingUsage,
    hours: 90 * 24,
  })
})

test.each([1, 30, 600])('if Polar refuses all of %i events, they are kept and sent later', async (count) => {
  const { polar } = installation
  const customer = await makeSubscriber()
  const ids = await use(customer, count)
  let requests = 0
  polar.trouble = () => {
    requests += 1
    return { status: 422, body: '{"detail":[]}' }
  }
  await customer.hurry()
  await vi.waitFor(async () =>
    expect(await customer.work()).toMatchObject([{ kind: billingUsage, attempts: 1, is_leased: false }]),
  )
  expect(await unreported(customer)).toEqual(ids.map((id) => ({ id, refusal: null })))
  expect(requests).toBeLessThan(100)
  polar.trouble = undefined
  await customer.hurry()
  await vi.waitFor(async () => expect(await unreported(customer)).toEqual([]))
  expect(missing(ids)).toEqual([])
})

test('after a rate limit, nothing is sent until Polar allows it, however much is used meanwhile', async () => {
  const { polar } = installation
  const customer = await makeSubscriber()
  const ids = await use(customer, 1)
  polar.trouble = async (_, body) => {
    // Jobs of other tests' customers may still be running.
    if (!JSON.stringify(body ?? '').includes(customer.id)) return undefined
    ids.push(...(await use(customer, 1)))
    return { status: 429, headers: { 'retry-after': '120' } }
  }
  await customer.hurry()
  await vi.waitFor(async () => expect(await customer.work()).toMatchObject([{ attempts: 1, is_leased: false }]))
  ids.push(...(await use(customer, 1)))
  const [row] = await installation.app.service.database.asOrg(
    customer.id,
    (sql) => sql<{ seconds: number }>`
      select extract(epoch from due_at - now()) as seconds from jobs where kind = ${billingUsage}`,
  )
  expect(row?.seconds).toBeGreaterThan(60)
  expect(row?.seconds).toBeLessThanOrEqual(120)
  polar.trouble = undefined
  await customer.hurry()
  await vi.waitFor(async () => expect(await unreported(customer)).toEqual([]))
  expect(ids).toHaveLength(3)
  expect(missing(ids)).toEqual([])
})

test('a day without Polar loses nothing, and asks it less and less often', async () => {
  const { app, polar } = installation
  const customer = await makeSubscriber()
  const ids = await use(customer, 700)
  polar.trouble = () => 'hang up'
  const waits: number[] = []
  for (let n = 0; n < 12; n += 1) {
    await customer.hurry()
    await app.service.jobs.run({ organizationId: customer.id, kind: billingUsage })
    const isPostponed = async () => expect(await customer.work()).toMatchObject([{ attempts: n + 1, is_leased: false }])
    await vi.waitFor(isPostponed)
    const [row] = await app.service.database.asOrg(
      customer.id,
      (sql) => sql<{ seconds: number }>`
        select round(extract(epoch from due_at - now()) / 5) * 5 as seconds from jobs
        where kind = ${billingUsage}`,
    )
    waits.push(row?.seconds ?? 0)
  }
  expect(waits.slice(0, 4)).toEqual([5, 10, 20, 40])
  expect(Math.max(...waits)).toBe(900)
  expect(await unreported(customer)).toHaveLength(700)
  polar.trouble = undefined
  await customer.hurry()
  await vi.waitFor(async () => expect(await unreported(customer)).toEqual([]))
  expect(missing(ids)).toEqual([])
})

test('seats follow members and invitations', async () => {
  const { app, polar } = installation
  const customer = await makeSubscriber('bySeat', 1)
  const seats = () => polar.subscriptionsOf(customer.id)[0]?.seats
  const invite = (email: string) =>
    app.service.database.asOrg(
      customer.id,
      (sql) => sql`
        insert into invitations (organization_id, id, email, role, invited_by)
        values (current_organization(), ${randomUUID()}, ${email}, 'member', 'admin')`,
    )
  await invite('a@customer.example')
  await invite('b@customer.example')
  await customer.hurry()
  await vi.waitFor(() => expect(seats()).toBe(3))
  await vi.waitFor(async () =>
    expect((await customer.request('GET', '/subscriptions')).body).toMatchObject({ seats: 3 }),
  )
  await app.service.database.asOrg(customer.id, (sql) => sql`delete from invitations where email like 'a@%'`)
  await vi.waitFor(async () => {
    await customer.hurry()
    expect(seats()).toBe(2)
  })
})

test('changes of members of an organization that doesn’t pay by the seat request nothing', async () => {
  const customer = await makeSubscriber()
  await installation.app.service.database.asOrg(
    customer.id,
    (sql) => sql`update members set deactivated_at = now(), closed_by = id`,
  )
  expect(await schedule(customer)).toEqual([{ kind: billingSync, hours: 24 }])
})

test('seats that change with the next period are not set again and again', async () => {
  const { polar } = installation
  const customer = await makeSubscriber('bySeat', 9)
  const [subscription] = polar.subscriptionsOf(customer.id)
  polar.change(subscription?.id ?? '', { pendingSeats: 1 })
  await customer.request('POST', '/subscriptions/sync')
  expect((await customer.request('GET', '/subscriptions')).body).toMatchObject({ seats: 1 })
  const other = await makeSubscriber('bySeat', 9)
  await customer.hurry()
  await other.hurry()
  await vi.waitFor(() => expect(polar.subscriptionsOf(other.id)[0]?.seats).toBe(1))
  expect(polar.subscriptionsOf(customer.id)[0]?.seats).toBe(9)
})

test('a purchase whose webhook never arrives is found, also if another sync ran after its checkout', async () => {
  const { polar, app } = installation
  const customer = await makePolarCustomer(installation)
  await customer.request('GET', `/subscriptions/checkout?product_id=${polar.products.team}`)
  await app.service.database.asOrg(customer.id, (sql) => requestJob(sql, billingSync))
  await vi.waitFor(async () => expect(await schedule(customer)).toEqual([{ kind: billingSync, hours: 1 }]))
  polar.subscribe(customer.id, { product_id: polar.products.team })
  await customer.hurry()
  await vi.waitFor(async () => expect(await customer.plan()).toBe('team'))
})

test('a subscription that was not read for a day is read again', async () => {
  const { polar } = installation
  const customer = await makeSubscriber()
  const [subscription] = polar.subscriptionsOf(customer.id)
  polar.change(subscription?.id ?? '', { status: 'canceled' })
  expect(await schedule(customer)).toEqual([{ kind: billingSync, hours: 24 }])
  await makeDue(customer, billingSync)
  await vi.waitFor(async () => expect(await customer.plan()).toBe('free'))
  await vi.waitFor(async () => expect(await schedule(customer)).toEqual([{ kind: billingSync, hours: 24 }]))
})

test('an organization whose subscriptions are all gone is still read every day', async () => {
  const { polar } = installation
  const customer = await makeSubscriber()
  polar.remove(polar.subscriptionsOf(customer.id)[0]?.id ?? '')
  for (let day = 0; day < 2; day += 1) {
    await makeDue(customer, billingSync)
    await installation.app.service.jobs.run({ organizationId: customer.id, kind: billingSync })
    await vi.waitFor(async () => expect(await schedule(customer)).toEqual([{ kind: billingSync, hours: 24 }]))
  }
  expect(await customer.plan()).toBe('free')
})

test('work that a node left behind is done by another one when the lease ends', async () => {
  const { app } = installation
  const customer = await makeSubscriber()
  const ids = await use(customer, 2)
  const lease = (until: string) =>
    app.service.database.asOrg(
      customer.id,
      (sql) => sql`
        update jobs set lease = gen_random_uuid(), due_at = now() + ${until}::interval where kind = ${billingUsage}`,
    )
  await lease('1 hour')
  await app.service.jobs.run({ organizationId: customer.id, kind: billingUsage })
  expect(missing(ids), 'another node does it').toEqual(ids)
  await lease('-1 second')
  await vi.waitFor(() => expect(missing(ids)).toEqual([]))
})

describe('usage that was never reported', () => {
  const age = (customer: PolarCustomer, days: number) =>
    installation.app.service.database.asOrg(
      customer.id,
      (sql) => sql`update unreported_usage set recorded_at = now() - make_interval(days => ${days})`,
    )
  const waiting = (customer: PolarCustomer) =>
    installation.app.service.database.asOrg(customer.id, async (sql) => {
      const [row] = await sql<{ unreported: number; recorded: number; reports: boolean }>`
        select (select count(*) from unreported_usage) as unreported, (select count(*) from usage_events) as recorded,
          reports_usage as reports from organizations where id = current_organization()`
      return row
    })

  test('is forgotten after 90 days, and the usage itself stays', async () => {
    installation.polar.trouble = () => ({ status: 503 })
    const { service } = installation.app
    const [old, recent] = [await makePolarCustomer(installation), await makePolarCustomer(installation)]
    for (const customer of [old, recent]) {
      await service.database.asOrg(
        customer.id,
        (sql) => sql`update organizations set reports_usage = true where id = current_organization()`,
      )
      await use(customer, 3)
    }
    await age(old, 91)
    await age(recent, 89)
    await old.hurry()
    await recent.hurry()
    await expect.poll(() => waiting(old)).toEqual({ unreported: 0, recorded: 3, reports: true })
    expect(await waiting(recent)).toEqual({ unreported: 3, recorded: 3, reports: true })
  })

  test('is forgotten right away if the operator removes the provider, and no more is marked', async () => {
    installation.polar.trouble = () => ({ status: 503 })
    const { service } = installation.app
    const customer = await makePolarCustomer(installation)
    await service.database.asOrg(
      customer.id,
      (sql) => sql`update organizations set reports_usage = true where id = current_organization()`,
    )
    await use(customer, 3)
    const node = startNode({ billing: undefined })
    await expect
      .poll(async () => {
        await makeDue(customer, billingUsage)
        await node.run({ organizationId: customer.id, kind: billingUsage })
        return waiting(customer)
      })
      .toEqual({ unreported: 0, recorded: 3, reports: false })
    await use(customer, 1)
    expect(await waiting(customer)).toEqual({ unreported: 0, recorded: 4, reports: false })
  })
})
