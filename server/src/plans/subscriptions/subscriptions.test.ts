import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestService, type TestService, useTestService } from '../../../test/harness.ts'
import { issueAccessToken } from '../../accounts/access/access-tokens.ts'
import { findUserByEmail } from '../../accounts/users/local-accounts.ts'
import { resources } from '../../kernel/http/protected-resources.ts'
import { foundOrganization } from '../../organizations/organizations/organizations.ts'
import type { BillingProvider, ProvidedSubscription } from './billing-provider.ts'
import { SubscriptionStatus } from './contract.ts'
import { syncFromBillingProvider } from './subscriptions.ts'

let app: TestService
beforeAll(async () => {
  app = await startTestService()
})
afterAll(() => app.close())

const dayMs = 24 * 60 * 60 * 1000
const timestamp = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)

/** A separate organization for a test, and its admin's actions. */
async function makeCustomer(planId = 'free') {
  const admin = await findUserByEmail(app.service, 'admin@demo.test')
  if (!admin) throw new Error('The demo lacks its admin')
  const { id } = await foundOrganization(app.service, { name: 'Customer', founder: admin, planId })
  const request = async (method: string, path: string) => {
    // Issued each time, because tests move the clock.
    const token = await issueAccessToken(app.service, {
      userId: admin.id,
      organizationId: id,
      audience: Object.values(resources(app.service.config.publicUrl)),
      lifetimeSeconds: 3600,
    })
    return (await app.request(method, path, { token })).body
  }
  return {
    id,
    request,
    status: () => request('GET', '/subscriptions/status'),
    plan: async () => (await request('GET', '/plan-tiers/current?include=basic')).plan.id,
    checkout: async (product = 'inlay_team') =>
      new URL(await request('GET', `/subscriptions/checkout?product_id=${product}`)),
    portal: async () => new URL(await request('GET', '/subscriptions/portal')),
    sync: () => request('POST', '/subscriptions/sync'),
    audit: () =>
      app.service.database.asOrg(
        id,
        (sql) => sql`
          select actor, target, data from audit_events where action = 'subscription.synced' order by sequence`,
      ),
  }
}
type Customer = Awaited<ReturnType<typeof makeCustomer>>

const open = (url: URL) => app.fetch(url.pathname + url.search)
const send = (path: string, fields: Record<string, string>) =>
  app.fetch(path, { method: 'POST', body: new URLSearchParams(fields) })
const tokenOf = (url: URL) => url.searchParams.get('token') ?? ''

async function buy(customer: Customer, product?: string) {
  const response = await send('/billing/checkout', { token: tokenOf(await customer.checkout(product)) })
  expect(response.status).toBe(200)
}

describe('without a subscription', () => {
  test.each([
    ['free', 'free'],
    ['enterprise', 'enterprise'],
  ])('the status of an organization on %s has no subscription', async (planId, plan_id) => {
    const customer = await makeCustomer(planId)
    expect(await customer.status()).toEqual({
      has_subscription: false,
      is_active: false,
      status: 'none',
      plan_id,
      current_period_end: null,
      cancel_at: null,
    })
    expect(await customer.request('GET', '/subscriptions')).toBeNull()
  })

  test('a sync keeps the plan that the operator assigned', async () => {
    const customer = await makeCustomer('enterprise')
    expect(await customer.sync()).toEqual({ synced: 0, deleted: 0 })
    expect(await customer.plan()).toBe('enterprise')
    expect(await customer.audit()).toEqual([])
  })
})

test('the products are the plans that are sold', async () => {
  expect(await (await makeCustomer()).request('GET', '/subscriptions/products')).toEqual({
    products: [
      { product_id: 'inlay_team', plan_id: 'team' },
      { product_id: 'inlay_enterprise', plan_id: 'enterprise' },
    ],
    plan_changes: 'checkout',
  })
})

