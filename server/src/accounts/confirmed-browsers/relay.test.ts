import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { type AgentShop, startAgentShop } from '../../../test/agent-shop.ts'
import { openChat } from '../../../test/chat.ts'
import { type Delegation, startDelegation } from '../../../test/delegation.ts'
import { confirmFrame, createFrameKey, type FrameKey } from '../../../test/frames.ts'
import { offer, openPage, type Page, pageOrigin } from '../../../test/page.ts'
import type { Person } from '../../../test/shop.ts'

// A script of one site of an organization gives what it has to a program outside the browser, which then acts as the
// chat's frame: it sends whatever headers it likes. It must not get at the user's other sites or at tool servers.

const elsewhere = 'https://crm.example'
type User = NonNullable<Person>

let shop: AgentShop
beforeAll(async () => {
  shop = await startAgentShop()
})
afterAll(() => shop.close())

const someone = (): User => ({ sub: randomUUID(), email: `${randomUUID()}@demo.test`, email_verified: true })

const asDemo = <Row>(work: Parameters<typeof shop.service.database.asOrg<Row[]>>[1]) =>
  shop.service.database.asOrg(shop.demo, work)

/** A conversation at another site, in which the agent asks whether it may call a tool of that site. */
async function converseElsewhere(user: User) {
  shop.model.follow(() => ({ calls: [{ name: 'delete_all', args: { all: true } }] }))
  const page = await shop.page(user, { hello: { tab_id: 'crm' } })
  await offer(page, 'delete_all')
  const chat = openChat(page)
  const { calls } = await chat.rest(await chat.say('Delete everything'), 'waiting')
  const callId = calls[0]?.id ?? ''
  await asDemo((sql) => sql`update threads set origin = ${elsewhere} where id = ${chat.thread}`)
  await asDemo(
    (sql) => sql`update tool_calls set tool = jsonb_set(tool, '{origin}', ${`"${elsewhere}"`}) where id = ${callId}`,
  )
  return { page, thread: chat.thread, callId }
}

/** Confirms a frame of the user, as in the browser that the user really has. */
async function confirmOne(user: User): Promise<FrameKey> {
  const frame = await createFrameKey(shop.url, () => shop.clock.now)
  const { userId } = await shop.frameTicket(user, frame)
  await confirmFrame(shop, frame, userId, { issuer: shop.issuer })
  return frame
}

type Relay = (user: User) => Promise<string>

const relays: [string, Relay][] = [
  ['the page’s ticket', (user) => shop.ticket(user)],
  [
    'the ID token, with a forged origin',
    async (user) => {
      const { body } = await shop.request('POST', '/auth/pk-ticket', {
        headers: { origin: shop.url },
        body: {
          publishable_key: shop.publishableKey,
          id_token: await shop.idToken(user),
          embedding_origin: pageOrigin,
        },
      })
      return body.ticket
    },
  ],
  [
    'the ID token, with a forged origin and a key of its own',
    async (user) => {
      const key = await createFrameKey(shop.url, () => shop.clock.now)
      return (await shop.frameTicket(user, key)).ticket
    },
  ],
  [
    'the ID token, with a key that another user has confirmed',
    async (user) => (await shop.frameTicket(user, await confirmOne(someone()))).ticket,
  ],
]

describe.each<[string, (user: User) => Promise<unknown>]>([
  ['who has never confirmed a browser', async () => undefined],
  ['who has confirmed a browser', confirmOne],
])('a program with what a page knows of a user %s', (_, prepare) => {
  test.each(relays)('has no use for %s', async (_, relay) => {
    const user = someone()
    await prepare(user)
    const { page, thread, callId } = await converseElsewhere(user)
    const socket = await openPage(shop.local, await relay(user), {
      origin: shop.url,
      hello: { tab_id: 'relay', url: `${pageOrigin}/` },
    })
    const chat = openChat(socket)
    const list = await chat.request({ type: 'chat/threads' }, 'chat/thread-list')
    expect(list.threads, 'threads of another origin').toEqual([])
    for (const type of ['chat/messages', 'chat/resume', 'chat/abort', 'chat/delete-thread'] as const)
      expect(await chat.refusal({ type, thread_id: thread }), type).toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
    const message = { id: randomUUID(), text: 'Go on' }
    expect(await chat.refusal({ type: 'chat/send', thread_id: thread, message })).toMatchObject({
      code: 'RESOURCE_NOT_FOUND',
    })
    expect(await chat.refusal({ type: 'chat/decide', call_id: callId, approved: true })).toMatchObject({
      code: 'RESOURCE_NOT_FOUND',
    })
    await page.settled()
    expect(page.unread('tool/call')).toEqual([])
  })

  test('can’t approve a call of another site’s tool in a conversation of its own site', async () => {
    const user = someone()
    await prepare(user)
    const { page, thread, callId } = await converseElsewhere(user)
    await asDemo((sql) => sql`update threads set origin = ${pageOrigin} where id = ${thread}`)
    for (const [name, relay] of relays) {
      const socket = await openPage(shop.local, await relay(user), {
        origin: shop.url,
        hello: { tab_id: name.slice(0, 64), url: `${pageOrigin}/` },
      })
      const decide = { type: 'chat/decide' as const, call_id: callId, approved: true }
      expect(await openChat(socket).refusal(decide), name).toMatchObject({ code: 'APPROVE_IN_PANEL' })
    }
    await page.settled()
    expect(page.unread('tool/call')).toEqual([])
  })
})

