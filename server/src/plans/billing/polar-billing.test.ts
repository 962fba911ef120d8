import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import {
  makePolarCustomer,
  type PolarCustomer,
  type PolarInstallation,
  startPolarInstallation,
} from '../../../test/polar/installation.ts'
import type { Trouble } from '../../../test/polar/stand-in.ts'
import { billingSync } from '../subscriptions/subscriptions.ts'

let installation: PolarInstallation
beforeAll(async () => {
  installation = await startPolarInstallation()
})
afterEach(() => {
  installation.polar.trouble = undefined
  expect(installation.polar.problems, 'requests and responses conform to Polar’s OpenAPI document').toEqual([])
})
afterAll(() => installation.close())

const makeCustomer = () => makePolarCustomer(installation)

test('lists Polar’s products of the plans', async () => {
  const { team, enterprise, bySeat } = installation.polar.products
  const { body } = await (await makeCustomer()).request('GET', '/subscriptions/products')
  expect(body.plan_changes).toBe('portal')
  expect(body.products).toEqual([
    { product_id: team, plan_id: 'team' },
    { product_id: enterprise, plan_id: 'enterprise' },
    { product_id: bySeat, plan_id: 'by-seat' },
  ])
})

describe('the checkout', () => {
  test('is created at Polar for the organization, and read again an hour later', async () => {
    const customer = await makeCustomer()
    let sent: unknown
    installation.polar.trouble = (_, body) => {
      sent = body
      return undefined
    }
    const { team } = installation.polar.products
    const { body } = await customer.request('GET', `/subscriptions/checkout?product_id=${team}`)
    expect(body).toMatch(/^https:\/\/polar\.sh\/checkout\/polar_c_/)
    expect(new URL(body).searchParams.get('customerExternalId')).toBe(customer.id)
    expect(sent).toMatchObject({
      products: [team],
      external_customer_id: customer.id,
      success_url: expect.stringMatching(/\/o\/customer[\w-]*\/billing\?checkout=done$/),
    })
    expect(await customer.work()).toEqual([{ kind: 'billing_sync', attempts: 0, is_due: false, is_leased: false }])
  })

  test('starts with the seats that are in use, for products that are sold by the seat', async () => {
    const customer = await makeCustomer()
    const sent: unknown[] = []
    installation.polar.trouble = (name, body) => {
      if (name === 'POST /v1/checkouts/') sent.push((body as { seats?: number }).seats)
      return undefined
    }
    await installation.app.service.database.asOrg(
      customer.id,
      (sql) => sql`
        insert into invitations (organization_id, id, email, role, invited_by)
        select current_organization(), gen_random_uuid(), 'new' || n || '@example.com', 'member', 'admin@demo.test'
        from generate_series(1, 3) n`,
    )
    const { team, bySeat } = installation.polar.products
    for (const product of [bySeat, team]) {
      const { status } = await customer.request('GET', `/subscriptions/checkout?product_id=${product}`)
      expect(status).toBe(200)
    }
    expect(sent).toEqual([4, undefined])
    expect(installation.polar.problems).toEqual([])
  })

  test('is not created for a product without a plan', async () => {
    const customer = await makeCustomer()
    const { status } = await customer.request('GET', `/subscriptions/checkout?product_id=${randomUUID()}`)
    expect(status).toBe(404)
  })
})

describe('the portal', () => {
  test('is a session at Polar', async () => {
    const customer = await makeCustomer()
    installation.polar.subscribe(customer.id)
    const { body } = await customer.request('GET', '/subscriptions/portal')
    expect(body).toMatch(/^https:\/\/polar\.sh\/demo\/portal\?customer_session_token=/)
  })

  test('needs a purchase', async () => {
    const { status, body } = await (await makeCustomer()).request('GET', '/subscriptions/portal')
    expect(status).toBe(404)
    expect(body.data.code).toBe('NO_BILLING_ACCOUNT')
  })
})