describe('the checkout URL', () => {
  test('contains the product and the organization', async () => {
    const customer = await makeCustomer()
    const url = await customer.checkout()
    expect(url.origin + url.pathname).toBe('http://localhost:8787/billing/checkout')
    expect(Object.fromEntries(url.searchParams)).toEqual({
      products: 'inlay_team',
      customerExternalId: customer.id,
      token: expect.stringMatching(/^[\w-]{43}$/),
    })
  })

  test.each(['unknown', 'free', 'team', 'INLAY_TEAM', 'x'.repeat(200)])('is not returned for "%s"', async (product) => {
    const customer = await makeCustomer()
    expect(await customer.request('GET', `/subscriptions/checkout?product_id=${product}`)).toEqual({
      defined: true,
      code: 'NOT_FOUND',
      status: 404,
      message: 'Resource not found',
      data: { code: 'RESOURCE_NOT_FOUND', resource: 'product', resourceId: product },
    })
  })

  test.each([
    ['', 'product_id'],
    ['product_id=', 'product_id'],
    [`product_id=${'x'.repeat(201)}`, 'product_id'],
    ['product_id=inlay_team&product_id=inlay_team', 'product_id'],
    ['product_id=inlay_team&customerExternalId=x', 'customerExternalId'],
  ])('is not returned for the query "%s"', async (query, field) => {
    const { data } = await (await makeCustomer()).request('GET', `/subscriptions/checkout?${query}`)
    expect(data).toMatchObject({ code: 'VALIDATION_ERROR', field })
  })
})

describe('buying in development', () => {
  test("shows a page, subscribes, and changes the organization's plan", async () => {
    const customer = await makeCustomer()
    const url = await customer.checkout()
    const shown = await open(url)
    expect(shown.status).toBe(200)
    expect(shown.headers.get('content-security-policy')).toContain("frame-ancestors 'none'")
    expect(await shown.text()).toMatch(/<h1>Team<\/h1>.*<button>Subscribe<\/button>/s)
    expect(await customer.plan(), 'opening the page buys nothing').toBe('free')

    const bought = await send('/billing/checkout', { token: tokenOf(url) })
    expect(await bought.text()).toContain('Subscribed to Team')
    const periodEnd = new Date(app.clock.now + 30 * dayMs).toISOString()
    expect(await customer.status()).toEqual({
      has_subscription: true,
      is_active: true,
      status: 'active',
      plan_id: 'team',
      current_period_end: periodEnd,
      cancel_at: null,
    })
    expect(await customer.request('GET', '/subscriptions')).toEqual({
      id: expect.stringMatching(/^local_/),
      status: 'active',
      plan_id: 'team',
      product_id: 'inlay_team',
      customer_id: `local_${customer.id}`,
      seats: null,
      current_period_end: periodEnd,
      cancel_at: null,
      grace_ends_at: null,
      created_at: timestamp,
      updated_at: timestamp,
    })
    expect(await customer.plan()).toBe('team')
    expect(await customer.audit()).toEqual([
      { actor: 'billing provider', target: customer.id, data: { synced: 1, deleted: 0, plan_id: 'team' } },
    ])
    expect(await customer.sync()).toEqual({ synced: 1, deleted: 0 })
    expect(await customer.audit(), 'a sync without changes is not audited').toHaveLength(1)
  })

  test('changes the product of an active subscription', async () => {
    const customer = await makeCustomer()
    await buy(customer)
    const { id } = await customer.request('GET', '/subscriptions')
    await buy(customer, 'inlay_enterprise')
    expect(await customer.request('GET', '/subscriptions')).toMatchObject({ id, plan_id: 'enterprise' })
    expect(await customer.plan()).toBe('enterprise')
  })

  test('counts a form that is sent ten times concurrently once', async () => {
    const url = await (await makeCustomer()).checkout()
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => send('/billing/checkout', { token: tokenOf(url) })),
    )
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    expect((await open(url)).status, 'the link is used up').toBe(404)
  })

  test.each<[string, (url: URL) => void]>([
    ['another organization', (url) => url.searchParams.set('customerExternalId', randomUUID())],
    ['another product', (url) => url.searchParams.set('products', 'inlay_enterprise')],
    ['no product', (url) => url.searchParams.delete('products')],
    ['another token', (url) => url.searchParams.set('token', 'x'.repeat(32))],
    ['no token', (url) => url.searchParams.delete('token')],
  ])('rejects a link changed to %s', async (_, change) => {
    const url = await (await makeCustomer()).checkout()
    change(url)
    const response = await open(url)
    expect(response.status).toBe(404)
    expect(await response.text()).toContain('This link isn’t valid')
  })

  test('rejects a form without a link', async () => {
    const customer = await makeCustomer()
    const portal = tokenOf(await customer.portal())
    const forms: Record<string, string>[] = [
      {},
      { token: '' },
      { token: 'x' },
      { token: 'x'.repeat(101) },
      { token: portal },
    ]
    for (const fields of forms) expect((await send('/billing/checkout', fields)).status).toBe(404)
    expect((await app.fetch('/billing/checkout', { method: 'POST', body: '{}' })).status).toBe(415)
    expect((await send('/billing/checkout', { token: 'x'.repeat(20_000) })).status).toBe(413)
    expect(await customer.status()).toMatchObject({ has_subscription: false })
  })
})