test('a page on the origin of a tool server can’t approve its calls', async () => {
  const user = someone()
  const { page, thread, callId } = await converseElsewhere(user)
  const connector = { kind: 'connector', name: 'crm.delete_all', origin: pageOrigin, connector: randomUUID() }
  await asDemo((sql) => sql`update threads set origin = ${pageOrigin} where id = ${thread}`)
  await asDemo((sql) => sql`update tool_calls set tool = ${JSON.stringify(connector)}::jsonb where id = ${callId}`)
  const decide = { type: 'chat/decide' as const, call_id: callId, approved: true }
  expect(await openChat(page).refusal(decide)).toMatchObject({ code: 'APPROVE_IN_PANEL' })
})

test('the user’s own frame sees the conversations of all sites, and answers there', async () => {
  const user = someone()
  const frame = await confirmOne(user)
  const { page, thread, callId } = await converseElsewhere(user)
  const { ticket } = await shop.frameTicket(user, frame)
  const chat = openChat(
    await openPage(shop.local, ticket, { origin: shop.url, hello: { tab_id: 'frame', url: `${pageOrigin}/` } }),
  )
  const list = await chat.request({ type: 'chat/threads' }, 'chat/thread-list')
  expect(list.threads.map(({ id }) => id)).toEqual([thread])
  await chat.request({ type: 'chat/decide', call_id: callId, approved: false }, 'chat/done')
  await page.settled()
})

test('a confirmed frame’s ticket is worth no more than the page’s without the server’s own origin', async () => {
  const user = someone()
  const frame = await confirmOne(user)
  await converseElsewhere(user)
  const { ticket } = await shop.frameTicket(user, frame)
  const chat = openChat(await openPage(shop.local, ticket, { hello: { tab_id: 'page' } }))
  expect((await chat.request({ type: 'chat/threads' }, 'chat/thread-list')).threads).toEqual([])
})

test('a program with the public key alone gets no more than a new visitor', async () => {
  await shop.request('PATCH', '/agent/config', { token: shop.admin, body: { anonymous: { is_enabled: true } } })
  shop.model.follow(() => ({ text: ['Hello'] }))
  const visitor = openChat(
    await shop.page(undefined, { origin: shop.url, hello: { visitor_secret: randomUUID(), url: `${pageOrigin}/` } }),
  )
  await visitor.rest(await visitor.say('Hi'))
  const relay = openChat(
    await shop.page(undefined, {
      origin: shop.url,
      hello: { tab_id: 'relay', visitor_secret: randomUUID(), url: `${pageOrigin}/` },
    }),
  )
  expect((await relay.request({ type: 'chat/threads' }, 'chat/thread-list')).threads).toEqual([])
  expect(await relay.refusal({ type: 'chat/messages', thread_id: visitor.thread })).toMatchObject({
    code: 'RESOURCE_NOT_FOUND',
  })
})

describe('a question of the hub', () => {
  let world: Delegation
  let paid = 0
  beforeAll(async () => {
    world = await startDelegation()
    await world.asAdmin('PUT', '/identity-providers/frame-sign-in', { client_id: 'inlay', client_secret: null })
  })
  afterAll(() => world.close())
  afterEach(() => world.reset())

  async function setUp() {
    await world.addConnector()
    paid = 0
    world.tools.more = (server) =>
      server.registerTool('pay', { inputSchema: z.object({ sum: z.number() }) }, () => {
        paid += 1
        return { content: [] }
      })
    const me = await world.caller()
    return { pay: () => me.call('crm.pay', { sum: 5 }) }
  }

  const answerAll = (page: Page, call_id: string) => {
    for (const state of ['asking', 'allowed'] as const) page.send({ type: 'tool/approval', call_id, state })
    page.send({ type: 'tool/result', call_id, result: { allowed: true } })
  }

  test('is not shown to a program that has the user’s ID token, which can’t approve it either', async () => {
    const { pay } = await setUp()
    const relay = await world.relay()
    const answered = pay()
    const question = await relay.next('tool/ask')
    expect(question).toMatchObject({ args: {}, is_hidden: true })
    answerAll(relay, question.call_id)
    await relay.settled()
    expect([paid, relay.unread('tool/run')]).toEqual([0, []])
    relay.send({ type: 'bye' })
    await expect(answered).rejects.toMatchObject({ envelope: { code: 'APPROVAL_NEEDED' } })
    expect(paid).toBe(0)
  })

  test('goes to the user’s own frame, wherever else it could be asked', async () => {
    const { pay } = await setUp()
    const relay = await world.relay({ visible: true })
    const frame = await world.page({ hello: { tab_id: 'frame', visible: false } })
    const answered = pay()
    const { call_id, args } = await frame.next('tool/ask')
    expect(args).toEqual({ sum: 5 })
    answerAll(relay, call_id)
    await relay.settled()
    expect([paid, relay.unread('tool/ask')]).toEqual([0, []])
    frame.send({ type: 'tool/approval', call_id, state: 'allowed' })
    await answered
    expect(paid).toBe(1)
  })
})
