import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { type AgentShop, startAgentShop } from '../../../test/agent-shop.ts'
import { type ChatPage, openChat } from '../../../test/chat.ts'
import { pageOrigin } from '../../../test/page.ts'
import type { Script } from '../../../test/scripted-model.ts'
import type { Person } from '../../../test/shop.ts'
import type { Sql } from '../../kernel/stores/database.ts'

let shop: AgentShop
beforeAll(async () => {
  shop = await startAgentShop()
})
afterAll(() => shop.close())
beforeEach(() => configure({ are_contents_visible: false, anonymous: { is_enabled: true, runs_per_minute: 60 } }))

const configure = (body: unknown) => shop.request('PATCH', '/agent/config', { token: shop.admin, body })
const asDemo = <T>(work: (sql: Sql) => Promise<T>) => shop.service.database.asOrg(shop.demo, work)
const read = async (path: string) => (await shop.request('GET', path, { token: shop.admin })).body
const auditOf = (thread: string) =>
  asDemo((sql) => sql`select actor, action, data from audit_events where target = ${thread} order by sequence`)

/** A user of their own for each test. */
const someone = (): Person => ({ sub: randomUUID(), email: `${randomUUID()}@demo.test` })

/** A conversation in which the user has said these things. */
async function converse(texts: string[], script: Script = () => ({ text: ['Fine.'] }), person = someone()) {
  shop.model.follow(script)
  const chat = openChat(await shop.page(person))
  for (const text of texts) await chat.rest(await chat.say(text), 'succeeded')
  return chat
}

const change = (chat: ChatPage, changes: object) =>
  chat.request({ type: 'chat/change-thread', thread_id: chat.thread, ...changes }, 'chat/done')
const erase = (chat: ChatPage) => chat.request({ type: 'chat/delete-thread', thread_id: chat.thread }, 'chat/done')
const list = async (chat: ChatPage, filter: object = {}) =>
  (await chat.request({ type: 'chat/threads', ...filter }, 'chat/thread-list')).threads
const messagesOf = async (chat: ChatPage, page: object = {}) =>
  chat.request({ type: 'chat/messages', thread_id: chat.thread, ...page }, 'chat/message-list')