describe('the portal in development', () => {
  const change = async (customer: Customer, name: string) =>
    send('/billing/portal', { token: tokenOf(await customer.portal()), change: name })

  test('cancels at period end, resumes, and cancels immediately', async () => {
    const customer = await makeCustomer()
    await buy(customer)
    const { current_period_end: end } = await customer.status()
    expect(await (await open(await customer.portal())).text()).toContain(`Renews on ${end.slice(0, 10)}`)

    const canceled = await change(customer, 'cancel')
    expect(await canceled.text()).toContain(`Ends on ${end.slice(0, 10)}`)
    expect(await customer.status()).toMatchObject({ is_active: true, status: 'active', cancel_at: end })
    expect(await customer.plan()).toBe('team')

    await change(customer, 'resume')
    expect(await customer.status()).toMatchObject({ is_active: true, cancel_at: null })

    const ended = await change(customer, 'cancel_now')
    expect(await ended.text()).toContain('No active subscription')
    expect(await customer.status()).toMatchObject({
      has_subscription: true,
      is_active: false,
      status: 'canceled',
      plan_id: 'team',
      cancel_at: new Date(app.clock.now).toISOString(),
    })
    expect(await customer.plan()).toBe('free')
    await change(customer, 'resume')
    expect(await customer.status(), 'an ended subscription stays ended').toMatchObject({ status: 'canceled' })

    await buy(customer)
    expect(await customer.status()).toMatchObject({ is_active: true, status: 'active' })
  })

  test('issues a new link for the next step', async () => {
    const customer = await makeCustomer()
    await buy(customer)
    const first = tokenOf(await customer.portal())
    const shown = await (await send('/billing/portal', { token: first, change: 'cancel' })).text()
    const second = /name="token" value="([^"]+)"/.exec(shown)?.[1] ?? ''
    expect((await send('/billing/portal', { token: first, change: 'resume' })).status, 'used up').toBe(404)
    expect((await send('/billing/portal', { token: second, change: 'resume' })).status).toBe(200)
    expect(await customer.status()).toMatchObject({ cancel_at: null })
  })

  test.each(['', 'delete', 'constructor'])('refuses the change "%s"', async (name) => {
    const customer = await makeCustomer()
    await buy(customer)
    expect((await change(customer, name)).status).toBe(404)
    expect(await customer.status()).toMatchObject({ status: 'active', cancel_at: null })
  })

  test('does not accept a checkout link', async () => {
    const token = tokenOf(await (await makeCustomer()).checkout())
    expect((await app.fetch(`/billing/portal?token=${token}`)).status).toBe(404)
    expect((await send('/billing/portal', { token, change: 'cancel' })).status).toBe(404)
  })
})

