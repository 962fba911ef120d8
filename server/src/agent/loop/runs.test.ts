import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { type AgentShop, startAgentShop } from '../../../test/agent-shop.ts'
import { openChat } from '../../../test/chat.ts'
import { offer, type Page, pageOrigin } from '../../../test/page.ts'
import type { Script, ScriptedModel } from '../../../test/scripted-model.ts'
import { member, type Person } from '../../../test/shop.ts'
import { Turns } from '../../kernel/lib/shares/fair-queue.ts'
import { countTokens } from '../models/tokens/tokenizer.ts'

let shop: AgentShop
let model: ScriptedModel
beforeAll(async () => {
  shop = await startAgentShop()
  model = shop.model
})
afterAll(() => shop.close())

/** A signed-in user's page with a conversation, and what the model says in it. */
async function converse(script: Script, person: Person = member) {
  model.follow(script)
  model.requests.length = 0
  const page = await shop.page(person)
  return { page, chat: openChat(page) }
}

/** A promise that holds a stream until the test lets it go. */
function hold() {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { until: promise, release: () => resolve() }
}

const rows = <Row>(read: Parameters<typeof shop.service.database.asOrg<Row[]>>[1]) =>
  shop.service.database.asOrg(shop.demo, read)
const usageOf = (runId: string) =>
  rows<Record<string, unknown>>(
    (sql) => sql`
      select u.model, u.prompt_tokens, u.completion_tokens, u.is_estimated, u.finish_reason
      from usage_events u join model_calls m on m.id = u.id where m.run_id = ${runId} order by m.started_at, m.id`,
  )

/** Lets the page run its tools without asking. */
function allow(page: Page, respond: (args: Record<string, unknown>) => unknown) {
  page.answer(({ args }) => respond(args))
}

/** Offers a tool that only reads. */
async function offerReading(page: Page, name: string): Promise<void> {
  page.send({
    type: 'tools/list',
    tools: [{ name, description: `Reads ${name}`, annotations: { readOnlyHint: true } }],
  })
  await page.next('tools/accepted')
}

