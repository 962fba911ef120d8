import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { openChat } from '../../../test/chat.ts'
import { type Collector, type ReceivedSpan, startCollector } from '../../../test/collector.ts'
import { answerWith, startInterceptor } from '../../../test/interceptor.ts'
import { offer, openPage, type Page } from '../../../test/page.ts'
import { type Script, type ScriptedModel, startScriptedModel } from '../../../test/scripted-model.ts'
import { member, type Person, type Shop, startShop } from '../../../test/shop.ts'

let shop: Shop
let model: ScriptedModel
let collector: Collector
beforeAll(async () => {
  collector = await startCollector()
  model = await startScriptedModel(() => ({ text: ['Hello'] }))
  shop = await startShop({ ...settings(), OTEL_EXPORTER_OTLP_HEADERS: 'Authorization=Basic%20YTpi,x-team=support' })
})
afterAll(async () => {
  await shop.close()
  model.close()
  collector.close()
})

const settings = (url = `${collector.url}/`) => ({
  MODEL_URL: model.url,
  MODEL_NAME: 'scripted',
  OTEL_EXPORTER_OTLP_ENDPOINT: url,
})

async function converse(script: Script, where = shop, person: Person = member) {
  model.follow(script)
  model.requests.length = 0
  const page = await where.page(person)
  return { page, chat: openChat(page) }
}

/** The spans of a run, oldest first, once the node's work on it has ended `times` times. */
async function traceOf(runId: string, { times = 1, from = collector } = {}) {
  const ofRun = () => from.spans.filter(({ traceId }) => traceId === runId.replaceAll('-', ''))
  const roots = await vi.waitFor(() => {
    const found = ofRun().filter(({ parentId }) => parentId === undefined)
    expect(found).toHaveLength(times)
    return found
  })
  const spans = ofRun().sort((a, b) => Number(a.start - b.start))
  return { roots, spans, [Symbol.iterator]: () => spans[Symbol.iterator]() }
}

const named = (spans: Iterable<ReceivedSpan>, name: string) => [...spans].filter((span) => span.name === name)

async function offerReading(page: Page, name: string): Promise<void> {
  const annotations = { readOnlyHint: true }
  page.send({ type: 'tools/list', tools: [{ name, description: `Reads ${name}`, annotations }] })
  await page.next('tools/accepted')
}

const callThenAnswer: Script = ({ messages }) =>
  messages.at(-1)?.role === 'tool' ? { text: ['It has 3'] } : { calls: [{ name: 'read_cart', args: { id: 'seven' } }] }

