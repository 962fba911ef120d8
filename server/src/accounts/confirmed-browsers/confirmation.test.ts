import { randomUUID } from 'node:crypto'
import { closeCodes } from '@inlay/protocol'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { openChat } from '../../../test/chat.ts'
import { confirmFrame, createFrameKey, type FrameKey, type ProofChanges } from '../../../test/frames.ts'
import { startTestProvider, type TestProvider } from '../../../test/oidc-provider.ts'
import { openPage, type Page, pageOrigin } from '../../../test/page.ts'
import { connectDirectory } from '../../../test/scim.ts'
import { type Person, type Shop, startShop } from '../../../test/shop.ts'
import { recheckMs } from '../../kernel/stores/changes.ts'

type User = NonNullable<Person>

let shop: Shop
let provider: TestProvider
let admin: string
beforeAll(async () => {
  shop = await startShop()
  provider = await startTestProvider()
  admin = await shop.tokenFor('admin@demo.test', 'demo')
  const body = { idp_issuer: provider.issuer }
  await shop.request('PATCH', '/identity-providers/config', { token: admin, body })
  await setClient()
})
afterAll(async () => {
  await shop.close()
  await provider.stop()
})

const secret = 'secret-of-inlay-at-the-provider'
const setClient = (body: object = { client_id: 'inlay', client_secret: secret }) =>
  shop.request('PUT', '/identity-providers/frame-sign-in', { token: admin, body })

const someone = (): User => ({ sub: randomUUID() })
const newKey = () => createFrameKey(shop.url, () => shop.clock.now)
const idTokenOf = async (user: User) => provider.idToken(user)

async function exchange(user: User, headers: Record<string, string>, idToken?: string) {
  const id_token = idToken ?? (await idTokenOf(user))
  const { status, body } = await shop.request('POST', '/auth/pk-ticket', {
    headers,
    body: { publishable_key: shop.publishableKey, id_token, embedding_origin: pageOrigin },
  })
  expect(status, JSON.stringify(body)).toBe(200)
  return body as { ticket: string; userId: string }
}

async function openFrame(user: User, key: FrameKey, hello = {}) {
  const idToken = await idTokenOf(user)
  const { ticket, userId } = await exchange(user, await key.headers(idToken), idToken)
  const page = await openPage(shop.local, ticket, {
    origin: shop.url,
    hello: { tab_id: randomUUID(), url: `${pageOrigin}/`, ...hello },
  })
  return { page, userId, frame: await page.next('frame') }
}

/** The window of a browser, with the browser's cookies. */
class Window {
  cookie = ''

  async #fetch(path: string, init: RequestInit = {}) {
    const response = await shop.fetch(path, {
      redirect: 'manual',
      ...init,
      headers: { ...(this.cookie && { cookie: this.cookie }), ...init.headers },
    })
    const set = response.headers.get('set-cookie')
    if (set) this.cookie = set.split(';')[0] ?? ''
    return response
  }

  async begin(request: string, headers: Record<string, string> = { origin: shop.url }) {
    const response = await this.#fetch('/embed/confirm', {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ request }),
    })
    const answer = response.status === 200 ? ((await response.json()) as { is: string; address: string }) : undefined
    return { status: response.status, answer }
  }

  /** Follows the provider's redirects, and opens the address that it returns to. */
  async signIn(user: User | { error: string }, address: string) {
    await provider.expect(user)
    const { pathname, search } = new URL(await provider.visit(address))
    return this.open(pathname + search)
  }

  async open(path: string) {
    const response = await this.#fetch(path)
    return { status: response.status, text: await response.text(), headers: response.headers }
  }
}

async function requestOf(page: Page): Promise<string> {
  page.send({ type: 'frame/confirm' })
  return (await page.next('frame/request')).request
}