describe('a run', () => {
  test('streams the answer, stores it, and is charged once with what the model reported', async () => {
    const { chat } = await converse(() => ({ text: ['Hel', 'lo ', 'you'] }))
    const run = await chat.say('Hi')
    const shown = await chat.rest(run)
    expect(shown).toMatchObject({ texts: ['Hello you'], end: { status: 'succeeded', error: null } })
    expect(await usageOf(run)).toEqual([
      { model: 'scripted', prompt_tokens: 100, completion_tokens: 10, is_estimated: false, finish_reason: 'stop' },
    ])
    const list = await chat.request({ type: 'chat/messages', thread_id: chat.thread }, 'chat/message-list')
    expect(list.messages).toMatchObject([
      { role: 'user', text: 'Hi' },
      { role: 'assistant', id: run, status: 'succeeded', error: null },
    ])
    const { threads } = await chat.request({ type: 'chat/threads' }, 'chat/thread-list')
    expect(threads[0]).toMatchObject({ id: chat.thread, title: 'Hi', status: 'succeeded' })
  })

  test('tells the model the instructions, the page, and the conversation so far', async () => {
    const { chat } = await converse((_, count) => ({ text: [`Answer ${count}`] }))
    await chat.rest(await chat.say('First'))
    await chat.rest(await chat.say('Second'))
    const [, second] = model.requests
    expect(second?.messages.map(({ role }) => role)).toEqual(['system', 'user', 'assistant', 'user'])
    expect(String(second?.messages[0]?.content)).toContain('You are Assistant')
    expect(JSON.stringify(second?.messages[2])).toContain('Answer 1')
    expect(JSON.stringify(second?.messages[3])).toContain('https://shop.example/cart')
  })

  test('calls a page’s tool that only reads without asking, and continues with the result', async () => {
    const { page, chat } = await converse(({ messages }) =>
      messages.at(-1)?.role === 'tool' ? { text: ['It has 3'] } : { calls: [{ name: 'read_cart', args: { id: 7 } }] },
    )
    await offerReading(page, 'read_cart')
    allow(page, ({ id }) => `cart ${id}: 3 items`)
    const shown = await chat.rest(await chat.say('What is in cart 7?'))
    expect(shown).toMatchObject({
      texts: ['It has 3'],
      calls: [{ name: 'read_cart', input: { id: 7 }, question: undefined, output: 'cart 7: 3 items' }],
    })
    expect(JSON.stringify(model.requests[1]?.messages.at(-1))).toContain('<tool_result origin=')
  })

  test('replaces NUL, which can’t be stored, in what the model and a page say', async () => {
    const { page, chat } = await converse(({ messages }) =>
      messages.at(-1)?.role === 'tool'
        ? { text: ['It ', 'has \0 3'] }
        : { text: ['\0'], calls: [{ name: 'read_cart', args: { id: 7 } }] },
    )
    await offerReading(page, 'read_cart')
    allow(page, () => 'cart \0')
    const shown = await chat.rest(await chat.say('What is in cart 7?'))
    expect(shown).toMatchObject({ texts: ['\ufffd', 'It has \ufffd 3'], end: { status: 'succeeded' } })
    expect(shown.calls).toMatchObject([{ output: 'cart \ufffd' }])
  })

  test('runs several calls of one step at the same time', async () => {
    const { page, chat } = await converse(({ messages }) =>
      messages.at(-1)?.role === 'tool'
        ? { text: ['Done'] }
        : { calls: [1, 2, 3].map((id) => ({ name: 'read_cart', args: { id } })) },
    )
    await offerReading(page, 'read_cart')
    const run = await chat.say('All carts')
    const calls = [await page.next('tool/call'), await page.next('tool/call'), await page.next('tool/call')]
    for (const { call_id, args } of calls) page.send({ type: 'tool/result', call_id, result: `cart ${args.id}` })
    const shown = await chat.rest(run)
    expect(shown.calls.map(({ output }) => output)).toEqual(['cart 1', 'cart 2', 'cart 3'])
    expect(shown.texts).toEqual(['Done'])
  })

  test('reads messages that arrive meanwhile before its next step', async () => {
    const { page, chat } = await converse(({ messages }) =>
      JSON.stringify(messages).includes('And hurry')
        ? { text: ['Hurrying'] }
        : { calls: [{ name: 'read_cart', args: {} }] },
    )
    await offerReading(page, 'read_cart')
    const run = await chat.say('Read the cart')
    const { call_id } = await page.next('tool/call')
    const start = {
      type: 'chat/send' as const,
      thread_id: chat.thread,
      message: { id: randomUUID(), text: 'And hurry' },
    }
    expect(await chat.request(start, 'chat/start')).toMatchObject({ run_id: run, is_queued: true })
    page.send({ type: 'tool/result', call_id, result: 'ok' })
    expect(await chat.rest(run)).toMatchObject({ texts: ['Hurrying'], steering: ['And hurry'] })
  })

  test('gets a skill that the user activates, word for word, and says what it costs', async () => {
    const body = 'Always greet with “Ahoy”.\n'
    const token = await shop.tokenFor('admin@demo.test', 'demo')
    const content = `---\nname: greetings\ndescription: How to greet\n---\n${body}`
    await shop.request('POST', '/organization-skills', { token, body: { content } })
    const { page, chat } = await converse(() => ({ text: ['Ahoy'] }))
    const chunks = (type: string) =>
      page.unread('chat/chunk').flatMap((message) => message.chunks.filter((chunk) => chunk.type === type))
    await chat.rest(await chat.say('Hi', { skill: 'greetings' }))
    expect(JSON.stringify(model.requests[0]?.messages.at(-1))).toContain(JSON.stringify(body.trim()).slice(1, -1))
    const data = { name: 'greetings', tokens: await countTokens(body) }
    expect(chunks('data-skill')).toEqual([{ type: 'data-skill', data }])
    await chat.rest(await chat.say('Hi', { skill: 'no-such-skill' }))
    expect(JSON.stringify(chunks('data-notice'))).toContain('There is no skill named no-such-skill')
  })

  test('is started once by a message that is sent twice', async () => {
    const { chat } = await converse(() => ({ text: ['Once'] }))
    const id = randomUUID()
    const run = await chat.say('Hi', { id })
    await chat.rest(run)
    expect(await chat.say('Hi', { id })).toBe(run)
    expect(model.requests).toHaveLength(1)
  })

  test('waits for the turn of its organization before the model is asked', async () => {
    const { chat } = await converse(() => ({ text: ['Hi'] }))
    const { enter } = Turns.prototype
    const entering = vi.spyOn(Turns.prototype, 'enter')
    onTestFinished(() => entering.mockRestore())
    await rows((sql) => sql`select`)
    const ofConnections = new Set(entering.mock.contexts)
    const { until, release } = hold()
    const held: string[] = []
    entering.mockImplementation(function (this: Turns, lane) {
      const turn = enter.call(this, lane)
      if (ofConnections.has(this)) return turn
      held.push(lane)
      return until.then(() => turn)
    })
    const run = await chat.say('Hello')
    expect(held).toEqual([shop.demo])
    expect(model.requests).toEqual([])
    release()
    await chat.rest(run, 'succeeded')
  })
})