describe('a run', () => {
  test('has a span with the model calls and tool calls in it', async () => {
    const { page, chat } = await converse(callThenAnswer)
    await offerReading(page, 'read_cart')
    page.answer(() => 'three items')
    const run = await chat.say('How full is it?')
    const { calls } = await chat.rest(run, 'succeeded')
    const { spans } = await traceOf(run)
    const ofAll = {
      'gen_ai.conversation.id': chat.thread,
      'session.id': chat.thread,
      'user.id': page.ready.user.id,
      'inlay.organization.id': await shop.organization('demo'),
      'inlay.run.id': run,
    }
    const chatAttributes = {
      ...ofAll,
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'openai_compatible',
      'gen_ai.request.model': 'scripted',
      'gen_ai.request.max_tokens': 4096,
      'gen_ai.request.stream': true,
      'gen_ai.usage.input_tokens': 100,
      'gen_ai.usage.output_tokens': 10,
      'inlay.usage.is_estimated': false,
      'server.address': '127.0.0.1',
      'server.port': Number(new URL(model.url).port),
    }
    const runAttributes = {
      ...ofAll,
      'gen_ai.operation.name': 'invoke_agent',
      'gen_ai.agent.name': 'Assistant',
      'gen_ai.provider.name': 'openai_compatible',
      'inlay.run.status': 'succeeded',
    }
    const toolAttributes = {
      ...ofAll,
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': 'read_cart',
      'gen_ai.tool.call.id': calls[0]?.id,
      'gen_ai.tool.type': 'function',
      'inlay.tool.kind': 'page',
      'inlay.tool.origin': 'https://shop.example',
    }
    expect(spans.map(({ name, kind, attributes }) => ({ name, kind, attributes }))).toEqual([
      { name: 'invoke_agent Assistant', kind: 1, attributes: runAttributes },
      {
        name: 'chat scripted',
        kind: 3,
        attributes: { ...chatAttributes, 'gen_ai.response.finish_reasons': ['tool_call'] },
      },
      { name: 'execute_tool read_cart', kind: 1, attributes: toolAttributes },
      { name: 'chat scripted', kind: 3, attributes: { ...chatAttributes, 'gen_ai.response.finish_reasons': ['stop'] } },
    ])
    const [root, ...children] = spans as [ReceivedSpan, ...ReceivedSpan[]]
    for (const child of children) {
      expect(child.parentId).toBe(root.spanId)
      expect(child.start >= root.start && child.start <= child.end && child.end <= root.end).toBe(true)
    }
    expect(Math.abs(Number(root.start / 1_000_000n) - Date.now())).toBeLessThan(60_000)
    expect(spans.every(({ status }) => status === undefined)).toBe(true)
    expect(new Set(spans.map(({ spanId }) => spanId)).size).toBe(4)
  })

  test('sends no contents by default', async () => {
    const { page, chat } = await converse(callThenAnswer)
    await offerReading(page, 'read_cart')
    page.answer(() => 'three items')
    await traceOf(await chat.say('How full is it?'))
    const sent = Buffer.concat(collector.requests.map(({ body }) => body)).toString()
    expect(sent).toContain('read_cart')
    for (const text of ['How full', 'It has 3', 'seven', 'three items', 'You are Assistant', 'member@demo.test']) {
      expect(sent.toLowerCase()).not.toContain(text.toLowerCase())
    }
  })

  test('is sent with the operator’s headers, as this installation', async () => {
    const { chat } = await converse(() => ({ text: ['Hi'] }))
    await traceOf(await chat.say('Hi'))
    expect(collector.requests.at(-1)).toMatchObject({
      path: '/v1/traces',
      headers: { 'content-type': 'application/x-protobuf', authorization: 'Basic YTpi', 'x-team': 'support' },
    })
    expect(collector.resource).toMatchObject({ 'service.name': 'inlay', 'service.version': '0.1.0' })
    expect(collector.resource['service.instance.id']).toMatch(/^[0-9a-f-]{36}$/)
    expect(shop.logged()).not.toContain('YTpi')
  })

  test('that fails has the reason, and so has each of its model calls', async () => {
    const { chat } = await converse(() => ({ status: 500 }))
    const run = await chat.say('Hi')
    await chat.rest(run, 'failed')
    const { roots, spans } = await traceOf(run)
    expect(roots[0]).toMatchObject({
      status: { code: 2 },
      attributes: { 'error.type': 'MODEL_FAILED', 'inlay.run.status': 'failed' },
    })
    const failed = { status: { code: 2 }, attributes: { 'error.type': 'provider', 'gen_ai.usage.input_tokens': 0 } }
    expect(named(spans, 'chat scripted')).toMatchObject([failed, failed])
  })

  test('that the user stops isn’t marked as failed', async () => {
    const never = new Promise(() => undefined)
    const { chat } = await converse(() => ({ text: ['One two three', never] }))
    const run = await chat.say('Count')
    await chat.until(run, ({ texts }) => texts[0] === 'One two three')
    await chat.request({ type: 'chat/abort', thread_id: chat.thread }, 'chat/done')
    const { roots, spans } = await traceOf(run)
    expect(roots[0]?.attributes['inlay.run.status']).toBe('stopped')
    expect(named(spans, 'chat scripted')[0]?.attributes).toMatchObject({
      'gen_ai.response.finish_reasons': ['stopped'],
      'gen_ai.usage.output_tokens': 3,
      'inlay.usage.is_estimated': true,
    })
    expect(spans.filter(({ status }) => status)).toEqual([])
  })

  test('that is stopped during a tool call marks the call as interrupted', async () => {
    const { page, chat } = await converse(callThenAnswer)
    await offerReading(page, 'read_cart')
    const run = await chat.say('How full is it?')
    await page.next('tool/call')
    await chat.request({ type: 'chat/abort', thread_id: chat.thread }, 'chat/done')
    const { spans } = await traceOf(run)
    const [call] = named(spans, 'execute_tool read_cart')
    expect(call).toMatchObject({ status: { code: 2 }, attributes: { 'error.type': 'interrupted' } })
  })

  test('shows tool calls that failed', async () => {
    const { page, chat } = await converse(callThenAnswer)
    await offerReading(page, 'read_cart')
    const run = await chat.say('How full is it?')
    const { call_id } = await page.next('tool/call')
    page.send({ type: 'tool/result', call_id, error: { code: 'failed', message: 'Out of order' } })
    const { spans } = await traceOf(run)
    const [call] = named(spans, 'execute_tool read_cart')
    expect(call).toMatchObject({ status: { code: 2 }, attributes: { 'error.type': 'failed' } })
  })

  test('that waits for the user continues in the same trace', async () => {
    const { page, chat } = await converse(({ messages }) =>
      messages.at(-1)?.role === 'tool' ? { text: ['Done'] } : { calls: [{ name: 'empty_cart', args: {} }] },
    )
    await offer(page, 'empty_cart')
    page.answer(() => 'emptied')
    const run = await chat.say('Empty it')
    const { calls } = await chat.rest(run, 'waiting')
    await chat.request({ type: 'chat/decide', call_id: calls[0]?.id ?? '', approved: true }, 'chat/done')
    const { roots, spans } = await traceOf(run, { times: 2 })
    const [asked, decided] = roots.sort((a, b) => Number(a.start - b.start)) as [ReceivedSpan, ReceivedSpan]
    expect(asked.attributes['inlay.run.status']).toBe('waiting')
    expect(decided.attributes['inlay.run.status']).toBe('succeeded')
    const [call] = named(spans, 'execute_tool empty_cart')
    expect(call?.parentId).toBe(decided.spanId)
  })

  test('that another node takes over has a span for each node, with the same conversation', async () => {
    const never = new Promise(() => undefined)
    const { chat } = await converse((_, count) => (count === 1 ? { text: ['Half', never] } : { text: ['Whole'] }))
    const run = await chat.say('Hi')
    await chat.until(run, ({ texts }) => texts[0] === 'Half')
    await shop.service.database.asOrg(
      await shop.organization('demo'),
      (sql) => sql`
        update runs set node = ${randomUUID()}, epoch = epoch + 1, lease_until = now() - interval '1 second'
        where id = ${run}`,
    )
    await chat.until(run, ({ texts, end }) => texts[0] === 'Whole' && end !== undefined)
    const { roots, spans } = await traceOf(run, { times: 2 })
    expect(roots.map(({ attributes }) => attributes['inlay.run.status']).sort()).toEqual(['running', 'succeeded'])
    expect(new Set(roots.map(({ attributes }) => attributes['gen_ai.conversation.id']))).toEqual(new Set([chat.thread]))
    const [lost] = named(spans, 'chat scripted')
    expect(lost?.attributes['error.type']).toBe('interrupted')
  })

  test('that needs a summary has a span for it', async () => {
    const { chat } = await converse(() => ({ text: ['Fine'] }))
    for (const text of ['One', 'Two', 'Three']) await chat.rest(await chat.say(text))
    let isShort = false
    model.follow(({ messages }) => {
      if (!JSON.stringify(messages.at(-1)).includes('Summarize the conversation')) {
        return isShort
          ? { text: ['I know'] }
          : { status: 400, error: 'This model’s maximum context length is 10 tokens' }
      }
      isShort = true
      return { text: ['They counted to three.'], usage: { prompt_tokens: 55, completion_tokens: 5 } }
    })
    const run = await chat.say('Four')
    await chat.rest(run, 'succeeded')
    const { spans } = await traceOf(run)
    const calls = named(spans, 'chat scripted').map(({ attributes }) => attributes)
    expect(calls).toMatchObject([
      { 'error.type': 'context' },
      { 'gen_ai.usage.input_tokens': 55, 'gen_ai.usage.output_tokens': 5 },
      { 'gen_ai.usage.input_tokens': 100 },
    ])
  })
})