/** Confirms a frame as a user does: with a sign-in at the provider. */
async function confirm(user: User, page: Page, window = new Window()): Promise<Window> {
  const { answer } = await window.begin(await requestOf(page))
  expect(answer).toMatchObject({ is: 'provider' })
  expect(await window.signIn(user, answer?.address ?? '')).toMatchObject({ status: 200 })
  expect(await page.next('frame')).toMatchObject({ is_confirmed: true })
  return window
}

describe('a frame’s proof of its key', () => {
  const holderOf = async (ticket: string) => (await shop.service.tickets.redeem(ticket))?.frame_key

  test('puts the key’s thumbprint into the ticket, and changes nothing else in the response', async () => {
    const [user, key] = [someone(), await newKey()]
    const idToken = await idTokenOf(user)
    const body = await exchange(user, await key.headers(idToken), idToken)
    expect(Object.keys(body).sort()).toEqual(['expiresAt', 'expiresIn', 'orgId', 'ticket', 'userId'])
    expect(await holderOf(body.ticket)).toBe(key.thumbprint)
    expect(await holderOf((await exchange(user, { origin: shop.url }, idToken)).ticket)).toBeUndefined()
  })

  test.each<[string, (now: number) => ProofChanges, Record<string, string>?]>([
    ['from a page', () => ({}), { origin: pageOrigin }],
    ['for another method', () => ({ claims: { htm: 'GET' } })],
    ['for another address', () => ({ claims: { htu: 'https://evil.example/api/auth/pk-ticket' } })],
    ['for another ID token', () => ({ claims: { ath: 'x' } })],
    ['without an ID token’s hash', () => ({ claims: { ath: undefined } })],
    ['from two minutes ago', (now) => ({ claims: { iat: now / 1000 - 120 } })],
    ['from the future', (now) => ({ claims: { iat: now / 1000 + 120 } })],
    ['without a time', () => ({ claims: { iat: undefined } })],
    ['without an ID', () => ({ claims: { jti: undefined } })],
    ['of another type', () => ({ header: { typ: 'JWT' } })],
    ['without its key', () => ({ header: { jwk: undefined } })],
    ['with a malformed key', () => ({ header: { jwk: { kty: 'EC', crv: 'P-256', x: 'x', y: 'y' } } })],
    ['that is too long', () => ({ claims: { more: 'x'.repeat(3_000) } })],
  ])('%s is ignored', async (_, changes, headers = {}) => {
    const [user, key] = [someone(), await newKey()]
    const idToken = await idTokenOf(user)
    const proof = await key.headers(idToken, changes(shop.clock.now))
    expect(await holderOf((await exchange(user, { ...proof, ...headers }, idToken)).ticket)).toBeUndefined()
  })

  test('signed with another key, or no proof at all, is ignored', async () => {
    const [user, key] = [someone(), await newKey()]
    const idToken = await idTokenOf(user)
    const { dpop = '' } = await key.headers(idToken)
    const [header, , signature] = dpop.split('.')
    const [, other] = ((await key.headers(idToken)).dpop ?? '').split('.')
    for (const proof of [`${header}.${other}.${signature}`, 'x', '', 'a.b.c', dpop.replace(/.$/, '')]) {
      const { ticket } = await exchange(user, { origin: shop.url, dpop: proof }, idToken)
      expect(await holderOf(ticket), proof).toBeUndefined()
    }
  })

  test('counts once: of the tickets for a repeated proof, one can be redeemed', async () => {
    const [user, key] = [someone(), await newKey()]
    const idToken = await idTokenOf(user)
    const headers = await key.headers(idToken)
    const tickets = await Promise.all(Array.from({ length: 10 }, () => exchange(user, headers, idToken)))
    const keys = await Promise.all(tickets.map(({ ticket }) => holderOf(ticket)))
    expect(keys.filter(Boolean)).toEqual([key.thumbprint])
    shop.pass(50_000)
    expect(await holderOf((await exchange(user, headers, idToken)).ticket), 'later').toBeUndefined()
    const { ticket } = await exchange(user, await key.headers(idToken), idToken)
    expect(await holderOf(ticket), 'a new proof').toBe(key.thumbprint)
  })

  test('from a clock that is ahead counts once too, as long as it is accepted', async () => {
    const [user, key] = [someone(), await newKey()]
    const idToken = await idTokenOf(user)
    const headers = await key.headers(idToken, { claims: { iat: Math.floor(shop.clock.now / 1000) + 55 } })
    expect(await holderOf((await exchange(user, headers, idToken)).ticket)).toBe(key.thumbprint)
    shop.pass(110_000)
    const { ticket } = await exchange(user, headers, idToken)
    shop.pass(15_000)
    expect(await holderOf(ticket)).toBeUndefined()
  })

  test('makes the server store nothing, and never keeps other frames of the user from their own', async () => {
    const [user, key] = [someone(), await newKey()]
    const idToken = await idTokenOf(user)
    await exchange(user, await key.headers(idToken), idToken)
    const { kv } = shop.service
    const writes = [vi.spyOn(kv, 'set'), vi.spyOn(kv, 'setIfAbsent'), vi.spyOn(kv, 'count')]
    onTestFinished(() => {
      for (const write of writes) write.mockRestore()
    })
    for (let sent = 0; sent < 200; sent += 1) {
      const other = sent % 2 ? key : await newKey()
      await exchange(user, await other.headers(idToken), idToken)
    }
    expect(writes.map(({ mock }) => mock.calls.length)).toEqual([0, 0, 0])
    expect((await openFrame(user, key)).frame).toMatchObject({ is_confirmed: false, can_confirm: true })
  })
})

