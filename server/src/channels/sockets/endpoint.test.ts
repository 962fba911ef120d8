import { once } from 'node:events'
import { request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import {
  type ClientMessageInput,
  maxDefinitionBytes,
  maxMessageBytes,
  maxNameLength,
  maxSchemaBytes,
  maxTools,
} from '@inlay/protocol'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import type { WebSocket } from 'ws'
import { makeConfig } from '../../../test/harness.ts'
import { offer, openPage, openSocket, type Page, pageOrigin } from '../../../test/page.ts'
import { member, type Person, type Shop, startShop, useShop } from '../../../test/shop.ts'
import { createLog } from '../../kernel/lib/log.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { startServer } from '../../main.ts'
import { definitionBudget } from '../../tools/hub/kept-definitions.ts'

let shop: Shop
let me: Awaited<ReturnType<Shop['caller']>>
beforeAll(async () => {
  shop = await startShop()
  me = await shop.caller('member@demo.test')
})
afterAll(() => shop.close())
afterEach(() => shop.closePages())

const unverified = { ...member, email_verified: false } as Person

/** Requests a socket and returns the response. */
async function refusal(to: Shop, protocols: string | undefined, { origin = pageOrigin, path = '/runtime' } = {}) {
  const asked = request(`${to.local}${path}`, {
    headers: {
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': Buffer.alloc(16).toString('base64'),
      ...(protocols && { 'sec-websocket-protocol': protocols }),
      ...(origin && { origin }),
    },
  })
  asked.end()
  const answered = Promise.race([
    once(asked, 'response').then(async ([response]) => ({
      status: response.statusCode as number,
      text: (await response.toArray()).join(''),
      retryAfter: response.headers['retry-after'],
    })),
    once(asked, 'upgrade').then(([, socket]) => {
      socket.destroy()
      return { status: 101, text: '', retryAfter: undefined }
    }),
  ])
  return answered
}

const offering = (ticket: string) => `inlay.v1, inlay.ticket.${ticket}`

type Change = [method: string, path: string, body: object]
const provider = (body: object): Change => ['PATCH', '/identity-providers/config', body]
const origins = (keyId: string, allowed_origins: string[]): Change => [
  'PATCH',
  `/publishable-keys/${keyId}`,
  { allowed_origins },
]
const withToken = (token: string, [method, path, body]: Change) => [method, path, { token, body }] as const

describe('opening a socket', () => {
  test.each<[string, number, (ticket: string) => Parameters<typeof refusal>[1], Parameters<typeof refusal>[2]]>([
    ['a ticket as a subprotocol', 101, offering, {}],
    ['the subprotocols in reverse order', 101, (ticket) => `inlay.ticket.${ticket},inlay.v1`, {}],
    ['the origin of our own frame', 101, offering, { origin: 'OWN' }],
    ['another path', 404, offering, { path: '/runtime/x' }],
    ['no subprotocols', 400, () => undefined, {}],
    ['another version of the protocol', 400, (ticket) => `inlay.v2, inlay.ticket.${ticket}`, {}],
    ['no ticket', 401, () => 'inlay.v1', {}],
    ['an empty ticket', 401, () => 'inlay.v1, inlay.ticket.', {}],
    ['an unknown ticket', 401, () => offering('x'.repeat(43)), {}],
    ['another origin', 403, offering, { origin: 'https://evil.example' }],
    ['a look-alike origin', 403, offering, { origin: `${pageOrigin}.evil.example` }],
    ['the origin null', 403, offering, { origin: 'null' }],
    ['no origin, although the ticket has one', 403, offering, { origin: '' }],
  ])('with %s: %i', async (_, status, protocols, options) => {
    const origin = options?.origin === 'OWN' ? shop.url : options?.origin
    const answer = await refusal(shop, protocols(await shop.ticket()), {
      ...options,
      ...(origin !== undefined && { origin }),
    })
    expect(answer.status).toBe(status)
  })

  test.each([
    ['https://evil.example', 'https://evil.example', 'https://evil.example'],
    ['', 'no origin', null],
  ])('from another origin (%s) is recorded for the administrator and counted once', async (origin, seen, kept) => {
    const shop = await useShop()
    await refusal(shop, offering(await shop.ticket()), { origin })
    const token = await shop.tokenFor('admin@demo.test', 'demo')
    const { refusals } = (await shop.request('GET', '/diagnostics/refusals', { token })).body
    expect(refusals).toEqual([
      {
        id: expect.any(String),
        surface: 'ticket',
        step: 'socket_origin',
        code: 'ORIGIN_NOT_ALLOWED',
        message: expect.stringContaining('another origin'),
        expected: pageOrigin,
        seen,
        origin: kept,
        publishable_key_id: shop.keyId,
        directory_id: null,
        directory_name: null,
        count: 1,
        first_at: expect.any(String),
        last_at: expect.any(String),
      },
    ])
    const counted = (await (await shop.fetch('/metrics')).text()).match(/^inlay_refusals_total.*ORIGIN.*$/gm)
    expect(counted).toEqual(['inlay_refusals_total{surface="ticket",code="ORIGIN_NOT_ALLOWED"} 1'])
  })

  test('tickets in the URL are ignored, and each ticket works once', async () => {
    const ticket = await shop.ticket()
    expect((await refusal(shop, 'inlay.v1', { path: `/runtime?ticket=${ticket}` })).status).toBe(401)
    expect((await refusal(shop, offering(ticket))).status).toBe(101)
    expect(await refusal(shop, offering(ticket))).toEqual({
      status: 401,
      text: 'The ticket is unknown, used or expired',
      retryAfter: undefined,
    })
  })

  test('a ticket used from a wrong origin is used up', async () => {
    const ticket = await shop.ticket()
    expect((await refusal(shop, offering(ticket), { origin: 'https://evil.example' })).status).toBe(403)
    expect((await refusal(shop, offering(ticket))).status).toBe(401)
  })

  // On two nodes in server/test/nodes.test.ts.
  test('one of fifty concurrent requests with the same ticket succeeds', async () => {
    const ticket = await shop.ticket()
    const answers = await Promise.all(Array.from({ length: 50 }, () => refusal(shop, offering(ticket))))
    const statuses = answers.map(({ status }) => status).sort()
    expect(statuses).toEqual([101, ...Array(49).fill(401)])
  })

  test('rejects a ticket after its key is revoked or its end user is deleted', async () => {
    const shop = await useShop()
    const token = await shop.tokenFor('admin@demo.test', 'demo')
    const { userId, ticket } = await shop.exchange(member)
    await shop.request('DELETE', `/end-users/${userId}`, { token })
    expect((await refusal(shop, offering(ticket))).status).toBe(401)
    const late = await shop.ticket()
    await shop.request('DELETE', `/publishable-keys/${shop.keyId}`, { token })
    expect((await refusal(shop, offering(late))).status).toBe(401)
  })

  test.each<[string, Person, (shop: Shop) => Change]>([
    ['another provider is trusted', member, () => provider({ idp_issuer: 'http://localhost:1' })],
    ['the provider is removed', member, () => provider({ idp_type: null })],
    ['other audiences are allowed', member, () => provider({ allowed_audiences: ['elsewhere'] })],
    ['its key allows only other origins', undefined, ({ keyId }) => origins(keyId, ['https://other.example'])],
    ['its key falls back to the organization’s allowed domains', member, ({ keyId }) => origins(keyId, [])],
  ])('rejects a ticket as soon as %s', async (_, who, change) => {
    const shop = await useShop()
    const token = await shop.tokenFor('admin@demo.test', 'demo')
    await shop.request(...withToken(token, provider({ allowed_domains: ['https://elsewhere.example'] })))
    const [before, late] = [await shop.ticket(who), await shop.ticket(who)]
    expect((await refusal(shop, offering(before))).status).toBe(101)
    await shop.request(...withToken(token, change(shop)))
    expect(await refusal(shop, offering(late))).toMatchObject({
      status: 401,
      text: 'The ticket was issued for an origin or an identity provider that is no longer allowed',
    })
  })

  test('accepts a ticket after unrelated changes', async () => {
    const shop = await useShop()
    const token = await shop.tokenFor('admin@demo.test', 'demo')
    const [one, two] = [await shop.ticket(member), await shop.ticket(undefined)]
    await shop.request(...withToken(token, origins(shop.keyId, ['https://more.example', pageOrigin])))
    await shop.request(...withToken(token, provider({ allowed_domains: ['https://elsewhere.example'] })))
    for (const ticket of [one, two]) expect((await refusal(shop, offering(ticket))).status).toBe(101)
  })

  test('shutdown doesn’t wait for a client that keeps a refused connection open', async () => {
    const { config, remove } = await makeConfig({ INLAY_PUBLIC_URL: 'http://localhost:8787', PORT: '0' })
    onTestFinished(remove)
    const server = await startServer(config, { log: createLog('silent') })
    const client = connect({ port: server.port, allowHalfOpen: true })
    onTestFinished(() => void client.destroy())
    client.on('error', () => undefined)
    client.write('GET /runtime HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n')
    expect(String(await once(client, 'data'))).toContain('400 Bad Request')
    await server.stop()
  })

  test('shutdown refuses a request that is waiting for the database with 503', async () => {
    const shop = await useShop()
    const owner = new pg.Client(shop.stores.owner)
    await owner.connect()
    onTestFinished(() => owner.end())
    const ticket = await shop.ticket()
    await owner.query('begin; lock table publishable_keys in access exclusive mode')
    const asked = refusal(shop, offering(ticket))
    await vi.waitFor(async () => {
      const { rows } = await owner.query(`
        select from pg_locks
        where relation = 'publishable_keys'::regclass and mode = 'AccessShareLock' and not granted
          and database = (select oid from pg_database where datname = current_database())`)
      expect(rows).toHaveLength(1)
    })
    shop.drain()
    expect(await asked).toMatchObject({ status: 503, retryAfter: '5' })
    await owner.query('rollback')
  })

  test('a draining server responds with 503 and Retry-After', async () => {
    const shop = await useShop()
    const ticket = await shop.ticket()
    shop.drain()
    expect(await refusal(shop, offering(ticket))).toEqual({
      status: 503,
      text: 'The server is restarting',
      retryAfter: '5',
    })
  })

  test('tickets don’t appear in logs, refusals or metrics', async () => {
    const shop = await useShop()
    const tickets = [await shop.ticket(), await shop.ticket(member), await shop.ticket(member)]
    const [used = '', spent = '', renewing = ''] = tickets
    const page = await openPage(shop.local, used)
    page.send({ type: 'reauth', ticket: renewing })
    const { reason } = await page.closed
    const wrong = await refusal(shop, offering(spent), { origin: 'https://evil.example' })
    const again = await refusal(shop, offering(used))
    const seen = [shop.logged(), reason, wrong.text, again.text, await shop.service.metrics.render()].join('\n')
    for (const ticket of tickets) expect(seen).not.toContain(ticket)
  })
})

describe('hello', () => {
  test('returns the session, the end user and the limits', async () => {
    const { ready } = await shop.page(member)
    expect(ready).toEqual({
      type: 'ready',
      session: expect.stringMatching(/^[0-9a-f-]{36}$/),
      resume_secret: expect.stringMatching(/^[0-9a-f-]{36}\.[\w-]{32}$/),
      resumed: false,
      user: { id: expect.any(String), is_anonymous: false },
      time: shop.clock.now,
      expires_at: expect.any(Number),
      limits: {
        message_bytes: 1048576,
        tools: 512,
        schema_bytes: 65536,
        definition_bytes: 4194304,
        name_length: 128,
        running_calls: 64,
      },
    })
    expect(ready.expires_at).toBeGreaterThan(shop.clock.now + 1_800_000)
  })

  test('from a visitor returns the key’s ID as the user', async () => {
    const { ready } = await shop.page(undefined)
    expect(ready.user).toEqual({ id: shop.keyId, is_anonymous: true })
    expect(ready.expires_at).toBe(shop.clock.now + 3_600_000)
  })

  test('must arrive within ten seconds', async () => {
    const { closed } = await openSocket(shop.local, await shop.ticket())
    shop.pass(9_999)
    shop.pass(1)
    expect(await closed).toEqual({ code: 1008, reason: 'No hello within 10 seconds' })
  })

  test.each<[string, object]>([
    ['url: Invalid input', { url: 1 }],
    ['url is not an HTTP or HTTPS URL', { url: 'javascript:alert(1)' }],
    ['url is not an HTTP or HTTPS URL', { url: '/cart' }],
    ['url doesn’t match the ticket’s origin', { url: 'https://evil.example/' }],
    ['tab_id: Too big', { tab_id: 'x'.repeat(65) }],
    ['tab_id: Too small', { tab_id: '' }],
    ['title: Invalid input', { title: null }],
  ])('is rejected with "%s"', async (reason, fields) => {
    const { socket, closed, next } = await openSocket(shop.local, await shop.ticket())
    socket.send(JSON.stringify({ type: 'hello', tab_id: 't', url: `${pageOrigin}/`, title: '', ...fields }))
    expect((await next('bye')).reason).toContain(reason)
    expect(await closed).toEqual({
      code: reason.startsWith('tab_id') ? 1009 : 1008,
      reason: expect.stringContaining(reason),
    })
  })
})

describe('invalid messages close the socket', () => {
  test.each<[string, string | Buffer, string]>([
    ['not JSON', 'hello', 'A message is not valid JSON'],
    ['empty', '', 'A message is not valid JSON'],
    ['binary', Buffer.from([1, 2, 3]), 'Messages must be text'],
    ['a list', '[]', 'message: Invalid input'],
    ['null', 'null', 'message: Invalid input'],
    ['no type', '{}', 'type: Invalid'],
    ['an unknown type', '{"type":"admin"}', 'type: Invalid'],
    ['a type that only the server sends', '{"type":"ready"}', 'type: Invalid'],
    ['a second hello', `{"type":"hello","tab_id":"t","url":"${pageOrigin}/","title":""}`, 'hello was already sent'],
    ['tools that aren’t an array', '{"type":"tools/list","tools":{}}', 'tools: Invalid input'],
    ['a schema that isn’t an object', '{"type":"tools/list","tools":[{"name":"a","inputSchema":[]}]}', 'inputSchema'],
    ['a result without a call ID', '{"type":"tool/result","result":1}', 'call_id: Invalid input'],
  ])('%s', async (_, message, reason) => {
    const page = await shop.page(undefined)
    page.socket.send(message)
    expect(await page.next('bye')).toMatchObject({ code: 'protocol_error', reason: expect.stringContaining(reason) })
    expect(await page.closed).toEqual({ code: 1008, reason: expect.stringContaining(reason) })
  })

  test('a schema with half a million levels is refused', async () => {
    const page = await shop.page(undefined)
    const schema = `{"x":${'['.repeat(5e5)}${']'.repeat(5e5)}}`
    page.socket.send(`{"type":"tools/list","tools":[{"name":"a","inputSchema":${schema}}]}`)
    expect((await page.next('tools/accepted')).refused).toEqual([
      { name: 'a', reason: 'The schema is nested too deeply' },
    ])
  })

  test.each([
    ['invalid UTF-8', [0x81, 0x82, 0, 0, 0, 0, 0xff, 0xff], 1007, 'A text message is not valid UTF-8'],
    ['a malformed frame', [0xff, 0xff, 0xff, 0xff], 1002, 'A frame is malformed'],
  ])('%s', async (_, bytes, code, reason) => {
    const page = await shop.page(undefined)
    const { _socket } = page.socket as unknown as { _socket: Socket }
    _socket.write(Buffer.from(bytes))
    expect(await page.closed).toEqual({ code, reason })
  })

  test('another message before hello', async () => {
    const { socket, closed } = await openSocket(shop.local, await shop.ticket())
    socket.send('{"type":"ping"}')
    expect(await closed).toEqual({ code: 1008, reason: 'The first message must be hello' })
  })
})

describe('limits', () => {
  const schemaOf = (bytes: number) => ({ x: 'x'.repeat(bytes - 8) })
  const list = (tools: object[]) => ({ type: 'tools/list', tools }) as unknown as ClientMessageInput
  const many = (count: number) => list(Array.from({ length: count }, (_, n) => ({ name: `t${n}` })))
  const messageOf = (bytes: number) => {
    const frame = '{"type":"ping","x":""}'
    return JSON.parse(`${frame.slice(0, -2)}${'x'.repeat(bytes - frame.length)}"}`)
  }

  test.each<[string, ClientMessageInput, string]>([
    [`${maxTools} tools`, many(maxTools), 'tools/accepted'],
    [`a name of ${maxNameLength}`, list([{ name: 'x'.repeat(maxNameLength) }]), 'tools/accepted'],
    [
      `a schema of ${maxSchemaBytes} bytes`,
      list([{ name: 'a', inputSchema: schemaOf(maxSchemaBytes) }]),
      'tools/accepted',
    ],
    [`a message of ${maxMessageBytes} bytes`, messageOf(maxMessageBytes), 'pong'],
  ])('%s is accepted', async (_, message, answer) => {
    const page = await shop.page(undefined)
    page.send(message)
    await page.next(answer as 'pong')
  })

  test.each<[string, ClientMessageInput, string]>([
    [`${maxTools + 1} tools`, many(maxTools + 1), 'A source can have at most 512 tools'],
    ['10 000 tools', many(10_000), 'A source can have at most 512 tools'],
    [`a name of ${maxNameLength + 1}`, list([{ name: 'x'.repeat(maxNameLength + 1) }]), 'tools.0.name: Too big'],
    ['an empty name', list([{ name: '' }]), 'tools.0.name: Too small'],
    [
      `a schema of ${maxSchemaBytes + 1} bytes`,
      list([{ name: 'a', inputSchema: schemaOf(maxSchemaBytes + 1) }]),
      'A tool’s schema can have at most 65536 bytes',
    ],
    [
      'a schema of almost 1 MiB',
      list([{ name: 'a', inputSchema: schemaOf(maxMessageBytes - 100) }]),
      'A tool’s schema',
    ],
    [
      `a message of ${maxMessageBytes + 1} bytes`,
      messageOf(maxMessageBytes + 1),
      'A message can have at most 1048576 bytes',
    ],
    ['a message of 20 MiB', messageOf(20 * maxMessageBytes), 'A message can have at most 1048576 bytes'],
  ])('%s closes the socket with 1009 and a reason', async (_, message, reason) => {
    const neighbour = await shop.page(undefined)
    const page = await shop.page(undefined)
    page.send(message)
    expect(await page.closed).toEqual({ code: 1009, reason: expect.stringContaining(reason) })
    await neighbour.settled()
  })

  test.each<[string, ClientMessageInput[]]>([
    ['many definitions', [...Array(8).fill(many(maxTools)), many(300)]],
    ['many bytes', [...Array(4).fill(messageOf(maxMessageBytes)), messageOf(300 * 1024)]],
  ])('a page that sends %s is read more slowly', async (_, messages) => {
    const page = await shop.page(undefined)
    const before = performance.now()
    for (const message of [...messages, { type: 'ping' } as const]) page.send(message)
    const answers = () => [...page.unread('pong'), ...page.unread('tools/accepted')]
    await expect.poll(answers).toHaveLength(messages.length + 1)
    expect(performance.now() - before).toBeGreaterThan(1_000)
  })

  test('tools in several messages count together', async () => {
    const page = await shop.page(undefined)
    page.send(many(maxTools))
    page.send({ type: 'tools/changed', set: [{ name: 'one more' }] })
    expect(await page.closed).toEqual({ code: 1009, reason: 'A source can have at most 512 tools' })
  })

  test('the total size of all definitions is limited', async () => {
    const page = await shop.page(undefined)
    const perMessage = 15
    const messages = Math.ceil(maxDefinitionBytes / (perMessage * maxSchemaBytes))
    for (let n = 0; n < messages; n += 1) {
      const set = Array.from({ length: perMessage }, (_, i) => ({
        name: `${n}-${i}`,
        inputSchema: schemaOf(maxSchemaBytes),
      }))
      page.send({ type: 'tools/changed', set })
    }
    expect(await page.closed).toEqual({ code: 1009, reason: expect.stringContaining('4194304 bytes') })
    expect(page.unread('tools/accepted')).toHaveLength(messages - 1)
  })

  test('a message with too many fragments closes the socket', async () => {
    const page = await shop.page(undefined)
    for (let n = 0; n < 20_000 && page.socket.readyState === 1; n += 1) page.socket.send('x', { fin: false })
    expect(await page.closed).toEqual({ code: 1008, reason: 'A message has too many fragments' })
  })

  test('a page that stops reading is closed and its calls fail, without affecting other pages', async () => {
    const page = await shop.page(member)
    await offer(page, 'add')
    const neighbour = await shop.page(member, { hello: { tab_id: 'tab-2' } })
    await offer(neighbour, 'pay')
    neighbour.answer(() => 'paid')
    page.socket.pause()
    const args = { text: 'x'.repeat(900_000) }
    const outcomes = await Promise.allSettled(Array.from({ length: 20 }, () => me.call('add', args)))
    expect(outcomes.every(({ status }) => status === 'rejected')).toBe(true)
    expect((await me.sources()).map(({ sourceId }) => sourceId)).toEqual([neighbour.ready.session])
    expect((await me.call('pay')).content[0]).toEqual({ type: 'text', text: 'paid' })
    page.socket.resume()
    expect((await page.closed).code).not.toBe(1000)
  })
})

describe('too many tabs, sockets and pings', () => {
  test('an end user’s 51st tab is closed with a reason; the others stay, and closing one makes room', async () => {
    const shop = await useShop()
    const tab = (n: number) => ({ hello: { tab_id: `tab-${n}` } })
    const pages = await Promise.all(Array.from({ length: 50 }, (_, n) => shop.page(member, tab(n))))
    const more = await openSocket(shop.local, await shop.ticket(member))
    const hello = { type: 'hello', tab_id: 'tab-51', url: `${pageOrigin}/`, title: '' }
    more.socket.send(JSON.stringify(hello))
    const reason = 'This user already has 50 tabs open on this server'
    expect(await more.next('bye')).toEqual({ type: 'bye', code: 'over_limit', reason })
    expect(await more.closed).toEqual({ code: 1009, reason })
    await Promise.all(pages.map((page) => page.settled()))
    await shop.page({ sub: 'ann' })
    pages[0]?.socket.terminate()
    await pages[0]?.closed
    const { session, resume_secret: secret } = (pages[0] as Page).ready
    const back = await shop.page(member, { hello: { tab_id: 'tab-0', resume: { session, secret } } })
    expect(back.ready.resumed, 'a resumed tab isn’t counted again').toBe(true)
    back.send({ type: 'bye' })
    await back.closed
    await shop.page(member, tab(51))
    expect(await refusalsOf(shop)).toMatchObject([{ step: 'tabs', code: 'OVER_LIMIT', message: reason, count: 1 }])
  })

  test('an end user’s 101st socket is refused, recorded for the administrator and counted', async () => {
    const shop = await useShop()
    const open = async () => openSocket(shop.local, await shop.ticket(member))
    const sockets: Awaited<ReturnType<typeof open>>[] = []
    for (let part = 0; part < 4; part += 1) sockets.push(...(await Promise.all(Array.from({ length: 25 }, open))))
    const text = 'This user already has 100 sockets open on this server'
    const answer = await refusal(shop, offering(await shop.ticket(member)))
    expect(answer).toEqual({ status: 429, text, retryAfter: '5' })
    expect(await refusalsOf(shop)).toMatchObject([
      { step: 'sockets', code: 'OVER_LIMIT', message: text, count: 1, publishable_key_id: shop.keyId },
    ])
    const counted = (await shop.service.metrics.render()).match(/^inlay_refusals_total.*OVER_LIMIT.*$/gm)
    expect(counted).toEqual(['inlay_refusals_total{surface="ticket",code="OVER_LIMIT"} 1'])
    sockets[0]?.socket.terminate()
    await vi.waitFor(open)
  })

  async function refusalsOf(shop: Shop) {
    const token = await shop.tokenFor('admin@demo.test', 'demo')
    return (await shop.request('GET', '/diagnostics/refusals', { token })).body.refusals
  }

  /** Sends pings without reading the pongs. */
  async function flood(socket: WebSocket, hasEnded: () => Promise<boolean>): Promise<boolean> {
    socket.pause()
    for (let round = 0; round < 300; round += 1) {
      for (let n = 0; n < 1_000; n += 1) socket.ping(Buffer.alloc(125))
      await setImmediate()
      if (await hasEnded()) return true
    }
    return false
  }

  test('a page that floods the server with pings without reading is closed', async () => {
    const page = await shop.page(member)
    expect(await flood(page.socket, async () => (await me.sources()).length === 0)).toBe(true)
    expect(await shop.service.metrics.render()).toContain('{surface="runtime",code="too_slow"}')
  })

  test('a socket that floods the server before its hello is closed', async () => {
    const shop = await useShop()
    const { socket } = await openSocket(shop.local, await shop.ticket())
    const count = '{surface="runtime",code="too_slow"}'
    expect(await flood(socket, async () => (await shop.service.metrics.render()).includes(count))).toBe(true)
  })

  test('a page that reads gets a pong for each ping', async () => {
    const page = await shop.page(undefined)
    let pongs = 0
    page.socket.on('pong', () => {
      pongs += 1
    })
    for (let n = 0; n < 5_000; n += 1) page.socket.ping()
    await page.settled()
    expect(pongs).toBe(5_000)
  })
})

describe('liveness', () => {
  test('a page is pinged every 15 seconds and stays while it responds', async () => {
    const page = await shop.page(member)
    for (let round = 0; round < 4; round += 1) {
      const pinged = once(page.socket, 'ping')
      shop.pass(14_999)
      shop.pass(1)
      await pinged
      const lastSeenAt = new Date(shop.clock.now).toISOString()
      await vi.waitFor(async () => expect(await me.sources()).toMatchObject([{ lastSeenAt }]))
    }
    expect(page.socket.readyState).toBe(1)
  })

  test('a page that doesn’t respond is removed after 25 seconds', async () => {
    const page = await shop.page(member, { client: { autoPong: false } })
    shop.pass(15_000)
    shop.pass(9_999)
    expect(await me.sources()).toHaveLength(1)
    shop.pass(1)
    expect(await me.sources()).toEqual([])
    await page.closed
  })

  test('a page that changes its URL stays the same source', async () => {
    const page = await shop.page(member)
    page.send({ type: 'page', url: `${pageOrigin}/pens#blue`, title: 'Pens' })
    await page.settled()
    const found = (await me.sources()).filter(({ sourceId }) => sourceId === page.ready.session)
    expect(found).toMatchObject([{ url: `${pageOrigin}/pens`, title: 'Pens' }])
    page.send({ type: 'page', url: 'https://elsewhere.example/', title: 'Pens' })
    expect(await page.closed).toMatchObject({ code: 1008, reason: 'url doesn’t match the ticket’s origin' })
  })

  test('a ping message gets a pong', async () => {
    const page = await shop.page(undefined)
    page.send({ type: 'ping' })
    expect(await page.next('pong')).toEqual({ type: 'pong' })
  })
})

describe('a page that reconnects', () => {
  const resumeOf = ({ ready }: Page) => ({ session: ready.session, secret: ready.resume_secret })

  async function dropped(who: Person = member, clean?: number) {
    const page = await shop.page(who)
    await offer(page, 'add')
    const call = me.call('add', { n: 1 })
    const outcome = call.then(
      ({ content }) => content[0],
      ({ envelope }) => envelope.code,
    )
    const { call_id } = await page.next('tool/call')
    if (clean) page.socket.close(clean)
    else page.socket.terminate()
    return { page, outcome, call_id }
  }

  test('resumes its session with its tools; the pending call is sent again and settled once', async () => {
    const { page, outcome, call_id } = await dropped()
    const back = await shop.page(member, { hello: { resume: resumeOf(page) } })
    expect(back.ready).toMatchObject({ session: page.ready.session, resumed: true })
    expect(back.ready.resume_secret).not.toBe(page.ready.resume_secret)
    expect(await me.sources()).toMatchObject([{ sourceId: page.ready.session, toolCount: 1 }])
    expect(await back.next('tool/call')).toMatchObject({ call_id, name: 'add', args: { n: 1 } })
    back.send({ type: 'tool/result', call_id, result: 'once' })
    back.send({ type: 'tool/result', call_id, result: 'twice' })
    expect(await outcome).toEqual({ type: 'text', text: 'once' })
    const again = await shop.page(member, { hello: { resume: resumeOf(back) } })
    await again.settled()
    expect([...back.unread('tool/call'), ...again.unread('tool/call')], 'a settled call is not sent again').toEqual([])
  })

  test('can resume before the server notices the disconnect', async () => {
    const page = await shop.page(member)
    const back = await shop.page(member, { hello: { title: 'Back', resume: resumeOf(page) } })
    expect(back.ready).toMatchObject({ session: page.ready.session, resumed: true })
    expect((await page.closed).code).toBe(1006)
    await back.settled()
    expect(await me.sources(), 'the current title').toMatchObject([{ title: 'Back' }])
  })

  test('gets a call that was made while it was disconnected', async () => {
    const { page, outcome, call_id } = await dropped()
    const late = me.call('add', { n: 2 })
    const back = await shop.page(member, { hello: { resume: resumeOf(page) } })
    const calls = [await back.next('tool/call'), await back.next('tool/call')]
    expect(calls.map(({ args }) => args.n)).toEqual([1, 2])
    for (const { call_id, args } of calls) back.send({ type: 'tool/result', call_id, result: `n${args.n}` })
    expect(await outcome).toEqual({ type: 'text', text: 'n1' })
    expect((await late).content[0]).toEqual({ type: 'text', text: 'n2' })
    expect(calls[0]?.call_id).toBe(call_id)
  })

  test.each<[string, (page: Page) => Promise<Page>]>([
    [
      'with a wrong secret',
      ({ ready }) => shop.page(member, { hello: { tab_id: 'b', resume: { session: ready.session, secret: 'wrong' } } }),
    ],
    [
      'with the right secret and a visitor’s ticket',
      (page) => shop.page(undefined, { hello: { tab_id: 'b', resume: resumeOf(page) } }),
    ],
    [
      'with the right secret and another end user’s ticket',
      (page) => shop.page({ sub: 'eve' }, { hello: { tab_id: 'b', resume: resumeOf(page) } }),
    ],
    [
      'with an address that is no longer verified',
      (page) => shop.page(unverified, { hello: { tab_id: 'b', resume: resumeOf(page) } }),
    ],
    [
      'with the secret of an unknown node',
      ({ ready }) =>
        shop.page(member, { hello: { tab_id: 'b', resume: { session: ready.session, secret: 'nowhere.secret' } } }),
    ],
  ])('%s starts a new session and leaves the old one intact', async (_, comeBack) => {
    const { page, outcome } = await dropped()
    const stranger = await comeBack(page)
    expect(stranger.ready).toMatchObject({ resumed: false })
    expect(stranger.ready.session).not.toBe(page.ready.session)
    await stranger.settled()
    expect(stranger.unread('tool/call')).toEqual([])
    const back = await shop.page(member, { hello: { resume: resumeOf(page) } })
    expect(back.ready.resumed).toBe(true)
    back.answer(() => 'still there')
    expect(await outcome).toEqual({ type: 'text', text: 'still there' })
  })

  test.each([1000, 1001])('after close code %i starts a new session', async (code) => {
    const { page, outcome } = await dropped(member, code)
    expect(await outcome).toBe('SOURCE_GONE')
    const back = await shop.page(member, { hello: { resume: resumeOf(page) } })
    expect(back.ready.resumed).toBe(false)
  })

  test('after 25 seconds starts a new session', async () => {
    const { page, outcome } = await dropped()
    await vi.waitFor(async () => {
      shop.pass(25_000)
      expect(await me.sources()).toEqual([])
    })
    expect(await outcome).toBe('SOURCE_GONE')
    const back = await shop.page(member, { hello: { resume: resumeOf(page) } })
    expect(back.ready.resumed).toBe(false)
  })

  test('isn’t necessary after the server itself was suspended: its pages get the whole time again', async () => {
    const shop = await useShop()
    const page = await shop.page(member)
    const pinged = once(page.socket, 'ping')
    const now = Date.now
    const suspended = vi.spyOn(Date, 'now').mockImplementation(() => now() + 26_000)
    onTestFinished(() => suspended.mockRestore())
    shop.clock.now += 26_000
    await Promise.race([pinged, page.closed.then(({ code }) => Promise.reject(new Error(`Closed with ${code}`)))])
  })

  test('with a used secret starts a new session', async () => {
    const page = await shop.page(member)
    const back = await shop.page(member, { hello: { resume: resumeOf(page) } })
    back.socket.terminate()
    const thief = await shop.page(member, { hello: { resume: resumeOf(page), tab_id: 'b' } })
    expect(thief.ready.resumed).toBe(false)
  })
})

describe('the identity', () => {
  test('is requested again before it expires, and a new ticket extends it', async () => {
    const shop = await useShop()
    const page = await shop.page(undefined)
    const { expires_at } = page.ready
    await stay(shop, page, expires_at - 120_000 - shop.clock.now - 1)
    expect(page.unread('reauth')).toEqual([])
    await stay(shop, page, 1)
    expect(await page.next('reauth')).toEqual({ type: 'reauth', before: expires_at })
    page.send({ type: 'reauth', ticket: await shop.ticket() })
    const renewed = await page.next('reauthed')
    expect(renewed.expires_at).toBe(shop.clock.now + 3_600_000)
    await stay(shop, page, 200_000)
    expect(page.socket.readyState).toBe(1)
  })

  test('from an ID token expires with the token', async () => {
    const shop = await useShop()
    const page = await shop.page(member)
    expect(page.ready.expires_at).toBeLessThanOrEqual(shop.clock.now + 3_600_000)
    await stay(shop, page, page.ready.expires_at - shop.clock.now)
    expect(await page.next('bye')).toMatchObject({ code: 'identity_expired', retry_after_ms: 0 })
    expect(await page.closed).toEqual({ code: 4401, reason: 'The identity has expired' })
  })

  test.each<[string, (shop: Shop) => Promise<string>]>([
    ['the ticket of another end user', (shop) => shop.ticket({ sub: 'eve' })],
    ['a visitor’s ticket', (shop) => shop.ticket(undefined)],
    ['a made-up ticket', async () => 'made-up'],
    ['a ticket whose address is no longer verified', (shop) => shop.ticket(unverified)],
  ])('can’t be extended with %s', async (_, ticket) => {
    const page = await shop.page(member)
    page.send({ type: 'reauth', ticket: await ticket(shop) })
    expect(await page.closed).toEqual({ code: 4401, reason: 'The ticket is not valid for this session' })
    await vi.waitFor(async () => expect(await me.sources()).toEqual([]))
  })
})

/** Lets time pass while the page responds. */
async function stay(shop: Shop, page: Page, milliseconds: number): Promise<void> {
  for (let left = milliseconds; left > 0; left -= 20_000) {
    await page.settled()
    shop.pass(Math.min(left, 20_000))
  }
}

/** These changes aren't announced, as if the messages were lost. */
describe('an unannounced change in the database', () => {
  const change = async (shop: Shop, what: Parameters<typeof shop.service.database.asOrg>[1]) =>
    shop.service.database.asOrg(await shop.organization('demo'), what)
  const revokeKey = (shop: Shop) => (sql: Sql) =>
    sql`update publishable_keys set revoked_at = now() where id = ${shop.keyId}`

  test.each<[string, (shop: Shop) => (sql: Sql) => Promise<unknown>, object]>([
    ['a revoked key', revokeKey, { code: 4403, reason: 'The publishable key was revoked' }],
    [
      'a deleted end user',
      () => (sql) => sql`delete from end_users`,
      { code: 4403, reason: 'The end user was deleted' },
    ],
  ])('(%s) ends its sessions within 30 seconds', async (_, what, closed) => {
    const shop = await useShop()
    const page = await shop.page(member)
    await change(shop, what(shop))
    await stay(shop, page, 29_999)
    await page.settled()
    shop.pass(1)
    expect(await page.closed).toEqual(closed)
  })

  test.each<[string, (shop: Shop) => (sql: Sql) => Promise<unknown>]>([
    ['another provider', () => (sql) => sql`update identity_providers set idp_issuer = 'http://localhost:1'`],
    ['no provider', () => (sql) => sql`delete from identity_providers`],
    ['other origins', () => (sql) => sql`update publishable_keys set allowed_origins = '{https://other.example}'`],
  ])('(%s) asks sessions for new tickets within 30 seconds', async (_, what) => {
    const shop = await useShop()
    const page = await shop.page(member)
    await change(shop, what(shop))
    await stay(shop, page, 30_000)
    expect(await page.next('reauth')).toEqual({ type: 'reauth', before: shop.clock.now + 30_000 })
    await page.settled()
    shop.pass(20_000)
    await page.settled()
    shop.pass(10_000)
    expect((await page.closed).code).toBe(4401)
  })

  test('closes sockets that haven’t sent hello, and keeps those with another key open', async () => {
    const shop = await useShop()
    shop.pass(25_000)
    const guest = await openSocket(shop.local, await shop.ticket())
    const other = await shop.otherKeysPage()
    await change(shop, revokeKey(shop))
    shop.pass(5_000)
    expect((await guest.closed).code).toBe(4403)
    await stay(shop, other, 60_000)
    expect(other.unread('reauth')).toEqual([])
  })

  test('keeps sockets open and retries while the database fails', async () => {
    const shop = await useShop()
    const owner = new pg.Client(shop.stores.owner)
    await owner.connect()
    onTestFinished(() => owner.end())
    const page = await shop.page(member)
    await change(shop, revokeKey(shop))
    await owner.query('alter table publishable_keys rename to elsewhere')
    await stay(shop, page, 30_000)
    await vi.waitFor(() => expect(shop.logged()).toContain('Could not recheck ticket holders'))
    await page.settled()
    await owner.query('alter table elsewhere rename to publishable_keys')
    await stay(shop, page, 29_999)
    await page.settled()
    shop.pass(1)
    expect((await page.closed).code).toBe(4403)
  })

  test('keeps the session and requests another ticket if a ticket can’t be checked', async () => {
    const shop = await useShop()
    const owner = new pg.Client(shop.stores.owner)
    await owner.connect()
    onTestFinished(() => owner.end())
    const page = await shop.page(undefined)
    await stay(shop, page, page.ready.expires_at - 120_000 - shop.clock.now)
    await page.next('reauth')
    const ticket = await shop.ticket()
    await owner.query('alter table publishable_keys rename to elsewhere')
    page.send({ type: 'reauth', ticket })
    await vi.waitFor(() => expect(shop.logged()).toContain('Could not check a ticket'))
    await owner.query('alter table elsewhere rename to publishable_keys')
    await stay(shop, page, 30_000)
    await page.next('reauth')
    page.send({ type: 'reauth', ticket: await shop.ticket() })
    await page.next('reauthed')
  })
})

describe('changes by an administrator', () => {
  test('revoking a key closes its sockets at once, and no others', async () => {
    const shop = await useShop()
    const token = await shop.tokenFor('admin@demo.test', 'demo')
    // First, because a key for other origins ends what unconfirmed pages were shown.
    const other = await shop.otherKeysPage()
    const pages = [await shop.page(member), await shop.page(undefined)]
    const guest = await openSocket(shop.local, await shop.ticket())
    await shop.request('DELETE', `/publishable-keys/${shop.keyId}`, { token })
    for (const page of pages) {
      const bye = await page.next('bye')
      expect(bye).toEqual({ type: 'bye', code: 'key_revoked', reason: 'The publishable key was revoked' })
      expect(await page.closed).toEqual({ code: 4403, reason: 'The publishable key was revoked' })
    }
    expect((await guest.closed).code).toBe(4403)
    await other.settled()
    expect(other.socket.readyState).toBe(1)
  })

  test('changing a key asks its pages for new tickets and closes those without one', async () => {
    const shop = await useShop()
    const token = await shop.tokenFor('admin@demo.test', 'demo')
    const [stays, goes] = [await shop.page(member), await shop.page(undefined)]
    const change = (body: object) => shop.request('PATCH', `/publishable-keys/${shop.keyId}`, { token, body })
    await change({ name: 'Renamed' })
    for (const page of [stays, goes]) {
      expect(await page.next('reauth')).toEqual({ type: 'reauth', before: shop.clock.now + 30_000 })
    }
    stays.send({ type: 'reauth', ticket: await shop.ticket(member) })
    await stays.next('reauthed')
    await goes.settled()
    shop.pass(20_000)
    await Promise.all([stays.settled(), goes.settled()])
    shop.pass(10_000)
    expect((await goes.closed).code).toBe(4401)
    await stays.settled()
  })

  test('changing the identity provider asks the organization’s pages for new tickets', async () => {
    const shop = await useShop()
    const token = await shop.tokenFor('admin@demo.test', 'demo')
    const page = await shop.page(member)
    await shop.request('PATCH', '/identity-providers/config', { token, body: { allowed_audiences: ['elsewhere'] } })
    expect(await page.next('reauth')).toMatchObject({ before: shop.clock.now + 30_000 })
  })

  test('deleting an end user closes their pages', async () => {
    const shop = await useShop()
    const token = await shop.tokenFor('admin@demo.test', 'demo')
    const [page, other] = [await shop.page(member), await shop.page({ sub: 'ann' })]
    await shop.request('DELETE', `/end-users/${page.ready.user.id}`, { token })
    expect(await page.next('bye')).toMatchObject({ code: 'user_removed' })
    expect(await page.closed).toEqual({ code: 4403, reason: 'The end user was deleted' })
    await other.settled()
  })

  test('definitions beyond the memory budget are refused and recorded for the administrator', async () => {
    const shop = await useShop()
    const token = await shop.tokenFor('admin@demo.test', 'demo')
    const large = (n: number) => ({ name: `tool-${n}`, inputSchema: { text: `${n}`.padEnd(60_000, 'x') } })
    const most = definitionBudget.organization / 60_000
    const pages = await Promise.all(Array.from({ length: Math.ceil(most / 60) }, () => shop.page(undefined)))
    let refused: { name: string; reason: string }[] = []
    for (const [n, page] of pages.entries()) {
      for (let part = 0; part < 4; part += 1) {
        const set = Array.from({ length: 15 }, (_, i) => large(n * 60 + part * 15 + i))
        page.send({ type: 'tools/changed', set })
        refused = [...refused, ...(await page.next('tools/accepted')).refused]
      }
    }
    expect(refused.length).toBeGreaterThan(0)
    for (const { reason } of refused)
      expect(reason).toBe('The server’s memory for tool definitions is full. Try again later.')
    const { refusals } = (await shop.request('GET', '/diagnostics/refusals', { token })).body
    expect(refusals).toMatchObject([{ step: 'definitions', code: 'OVER_LIMIT' }])
    const user = await shop.page(member)
    user.send({ type: 'tools/list', tools: [large(-2)] })
    expect((await user.next('tools/accepted')).refused, 'a user has what visitors can’t take').toEqual([])
    pages[0]?.send({ type: 'bye' })
    await pages[0]?.closed
    pages.at(-1)?.send({ type: 'tools/changed', set: [large(-1)] })
    expect((await pages.at(-1)?.next('tools/accepted'))?.refused, 'a page that leaves makes room').toEqual([])
  })

  test('a draining server closes its pages with different retry times', async () => {
    const shop = await useShop()
    const pages = await Promise.all(Array.from({ length: 20 }, () => shop.page(undefined)))
    const guest = await openSocket(shop.local, await shop.ticket())
    shop.drain()
    const byes = await Promise.all(pages.map((page) => page.next('bye')))
    for (const { code, reason } of byes) expect([code, reason]).toEqual(['restarting', 'The server is restarting'])
    const moments = byes.map(({ retry_after_ms }) => retry_after_ms ?? -1)
    expect(Math.min(...moments)).toBeGreaterThanOrEqual(0)
    expect(Math.max(...moments)).toBeLessThan(5_000)
    expect(new Set(moments).size).toBeGreaterThan(10)
    for (const page of pages) expect((await page.closed).code).toBe(1012)
    expect((await guest.closed).code).toBe(1012)
  })
})
