import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { pageOrigin } from '../../../test/page.ts'
import { member, type Shop, startShop, useShop } from '../../../test/shop.ts'
import type { TicketHolder } from '../../visitors/tickets/signed-tickets.ts'

let shop: Shop
beforeAll(async () => {
  shop = await startShop()
})
afterAll(() => shop.close())

const headers = { origin: pageOrigin }
const exchange = async (ticket: string, more: object = {}, from: Record<string, string> = headers, to = shop) =>
  to.request('POST', '/agent/session', { headers: from, body: { ticket, ...more } })

test('a ticket becomes a session of 15 minutes for the same holder', async () => {
  const { status, body, headers } = await exchange(await shop.ticket(member))
  expect(status).toBe(200)
  expect(Date.parse(body.expires_at) - shop.clock.now).toBe(15 * 60 * 1000)
  expect(headers.get('access-control-allow-origin')).toBe(pageOrigin)
  const { userId } = await shop.exchange(member)
  expect(shop.service.agentSessions.open(body.token)).toMatchObject({
    holder: { origin: pageOrigin, publishable_key_id: shop.keyId, end_user: { id: userId } },
    visitor: undefined,
  })
})

test('a program without an origin can exchange a ticket too', async () => {
  expect((await exchange(await shop.ticket(member), {}, {})).status).toBe(200)
})

test('a session never outlives the user’s identity', async () => {
  const own = await useShop()
  const holder = (await own.service.tickets.redeem(await own.ticket(member))) as TicketHolder
  const ends = holder.end_user?.identity_expires_at ?? 0
  own.clock.now = ends - 1_000
  const { ticket } = own.service.tickets.issue(holder)
  const { body } = await own.request('POST', '/agent/session', { body: { ticket } })
  expect(Date.parse(body.expires_at)).toBe(ends)
})

describe('a ticket is refused', () => {
  test.each<[name: string, ticket: () => Promise<string>]>([
    ['if it is unknown', async () => 'garbage'],
    ['if it is a session token', async () => (await exchange(await shop.ticket(member))).body.token],
    [
      'if it was used',
      async () => {
        const ticket = await shop.ticket(member)
        await exchange(ticket)
        return ticket
      },
    ],
    [
      'if it has expired',
      async () => {
        const ticket = await shop.ticket(member)
        shop.clock.now += 61_000
        return ticket
      },
    ],
  ])('%s', async (_, ticket) => {
    const { status, body } = await exchange(await ticket())
    expect({ status, code: body.code }).toEqual({ status: 401, code: 'INVALID_TICKET' })
  })

  test('from another origin', async () => {
    const { status, body, headers } = await exchange(await shop.ticket(member), {}, { origin: 'https://evil.example' })
    expect({ status, code: body.code }).toEqual({ status: 403, code: 'ORIGIN_NOT_ALLOWED' })
    expect(headers.get('access-control-allow-origin')).toBeNull()
  })

  test('once its key is revoked', async () => {
    const own = await useShop()
    const ticket = await own.ticket(member)
    await own.request('DELETE', `/publishable-keys/${own.keyId}`, {
      token: await own.tokenFor('admin@demo.test', 'demo'),
    })
    expect((await own.request('POST', '/agent/session', { headers, body: { ticket } })).status).toBe(401)
  })
})

describe('an anonymous visitor', () => {
  const visitorOf = (token: string) => shop.service.agentSessions.open(token)?.visitor

  test.each([
    ['keeps their threads with the previous token, even if it has expired', 1, true],
    ['loses their threads after 30 days without a session', 31, false],
  ])('%s', async (_, days, isKept) => {
    const own = await useShop()
    const { token } = (await exchange(await own.ticket(), {}, headers, own)).body
    own.clock.now += days * 24 * 3600 * 1000
    const next = (await exchange(await own.ticket(), { previous_token: token }, headers, own)).body.token
    expect(visitorOf(next) === visitorOf(token)).toBe(isKept)
  })

  test.each<[name: string, previous: () => Promise<string | undefined>]>([
    ['without one', async () => undefined],
    ['with an invalid one', async () => 'garbage'],
    ['with a ticket', () => shop.ticket()],
    ['with a signed-in user’s', async () => (await exchange(await shop.ticket(member))).body.token],
  ])('is a new visitor %s', async (_, previous) => {
    const previous_token = await previous()
    const [one, other] = await Promise.all(
      [1, 2].map(async () => (await exchange(await shop.ticket(), { previous_token })).body.token),
    )
    expect(visitorOf(one)).toMatch(/^[\w-]{43}$/)
    expect(visitorOf(one)).not.toBe(visitorOf(other))
  })
})

test('the preflight request is allowed', async () => {
  const answer = await shop.fetch('/api/agent/session', {
    method: 'OPTIONS',
    headers: { ...headers, 'access-control-request-method': 'POST' },
  })
  expect(answer.status).toBe(204)
  expect(answer.headers.get('access-control-allow-origin')).toBe(pageOrigin)
})