test('a long result is stored up to a limit, shown from its beginning, and read on by the model', async () => {
  const { page, chat } = await converse(({ messages }) => {
    const results = messages.filter(({ role }) => role === 'tool')
    const [, call_id] = /"call_id\\*": \\*"([^"\\]+)/.exec(JSON.stringify(results)) ?? []
    if (!call_id) return { calls: [{ name: 'dump', args: {} }] }
    if (results.length === 1) return { calls: [{ name: 'read_result', args: { call_id, from: 16_000 } }] }
    return { text: ['Done'] }
  })
  await offerReading(page, 'dump')
  allow(page, () => 'dumped '.repeat(100_000))
  const run = await chat.say('Dump it')
  const { calls } = await chat.rest(run, 'succeeded')
  const stored = await rows<{ result: string }>(
    (sql) => sql`select result from tool_calls where run_id = ${run} and name = 'dump'`,
  )
  expect(stored.map(({ result }) => result.length)).toEqual([262_144])
  const note = '\n\n(These are the first 16000 of 262144 characters.)'
  expect(calls[0]?.output).toBe('dumped '.repeat(100_000).slice(0, 16_000) + note)
  expect(calls[1]?.output).toContain('(24000 of 262144 characters; continue from 24000.)')
  const list = await chat.request({ type: 'chat/messages', thread_id: chat.thread }, 'chat/message-list')
  expect(JSON.stringify(list).length).toBeLessThan(30_000)
  expect(JSON.stringify(model.requests.at(-1)).length).toBeLessThan(40_000)
})

