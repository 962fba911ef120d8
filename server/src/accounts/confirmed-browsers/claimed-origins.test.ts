import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { type AgentShop, startAgentShop } from '../../../test/agent-shop.ts'
import { type ChatPage, openChat } from '../../../test/chat.ts'
import { confirmFrame, createFrameKey, type FrameKey } from '../../../test/frames.ts'
import { offer, openPage, type Page, pageOrigin } from '../../../test/page.ts'
import type { Person } from '../../../test/shop.ts'
import { addKey } from '../../visitors/publishable-keys/keys.ts'

// A script of one site of an organization gives the user's ID token to a program outside the browser, which then claims
// to be a page of another site, or the chat's frame in it. What it can't have is the key of the user's frame there.

type User = NonNullable<Person>

let shop: AgentShop
beforeAll(async () => {
  shop = await startAgentShop()
})
afterAll(() => shop.close())

let user: User
beforeEach(() => {
  user = { sub: randomUUID() }
  shop.model.follow(() => ({ text: ['Hello'] }))
})

const newKey = () => createFrameKey(shop.url, () => shop.clock.now)

const asAdmin = async (method: string, path: string, body?: object) => {
  const response = await shop.request(method, path, { token: shop.admin, body })
  expect(response.status, JSON.stringify(response.body)).toBe(200)
  return response.body
}

/** Another site of the organization, until the end of the test. Without origins, the key works anywhere. */
async function addSite(allowed_origins = ['https://crm.example']) {
  const { id } = await asAdmin('POST', '/publishable-keys', { name: 'CRM', allowed_origins })
  onTestFinished(() => asAdmin('DELETE', `/publishable-keys/${id}`))
}

async function openFrame(key: FrameKey, tab_id = randomUUID(), resume?: { session: string; secret: string }) {
  const { ticket, userId } = await shop.frameTicket(user, key)
  const hello = { tab_id, url: `${pageOrigin}/`, ...(resume && { resume }) }
  const page = await openPage(shop.local, ticket, { origin: shop.url, hello })
  const frame = await page.next('frame')
  return { page, frame, confirm: () => confirmFrame(shop, key, userId, { issuer: shop.issuer }) }
}

const claims: [string, () => Promise<Page>][] = [
  ['as a page', () => shop.page(user, { hello: { tab_id: 'claim' } })],
  [
    'as a frame without a key',
    async () => {
      const { body } = await shop.request('POST', '/auth/pk-ticket', {
        headers: { origin: shop.url },
        body: {
          publishable_key: shop.publishableKey,
          id_token: await shop.idToken(user),
          embedding_origin: pageOrigin,
        },
      })
      return openPage(shop.local, body.ticket, { origin: shop.url, hello: { tab_id: 'claim', url: `${pageOrigin}/` } })
    },
  ],
  ['as a frame with a key of its own', async () => (await openFrame(await newKey())).page],
]

/** Conversations that a page lists, by search and without. */
async function listed({ request }: ChatPage): Promise<string[]> {
  const lists = [await request({ type: 'chat/threads' }, 'chat/thread-list')]
  lists.push(await request({ type: 'chat/threads', query: 'Hello' }, 'chat/thread-list'))
  return lists.flatMap(({ threads }) => threads.map(({ id }) => id))
}

/** A conversation in which the agent asks whether it may call a tool of the same page. */
async function converse(page: Page) {
  await offer(page, 'delete_all')
  shop.model.follow(() => ({ calls: [{ name: 'delete_all', args: { all: true } }] }))
  const chat = openChat(page)
  const run = await chat.say('Hello, delete everything')
  const { calls } = await chat.rest(run, 'waiting')
  return { chat, run, callId: calls[0]?.id ?? '' }
}

async function expectHidden(page: Page, { chat: { thread }, run, callId }: Awaited<ReturnType<typeof converse>>) {
  const chat = openChat(page)
  expect(await listed(chat)).toEqual([])
  const requests = [
    ...['messages', 'resume', 'abort', 'delete-thread'].map((type) => ({ type: `chat/${type}`, thread_id: thread })),
    { type: 'chat/change-thread', thread_id: thread, title: 'Mine' },
    { type: 'chat/send', thread_id: thread, message: { id: randomUUID(), text: 'Go on' } },
    { type: 'chat/decide', call_id: callId, approved: true },
    { type: 'chat/feedback', message_id: run, rating: 'down' },
  ]
  for (const request of requests)
    expect(await chat.refusal(request as never), request.type).toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
}