describe('a user can', () => {
  test('rename a thread, and the organization only sees the title where contents are visible', async () => {
    const chat = await converse(['Hi'])
    await change(chat, { title: ' My\u202E  divorce ' })
    expect(await list(chat)).toMatchObject([{ id: chat.thread, title: 'My divorce', is_archived: false }])
    expect(await read(`/threads/${chat.thread}`)).toMatchObject({ title: null })
    expect(await auditOf(chat.thread)).toMatchObject([
      { actor: 'widget', action: 'thread.updated', data: { is_renamed: true, end_user_id: expect.any(String) } },
    ])
    expect(JSON.stringify(await auditOf(chat.thread))).not.toContain('divorce')
    await configure({ are_contents_visible: true })
    expect(await read(`/threads/${chat.thread}`)).toMatchObject({ title: 'My divorce' })
    expect((await read('/threads?search=divorce')).threads).toMatchObject([{ id: chat.thread }])
  })

  test('rename a thread that a member of the organization has named', async () => {
    const chat = await converse(['Hi'])
    await shop.request('PATCH', `/threads/${chat.thread}`, { token: shop.admin, body: { title: 'Ours' } })
    expect(await list(chat)).toMatchObject([{ title: 'Ours' }])
    await change(chat, { title: 'Mine' })
    expect(await list(chat)).toMatchObject([{ title: 'Mine' }])
  })

  test('archive a thread, and take it out again', async () => {
    const chat = await converse(['Hi'])
    await change(chat, { archived: true })
    expect(await list(chat)).toEqual([])
    expect(await list(chat, { archived: true })).toMatchObject([{ id: chat.thread, title: 'Hi', is_archived: true }])
    expect(await read(`/threads/${chat.thread}`)).toMatchObject({ status: 'archived' })
    await change(chat, { archived: false })
    expect(await list(chat)).toMatchObject([{ id: chat.thread, is_archived: false }])
    expect(await list(chat, { archived: true })).toEqual([])
    const data = (await auditOf(chat.thread)).map((event) => (event as { data: { status: string } }).data.status)
    expect(data).toEqual(['archived', 'regular'])
  })

  test('repeat a change, which is recorded once', async () => {
    const chat = await converse(['Hi'])
    for (const changes of [{ title: 'Hi' }, {}, { archived: false }, { archived: true }, { archived: true }]) {
      await change(chat, changes)
    }
    expect(await auditOf(chat.thread)).toHaveLength(1)
  })

  test('delete a thread: nothing that it says is left, and ratings and usage stay', async () => {
    const chat = await converse(['My canary', 'Again'], () => ({ text: ['canary back'] }))
    const { messages } = await messagesOf(chat)
    const message_id = messages.at(-1)?.id
    await chat.request({ type: 'chat/feedback', message_id, rating: 'down', comment: 'canary' }, 'chat/done')
    await change(chat, { title: 'canary' })
    const { total_tokens } = await read(`/threads/${chat.thread}`)
    await erase(chat)

    expect(await list(chat)).toEqual([])
    expect(await list(chat, { archived: true })).toEqual([])
    for (const type of ['chat/messages', 'chat/resume', 'chat/abort'] as const) {
      expect(await chat.refusal({ type, thread_id: chat.thread })).toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
    }
    const more = { type: 'chat/send' as const, thread_id: chat.thread, message: { id: randomUUID(), text: 'More' } }
    expect(await chat.refusal(more)).toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
    const [left] = await asDemo(
      (sql) => sql`
        select (select count(*) from runs where thread_id = threads.id) as runs,
               (select count(*) from messages where thread_id = threads.id) as messages,
               (select count(*) from steps where text like '%canary%') as steps, title, first_words, summary
        from threads where id = ${chat.thread}`,
    )
    expect(left).toEqual({ runs: 0, messages: 0, steps: 0, title: null, first_words: null, summary: null })
    expect(await read(`/threads/${chat.thread}`)).toMatchObject({ status: 'deleted', total_tokens, message_count: 4 })
    expect((await read(`/feedback?thread_id=${chat.thread}`)).feedback).toMatchObject([{ rating: 'down' }])
    expect(await asDemo((sql) => sql`select comment from feedback where thread_id = ${chat.thread}`)).toEqual([
      { comment: null },
    ])
    expect(await auditOf(chat.thread)).toMatchObject([
      { action: 'thread.updated' },
      { actor: 'widget', action: 'thread.erased', data: { end_user_id: expect.any(String) } },
    ])
  })

  test('delete a thread once', async () => {
    const chat = await converse(['Hi'])
    const again = { type: 'chat/delete-thread' as const, thread_id: chat.thread }
    await erase(chat)
    expect(await chat.refusal(again)).toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
  })

  test('delete a thread while the agent works in it, which other tabs see', async () => {
    const person = someone()
    const chat = await converse([], () => ({ text: ['Once upon '], ending: 'stall' }), person)
    const aborted = shop.model.aborted()
    const run = await chat.say('Tell me a story')
    const other = openChat(await shop.page(person), chat.thread)
    await other.request({ type: 'chat/resume', thread_id: chat.thread }, 'chat/start')
    await other.until(run, ({ texts }) => texts.join('') !== '')
    await erase(chat)
    for (const tab of [chat, other]) await tab.rest(run, 'stopped')
    await vi.waitFor(() => expect(shop.model.aborted()).toBe(aborted + 1))
    const usage = await asDemo(
      (sql) => sql`select is_estimated, finish_reason from usage_events where thread_id = ${chat.thread}`,
    )
    expect(usage).toEqual([{ is_estimated: true, finish_reason: 'interrupted' }])
    expect(await asDemo((sql) => sql`select from runs where id = ${run}`)).toEqual([])
    expect(shop.logged()).not.toMatch(/Could not read a run|Could not end a run|ended unexpectedly/)
  })

  test('delete a thread in which the agent waits for an approval', async () => {
    shop.model.follow(() => ({ calls: [{ name: 'order', args: {} }] }))
    const page = await shop.page(someone())
    page.send({ type: 'tools/list', tools: [{ name: 'order', description: 'Orders' }] })
    await page.next('tools/accepted')
    const chat = openChat(page)
    const run = await chat.say('Order')
    const { calls } = await chat.rest(run, 'waiting')
    await erase(chat)
    await chat.rest(run, 'stopped')
    const decide = { type: 'chat/decide' as const, call_id: calls[0]?.id, approved: true }
    expect(await chat.refusal(decide)).toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
    expect(page.unread('tool/call')).toEqual([])
  })
})