describe('a question', () => {
  const asking: Script = ({ messages }) =>
    messages.at(-1)?.role === 'tool' ? { text: ['Finished'] } : { calls: [{ name: 'empty_cart', args: { id: 7 } }] }

  test('is asked before a tool that may change something, and the call is made once it is approved', async () => {
    const { page, chat } = await converse(asking)
    await offer(page, 'empty_cart')
    const run = await chat.say('Empty it')
    const shown = await chat.rest(run, 'waiting')
    const [call] = shown.calls
    expect(call).toMatchObject({ name: 'empty_cart', input: { id: 7 }, answer: undefined })
    expect(call?.question).toMatch(/\S/)
    expect(page.unread('tool/call')).toEqual([])
    allow(page, () => 'emptied')
    await chat.request({ type: 'chat/decide', call_id: call?.id ?? '', approved: true }, 'chat/done')
    const ended = await chat.rest(run, 'succeeded')
    expect(ended).toMatchObject({ texts: ['Finished'], calls: [{ answer: true, output: 'emptied' }] })
  })

  test('can be answered once', async () => {
    const { page, chat } = await converse(asking)
    await offer(page, 'empty_cart')
    const run = await chat.say('Empty it')
    const { calls } = await chat.rest(run, 'waiting')
    allow(page, () => 'emptied')
    const decide = { type: 'chat/decide' as const, call_id: calls[0]?.id ?? '', approved: true }
    await chat.request(decide, 'chat/done')
    expect(await chat.refusal(decide)).toMatchObject({ code: 'ALREADY_DECIDED' })
    await chat.rest(run, 'succeeded')
  })

  test('that is declined is not asked again, and the model is told', async () => {
    const { page, chat } = await converse(asking)
    await offer(page, 'empty_cart')
    const run = await chat.say('Empty it')
    const { calls } = await chat.rest(run, 'waiting')
    await chat.request({ type: 'chat/decide', call_id: calls[0]?.id ?? '', approved: false }, 'chat/done')
    await chat.rest(run, 'succeeded')
    expect(JSON.stringify(model.requests[1]?.messages.at(-1))).toContain('declined')
    expect(page.unread('tool/call')).toEqual([])
  })

  test('can be answered with other arguments, which must fit the tool', async () => {
    const { page, chat } = await converse(asking)
    const inputSchema = { type: 'object', properties: { id: { type: 'integer' } }, required: ['id'] }
    page.send({ type: 'tools/list', tools: [{ name: 'empty_cart', description: 'Empties', inputSchema }] })
    await page.next('tools/accepted')
    const run = await chat.say('Empty it')
    const { calls } = await chat.rest(run, 'waiting')
    const decide = { type: 'chat/decide' as const, call_id: calls[0]?.id ?? '', approved: true }
    expect(await chat.refusal({ ...decide, edited_args: { id: 'eight' } })).toMatchObject({ code: 'VALIDATION_ERROR' })
    allow(page, ({ id }) => `emptied ${id}`)
    await chat.request({ ...decide, edited_args: { id: 8 } }, 'chat/done')
    expect(await chat.rest(run, 'succeeded')).toMatchObject({ calls: [{ output: 'emptied 8' }] })
    expect(JSON.stringify(model.requests[1]?.messages.at(-1))).toContain('{\\"id\\":8}')
  })

  test('can be answered with other arguments if the model had to search for the tool', async () => {
    const { page, chat } = await converse(({ messages }) => {
      const found = messages.filter(({ role }) => role === 'tool').length
      const calls = [
        { name: 'find_tools', args: { query: 'cart' } },
        { name: 'empty_cart', args: { id: 7 } },
      ]
      return found < 2 ? { calls: calls.slice(found, found + 1) } : { text: ['Done'] }
    })
    const names = ['empty_cart', ...Array.from({ length: 70 }, (_, n) => `tool_${n}`)]
    const inputSchema = { type: 'object', properties: { id: { type: 'integer' } } }
    page.send({ type: 'tools/list', tools: names.map((name) => ({ name, description: 'Works', inputSchema })) })
    await page.next('tools/accepted')
    const run = await chat.say('Empty it')
    const { calls } = await chat.rest(run, 'waiting')
    const decide = { type: 'chat/decide' as const, call_id: calls[1]?.id ?? '', approved: true }
    expect(await chat.refusal({ ...decide, edited_args: { id: 'eight' } })).toMatchObject({ code: 'VALIDATION_ERROR' })
    allow(page, ({ id }) => `emptied ${id}`)
    await chat.request({ ...decide, edited_args: { id: 8 } }, 'chat/done')
    expect((await chat.rest(run, 'succeeded')).calls[1]).toMatchObject({ output: 'emptied 8' })
  })

  test('is declined by a message instead of an answer', async () => {
    const { page, chat } = await converse(({ messages }) =>
      JSON.stringify(messages).includes('Never mind') ? { text: ['All right'] } : asking({ messages, model: '' }, 1),
    )
    await offer(page, 'empty_cart')
    const run = await chat.say('Empty it')
    await chat.rest(run, 'waiting')
    await chat.say('Never mind')
    expect(await chat.rest(run, 'succeeded')).toMatchObject({ texts: ['All right'], calls: [{ error: 'denied' }] })
  })

  test('about another site’s tool can only be answered in the panel', async () => {
    const { page, chat } = await converse(asking)
    await offer(page, 'empty_cart')
    const run = await chat.say('Empty it')
    const { calls } = await chat.rest(run, 'waiting')
    await rows(
      (sql) => sql`
      update tool_calls set tool = jsonb_set(tool, '{origin}', '"https://other.example"') where id = ${calls[0]?.id}`,
    )
    const decide = { type: 'chat/decide' as const, call_id: calls[0]?.id ?? '', approved: true }
    expect(await chat.refusal(decide)).toMatchObject({ code: 'APPROVE_IN_PANEL' })
  })

  test('of another user does not exist', async () => {
    const { page, chat } = await converse(asking)
    await offer(page, 'empty_cart')
    const { calls } = await chat.rest(await chat.say('Empty it'), 'waiting')
    const other = openChat(await shop.page({ sub: 'other', email: 'o@demo.test', email_verified: true }))
    const decide = { type: 'chat/decide' as const, call_id: calls[0]?.id ?? '', approved: true }
    expect(await other.refusal(decide)).toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
  })
})

