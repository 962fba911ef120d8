import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import {
  makePolarCustomer,
  type PolarCustomer,
  type PolarInstallation,
  startPolarInstallation,
} from '../../../test/polar/installation.ts'
import { beginning } from '../../kernel/lib/clock.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { recordUsage, type UsageRecord } from '../usage/record.ts'
import { forgetUsage } from './usage-reports.ts'
import { createBillingWork } from './work.ts'

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

/** Another node, which looks for work all the time. */
function startNode(): void {
  const node = createBillingWork(installation.app.service, 20)
  onTestFinished(() => node.close())
}

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

test('a response that is lost after Polar stored the events repeats the batch, and Polar ignores it', async () => {
  const { polar } = installation
  const customer = await makeSubscriber()
  const ids = await use(customer, 3)
  polar.trouble = (name) => (name === 'POST /v1/events/ingest' ? 'hang up late' : undefined)
  startNode()
  await vi.waitFor(async () => expect(await customer.work()).toMatchObject([{ task: 'usage', attempts: 1 }]))
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
  startNode()
  await vi.waitFor(async () => expect(await unreported(customer)).toHaveLength(1))
  expect(await unreported(customer)).toEqual([{ id: bad, refusal: 'Polar responded with 422: {"detail":[]}' }])
  expect(missing(ids)).toEqual([])
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
  startNode()
  await vi.waitFor(async () => expect(await customer.work()).toMatchObject([{ task: 'usage', attempts: 1 }]))
  expect(await unreported(customer)).toEqual(ids.map((id) => ({ id, refusal: null })))
  expect(requests).toBeLessThan(100)
  polar.trouble = undefined
  await customer.hurry()
  await vi.waitFor(async () => expect(await unreported(customer)).toEqual([]))
  expect(missing(ids)).toEqual([])
})

test('after a rate limit, nothing is sent until Polar allows it', async () => {
  const { polar } = installation
  const customer = await makeSubscriber()
  await use(customer, 1)
  polar.trouble = () => ({ status: 429, headers: { 'retry-after': '120' } })
  startNode()
  await vi.waitFor(async () => expect(await customer.work()).toMatchObject([{ attempts: 1 }]))
  const [row] = await installation.app.service.database.asOrg(
    customer.id,
    (sql) => sql<{ seconds: number }>`select extract(epoch from due_at - now()) as seconds from billing_work`,
  )
  expect(row?.seconds).toBeGreaterThan(60)
  expect(row?.seconds).toBeLessThanOrEqual(120)
})

test('a day without Polar loses nothing, and asks it less and less often', async () => {
  const { app, polar } = installation
  const customer = await makeSubscriber()
  const ids = await use(customer, 700)
  polar.trouble = () => 'hang up'
  await app.service.database.asOrg(
    customer.id,
    (sql) => sql`insert into billing_work (organization_id, task) values (current_organization(), 'usage')`,
  )
  const waits: number[] = []
  for (let n = 0; n < 12; n += 1) {
    await customer.hurry()
    await app.service.billingWork.run(customer.id, 'usage')
    const isPostponed = async () => expect(await customer.work()).toMatchObject([{ attempts: n + 1, is_leased: false }])
    await vi.waitFor(isPostponed)
    const [row] = await app.service.database.asOrg(
      customer.id,
      (sql) => sql<{ seconds: number }>`
        select round(extract(epoch from due_at - now()) / 5) * 5 as seconds from billing_work where task = 'usage'`,
    )
    waits.push(row?.seconds ?? 0)
  }
  expect(waits.slice(0, 4)).toEqual([5, 10, 20, 40])
  expect(Math.max(...waits)).toBe(900)
  expect(await unreported(customer)).toHaveLength(700)
  polar.trouble = undefined
  await customer.hurry()
  startNode()
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
  startNode()
  await invite('a@customer.example')
  await invite('b@customer.example')
  await vi.waitFor(() => expect(seats()).toBe(3))
  await vi.waitFor(async () =>
    expect((await customer.request('GET', '/subscriptions')).body).toMatchObject({ seats: 3 }),
  )
  await app.service.database.asOrg(customer.id, (sql) => sql`delete from invitations where email like 'a@%'`)
  await vi.waitFor(() => expect(seats()).toBe(2))
})

test('seats that change with the next period are not set again and again', async () => {
  const { polar } = installation
  const customer = await makeSubscriber('bySeat', 9)
  const [subscription] = polar.subscriptionsOf(customer.id)
  polar.change(subscription?.id ?? '', { pendingSeats: 1 })
  await customer.request('POST', '/subscriptions/sync')
  expect((await customer.request('GET', '/subscriptions')).body).toMatchObject({ seats: 1 })
  const other = await makeSubscriber('bySeat', 9)
  startNode()
  await vi.waitFor(() => expect(polar.subscriptionsOf(other.id)[0]?.seats).toBe(1))
  expect(polar.subscriptionsOf(customer.id)[0]?.seats).toBe(9)
})

test('a subscription that was not read for a day is read again', async () => {
  const { app, polar } = installation
  const customer = await makeSubscriber()
  const [subscription] = polar.subscriptionsOf(customer.id)
  polar.change(subscription?.id ?? '', { status: 'canceled' })
  await app.service.database.asOrg(
    customer.id,
    (sql) =>
      sql`update organizations set billing_read_at = now() - interval '25 hours' where id = current_organization()`,
  )
  startNode()
  await vi.waitFor(async () => expect(await customer.plan()).toBe('free'))
})

test('work that a node left behind is done by another one when the lease ends', async () => {
  const { app } = installation
  const customer = await makeSubscriber()
  const ids = await use(customer, 2)
  const lease = (until: string) =>
    app.service.database.asOrg(
      customer.id,
      (sql) => sql`
        insert into billing_work (organization_id, task, leased_until)
        values (current_organization(), 'usage', now() + ${until}::interval)
        on conflict (organization_id, task) do update set leased_until = excluded.leased_until`,
    )
  await lease('1 hour')
  await app.service.billingWork.run(customer.id, 'usage')
  expect(missing(ids), 'another node does it').toEqual(ids)
  await lease('-1 second')
  startNode()
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
    const node = forgetUsage(service, 20)
    onTestFinished(() => node.close())
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
    beginning.withinMs = 0
    onTestFinished(() => void Object.assign(beginning, { withinMs: undefined }))
    const node = createBillingWork({ ...service, billing: undefined }, 20)
    await expect.poll(() => waiting(customer)).toEqual({ unreported: 0, recorded: 3, reports: false })
    await node.close()
    await use(customer, 1)
    expect(await waiting(customer)).toEqual({ unreported: 0, recorded: 4, reports: false })
  })
})