describe('time passes', () => {
  test.each([0, 1, 29, 30, 31, 60, 365])('and after %i more days the period has been renewed', async (days) => {
    const customer = await makeCustomer()
    await buy(customer)
    const { current_period_end: end } = await customer.status()
    app.clock.now = Date.parse(end) + days * dayMs
    await customer.sync()
    const renewals = Math.floor(days / 30) + 1
    expect(await customer.status()).toMatchObject({
      is_active: true,
      current_period_end: new Date(Date.parse(end) + renewals * 30 * dayMs).toISOString(),
    })
  })

  test('and a cancelled subscription ends with its period, not before', async () => {
    const customer = await makeCustomer()
    await buy(customer)
    await send('/billing/portal', { token: tokenOf(await customer.portal()), change: 'cancel' })
    const { cancel_at } = await customer.status()
    app.clock.now = Date.parse(cancel_at) - 1
    await customer.sync()
    expect(await customer.status()).toMatchObject({ is_active: true })
    app.clock.now += 1
    await customer.sync()
    expect(await customer.status()).toMatchObject({ is_active: false, status: 'canceled', cancel_at })
    expect(await customer.plan()).toBe('free')
  })
})

describe('a sync', () => {
  const provided = (changes: Partial<ProvidedSubscription> = {}): ProvidedSubscription => ({
    id: 'sub_1',
    status: 'active',
    product_id: 'inlay_team',
    customer_id: 'cus_1',
    seats: null,
    current_period_end: '2027-01-01T00:00:00.000Z',
    cancel_at: null,
    created_at: '2026-01-01T00:00:00.000Z',
    updated_at: '2026-01-01T00:00:00.000Z',
    ...changes,
  })

  /** A provider that returns these subscriptions, or throws. */
  const syncWith = ({ id }: Customer, listSubscriptions: BillingProvider['listSubscriptions']) => {
    const billing = { ...(app.service.billing as BillingProvider), listSubscriptions }
    return syncFromBillingProvider({ ...app.service, billing }, { organizationId: id, actor: 'billing provider' })
  }

  test.each(
    SubscriptionStatus.options.map((status) => [status, status === 'active' || status === 'trialing'] as const),
  )('of a subscription that is %s: pays for the plan is %s', async (status, isActive) => {
    const customer = await makeCustomer('enterprise')
    expect(await syncWith(customer, async () => [provided({ status })])).toEqual({ synced: 1, deleted: 0 })
    expect(await customer.status()).toMatchObject({ has_subscription: true, is_active: isActive, status })
    expect(await customer.plan()).toBe(isActive ? 'team' : 'free')
  })

  test('prefers an active subscription to an ended one, and the newest of those', async () => {
    const customer = await makeCustomer()
    const subscriptions = [
      provided({ id: 'old', created_at: '2025-01-01T00:00:00.000Z' }),
      provided({ id: 'new', created_at: '2026-02-01T00:00:00.000Z', product_id: 'inlay_enterprise' }),
      provided({ id: 'ended', created_at: '2026-03-01T00:00:00.000Z', status: 'canceled' }),
    ]
    expect(await syncWith(customer, async () => subscriptions)).toEqual({ synced: 3, deleted: 0 })
    expect(await customer.request('GET', '/subscriptions')).toMatchObject({ id: 'new', plan_id: 'enterprise' })
    expect(await customer.plan()).toBe('enterprise')

    expect(await syncWith(customer, async () => subscriptions.slice(0, 1))).toEqual({ synced: 1, deleted: 2 })
    expect(await customer.plan()).toBe('team')
    expect(await syncWith(customer, async () => [])).toEqual({ synced: 0, deleted: 1 })
    expect(await customer.plan()).toBe('free')
    expect(await syncWith(customer, async () => [])).toEqual({ synced: 0, deleted: 0 })
    expect((await customer.audit()).map(({ data }) => data)).toEqual([
      { synced: 3, deleted: 0, plan_id: 'enterprise' },
      { synced: 1, deleted: 2, plan_id: 'team' },
      { synced: 0, deleted: 1, plan_id: 'free' },
    ])
  })

  test('updates every field that changed', async () => {
    const customer = await makeCustomer()
    await syncWith(customer, async () => [provided()])
    const changed = provided({
      status: 'past_due',
      product_id: 'inlay_enterprise',
      customer_id: 'cus_2',
      seats: 7,
      current_period_end: null,
      cancel_at: '2026-06-01T00:00:00.000Z',
      created_at: '2026-01-02T00:00:00.000Z',
      updated_at: '2026-05-01T00:00:00.000Z',
    })
    await syncWith(customer, async () => [changed])
    expect(await customer.request('GET', '/subscriptions')).toEqual({
      ...changed,
      plan_id: 'enterprise',
      grace_ends_at: '2026-05-08T00:00:00.000Z',
    })
  })

  test('assigns the free plan for a product without a plan', async () => {
    const customer = await makeCustomer()
    await syncWith(customer, async () => [provided({ product_id: 'mugs' })])
    expect(await customer.status()).toMatchObject({ is_active: true, plan_id: 'free' })
    expect(await customer.plan()).toBe('free')
  })

  test('that fails changes nothing', async () => {
    const customer = await makeCustomer()
    await syncWith(customer, async () => [provided(), provided({ id: 'sub_2' })])
    const before = await customer.request('GET', '/subscriptions')
    const failure = new Error('The provider hung up after the first page')
    await expect(
      syncWith(customer, async () => {
        throw failure
      }),
    ).rejects.toBe(failure)
    const unstorable = [provided({ status: 'canceled' }), provided({ id: 'sub_2', status: 'unheard of' as 'active' })]
    await expect(syncWith(customer, async () => unstorable)).rejects.toThrow()
    expect(await customer.request('GET', '/subscriptions')).toEqual(before)
    expect(await customer.plan()).toBe('team')
    expect(await customer.audit()).toHaveLength(1)
  })

  test('with an older response than the stored one changes nothing', async () => {
    const customer = await makeCustomer()
    const asked = Promise.withResolvers<void>()
    const answer = Promise.withResolvers<ProvidedSubscription[]>()
    const slow = syncWith(customer, () => {
      asked.resolve()
      return answer.promise
    })
    await asked.promise
    await syncWith(customer, async () => [provided()])
    answer.resolve([])
    expect(await slow).toEqual({ synced: 0, deleted: 0 })
    expect(await customer.plan()).toBe('team')
  })

  test('of one organization does not affect others', async () => {
    const [customer, neighbour] = await Promise.all([makeCustomer(), makeCustomer()])
    await syncWith(neighbour, async () => [provided()])
    await syncWith(customer, async () => [provided({ product_id: 'inlay_enterprise' })])
    await syncWith(customer, async () => [])
    expect(await neighbour.request('GET', '/subscriptions')).toMatchObject({ id: 'sub_1', plan_id: 'team' })
    expect(await neighbour.plan()).toBe('team')
  })
})

test('production has no local billing', async () => {
  const app = await useTestService({ INLAY_PUBLIC_URL: 'https://inlay.example.com' })
  const token = await app.tokenFor('admin@demo.test', 'demo')
  expect((await app.request('GET', '/subscriptions/products', { token })).body).toEqual({
    products: [],
    plan_changes: 'checkout',
  })
  for (const [method, path] of [
    ['GET', '/subscriptions/checkout?product_id=inlay_team'],
    ['GET', '/subscriptions/portal'],
    ['POST', '/subscriptions/sync'],
  ] as const) {
    expect((await app.request(method, path, { token })).body).toEqual({
      defined: true,
      code: 'BILLING_NOT_CONFIGURED',
      status: 404,
      message: 'This installation has no billing provider',
      data: { code: 'BILLING_NOT_CONFIGURED' },
    })
  }
  expect((await app.request('GET', '/subscriptions/status', { token })).body).toMatchObject({ status: 'none' })
  expect((await app.fetch('/billing/checkout')).headers.get('content-type')).toBe('application/json')
})