describe('a user confirms their browser', () => {
  test('with a sign-in at the provider, after which the open frame may do everything at once', async () => {
    const [user, key] = [someone(), await newKey()]
    const { page, frame, userId } = await openFrame(user, key)
    expect(frame).toMatchObject({ is_confirmed: false, can_confirm: true })
    const window = await confirm(user, page)
    expect(window.cookie).toMatch(/^inlay-browser=/)
    expect((await openFrame(user, key)).frame).toMatchObject({ is_confirmed: true })
    const { body } = await shop.request('GET', `/end-users/${userId}/confirmed-browsers`, { token: admin })
    expect(body.browsers).toMatchObject([{ how: 'provider', frame_count: 1 }])
    const { body: audit } = await shop.request('GET', '/audit-events?limit=1', { token: admin })
    expect(audit.events[0]).toMatchObject({ action: 'end_user.browser_confirmed', data: { how: 'provider' } })
  })

  test('once for all sites in it: the next frame is confirmed without the provider', async () => {
    const user = someone()
    const { page } = await openFrame(user, await newKey())
    const window = await confirm(user, page)
    const other = await openFrame(user, await newKey())
    expect(other.frame).toMatchObject({ is_confirmed: false })
    expect((await window.begin(await requestOf(other.page))).answer).toEqual({ is: 'confirmed' })
    expect(await other.page.next('frame')).toMatchObject({ is_confirmed: true })
  })

  test('only for themselves: another user of the same browser signs in too', async () => {
    const [one, other] = [someone(), someone()]
    const window = await confirm(one, (await openFrame(one, await newKey())).page)
    const key = await newKey()
    await confirm(other, (await openFrame(other, key)).page, window)
    expect((await openFrame(one, key)).frame).toMatchObject({ is_confirmed: false })
  })

  test('not as another user of the provider', async () => {
    const user = someone()
    const { page } = await openFrame(user, await newKey())
    const window = new Window()
    const { answer } = await window.begin(await requestOf(page))
    const refused = await window.signIn(someone(), answer?.address ?? '')
    expect(refused).toMatchObject({ status: 403, text: expect.stringContaining('another user') })
    await page.settled()
    expect(page.unread('frame')).toEqual([])
    const again = /href="([^"]*)">Sign in as the same user/.exec(refused.text)?.[1]?.replaceAll('&#38;', '&') ?? ''
    expect(new URL(again).searchParams.get('prompt')).toBe('login')
    expect(await window.signIn(user, again)).toMatchObject({ status: 200 })
    expect(await page.next('frame')).toMatchObject({ is_confirmed: true })
  })

  test('and learns that the provider refused', async () => {
    const { page } = await openFrame(someone(), await newKey())
    const window = new Window()
    const { answer } = await window.begin(await requestOf(page))
    expect(await window.signIn({ error: 'access_denied' }, answer?.address ?? '')).toMatchObject({ status: 502 })
  })

  test('in a window that has an opener, and that no page can frame', async () => {
    const { status, headers, text } = await new Window().open('/embed/confirm')
    expect(status).toBe(200)
    expect(headers.get('cross-origin-opener-policy')).toBeNull()
    expect(headers.get('x-frame-options')).toBe('DENY')
    expect(headers.get('content-security-policy')).toContain("frame-ancestors 'none'")
    expect(text).toContain('src="/embed/confirm.js"')
  })
})