describe('stopping', () => {
  test('before the reply begins charges the prompt, as estimated', async () => {
    const sent = hold()
    const { chat } = await converse(() => {
      sent.release()
      return new Promise<never>(() => {})
    })
    const run = await chat.say('Hi')
    await sent.until
    await chat.request({ type: 'chat/abort', thread_id: chat.thread }, 'chat/done')
    await chat.rest(run, 'stopped')
    const [call] = await rows<{ estimated_prompt_tokens: number }>(
      (sql) => sql`select estimated_prompt_tokens from model_calls where run_id = ${run}`,
    )
    expect(await usageOf(run)).toMatchObject([
      { prompt_tokens: call?.estimated_prompt_tokens, completion_tokens: 0, is_estimated: true },
    ])
  })

  test('ends the request to the model at once, keeps what it wrote, and charges the tokenizer’s estimate', async () => {
    const { until, release } = hold()
    const { chat } = await converse(() => ({ text: ['One two three', until, ' four'] }))
    const before = model.aborted()
    const run = await chat.say('Count')
    await chat.until(run, ({ texts }) => texts[0] === 'One two three')
    await chat.request({ type: 'chat/abort', thread_id: chat.thread }, 'chat/done')
    const shown = await chat.rest(run)
    expect(shown).toMatchObject({ texts: ['One two three'], end: { status: 'stopped' } })
    await vi.waitFor(() => expect(model.aborted()).toBe(before + 1))
    release()
    const [usage] = await usageOf(run)
    expect(usage).toMatchObject({ completion_tokens: 3, is_estimated: true, finish_reason: 'stopped' })
    model.follow(({ messages }) => ({ text: [`After ${JSON.stringify(messages).includes('One two three')}`] }))
    expect(await chat.rest(await chat.say('Go on'))).toMatchObject({ texts: ['After true'] })
  })

  test('a run that waits ends it, and the question is no longer open', async () => {
    const { page, chat } = await converse(() => ({ calls: [{ name: 'empty_cart', args: {} }] }))
    await offer(page, 'empty_cart')
    const run = await chat.say('Empty it')
    const { calls } = await chat.rest(run, 'waiting')
    await chat.request({ type: 'chat/abort', thread_id: chat.thread }, 'chat/done')
    await chat.rest(run, 'stopped')
    const decide = { type: 'chat/decide' as const, call_id: calls[0]?.id ?? '', approved: true }
    expect(await chat.refusal(decide)).toMatchObject({ code: 'ALREADY_DECIDED' })
  })

  test('does not happen because the page is closed', async () => {
    const { until, release } = hold()
    const { page, chat } = await converse(() => ({ text: ['One', until, ' two'] }))
    const run = await chat.say('Count')
    await chat.until(run, ({ texts }) => texts[0] === 'One')
    page.socket.terminate()
    release()
    const again = openChat(await shop.page(member), chat.thread)
    again.request({ type: 'chat/resume', thread_id: chat.thread }, 'chat/no-active').catch(() => undefined)
    expect(await again.rest(run)).toMatchObject({ texts: ['One two'], end: { status: 'succeeded' } })
  })
})