/** Starts another installation for one test, and closes it to send everything. */
async function converseElsewhere(env: Record<string, string>, work: (where: Shop) => Promise<void>) {
  const where = await startShop(env)
  let isClosed = false
  const close = async () => {
    if (!isClosed) await where.close()
    isClosed = true
  }
  onTestFinished(close)
  await work(where)
  await close()
  return where
}

async function startOwnCollector(): Promise<Collector> {
  const own = await startCollector()
  onTestFinished(() => own.close())
  return own
}

test('contents are sent if the operator switches that on, and metrics in any case', async () => {
  const own = await startOwnCollector()
  const env = {
    ...settings(own.url),
    OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: 'true',
    OTEL_SERVICE_NAME: 'shop-agent',
  }
  await converseElsewhere(env, async (where) => {
    const { page, chat } = await converse(callThenAnswer, where)
    await offerReading(page, 'read_cart')
    page.answer(() => 'three items')
    await chat.rest(await chat.say('How full is it?'), 'succeeded')
  })
  const [first, second] = named(own.spans, 'chat scripted').map(({ attributes }) => attributes)
  const read = (text: unknown) => JSON.parse(String(text))
  expect(read(first?.['gen_ai.system_instructions'])[0].content).toMatch(/^You are Assistant/)
  expect(read(first?.['gen_ai.input.messages'])).toMatchObject([
    { role: 'user', parts: [{ type: 'text', content: 'How full is it?' }, { type: 'text' }] },
  ])
  expect(read(first?.['gen_ai.output.messages'])).toMatchObject([
    {
      role: 'assistant',
      parts: [{ type: 'tool_call', name: 'read_cart', arguments: '{"id":"seven"}' }],
      finish_reason: 'tool_call',
    },
  ])
  expect(read(second?.['gen_ai.input.messages'])).toMatchObject([
    { role: 'user' },
    { role: 'assistant', parts: [{ type: 'tool_call', arguments: '{"id":"seven"}' }] },
    { role: 'tool', parts: [{ type: 'tool_call_response', response: expect.stringContaining('three items') }] },
  ])
  const [tool] = named(own.spans, 'execute_tool read_cart')
  expect(tool?.attributes).toMatchObject({
    'gen_ai.tool.call.arguments': '{"id":"seven"}',
    'gen_ai.tool.call.result': 'three items',
  })
  expect(own.resource['service.name']).toBe('shop-agent')

  const about = {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': 'openai_compatible',
    'gen_ai.request.model': 'scripted',
    'server.address': '127.0.0.1',
    'server.port': Number(new URL(model.url).port),
  }
  expect(own.metrics).toMatchObject([
    {
      name: 'gen_ai.client.token.usage',
      unit: '{token}',
      histogram: {
        temporality: 2,
        points: [
          { attributes: { ...about, 'gen_ai.token.type': 'input' }, count: 2n, sum: 200, min: 100, max: 100 },
          { attributes: { ...about, 'gen_ai.token.type': 'output' }, count: 2n, sum: 20, min: 10, max: 10 },
        ],
      },
    },
    { name: 'gen_ai.client.operation.duration', unit: 's', histogram: { points: [{ attributes: about, count: 2n }] } },
  ])
})

