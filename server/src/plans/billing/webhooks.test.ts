import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { useTestService } from '../../../test/harness.ts'
import { makePolarCustomer, type PolarInstallation, startPolarInstallation } from '../../../test/polar/installation.ts'
import type { SignedWebhook } from '../../../test/polar/stand-in.ts'
import { billingSync } from '../subscriptions/subscriptions.ts'
import { receiveDelivery } from './webhooks.ts'

let installation: PolarInstallation
beforeAll(async () => {
  installation = await startPolarInstallation()
})
afterEach(() => {
  installation.polar.trouble = undefined
  expect(installation.polar.problems).toEqual([])
})
afterAll(() => installation.close())

const makeCustomer = () => makePolarCustomer(installation)
const send = ({ headers, body }: SignedWebhook) =>
  installation.app.fetch('/billing/webhooks', { method: 'POST', headers, body })
const minutes = 60 * 1000

test.each(['customer.state_changed', 'subscription.updated'] as const)('%s updates the plan', async (type) => {
  const customer = await makeCustomer()
  const { id } = installation.polar.subscribe(customer.id)
  expect(await customer.receive({ type })).toEqual({ status: 202, outcome: 'accepted' })
  await vi.waitFor(async () => expect(await customer.plan()).toBe('team'))
  installation.polar.change(id, { status: 'unpaid' })
  await customer.receive({ type: 'subscription.updated' })
  await vi.waitFor(async () => expect(await customer.plan()).toBe('free'))
  await vi.waitFor(async () => expect(await customer.work(), 'everything is done').toEqual([]))
})

describe('is refused', () => {
  test.each<[string, (webhook: SignedWebhook) => void]>([
    ['without a signature', ({ headers }) => delete headers['webhook-signature']],
    ['without an id', ({ headers }) => delete headers['webhook-id']],
    ['without a timestamp', ({ headers }) => delete headers['webhook-timestamp']],
    ['with another id', ({ headers }) => Object.assign(headers, { 'webhook-id': randomUUID() })],
    [
      'with a later timestamp',
      ({ headers }) => {
        headers['webhook-timestamp'] = String(Number(headers['webhook-timestamp']) + 1)
      },
    ],
    ['with a timestamp that isn’t a number', ({ headers }) => Object.assign(headers, { 'webhook-timestamp': '1e9' })],
    ['with a changed body', (webhook) => Object.assign(webhook, { body: `${webhook.body} ` })],
    [
      'with the signature of version 2',
      ({ headers }) => {
        headers['webhook-signature'] = String(headers['webhook-signature']).replace('v1', 'v2')
      },
    ],
    ['with an id that is too long', ({ headers }) => Object.assign(headers, { 'webhook-id': 'x'.repeat(201) })],
  ])('%s', async (_, change) => {
    const customer = await makeCustomer()
    installation.polar.subscribe(customer.id)
    const webhook = installation.polar.webhook(customer.id)
    change(webhook)
    const response = await send(webhook)
    expect(response.status).toBe(401)
    expect(await response.json()).toMatchObject({ code: 'INVALID_SIGNATURE' })
    expect(await customer.work()).toEqual([])
    expect(await customer.plan()).toBe('free')
  })

  test.each([
    ['another secret', { secret: 'polar_whs_another' }],
    ['a time six minutes ago', { sentAt: Date.now() - 6 * minutes }],
    ['a time in six minutes', { sentAt: Date.now() + 6 * minutes }],
  ])('with %s', async (_, options) => {
    const customer = await makeCustomer()
    installation.polar.subscribe(customer.id)
    expect((await customer.receive(options)).status).toBe(401)
    expect(await customer.work()).toEqual([])
  })

  test('if it is larger than 256 KiB', async () => {
    const { headers } = installation.polar.webhook(randomUUID())
    expect((await send({ headers, body: 'x'.repeat(256 * 1024 + 1) })).status).toBe(413)
  })

  test('if there is no billing provider', async () => {
    const app = await useTestService({ INLAY_PUBLIC_URL: 'https://inlay.example.com' })
    const response = await app.fetch('/billing/webhooks', {
      method: 'POST',
      ...installation.polar.webhook(randomUUID()),
    })
    expect(response.status).toBe(404)
  })
})

