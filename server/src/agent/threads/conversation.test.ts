import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { type AgentShop, startAgentShop } from '../../../test/agent-shop.ts'
import { openChat } from '../../../test/chat.ts'
import { runJob } from '../../../test/harness.ts'
import type { Script } from '../../../test/scripted-model.ts'
import { member } from '../../../test/shop.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { conversationErasure } from '../settings/settings.ts'

/** Conversations that the agent really had, as administrators see them. */

let shop: AgentShop
beforeAll(async () => {
  shop = await startAgentShop()
})
afterAll(() => shop.close())
beforeEach(() => configure({ are_contents_visible: true, retention_days: null }))

const configure = (body: unknown) => shop.request('PATCH', '/agent/config', { token: shop.admin, body })
const read = async (path: string) => (await shop.request('GET', path, { token: shop.admin })).body
const asDemo = <T>(work: (sql: Sql) => Promise<T>) => shop.service.database.asOrg(shop.demo, work)

async function converse(script: Script) {
  shop.model.follow(script)
  shop.model.requests.length = 0
  const page = await shop.page(member)
  page.send({
    type: 'tools/list',
    tools: [{ name: 'read_cart', description: 'Reads the cart', annotations: { readOnlyHint: true } }],
  })
  await page.next('tools/accepted')
  page.answer(() => 'three items')
  return openChat(page)
}

test('a conversation is listed, counted, found and exported as it happened', async () => {
  const chat = await converse(({ messages }) =>
    messages.at(-1)?.role === 'tool'
      ? { text: ['It has three.'] }
      : { text: ['Let me look.'], calls: [{ name: 'read_cart', args: { id: 7 } }] },
  )
  const run = await chat.say('What is in my cart?')
  await chat.rest(run, 'succeeded')
  const feedback = { type: 'chat/feedback' as const, message_id: run, rating: 'up', comment: 'Quick!' }
  await chat.request(feedback, 'chat/done')

  const { messages } = await read(`/threads/${chat.thread}/messages`)
  expect(messages).toMatchObject([
    { role: 'user', status: 'sent', text: 'What is in my cart?' },
    {
      id: run,
      role: 'assistant',
      status: 'succeeded',
      text: 'Let me look.\n\nIt has three.',
      tool_calls: [
        {
          name: 'read_cart',
          source_type: 'page',
          state: 'succeeded',
          decision: 'not_needed',
          args: { id: 7 },
          is_edited: false,
          result: expect.stringContaining('three items'),
          started_at: expect.any(String),
          ended_at: expect.any(String),
        },
      ],
      prompt_tokens: 200,
      completion_tokens: 20,
      model: 'scripted',
      feedback: { rating: 'up', comment: 'Quick!' },
    },
  ])
  expect(await read(`/threads/${chat.thread}`)).toMatchObject({
    title: 'What is in my cart?',
    message_count: 2,
    total_tokens: 220,
  })
  expect((await read('/threads?search=it+THREE')).threads).toMatchObject([{ id: chat.thread }])
  expect((await read(`/feedback?thread_id=${chat.thread}`)).feedback).toMatchObject([{ message_id: run }])
  const headers = { authorization: `Bearer ${shop.admin}` }
  const markdown = await (await shop.fetch(`/api/threads/${chat.thread}/export?format=markdown`, { headers })).text()
  expect(markdown).toMatch(/What is in my cart\?.*Let me look\..*> \*\*Tool read\\_cart\*\*.*It has three\./s)
})

test('an edited message and a regenerated answer replace the earlier ones', async () => {
  const chat = await converse((_, count) => ({ text: [`Answer ${count}`] }))
  await chat.rest(await chat.say('First'), 'succeeded')
  await chat.rest(await chat.say('Second', { trigger: 'edit-message' }), 'succeeded')
  const texts = async (query: string) =>
    (await read(`/threads/${chat.thread}/messages${query}`)).messages.map(({ text }: { text: string }) => text)
  expect(await texts('')).toEqual(['Second', 'Answer 2'])
  expect(await texts('?include_replaced=true')).toEqual(['First', 'Answer 1', 'Second', 'Answer 2'])
  expect(await read(`/threads/${chat.thread}`)).toMatchObject({ message_count: 4 })
})

test('a user can go on with a conversation whose beginning was erased', async () => {
  const chat = await converse((_, count) => ({ text: [`Answer ${count}`] }))
  await chat.rest(await chat.say('canary'), 'succeeded')
  await asDemo((sql) => sql`update runs set ended_at = now() - interval '2 days' where thread_id = ${chat.thread}`)
  await configure({ retention_days: 1 })
  await runJob(shop, await shop.organization('demo'), conversationErasure)
  expect((await read(`/threads/${chat.thread}/messages`)).messages).toEqual([])
  await chat.rest(await chat.say('Still there?'), 'succeeded')
  expect(JSON.stringify(shop.model.requests.at(-1))).not.toContain('canary')
  expect(await read(`/threads/${chat.thread}`)).toMatchObject({ title: 'Still there?', message_count: 4 })
})

test('erasing an end user in the middle of an answer leaves nothing of the conversation', async () => {
  const gate = Promise.withResolvers<void>()
  const chat = await converse(() => ({ text: ['Once upon ', gate.promise, 'a time'] }))
  const run = await chat.say('Tell me a story')
  await chat.until(run, ({ texts }) => texts.join('') !== '')
  const { end_user_id } = await read(`/threads/${chat.thread}`)
  expect((await shop.request('DELETE', `/end-users/${end_user_id}`, { token: shop.admin })).status).toBe(200)
  gate.resolve()
  const left = () =>
    asDemo(
      (sql) => sql`
        select id from threads where end_user_id is not null
        union all select id from runs where id = ${run}
        union all select id from messages where thread_id = ${chat.thread}
        union all select run_id from steps where run_id = ${run}`,
    )
  await vi.waitFor(async () => expect(await left()).toEqual([]))
})