describe('a forced sync', () => {
  test('stores what Polar has, and deletes what it no longer has', async () => {
    const { polar } = installation
    const customer = await makeCustomer()
    const { id } = polar.subscribe(customer.id)
    polar.subscribe(customer.id, { status: 'canceled', created_at: '2025-01-01T00:00:00Z' })
    expect((await customer.request('POST', '/subscriptions/sync')).body).toEqual({ synced: 2, deleted: 0 })
    expect((await customer.request('GET', '/subscriptions')).body).toMatchObject({ id, status: 'active', seats: null })
    expect(await customer.plan()).toBe('team')

    const end = '2031-01-01T00:00:00.000Z'
    polar.change(id, { cancel_at_period_end: true, current_period_end: '2031-01-01T00:00:00.123456Z', ends_at: end })
    await customer.request('POST', '/subscriptions/sync')
    expect((await customer.request('GET', '/subscriptions/status')).body).toMatchObject({
      is_active: true,
      cancel_at: end,
      current_period_end: '2031-01-01T00:00:00.123Z',
    })

    polar.remove(id)
    expect((await customer.request('POST', '/subscriptions/sync')).body).toEqual({ synced: 1, deleted: 1 })
    expect(await customer.plan()).toBe('free')
  })

  test.each(['past_due', 'unpaid', 'paused', 'incomplete', 'trialing'])(
    'shows a subscription that is %s',
    async (status) => {
      const customer = await makeCustomer()
      installation.polar.subscribe(customer.id, { status })
      await customer.request('POST', '/subscriptions/sync')
      expect((await customer.request('GET', '/subscriptions/status')).body).toMatchObject({ status })
    },
  )

  describe('keeps the plan of a subscription that is past due', () => {
    const dayMs = 24 * 60 * 60_000
    const ago = (days: number) => new Date(Date.now() - days * dayMs).toISOString()
    const read = async (customer: PolarCustomer) => {
      await customer.request('POST', '/subscriptions/sync')
      return [await customer.plan(), (await customer.request('GET', '/subscriptions')).body.grace_ends_at]
    }

    test('for seven days, counted from the first failure', async () => {
      const { polar } = installation
      const customer = await makeCustomer()
      const { id } = polar.subscribe(customer.id, { created_at: ago(40) })
      expect(await read(customer)).toEqual(['team', null])
      const failedAt = ago(6)
      polar.change(id, { status: 'past_due', modified_at: failedAt })
      const until = new Date(Date.parse(failedAt) + 7 * dayMs).toISOString()
      expect(await read(customer)).toEqual(['team', until])
      polar.change(id, { modified_at: ago(1) })
      expect(await read(customer), 'another failed attempt doesn’t prolong it').toEqual(['team', until])
      polar.change(id, { status: 'active' })
      expect(await read(customer)).toEqual(['team', null])
    })

    test('and not longer', async () => {
      const customer = await makeCustomer()
      installation.polar.subscribe(customer.id, { status: 'past_due', created_at: ago(40), modified_at: ago(7.01) })
      expect(await read(customer)).toEqual(['free', expect.any(String)])
      expect((await customer.request('GET', '/subscriptions/status')).body).toMatchObject({
        status: 'past_due',
        is_active: false,
      })
    })

    test('and the end of this time needs no webhook', async () => {
      const { polar, app } = installation
      const customer = await makeCustomer()
      polar.subscribe(customer.id, { status: 'past_due', created_at: ago(40), modified_at: ago(6.5) })
      const [plan, until] = await read(customer)
      expect(plan).toBe('team')
      const [sync] = await app.service.database.asOrg(
        customer.id,
        (sql) => sql`select due_at::timestamptz(3) from jobs where kind = ${billingSync}`,
      )
      expect(sync).toEqual({ due_at: until })
      await app.service.database.asOrg(customer.id, async (sql) => {
        await sql`update subscriptions set past_due_since = past_due_since - interval '12 hours'`
        await sql`update jobs set due_at = due_at - interval '12 hours' where kind = ${billingSync}`
      })
      await expect.poll(() => customer.plan()).toBe('free')
    })

    test('but not of one that isn’t paid, or paused', async () => {
      for (const status of ['unpaid', 'paused'] as const) {
        const customer = await makeCustomer()
        installation.polar.subscribe(customer.id, { status })
        expect(await read(customer)).toEqual(['free', null])
      }
    })

    test('before a newer one that has ended', async () => {
      const customer = await makeCustomer()
      installation.polar.subscribe(customer.id, { status: 'past_due', created_at: ago(40), modified_at: ago(1) })
      installation.polar.subscribe(customer.id, { status: 'canceled', created_at: ago(2) })
      expect((await read(customer))[0]).toBe('team')
    })
  })

  test('reads every page', async () => {
    const customer = await makeCustomer()
    for (let n = 0; n < 120; n += 1) installation.polar.subscribe(customer.id, { status: 'canceled' })
    expect((await customer.request('POST', '/subscriptions/sync')).body).toEqual({ synced: 120, deleted: 0 })
  })

  test('never returns to an earlier state', async () => {
    const { polar } = installation
    const customer = await makeCustomer()
    const { id } = polar.subscribe(customer.id)
    polar.change(id, { status: 'past_due', modified_at: '2030-02-01T00:00:00Z' })
    await customer.request('POST', '/subscriptions/sync')
    polar.change(id, { status: 'active', modified_at: '2030-01-01T00:00:00Z' })
    await customer.request('POST', '/subscriptions/sync')
    expect((await customer.request('GET', '/subscriptions/status')).body).toMatchObject({ status: 'past_due' })
  })

  const unavailable = 'The billing provider isn’t available right now. Try again in a minute.'
  const refused = 'The billing provider refused the request. Ask your operator to run: npx inlay doctor'
  test.each<[string, Trouble, string]>([
    ['hangs up', 'hang up', unavailable],
    ['hangs up late', 'hang up late', unavailable],
    ['never responds', 'stall', unavailable],
    ['fails', { status: 500 }, unavailable],
    ['limits the rate', { status: 429, headers: { 'retry-after': '7' } }, unavailable],
    ['sends a page of HTML', { status: 200, body: '<html>' }, unavailable],
    ['sends something else', { status: 200, body: '{"items":[{"id":1}]}' }, unavailable],
    ['redirects', { status: 302, headers: { location: 'http://127.0.0.1:1/' } }, refused],
    ['refuses the token', { status: 401 }, refused],
  ])('changes nothing if Polar %s on the second page', async (_, trouble, message) => {
    const { polar } = installation
    const customer = await makeCustomer()
    const first = polar.subscribe(customer.id)
    await customer.request('POST', '/subscriptions/sync')
    polar.remove(first.id)
    for (let n = 0; n < 60; n += 1) polar.subscribe(customer.id, { status: 'canceled' })
    let requests = 0
    polar.trouble = () => {
      requests += 1
      return requests === 2 ? trouble : undefined
    }
    const { status, body } = await customer.request('POST', '/subscriptions/sync')
    expect(requests).toBe(2)
    expect(status).toBeGreaterThanOrEqual(500)
    expect(body.message).toBe(message)
    expect((await customer.request('GET', '/subscriptions')).body).toMatchObject({ id: first.id })
    expect(await customer.plan()).toBe('team')
  })

  test('changes nothing if a subscription is added while the pages are read', async () => {
    const { polar } = installation
    const customer = await makeCustomer()
    for (let n = 0; n < 60; n += 1) polar.subscribe(customer.id, { status: 'canceled' })
    let requests = 0
    polar.trouble = () => {
      requests += 1
      if (requests === 2) polar.subscribe(customer.id)
      return undefined
    }
    expect((await customer.request('POST', '/subscriptions/sync')).status).toBe(503)
    polar.trouble = undefined
    expect((await customer.request('POST', '/subscriptions/sync')).body).toEqual({ synced: 61, deleted: 0 })
  })

  test('rejects another customer’s subscription', async () => {
    const { polar } = installation
    const [customer, neighbour] = [await makeCustomer(), await makeCustomer()]
    polar.subscribe(customer.id)
    const response = await fetch(`${polar.url}/v1/subscriptions/?external_customer_id=${customer.id}&page=1&limit=50`, {
      headers: { authorization: `Bearer ${polar.accessToken}`, 'polar-version': '2026-10' },
    })
    const body = await response.text()
    expect(JSON.parse(body).items).toHaveLength(1)
    polar.trouble = () => ({ status: 200, body })
    expect((await neighbour.request('POST', '/subscriptions/sync')).status).toBe(503)
    expect(await neighbour.plan()).toBe('free')
  })
})

test('an organization can ask Polar 30 times a minute, which doesn’t affect others', async () => {
  const [customer, neighbour] = [await makeCustomer(), await makeCustomer()]
  const sync = () => customer.request('POST', '/subscriptions/sync')
  const before = installation.polar.requests.length
  const statuses = (await Promise.all(Array.from({ length: 40 }, sync))).map(({ status }) => status)
  expect(statuses.filter((status) => status === 200)).toHaveLength(30)
  expect(statuses.filter((status) => status === 429)).toHaveLength(10)
  expect(installation.polar.requests.length - before).toBeLessThanOrEqual(30)
  expect((await customer.request('GET', '/subscriptions/portal')).status).toBe(429)
  expect((await neighbour.request('POST', '/subscriptions/sync')).status).toBe(200)
})

test('the access token is never logged', () => {
  expect(installation.app.logged()).not.toContain(installation.polar.accessToken)
  expect(installation.app.logged()).not.toContain(installation.polar.webhookSecret)
})
