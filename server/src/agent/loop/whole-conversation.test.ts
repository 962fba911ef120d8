import { LLMock } from '@copilotkit/aimock'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { openChat } from '../../../test/chat.ts'
import { type Delegation, startDelegation } from '../../../test/delegation.ts'
import { countTokens } from '../models/tokens/tokenizer.ts'

const mock = new LLMock({ port: 0 })
let org: Delegation
beforeAll(async () => {
  await mock.start()
  org = await startDelegation({ MODEL_URL: `${mock.url}/v1`, MODEL_NAME: 'mock' })
  await org.addConnector()
  const skill = ['---', 'name: refunds', 'description: How to refund an order', '---', 'Ask crm who the user is.']
  const created = await org.asAdmin('POST', '/organization-skills', { content: skill.join('\n') })
  expect(created.status, JSON.stringify(created.body)).toBe(200)
  await org.asAdmin('PATCH', '/agent/config', { tool_policies: { delete_account: 'never' } })
})
afterAll(async () => {
  await org.close()
  await mock.stop()
})

/** What the model reports for its calls, in order: each call has other numbers, so that a mix-up is noticed. */
const reported = [11, 12, 13, 14, 15].map((n) => ({ prompt_tokens: 100 * n, completion_tokens: n }))

test('a conversation with a skill, an edited approval, a refused tool, a connector, a stop and a continuation', async () => {
  const call = (name: string, args: object, usage?: object) => ({
    toolCalls: [{ name, arguments: JSON.stringify(args) }],
    ...(usage && { usage }),
  })
  const step = (results: number, response: object, opts: object = {}) =>
    mock.addFixture({
      match: {
        userMessage: 'Refund order 7',
        predicate: ({ messages }) => messages.filter(({ role }) => role === 'tool').length === results,
      },
      response: response as never,
      ...opts,
    })
  step(0, call('activate_skill', { name: 'refunds' }, reported[0]))
  step(1, call('refund', { order: 7, amount: 900 }, reported[1]))
  step(2, call('delete_account', {}, reported[2]))
  step(3, call('crm_whoami', {}, reported[3]))
  step(4, { content: `${'I refunded order seven. '.repeat(50)}` }, { latency: 20, chunkSize: 10 })
  mock.onMessage('Go on', { content: 'It is done.', ...(reported[4] && { usage: reported[4] }) })

  const page = await org.page()
  const inputSchema = { type: 'object', properties: { order: { type: 'integer' }, amount: { type: 'integer' } } }
  page.send({
    type: 'tools/list',
    tools: [
      { name: 'refund', description: 'Refunds an order', inputSchema },
      { name: 'delete_account', description: 'Deletes the account' },
    ],
  })
  await page.next('tools/accepted')
  page.answer(({ args }) => `Refunded ${args.amount} for order ${args.order}`)
  const chat = openChat(page)

  const run = await chat.say('Refund order 7')
  const waiting = await chat.rest(run, 'waiting')
  expect(waiting.calls.map(({ name }) => name)).toEqual(['activate_skill', 'refund'])
  expect(String(waiting.calls[0]?.output)).toContain('Ask crm who the user is.')
  const call_id = waiting.calls[1]?.id ?? ''
  const edited_args = { order: 7, amount: 90 }
  await chat.request({ type: 'chat/decide', call_id, approved: true, edited_args }, 'chat/done')

  const asked = await chat.until(run, ({ calls }) => calls[3]?.question !== undefined)
  await chat.request({ type: 'chat/decide', call_id: asked.calls[3]?.id, approved: true }, 'chat/done')

  await chat.until(run, ({ texts }) => (texts.at(-1) ?? '').length > 30)
  await chat.request({ type: 'chat/abort', thread_id: chat.thread }, 'chat/done')
  const stopped = await chat.rest(run, 'stopped')
  expect(stopped.calls).toMatchObject([
    { name: 'activate_skill' },
    { name: 'refund', answer: true, output: 'Refunded 90 for order 7' },
    { name: 'delete_account', question: undefined, error: expect.stringMatching(/administrator|organization/i) },
    { name: 'crm_whoami', answer: true, output: expect.stringContaining('mem') },
  ])
  const next = await chat.rest(await chat.say('Go on'))
  expect(next).toMatchObject({ texts: ['It is done.'], end: { status: 'succeeded' } })

  const text = stopped.texts.at(-1) ?? ''
  const events = await org.service.database.asOrg(
    await org.organization('demo'),
    (sql) => sql<{ prompt_tokens: number; completion_tokens: number; is_estimated: boolean }>`
      select prompt_tokens, completion_tokens, is_estimated from usage_events order by created_at, id`,
  )
  const [one, two, three, four, five] = reported
  expect(events).toMatchObject([
    ...[one, two, three, four].map((usage) => ({ ...usage, is_estimated: false })),
    { completion_tokens: await countTokens(text), is_estimated: true },
    { ...five, is_estimated: false },
  ])
  const sum = (name: 'prompt_tokens' | 'completion_tokens') => events.reduce((total, event) => total + event[name], 0)
  const { body } = await org.asAdmin('GET', `/usage/end-users/${page.ready.user.id}/stats`)
  expect(body).toMatchObject({
    total_requests: 6,
    total_prompt_tokens: sum('prompt_tokens'),
    total_completion_tokens: sum('completion_tokens'),
  })

  await org.service.toolCalls.flush()
  const { tool_calls } = (await org.asAdmin('GET', '/tool-calls')).body
  await vi.waitFor(() => expect(tool_calls.length).toBe(2))
  expect(
    tool_calls.map(({ tool, approval, outcome }: Record<string, string>) => ({ tool, approval, outcome })),
  ).toEqual([
    { tool: 'crm.whoami', approval: 'allowed', outcome: 'succeeded' },
    { tool: 'refund', approval: 'allowed', outcome: 'succeeded' },
  ])
})