describe('replacing', () => {
  test('an answer asks the model again, without the old answer', async () => {
    const { chat } = await converse((_, count) => ({ text: [`Answer ${count}`] }))
    const first = await chat.say('Hi')
    await chat.rest(first)
    const again = { type: 'chat/send' as const, thread_id: chat.thread, trigger: 'regenerate-message' }
    const { run_id } = await chat.request(again, 'chat/start')
    expect(run_id).not.toBe(first)
    expect(await chat.rest(run_id)).toMatchObject({ texts: ['Answer 2'] })
    expect(JSON.stringify(model.requests[1])).not.toContain('Answer 1')
    const list = await chat.request({ type: 'chat/messages', thread_id: chat.thread }, 'chat/message-list')
    expect(list.messages).toMatchObject([{ text: 'Hi' }, { id: run_id }])
  })

  test('a message also replaces its answer', async () => {
    const { chat } = await converse((_, count) => ({ text: [`Answer ${count}`] }))
    await chat.rest(await chat.say('First'))
    await chat.rest(await chat.say('Scond'))
    await chat.rest(await chat.say('Second', { trigger: 'edit-message' }))
    const asked = JSON.stringify(model.requests[2]?.messages)
    expect(asked).toContain('First')
    expect(asked).toContain('Second')
    expect(asked).not.toContain('Scond')
    expect(asked).not.toContain('Answer 2')
  })
})