describe('nothing is confirmed', () => {
  test.each<[string, Record<string, string>]>([
    ['another website', { origin: 'https://evil.example' }],
    ['the embedding page', { origin: pageOrigin }],
    ['a program without an origin', {}],
  ])('by a request from %s', async (_, headers) => {
    const { page } = await openFrame(someone(), await newKey())
    expect(await new Window().begin(await requestOf(page), headers)).toEqual({ status: 403, answer: undefined })
  })

  test.each(['', 'x', 'a.b.c', 'x'.repeat(3_000)])('by the request %j', async (request) => {
    expect((await new Window().begin(request)).answer).toMatchObject({ is: 'refused' })
  })

  test('by a request that is older than two minutes', async () => {
    const { page } = await openFrame(someone(), await newKey())
    const request = await requestOf(page)
    shop.clock.now += 2 * 60_000
    onTestFinished(() => {
      shop.clock.now -= 2 * 60_000
    })
    expect((await new Window().begin(request)).answer).toMatchObject({ is: 'refused' })
  })

  test('by a copied request: it asks for a proof of the user, and confirms no other key', async () => {
    const [user, thief] = [someone(), someone()]
    const { page } = await openFrame(user, await newKey())
    const stolen = await requestOf(page)
    // The thief has confirmed a browser of their own.
    const window = await confirm(thief, (await openFrame(thief, await newKey())).page)
    const { answer } = await window.begin(stolen)
    expect(answer).toMatchObject({ is: 'provider' })
    expect(await window.signIn(thief, answer?.address ?? '')).toMatchObject({ status: 403 })
    const keyOfThief = await newKey()
    await window.begin(stolen)
    expect((await openFrame(user, keyOfThief)).frame).toMatchObject({ is_confirmed: false })
  })

  test('by a sign-in that comes back to another browser, or twice', async () => {
    const user = someone()
    const { page } = await openFrame(user, await newKey())
    const [program, victim] = [new Window(), new Window()]
    // A program starts it for a key of its own, and has the user's browser follow the provider's redirects.
    const { answer } = await program.begin(await requestOf(page))
    expect(await victim.signIn(user, answer?.address ?? '')).toMatchObject({ status: 400 })
    await page.settled()
    expect(page.unread('frame')).toEqual([])
    const second = await program.begin(await requestOf(page))
    await provider.expect(user)
    const { pathname, search } = new URL(await provider.visit(second.answer?.address ?? ''))
    expect(await program.open(pathname + search)).toMatchObject({ status: 200 })
    expect(await program.open(pathname + search)).toMatchObject({ status: 400 })
  })

  test('by a sign-in that comes back for another organization, which doesn’t end it either', async () => {
    const user = someone()
    const { page } = await openFrame(user, await newKey())
    const window = new Window()
    const { answer } = await window.begin(await requestOf(page))
    await provider.expect(user)
    const { pathname, search } = new URL(await provider.visit(answer?.address ?? ''))
    const elsewhere = pathname.replace(await shop.organization('demo'), await shop.organization('other'))
    expect(elsewhere).not.toBe(pathname)
    expect(await window.open(elsewhere + search)).toMatchObject({ status: 400 })
    expect(await window.open(pathname + search)).toMatchObject({ status: 200 })
  })

  test('for a user whom a directory has deactivated since', async () => {
    const directory = await connectDirectory(shop)
    const user = { sub: randomUUID(), email: `Élodie-${randomUUID()}@demo.test`, email_verified: true }
    const id = await directory.addUser(user.email)
    const { page } = await openFrame(user, await newKey())
    const window = new Window()
    const { answer } = await window.begin(await requestOf(page))
    await directory.deactivate(id)
    expect(await window.signIn(user, answer?.address ?? '')).toMatchObject({ status: 502 })
  })

  test('for a page’s ticket, which has no key', async () => {
    const user = someone()
    const { ticket } = await exchange(user, { origin: shop.url })
    const page = await openPage(shop.local, ticket, { origin: shop.url, hello: { url: `${pageOrigin}/` } })
    expect(await page.next('frame')).toMatchObject({ is_confirmed: false, can_confirm: false })
    page.send({ type: 'frame/confirm' })
    await page.settled()
    expect(page.unread('frame/request')).toEqual([])
  })

  test('more than ten times a minute', async () => {
    const { page } = await openFrame(someone(), await newKey())
    const request = await requestOf(page)
    for (let n = 0; n < 10; n += 1) await new Window().begin(request)
    expect((await new Window().begin(request)).answer).toMatchObject({ is: 'refused' })
    vi.spyOn(shop.service, 'clientAddress').mockReturnValue('198.51.100.7')
    onTestFinished(() => void vi.restoreAllMocks())
    expect((await new Window().begin(request)).answer, 'from another address').toMatchObject({ is: 'provider' })
  })
})