test('is refused with a signature of an empty key, whatever the secret is', async () => {
  const { app, polar } = installation
  const { id } = await makeCustomer()
  const billing = app.service.billing && { ...app.service.billing, webhookSecret: 'whsec_~~~~~~~~~~~~' }
  const { headers, body } = polar.webhook(id, { secret: '' })
  const [delivered, timestamp, signature] = ['id', 'timestamp', 'signature'].map((name) => headers[`webhook-${name}`])
  const delivery = { id: delivered ?? '', timestamp: timestamp ?? '', signature: signature ?? '', body }
  await expect(receiveDelivery({ ...app.service, billing }, delivery)).rejects.toThrow('signature isn’t valid')
})

test('is accepted with a signature of the bytes that the secret encodes, as Standard Webhooks specifies', async () => {
  const { app, polar } = installation
  const { id } = await makeCustomer()
  const webhookSecret = `whsec_${Buffer.from('thirty-two bytes that are secret').toString('base64')}`
  const billing = app.service.billing && { ...app.service.billing, webhookSecret }
  const { headers, body } = polar.webhook(id, { secret: 'thirty-two bytes that are secret' })
  const [delivered, timestamp, signature] = ['id', 'timestamp', 'signature'].map((name) => headers[`webhook-${name}`])
  const delivery = { id: delivered ?? '', timestamp: timestamp ?? '', signature: signature ?? '', body }
  expect(await receiveDelivery({ ...app.service, billing }, delivery)).toMatchObject({ outcome: 'accepted' })
})

test.each([-4, 4])('is accepted with a clock that differs by %i minutes', async (difference) => {
  const customer = await makeCustomer()
  const sentAt = Date.now() + difference * minutes
  expect(await customer.receive({ sentAt })).toEqual({ status: 202, outcome: 'accepted' })
})

test('is accepted with one of several signatures, as while a secret is rotated', async () => {
  const webhook = installation.polar.webhook((await makeCustomer()).id)
  webhook.headers['webhook-signature'] = `v1,b2xk ${webhook.headers['webhook-signature']}`
  expect((await send(webhook)).status).toBe(202)
})

test.each([
  ['of an unknown organization', () => installation.polar.webhook(randomUUID())],
  ['of a customer that isn’t ours', () => installation.polar.webhook('customer of another product')],
])('is ignored if it is %s', async (_, make) => {
  const response = await send(make())
  expect(response.status).toBe(202)
  expect(await response.json()).toEqual({ status: 'ignored' })
})

test('that is repeated, also concurrently, is read once', async () => {
  const { polar } = installation
  const customer = await makeCustomer()
  polar.subscribe(customer.id)
  const id = randomUUID()
  const outcomes = await Promise.all(Array.from({ length: 10 }, () => customer.receive({ id })))
  expect(outcomes.filter(({ outcome }) => outcome === 'accepted')).toHaveLength(1)
  expect(outcomes.filter(({ outcome }) => outcome === 'duplicate')).toHaveLength(9)
  await vi.waitFor(async () => expect(await customer.work()).toEqual([]))
  expect(polar.readings.filter((organizationId) => organizationId === customer.id)).toEqual([customer.id])
})

test('that arrives out of order doesn’t restore an earlier state', async () => {
  const { polar } = installation
  const customer = await makeCustomer()
  const { id } = polar.subscribe(customer.id)
  const earlier = polar.webhook(customer.id, { type: 'subscription.updated', sentAt: Date.now() - minutes })
  polar.change(id, { status: 'canceled' })
  await customer.receive({ type: 'subscription.updated' })
  expect((await send(earlier)).status).toBe(202)
  await vi.waitFor(async () => expect(await customer.work()).toEqual([]))
  expect((await customer.request('GET', '/subscriptions/status')).body).toMatchObject({ status: 'canceled' })
  expect(await customer.plan()).toBe('free')
})

test('is kept while Polar is away, and its effect appears afterwards', async () => {
  const { app, polar } = installation
  const customer = await makeCustomer()
  polar.subscribe(customer.id)
  polar.trouble = () => ({ status: 503 })
  expect(await customer.receive()).toEqual({ status: 202, outcome: 'accepted' })
  await vi.waitFor(async () => expect(await customer.work()).toMatchObject([{ attempts: 1, is_leased: false }]))
  await app.service.jobs.run({ organizationId: customer.id, kind: billingSync })
  expect(await customer.work(), 'it backs off').toMatchObject([{ attempts: 1 }])
  polar.trouble = undefined
  await customer.hurry()
  await app.service.jobs.run({ organizationId: customer.id, kind: billingSync })
  await vi.waitFor(async () => expect(await customer.work()).toEqual([]))
  expect(await customer.plan()).toBe('team')
})