describe('threads', () => {
  test.each([
    ['chat/send', { message: { id: randomUUID(), text: 'Hi' } }],
    ['chat/resume', {}],
    ['chat/abort', {}],
    ['chat/messages', {}],
  ] as const)('of another user do not exist for %s', async (type, more) => {
    const { chat } = await converse(() => ({ text: ['Hi'] }))
    await chat.rest(await chat.say('Mine'))
    const other = openChat(await shop.page({ sub: 'other', email: 'o@demo.test', email_verified: true }))
    const refused = await other.refusal({ type, thread_id: chat.thread, ...more })
    expect(refused).toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
  })

  test('of another site of the organization are shown in the panel, and not to scripts of this page', async () => {
    const { page, chat } = await converse(() => ({ text: ['Hi'] }), { sub: 'shopper', email: 'shopper@demo.test' })
    const run = await chat.say('Mine')
    await chat.rest(run)
    await rows((sql) => sql`update threads set origin = 'https://other.example' where id = ${chat.thread}`)
    const read = { type: 'chat/messages' as const, thread_id: chat.thread }
    expect(await chat.refusal(read)).toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
    const rate = { type: 'chat/feedback' as const, message_id: run, rating: 'up' }
    expect(await chat.refusal(rate)).toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
    expect((await chat.request({ type: 'chat/threads' }, 'chat/thread-list')).threads).toEqual([])
    const url = `${pageOrigin}/cart`
    const panel = openChat(
      await shop.page({ sub: 'shopper', email: 'shopper@demo.test' }, { origin: shop.url, hello: { url } }),
    )
    expect((await panel.request(read, 'chat/message-list')).messages).toHaveLength(2)
    await panel.request(rate, 'chat/done')
    expect((await panel.request({ type: 'chat/threads' }, 'chat/thread-list')).threads).toHaveLength(1)
    expect(page.unread('bye')).toEqual([])
  })

  test('take no NUL, wherever it is in a request', async () => {
    const { page, chat } = await converse(() => ({ calls: [{ name: 'empty_cart', args: {} }] }))
    await offer(page, 'empty_cart')
    const { calls } = await chat.rest(await chat.say('Empty it'), 'waiting')
    const decide = { type: 'chat/decide' as const, call_id: calls[0]?.id, approved: true, edited_args: { a: ['\0'] } }
    const refused = (field: string) => ({
      code: 'VALIDATION_ERROR',
      message: expect.stringMatching(`^${field}: .*NUL`),
    })
    expect(await chat.refusal(decide)).toMatchObject(refused('edited_args'))
    const message = { id: randomUUID(), text: 'Hi', skill: '\0' }
    expect(await chat.refusal({ type: 'chat/send', thread_id: chat.thread, message })).toMatchObject(refused('skill'))
    expect(await chat.refusal({ type: 'chat/threads', query: '\0' })).toMatchObject(refused('query'))
  })

  test('take 10 000 messages', async () => {
    const { chat } = await converse(() => ({ text: ['Hello'] }))
    await chat.rest(await chat.say('First'))
    await rows((sql) => sql`update threads set message_count = 10000 where id = ${chat.thread}`)
    const message = { id: randomUUID(), text: 'Last' }
    for (const change of [{ message }, { trigger: 'regenerate-message' }]) {
      expect(await chat.refusal({ type: 'chat/send', thread_id: chat.thread, ...change })).toMatchObject({
        code: 'THREAD_FULL',
      })
    }
  })

  test('of one user that begin at the same time are five', async () => {
    const { until, release } = hold()
    const { page } = await converse(() => ({ text: ['One', until] }), { sub: randomUUID(), email: 'eager@demo.test' })
    const chats = Array.from({ length: 8 }, () => openChat(page))
    const sent = await Promise.allSettled(chats.map((chat) => chat.say('Count')))
    release()
    expect(sent.filter(({ status }) => status === 'fulfilled')).toHaveLength(5)
    const refused = sent.flatMap((each) => (each.status === 'rejected' ? [String(each.reason)] : []))
    for (const reason of refused) expect(reason).toContain('TOO_MANY_RUNS')
  })

  test('of one user that wait continue five at a time', async () => {
    const { until, release } = hold()
    const { page } = await converse(
      ({ messages }) =>
        messages.at(-1)?.role === 'tool' ? { text: ['Done', until] } : { calls: [{ name: 'empty_cart', args: {} }] },
      { sub: randomUUID(), email: 'approver@demo.test' },
    )
    await offer(page, 'empty_cart')
    allow(page, () => 'empty')
    const questions = []
    for (let n = 0; n < 6; n += 1) {
      const chat = openChat(page)
      const run = await chat.say('Empty it')
      const { calls } = await chat.rest(run, 'waiting')
      questions.push({ chat, run, decide: { type: 'chat/decide' as const, call_id: calls[0]?.id, approved: true } })
    }
    for (const { chat, decide } of questions.slice(0, 5)) await chat.request(decide, 'chat/done')
    const sixth = questions[5] as (typeof questions)[number]
    expect(await sixth.chat.refusal(sixth.decide)).toMatchObject({ code: 'TOO_MANY_RUNS' })
    const message = { id: randomUUID(), text: 'Go on' }
    const send = { type: 'chat/send' as const, thread_id: sixth.chat.thread, message }
    expect(await sixth.chat.refusal(send)).toMatchObject({ code: 'TOO_MANY_RUNS' })
    release()
    await vi.waitFor(async () => {
      const { threads } = await sixth.chat.request({ type: 'chat/threads' }, 'chat/thread-list')
      expect(threads.filter(({ status }) => status === 'succeeded')).toHaveLength(5)
    })
    await sixth.chat.request(sixth.decide, 'chat/done')
    await sixth.chat.rest(sixth.run, 'succeeded')
  })

  test('of one user are worked on five at a time', async () => {
    const { until, release } = hold()
    const { page } = await converse(() => ({ text: ['One', until] }))
    const chats = Array.from({ length: 6 }, () => openChat(page))
    const runs: string[] = []
    for (const chat of chats.slice(0, 5)) runs.push(await chat.say('Count'))
    const message = { id: randomUUID(), text: 'Count' }
    const sixth = { type: 'chat/send' as const, thread_id: chats[5]?.thread ?? '', message }
    expect(await chats[5]?.refusal(sixth)).toMatchObject({ code: 'TOO_MANY_RUNS' })
    release()
    await vi.waitFor(async () => {
      const [active] = await rows<{ count: number }>(
        (sql) => sql`select count(*) as count from runs where id = any(${runs}::uuid[]) and status = 'running'`,
      )
      expect(active?.count).toBe(0)
    })
  })

  test('of the user are listed without those of others', async () => {
    const { chat } = await converse(() => ({ text: ['Hi'] }), { sub: 'alone', email: 'alone@demo.test' })
    await chat.rest(await chat.say('Mine'))
    const { threads } = await chat.request({ type: 'chat/threads' }, 'chat/thread-list')
    expect(threads.map(({ id }) => id)).toEqual([chat.thread])
  })
})