describe('a confirmation ends', () => {
  const sql = <Row>(work: Parameters<typeof shop.service.database.asOrg<Row[]>>[1]) =>
    shop.organization('demo').then((id) => shop.service.database.asOrg(id, work))

  const ends: [string, (userId: string, email: string, page: Page) => Promise<unknown>][] = [
    [
      'when an administrator removes the browser',
      async (userId) => {
        const { body } = await shop.request('GET', `/end-users/${userId}/confirmed-browsers`, { token: admin })
        const [browser] = body.browsers
        const removed = await shop.request('DELETE', `/confirmed-browsers/${browser.id}`, { token: admin })
        expect(removed.status).toBe(200)
      },
    ],
    [
      'when the provider changes',
      async () => {
        const body = { idp_issuer: 'https://other.example' }
        await shop.request('PATCH', '/identity-providers/config', { token: admin, body })
        onTestFinished(async () => {
          const back = { idp_issuer: provider.issuer }
          await shop.request('PATCH', '/identity-providers/config', { token: admin, body: back })
        })
      },
    ],
    [
      'by itself, without a message',
      async (userId, _, page) => {
        await sql((run) => run`update confirmed_browsers set expires_at = now() where end_user_id = ${userId}`)
        // A page that is silent for 25 seconds would be dropped anyway.
        for (const milliseconds of [20_000, recheckMs - 20_000]) {
          await page.settled()
          shop.pass(milliseconds)
        }
        shop.clock.now -= recheckMs
      },
    ],
    [
      'when a directory deactivates the user',
      async (_, email) => {
        const directory = await connectDirectory(shop)
        await directory.deactivate(await directory.addUser(email))
      },
    ],
    ['when the user is erased', (userId) => shop.request('DELETE', `/end-users/${userId}`, { token: admin })],
  ]

  test.each(ends)('%s, and with it the open frame’s session', async (_, end) => {
    const email = `${randomUUID()}@demo.test`
    const user = { ...someone(), email, email_verified: true }
    const { page, userId } = await openFrame(user, await newKey())
    await confirm(user, page)
    await end(userId, email, page)
    expect((await page.closed).code).not.toBe(closeCodes.normal)
    const [left] = await sql<{ count: number }>(
      (run) =>
        run`select count(*) as count from confirmed_browsers where end_user_id = ${userId} and expires_at > now()`,
    )
    expect(left?.count).toBe(0)
  })

  test('while the frame is away: its session isn’t resumed', async () => {
    const [user, key] = [someone(), await newKey()]
    const { page, userId } = await openFrame(user, key)
    await confirm(user, page)
    page.socket.terminate()
    await sql((run) => run`delete from confirmed_browsers where end_user_id = ${userId}`)
    const { session, resume_secret } = page.ready
    const back = await openFrame(user, key, { tab_id: 'tab', resume: { session, secret: resume_secret } })
    expect(back.page.ready.resumed).toBe(false)
    expect(back.frame).toMatchObject({ is_confirmed: false })
    expect((await openChat(back.page).request({ type: 'chat/threads' }, 'chat/thread-list')).threads).toEqual([])
  })

  test('keeps at most twenty browsers of a user, and twenty keys of a browser', async () => {
    const user = someone()
    const { userId } = await openFrame(user, await newKey())
    const browserOf = (n: number) => ({ issuer: provider.issuer, browser: n < 25 ? 'one' : String(n) })
    for (let n = 0; n < 50; n += 1) await confirmFrame(shop, await newKey(), userId, browserOf(n))
    const [counts] = await sql<{ browsers: number; most: number }>(
      (run) => run`
        select (select count(*) from confirmed_browsers where end_user_id = ${userId}) as browsers,
               (select max(n) from (select count(*) as n from frame_keys where end_user_id = ${userId} group by browser_id) as k) as most`,
    )
    expect(counts).toEqual({ browsers: 20, most: expect.any(Number) })
    expect(counts?.most).toBeLessThanOrEqual(20)
  })
})