describe('a search', () => {
  test.each([
    ['the title', { title: 'Refund for the lamp' }],
    ['what the user wrote', { text: 'My lamp needs a REFUND' }],
    ['what the agent wrote', { answer: 'The refund for the lamp is on its way.' }],
  ])('finds the words in %s', async (_, { title, text = 'Hello', answer = 'Fine.' }: Record<string, string>) => {
    const chat = await converse([text], () => ({ text: [answer] }))
    const noise = openChat(await shop.page(someone()))
    await noise.rest(await noise.say('refund lamp'), 'succeeded')
    if (title) await change(chat, { title })
    expect(await list(chat, { query: 'lamp Refund' })).toMatchObject([{ id: chat.thread }])
    expect(await list(chat, { query: 'lamp desk' })).toEqual([])
    expect(await list(chat, { query: '  ' })).toHaveLength(1)
    expect(await list(noise, { query: 'refund' })).toMatchObject([{ id: noise.thread }])
  })

  test('finds archived threads where they are listed', async () => {
    const chat = await converse(['A refund'])
    await change(chat, { archived: true })
    expect(await list(chat, { query: 'refund' })).toEqual([])
    expect(await list(chat, { query: 'refund', archived: true })).toMatchObject([{ id: chat.thread }])
  })
})

describe('threads of others can’t be changed, deleted or found', () => {
  const secret = () => randomUUID() + randomUUID()
  const visit = async (visitor_secret: string) => openChat(await shop.page(undefined, { hello: { visitor_secret } }))

  async function expectForeign(stranger: ChatPage, chat: ChatPage) {
    for (const type of ['chat/change-thread', 'chat/delete-thread'] as const) {
      const refused = await stranger.refusal({ type, thread_id: chat.thread, title: 'Taken', archived: true })
      expect(refused).toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
    }
    expect(await list(stranger, { query: 'canary' })).toEqual([])
    expect(await auditOf(chat.thread)).toEqual([])
  }

  test('by another end user or a visitor', async () => {
    const chat = await converse(['canary'])
    await expectForeign(openChat(await shop.page(someone())), chat)
    await expectForeign(await visit(secret()), chat)
    expect(await list(chat)).toMatchObject([{ title: 'canary' }])
  })

  test('by a visitor with another secret', async () => {
    shop.model.follow(() => ({ text: ['Fine.'] }))
    const mine = secret()
    const chat = await visit(mine)
    await chat.rest(await chat.say('canary'), 'succeeded')
    await expectForeign(await visit(secret()), chat)
    const again = openChat((await reopen(mine)).page, chat.thread)
    await change(again, { title: 'Kept' })
    expect(await list(again, { query: 'canary' })).toMatchObject([{ title: 'Kept' }])
    await erase(again)
    expect(await list(chat)).toEqual([])
  })
  const reopen = async (visitor_secret: string) => ({ page: await shop.page(undefined, { hello: { visitor_secret } }) })

  test('by a script of another site of the organization, but in the panel', async () => {
    const person = someone()
    const chat = await converse(['canary'], undefined, person)
    await asDemo((sql) => sql`update threads set origin = 'https://other.example' where id = ${chat.thread}`)
    await expectForeign(chat, chat)
    const frame = await shop.page(person, { origin: shop.url, hello: { url: `${pageOrigin}/cart` } })
    const panel = openChat(frame, chat.thread)
    expect(await list(panel, { query: 'canary' })).toHaveLength(1)
    await change(panel, { title: 'Renamed' })
    expect(await list(panel)).toMatchObject([{ title: 'Renamed' }])
    await erase(panel)
    expect(await list(panel)).toEqual([])
  })
})