test('contents that are sent have no credentials, and no result that the governance provider withheld', async () => {
  const own = await startOwnCollector()
  const { url: interceptor_url, asked } = await startInterceptor(({ id, method, params }, response) => {
    const isBlocked = JSON.stringify([method, params]).includes('withheld canary')
    return answerWith(
      isBlocked ? { status: 'failure', message: 'Not this', violations: [] } : { status: 'success', violations: [] },
    )({ jsonrpc: '2.0', id, method, params }, response)
  })
  const env = {
    ...settings(own.url),
    MODEL_KEY: 'key-canary-of-the-model',
    OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: 'true',
  }
  const seen: string[] = []
  await converseElsewhere(env, async (where) => {
    const token = await where.tokenFor('admin@demo.test', 'demo')
    const governance = { interceptor_url, interceptor_name: 'p', api_key: 'key-canary-of-the-policy', is_enabled: true }
    const { status } = await where.request('PATCH', '/governance/providers/config', { token, body: governance })
    expect(status).toBe(200)
    model.follow(callThenAnswer)
    const ticket = await where.ticket(member)
    seen.push(token, ticket)
    const page = await openPage(where.local, ticket)
    await offerReading(page, 'read_cart')
    seen.push(page.ready.resume_secret)
    page.answer(() => 'withheld canary')
    const chat = openChat(page)
    const { calls } = await chat.rest(await chat.say('How full is it?'), 'succeeded')
    expect(calls[0]?.error).toMatch(/\S/)
  })
  expect(asked.length).toBeGreaterThan(0)
  const sent = Buffer.concat(own.requests.map(({ body }) => body)).toString()
  expect(sent).toContain('How full is it?')
  const canaries = ['withheld canary', 'key-canary-of-the-model', 'key-canary-of-the-policy', 'member@demo.test']
  for (const secret of [...canaries, ...seen]) expect(sent).not.toContain(secret)
})

test.each([
  ['is away', (own: Collector) => own.close()],
  ['never answers', (own: Collector) => own.respond('stall')],
  ['fails', (own: Collector) => own.respond(500)],
])('a run doesn’t notice that the receiver %s', async (_, spoil) => {
  const own = await startOwnCollector()
  spoil(own)
  const where = await converseElsewhere(settings(own.url), async (where) => {
    const { chat } = await converse(() => ({ text: ['Hello'] }), where)
    expect(await chat.rest(await chat.say('Hi'))).toMatchObject({ texts: ['Hello'], end: { status: 'succeeded' } })
  })
  expect(where.logged()).toContain('Spans were dropped')
  expect(own.spans).toEqual([])
})

test('nothing is sent without a receiver', async () => {
  const before = collector.requests.length
  const { OTEL_EXPORTER_OTLP_ENDPOINT: _, ...env } = settings()
  const captured = { OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: 'true' }
  const where = await converseElsewhere({ ...env, ...captured }, async (where) => {
    const { chat } = await converse(() => ({ text: ['Hello'] }), where)
    await chat.rest(await chat.say('Hi'), 'succeeded')
  })
  expect(where.logged()).not.toMatch(/telemetry/i)
  expect(collector.requests.length).toBe(before)
})