describe('the client at the provider', () => {
  const read = async () => (await shop.request('GET', '/identity-providers/frame-sign-in', { token: admin })).body

  test('is returned without its secret', async () => {
    const { status, body } = await setClient()
    expect(status).toBe(200)
    expect(body).toEqual({
      is_active: true,
      reason: null,
      redirect_uri: `${shop.url}/embed/confirm/${await shop.organization('demo')}/callback`,
      client: {
        issuer: provider.issuer,
        client_id: 'inlay',
        client_secret_last4: 'ider',
        created_at: expect.any(String),
        updated_at: expect.any(String),
      },
    })
    expect(await read()).toEqual(body)
  })

  test('is not used with another issuer, and its secret is not sent to it', async () => {
    const { page } = await openFrame(someone(), await newKey())
    const other = await startTestProvider()
    await shop.request('PATCH', '/identity-providers/config', { token: admin, body: { idp_issuer: other.issuer } })
    onTestFinished(async () => {
      const body = { idp_issuer: provider.issuer }
      await shop.request('PATCH', '/identity-providers/config', { token: admin, body })
      await setClient()
      await other.stop()
    })
    expect(await read()).toMatchObject({ is_active: false, reason: expect.stringContaining('Enter the client') })
    expect((await new Window().begin(await requestOf(page))).answer).toMatchObject({ is: 'refused' })
    expect((await setClient({ client_id: 'inlay' })).status).toBe(400)
    expect((await setClient({ client_id: 'inlay', client_secret: null })).body).toMatchObject({ is_active: true })
  })

  test('tells open frames that they can, or can’t, be confirmed', async () => {
    const { page } = await openFrame(someone(), await newKey())
    await shop.request('DELETE', '/identity-providers/frame-sign-in', { token: admin })
    expect(await page.next('frame')).toMatchObject({ can_confirm: false })
    await setClient()
    expect(await page.next('frame')).toMatchObject({ can_confirm: true })
    await vi.waitFor(() => expect(page.unread('bye')).toEqual([]))
  })
})