/** The names of the page tools that the model could call in a new conversation. */
async function offeredTo(page: Page): Promise<string[]> {
  let names: string[] = []
  shop.model.follow(({ tools = [] }) => {
    names = tools.map((tool) => tool.function.name).filter((name) => name.startsWith('page_'))
    return { text: ['Hello'] }
  })
  const chat = openChat(page)
  await chat.rest(await chat.say('Hello'))
  return names
}

describe.each(claims)('a program that claims another site %s', (_, claim) => {
  test('sees no conversation that began in the user’s frame there, and answers no question', async () => {
    await addSite()
    const { page } = await openFrame(await newKey())
    const conversation = await converse(page)
    await expectHidden(await claim(), conversation)
    expect(page.unread('tool/call')).toEqual([])
  })

  test('gets no calls from the user’s conversations there, and can’t have tools called there', async () => {
    await addSite()
    const frame = await openFrame(await newKey())
    await frame.confirm()
    await frame.page.next('frame')
    await offer(frame.page, 'page_real')
    const program = await claim()
    await offer(program, 'page_false')
    expect(await offeredTo(frame.page)).toEqual(['page_real'])
    expect(await offeredTo(program)).toEqual(['page_false'])
  })

  test('gets no call of the user’s conversation there, and makes none there, if the page that offered the tool is gone', async () => {
    await addSite()
    const { page } = await openFrame(await newKey())
    const program = await claim()
    for (const [asking, other] of [
      [page, program],
      [program, page],
    ] as const) {
      await offer(other, 'delete_all')
      const { chat, run, callId } = await converse(asking)
      await offer(asking, 'something_else')
      await chat.request({ type: 'chat/decide', call_id: callId, approved: true }, 'chat/done')
      const { calls } = await chat.until(run, ({ calls }) => calls[0]?.error !== undefined)
      expect(calls[0]?.error).toContain('nothing was done')
      expect([...page.unread('tool/call'), ...program.unread('tool/call')]).toEqual([])
    }
  })

  test('loses a conversation that it began once the user goes on with it in a confirmed frame', async () => {
    await addSite()
    const frame = await openFrame(await newKey())
    await frame.confirm()
    await frame.page.next('frame')
    for (const goOn of [
      (user: ChatPage) => user.say('Go on'),
      async ({ request, thread }: ChatPage) =>
        (await request({ type: 'chat/send', thread_id: thread, trigger: 'regenerate-message' }, 'chat/start')).run_id,
    ]) {
      const program = openChat(await claim())
      await program.rest(await program.say('Hello'))
      expect(await listed(program)).toContain(program.thread)
      const user = openChat(frame.page, program.thread)
      const run = await goOn(user)
      await user.rest(run)
      expect(program.run(run)).toMatchObject({ n: 0 })
      expect(await listed(program)).not.toContain(program.thread)
      expect(await program.refusal({ type: 'chat/messages', thread_id: program.thread })).toMatchObject({
        code: 'RESOURCE_NOT_FOUND',
      })
    }
  })

  test('keeps its pages from what the user decides in a confirmed frame', async () => {
    await addSite()
    const frame = await openFrame(await newKey())
    await frame.confirm()
    await frame.page.next('frame')
    const page = await claim()
    const tools = [
      { name: 'delete_all', description: 'Deletes all' },
      { name: 'look', description: 'Looks', annotations: { readOnlyHint: true } },
    ]
    page.send({ type: 'tools/list', tools })
    await page.next('tools/accepted')
    shop.model.follow(() => ({ calls: tools.map(({ name }) => ({ name, args: {} })) }))
    const program = openChat(page)
    const run = await program.say('Hello, delete everything')
    const { call_id } = await page.next('tool/call')
    const asking = await program.until(run, ({ calls }) => calls.some(({ question }) => question !== undefined))
    const question = asking.calls.find((call) => call.question !== undefined)?.id
    const user = openChat(frame.page, program.thread)
    for (const approved of [true, false]) {
      expect(await user.refusal({ type: 'chat/decide', call_id: question, approved })).toMatchObject({
        code: 'RUN_ACTIVE',
      })
    }
    expect(await listed(program)).toContain(program.thread)
    shop.model.follow(() => ({ text: ['Hello'] }))
    page.send({ type: 'tool/result', call_id, result: 'Seen' })
    await program.rest(run, 'waiting')
    await user.request({ type: 'chat/decide', call_id: question, approved: false }, 'chat/done')
    expect(await listed(program)).not.toContain(program.thread)
  })

  test('isn’t told which calls were made there, as the user’s confirmed frame is', async () => {
    const key = await newKey()
    const { page } = await openFrame(key)
    page.send({
      type: 'tools/list',
      tools: [{ name: 'look', description: 'Looks', annotations: { readOnlyHint: true } }],
    })
    await page.next('tools/accepted')
    page.answer(() => 'Seen')
    let isCalled = false
    shop.model.follow(() => {
      if (isCalled) return { text: ['Hello'] }
      isCalled = true
      return { calls: [{ name: 'look', args: {} }] }
    })
    const chat = openChat(page)
    await chat.rest(await chat.say('Hello'))
    expect((await (await claim()).next('calls/recent')).calls).toMatchObject([{ name: 'look' }])
    await addSite()
    const program = await claim()
    const frame = await openFrame(key)
    await frame.confirm()
    // Pages are told one after the other, so the program would know by now.
    expect((await (await openFrame(key)).page.next('calls/recent')).calls).toMatchObject([{ name: 'look' }])
    expect(program.unread('calls/recent')).toEqual([])
  })

  test('sees what began at the organization’s only site, until there is another one', async () => {
    const { page } = await openFrame(await newKey())
    const conversation = await converse(page)
    const program = await claim()
    expect(await listed(openChat(program))).toEqual([conversation.chat.thread, conversation.chat.thread])
    await addSite()
    expect(await program.closed).toMatchObject({ code: 4401, reason: 'The organization has another site' })
    await expectHidden(await claim(), conversation)
  })
})

