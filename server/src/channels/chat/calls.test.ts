import { afterAll, beforeAll, expect, test } from 'vitest'
import { type AgentShop, startAgentShop } from '../../../test/agent-shop.ts'
import { openChat } from '../../../test/chat.ts'
import type { Page } from '../../../test/page.ts'
import { member } from '../../../test/shop.ts'

/** What clients learn about calls beyond the AI SDK's fields. */

let shop: AgentShop
beforeAll(async () => {
  shop = await startAgentShop(({ messages }) =>
    messages.at(-1)?.role === 'tool' ? { text: ['Done'] } : { calls: [{ name: 'add', args: { count: 2 } }] },
  )
})
afterAll(() => shop.close())

const chunksOf = (page: Page) => page.unread('chat/chunk').flatMap(({ chunks }) => chunks)

async function addToCart(inputSchema: Record<string, unknown>) {
  const page = await shop.page(member)
  page.send({ type: 'tools/list', tools: [{ name: 'add', title: 'Add to cart', description: 'Adds', inputSchema }] })
  await page.next('tools/accepted')
  page.answer(() => 'added')
  const chat = openChat(page)
  const run = await chat.say('Add two')
  const { calls } = await chat.rest(run, 'waiting')
  return { page, chat, run, callId: calls[0]?.id }
}

test('a question has the tool’s title, where it runs, and the form for its arguments; its result has a duration', async () => {
  const inputSchema = { type: 'object', properties: { quantity: { type: 'integer' }, at: { type: 'string' } } }
  const { page, chat, run, callId } = await addToCart(inputSchema)
  const asked = [
    {
      type: 'tool-input-available',
      toolCallId: callId,
      toolMetadata: {
        kind: 'page',
        name: 'add',
        title: 'Add to cart',
        origin: 'https://shop.example',
        connector: null,
        session: page.ready.session,
      },
    },
    { type: 'data-question', id: callId, data: { inputSchema } },
    { type: 'data-reason', id: callId, data: { code: 'MAY_CHANGE' } },
    { type: 'tool-approval-request', toolCallId: callId },
  ]
  expect(chunksOf(page).slice(-4)).toMatchObject(asked)
  expect(JSON.stringify(chunksOf(page).at(-3)?.data)).toMatch(/quantity.*at/)
  await chat.request({ type: 'chat/decide', call_id: callId, approved: true }, 'chat/done')
  await chat.rest(run, 'succeeded')
  const list = await chat.request({ type: 'chat/messages', thread_id: chat.thread }, 'chat/message-list')
  const answer = list.messages.at(-1)
  const stored = answer?.role === 'assistant' ? answer.chunks : []
  for (const chunks of [chunksOf(page), stored]) {
    const ofCall = chunks.filter(({ id, toolCallId, approvalId }) => [id, toolCallId, approvalId].includes(callId))
    expect(ofCall.slice(-7)).toMatchObject([
      ...asked,
      { type: 'tool-approval-response', approved: true },
      { type: 'data-timing', id: callId, data: { durationMs: expect.any(Number) } },
      { type: 'tool-output-available', toolCallId: callId },
    ])
  }
})

test('a question whose schema is larger than 16 KiB has no form', async () => {
  const description = 'x'.repeat(16 * 1024)
  const { page } = await addToCart({ type: 'object', properties: { count: { type: 'integer', description } } })
  expect(chunksOf(page).map(({ type }) => type)).not.toContain('data-question')
})