describe('limits', () => {
  test('a title needs a visible character', async () => {
    const chat = await converse(['Hi'])
    const refused = await chat.refusal({ type: 'chat/change-thread', thread_id: chat.thread, title: '\u200B ' })
    expect(refused).toMatchObject({ code: 'VALIDATION_ERROR', message: expect.stringContaining('title') })
    expect(await list(chat)).toMatchObject([{ title: 'Hi' }])
  })

  test.each([
    ['a title', { type: 'chat/change-thread', thread_id: randomUUID(), title: 'x'.repeat(201) }],
    ['a search', { type: 'chat/threads', query: 'x'.repeat(201) }],
    ['a page of messages', { type: 'chat/messages', thread_id: randomUUID(), limit: 21 }],
  ])('%s can’t be too long', async (_, message) => {
    const page = await shop.page(someone())
    page.send({ request_id: '1', ...message } as never)
    expect(await page.closed).toMatchObject({ code: 1009 })
  })

  test('a user makes 60 changes a minute', async () => {
    const chat = await converse(['Hi'])
    for (let n = 0; n < 60; n += 1) await change(chat, { archived: false })
    const refused = await chat.refusal({ type: 'chat/delete-thread', thread_id: chat.thread })
    expect(refused).toMatchObject({ code: 'TOO_MANY_REQUESTS', retry_after_ms: 60_000 })
    expect(await list(chat)).toHaveLength(1)
  })
})

describe('messages', () => {
  test('a client that follows a thread reads what the user wrote in another tab', async () => {
    const person = someone()
    const chat = await converse(['One', 'Two', 'Three'], (_, count) => ({ text: [`Answer ${count}`] }), person)
    const other = openChat(await shop.page(person), chat.thread)
    await other.request({ type: 'chat/resume', thread_id: chat.thread }, 'chat/no-active')
    const run = await chat.say('Four', { trigger: 'edit-message' })
    await other.rest(run, 'succeeded')
    const { messages, before } = await messagesOf(other, { limit: 2 })
    expect(messages.map((message) => ('text' in message ? message.text : message.role))).toEqual([
      'Two',
      'assistant',
      'Four',
      'assistant',
    ])
    expect(messages.at(-1)).toMatchObject({ id: run })
    const earlier = await messagesOf(other, { limit: 2, before })
    expect(earlier).toMatchObject({ messages: [{ text: 'One' }, { role: 'assistant' }], before: null })
  })

  test('a message that waits for the next step is the last one of the list', async () => {
    const gate = Promise.withResolvers<void>()
    const chat = await converse([], () => ({ text: ['Once upon ', gate.promise, 'a time'] }))
    const run = await chat.say('Tell me a story')
    await chat.until(run, ({ texts }) => texts.join('') !== '')
    await chat.say('A short one')
    expect((await messagesOf(chat)).messages).toMatchObject([
      { text: 'Tell me a story', is_queued: false },
      { role: 'assistant', id: run },
      { text: 'A short one', is_queued: true },
    ])
    gate.resolve()
    await chat.rest(run, 'succeeded')
    expect((await messagesOf(chat)).messages).toHaveLength(2)
  })
})