test('a key for any origin counts as another site', async () => {
  const { page } = await openFrame(await newKey())
  const conversation = await converse(page)
  await addSite([])
  await expectHidden((await openFrame(await newKey())).page, conversation)
})

test('a session from before there was another site isn’t resumed', async () => {
  const key = await newKey()
  const { page } = await openFrame(key)
  page.socket.terminate()
  // As the operator's command does, which can't tell the servers.
  const { id } = await addKey(
    shop.service,
    { organizationId: shop.demo, actor: 'operator' },
    { name: 'CRM', allowed_origins: ['https://crm.example'] },
  )
  onTestFinished(() => asAdmin('DELETE', `/publishable-keys/${id}`))
  const { session, resume_secret } = page.ready
  const back = await openFrame(key, randomUUID(), { session, secret: resume_secret })
  expect(back.page.ready.resumed).toBe(false)
})

test('the user’s frame sees its conversations again, and those of other frames once both are confirmed', async () => {
  await addSite()
  const [key, other] = [await newKey(), await newKey()]
  const { page } = await openFrame(key)
  const { chat } = await converse(page)
  expect(await listed(openChat((await openFrame(key)).page))).toEqual([chat.thread, chat.thread])
  const second = await openFrame(other)
  expect(second.frame).toMatchObject({ is_confirmed: false, has_other_sites: true })
  expect(await listed(openChat(second.page))).toEqual([])
  await second.confirm()
  await second.page.next('frame')
  expect(await listed(openChat(second.page))).toEqual([chat.thread, chat.thread])
})

test('pages of two frames take part in each other’s conversations once both are confirmed', async () => {
  await addSite()
  const [one, other] = [await openFrame(await newKey()), await openFrame(await newKey())]
  await offer(one.page, 'page_one')
  await offer(other.page, 'page_other')
  for (const frame of [one, other]) {
    expect(await offeredTo(one.page)).toEqual(['page_one'])
    await frame.confirm()
    await frame.page.next('frame')
  }
  expect((await offeredTo(one.page)).sort()).toEqual(['page_one', 'page_other'])
})

test('a visitor’s conversation belongs to the frame in which the visitor signed in', async () => {
  await addSite()
  await asAdmin('PATCH', '/agent/config', { anonymous: { is_enabled: true } })
  const visitor_secret = randomUUID()
  const hello = { visitor_secret, tab_id: randomUUID(), url: `${pageOrigin}/` }
  const chat = openChat(await shop.page(undefined, { origin: shop.url, hello }))
  await chat.rest(await chat.say('Hello'))
  const key = await newKey()
  const signedIn = openChat((await openFrame(key)).page)
  await signedIn.request({ type: 'chat/adopt', thread_id: chat.thread, visitor_secret }, 'chat/done')
  expect(await listed(signedIn)).toEqual([chat.thread, chat.thread])
  for (const [name, claim] of claims) expect(await listed(openChat(await claim())), name).toEqual([])
})
