import { afterAll, beforeAll, expect, test } from 'vitest'
import { type AgentShop, startAgentShop } from '../../../test/agent-shop.ts'
import { openChat } from '../../../test/chat.ts'
import { startModelServer } from '../../../test/model-server.ts'
import {
  type Script,
  type ScriptedModel,
  type ScriptedReply,
  startScriptedModel,
} from '../../../test/scripted-model.ts'
import { member } from '../../../test/shop.ts'
import { runLimits } from './work.ts'

let shop: AgentShop
let model: ScriptedModel
beforeAll(async () => {
  const env = { MODEL_SILENCE_SECONDS: '1', INLAY_ALLOWED_PRIVATE_NETWORKS: '127.0.0.0/8' }
  shop = await startAgentShop(undefined, env)
  model = shop.model
})
afterAll(() => shop.close())

async function ask(script: Script) {
  model.follow(script)
  model.requests.length = 0
  const chat = openChat(await shop.page(member))
  const run = await chat.say('Hi')
  return { chat, run, shown: await chat.rest(run) }
}

const usageOf = async (runId: string) =>
  shop.service.database.asOrg(
    await shop.organization('demo'),
    (sql) => sql<{ finish_reason: string; prompt_tokens: number; completion_tokens: number; is_estimated: boolean }>`
      select u.finish_reason, u.prompt_tokens, u.completion_tokens, u.is_estimated
      from usage_events u join model_calls m on m.id = u.id where m.run_id = ${runId} order by m.id`,
  )

/** Faults, what they are called in the log, and whether the provider may charge, because it didn't refuse the request. */
const faults: [string, ScriptedReply | Promise<never>, string, boolean][] = [
  ['a rate limit', { status: 429, headers: { 'retry-after': '1' } }, 'rate_limit', false],
  ['an error of the provider', { status: 500 }, 'provider', false],
  ['garbage', { text: ['Hal'], ending: 'garbage' }, 'response', true],
  [
    'a stream that breaks off',
    { text: ['Hal', new Promise(setImmediate)], delayMs: 20, ending: 'break' },
    'connection',
    true,
  ],
  ['a stream that ends without a finish', { text: ['Hal'], ending: 'end' }, 'response', true],
  ['a model that never responds', new Promise<never>(() => {}), 'timeout', true],
  ['a stream that stalls', { text: ['Hal'], ending: 'stall' }, 'timeout', true],
]

test.each(faults)(
  '%s passes if the next try succeeds, and its text disappears',
  async (_, fault, reason, mayCharge) => {
    const { shown, run } = await ask((_request, count) => (count === 1 ? fault : { text: ['Whole'] }))
    expect(shown).toMatchObject({ texts: ['Whole'], end: { status: 'succeeded' } })
    expect(shown.attempt).toBe(2)
    const usage = await usageOf(run)
    expect(usage.map(({ finish_reason }) => finish_reason)).toEqual([`failed: ${reason}`, 'stop'])
    expect(usage[0]?.is_estimated).toBe(mayCharge)
    expect((usage[0]?.prompt_tokens ?? 0) > 0).toBe(mayCharge)
  },
)

test.each(faults)(
  '%s that lasts ends the run with a message for the user and a line in the log',
  async (_, fault, reason) => {
    const { shown, run } = await ask(() => fault)
    expect(shown.end).toMatchObject({ status: 'failed', error: { code: 'MODEL_FAILED' } })
    expect(shown.end?.error?.message).toMatch(/Try again/)
    expect(shown.end?.error?.message).not.toMatch(/127\.0\.0\.1|Error|at /)
    const lines = shop
      .logged()
      .split('\n')
      .filter((line) => line.includes(run))
    expect(lines.join('\n')).toContain(`"reason":"${reason}"`)
  },
)

test.each<[string, ScriptedReply, RegExp]>([
  ['invalid JSON in a call', { calls: [{ name: 'read_result', args: '{"call_id": ' }] }, /aren’t a valid JSON object/],
  ['a call of an unknown tool', { calls: [{ name: 'no_such_tool', args: {} }] }, /no tool with this name/],
  [
    'a reply that was cut off',
    { text: ['I'], calls: [{ name: 'activate_skill', args: { name: 'x' } }], finish: 'length' },
    /cut off/,
  ],
])('%s is not carried out', async (_, reply, expected) => {
  const { shown } = await ask(({ messages }) => (messages.at(-1)?.role === 'tool' ? { text: ['Sorry'] } : reply))
  expect(shown.end?.status).toBe('succeeded')
  expect(shown.calls[0]?.error).toMatch(expected)
})

test('of very many calls, one more than can be made is stored, with the reason', async () => {
  const calls = Array.from({ length: 1_000 }, (_, n) => ({ name: 'activate_skill', args: { name: `skill-${n}` } }))
  const { shown } = await ask(({ messages }) => (messages.at(-1)?.role === 'tool' ? { text: ['Sorry'] } : { calls }))
  expect(shown.end?.status).toBe('succeeded')
  expect(shown.calls).toHaveLength(runLimits.callsPerStep + 1)
  expect(shown.calls.at(-2)?.error).toMatch(/no skill named skill-15/)
  expect(shown.calls.at(-1)?.error).toMatch(/Too many calls at once/)
})

const asksForSummary: (request: Parameters<Script>[0]) => boolean = ({ messages }) =>
  JSON.stringify(messages.at(-1)).includes('Summarize the conversation')

/** A conversation with three answers, whose beginning can be summarized. */
async function openLongChat(text = 'Fine') {
  model.follow(() => ({ text: [text] }))
  const chat = openChat(await shop.page(member))
  for (const said of ['One', 'Two', 'Three']) await chat.rest(await chat.say(said))
  return chat
}

test('a conversation that is too long for the model is summarized, and continues', async () => {
  const chat = await openLongChat()
  let isShort = false
  model.follow((request) => {
    if (asksForSummary(request)) {
      isShort = true
      return { text: ['They counted to three.'] }
    }
    const isKnown = JSON.stringify(request.messages).includes('They counted to three')
    if (isShort) return { text: [isKnown ? 'I know' : 'What?'] }
    return { status: 400, error: 'This model’s maximum context length is 10 tokens' }
  })
  const run = await chat.say('Four')
  expect(await chat.rest(run)).toMatchObject({ texts: ['I know'], end: { status: 'succeeded' } })
})

test.each(faults)(
  '%s while a summary is necessary passes if the next try succeeds',
  async (_, fault, __, mayCharge) => {
    const chat = await openLongChat()
    let summaries = 0
    model.follow((request) => {
      if (asksForSummary(request)) {
        summaries += 1
        return summaries === 1 ? fault : { text: ['They counted to three.'] }
      }
      if (summaries === 2) return { text: ['I know'] }
      return { status: 400, error: 'This model’s maximum context length is 10 tokens' }
    })
    const run = await chat.say('Four')
    expect(await chat.rest(run)).toMatchObject({ texts: ['I know'], end: { status: 'succeeded' } })
    const usage = await usageOf(run)
    expect(usage.map(({ finish_reason }) => finish_reason)).toEqual([
      'failed: context',
      'failed: summary',
      'summary',
      'stop',
    ])
    expect((usage[1]?.prompt_tokens ?? 0) > 0, 'a request that was refused costs nothing').toBe(mayCharge)
  },
)

test.each(faults)('%s that lasts while a summary is necessary ends the run with advice', async (_, fault, reason) => {
  const chat = await openLongChat()
  model.follow((request) => (asksForSummary(request) ? fault : { status: 400, error: 'prompt is too long' }))
  const run = await chat.say('Four')
  expect((await chat.rest(run)).end).toMatchObject({ status: 'failed', error: { code: 'CONTEXT_TOO_LONG' } })
  const lines = shop.logged().split('\n')
  expect(lines.filter((line) => line.includes(run)).join('\n')).toContain(`"reason":"${reason}"`)
})

test('a run whose conversation almost fills the window continues if the summary fails, and asks for it only once', async () => {
  // The window is 32 768 tokens.
  const chat = await openLongChat('word '.repeat(9_000))
  let summaries = 0
  let said = ''
  model.follow((request) => {
    if (asksForSummary(request)) {
      summaries += 1
      return { status: 500 }
    }
    said = JSON.stringify(request.messages)
    if (request.messages.at(-1)?.role === 'tool') return { text: ['I know'] }
    return { calls: [{ name: 'read_result', args: { call_id: 'x', from: 0 } }] }
  })
  expect(await chat.rest(await chat.say('Four'))).toMatchObject({ texts: ['I know'], end: { status: 'succeeded' } })
  expect(summaries).toBe(1)
  expect(said, 'the whole conversation').toContain('One')
  model.follow((request) => ({ text: [asksForSummary(request) ? 'They counted.' : 'Five'] }))
  expect(await chat.rest(await chat.say('Five'))).toMatchObject({ texts: ['Five'], end: { status: 'succeeded' } })
  expect(JSON.stringify(model.requests.at(-1)), 'the next run asks again').toContain('They counted.')
})

test.each([
  { prompt_tokens: -1, completion_tokens: 5 },
  { prompt_tokens: 10, completion_tokens: -9_000 },
  { prompt_tokens: 10.5, completion_tokens: 5 },
  { prompt_tokens: 3_000_000_000, completion_tokens: 5 },
  { prompt_tokens: 10, completion_tokens: 2_000_000_000 },
])('impossible numbers of tokens are estimated, and the operator is warned once: %o', async (usage) => {
  const { shown, run } = await ask(() => ({ text: ['Hello'], usage }))
  expect(shown).toMatchObject({ texts: ['Hello'], end: { status: 'succeeded' } })
  expect(await usageOf(run)).toMatchObject([{ finish_reason: 'stop', completion_tokens: 1, is_estimated: true }])
  const lines = shop.logged().split('\n')
  expect(lines.filter((line) => line.includes(run) && line.includes('impossible'))).toHaveLength(1)
})

test('a provider that reports more than was asked for is charged as if it had written all of that', async () => {
  const usage = { prompt_tokens: 10, completion_tokens: 5_000_000 }
  const { run } = await ask(() => ({ text: ['Hello'], usage }))
  const charged = { prompt_tokens: 10, completion_tokens: runLimits.outputTokens, is_estimated: true }
  expect(await usageOf(run)).toMatchObject([charged])
  expect(
    shop
      .logged()
      .split('\n')
      .filter((line) => line.includes(run) && line.includes('impossible')),
  ).toHaveLength(1)
})

test('a model that writes far more than it was asked for is cut off, and not asked again', async () => {
  const written = Array(1_000).fill('word '.repeat(200))
  const { run, shown } = await ask(() => ({ text: written, usage: { prompt_tokens: 10, completion_tokens: 300_000 } }))
  expect(shown).toMatchObject({ texts: [], end: { status: 'failed', error: { code: 'MODEL_FAILED' } } })
  expect(shown.end?.error?.message).toContain('far more than it was asked for')
  expect(model.requests).toHaveLength(1)
  expect(await usageOf(run)).toMatchObject([
    { finish_reason: 'failed: excess', completion_tokens: runLimits.outputTokens, is_estimated: true },
  ])
})

test('a model that can’t be reached costs nothing', async () => {
  const away = await startScriptedModel(() => ({ text: ['Not asked'] }))
  away.close()
  const token = await shop.tokenFor('admin@demo.test', 'demo')
  const set = (own: unknown) => shop.request('PATCH', '/agent/config', { token, body: { model: own } })
  await set({ provider: 'openai_compatible', url: away.url, name: 'away', key: 'sk-for-tests-1234' })
  const { run } = await ask(() => ({ text: ['Not asked'] }))
  await set(null)
  const uncharged = { prompt_tokens: 0, completion_tokens: 0, is_estimated: false, finish_reason: 'failed: connection' }
  expect(await usageOf(run)).toEqual([uncharged, uncharged])
})

test('a message that is too long for the model is refused with advice', async () => {
  const { shown } = await ask(() => ({ status: 400, error: 'prompt is too long: 210000 tokens > 200000 maximum' }))
  expect(shown.end).toMatchObject({ status: 'failed', error: { code: 'CONTEXT_TOO_LONG' } })
})

test('the same call again and again is stopped', async () => {
  const { shown } = await ask(() => ({ calls: [{ name: 'read_result', args: { call_id: 'x', from: 0 } }] }))
  expect(shown.end).toMatchObject({ status: 'failed', error: { code: 'REPEATED_CALLS' } })
  expect(model.requests.length).toBeLessThan(6)
})

test('a fallback model answers if the first fails, even in the middle of a sentence', async () => {
  const other = await startScriptedModel(() => ({ text: ['From the fallback'] }))
  const token = await shop.tokenFor('admin@demo.test', 'demo')
  const own = (url: string, name: string) => ({ provider: 'openai_compatible', url, name, key: 'sk-for-tests-1234' })
  const set = (body: unknown) => shop.request('PATCH', '/agent/config', { token, body })
  try {
    const saved = await set({ model: own(model.url, 'first'), fallback_models: [own(other.url, 'second')] })
    expect(saved.status, JSON.stringify(saved.body)).toBe(200)
    const { shown, run } = await ask(() => ({
      text: ['From the fir', new Promise(setImmediate)],
      delayMs: 20,
      ending: 'break',
    }))
    expect(shown).toMatchObject({ texts: ['From the fallback'], end: { status: 'succeeded' } })
    expect((await usageOf(run)).map(({ finish_reason }) => finish_reason)).toEqual([
      'failed: connection',
      'failed: connection',
      'stop',
    ])
  } finally {
    await set({ model: null, fallback_models: [] })
    other.close()
  }
})

test('a reply of Anthropic’s that ends in the middle of a sentence is not taken for a whole one', async () => {
  const events = [
    {
      type: 'message_start',
      message: { id: 'm', model: 'a', role: 'assistant', content: [], usage: { input_tokens: 9, output_tokens: 1 } },
    },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Half' } },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 2 } },
    { type: 'message_stop' },
  ]
  let count = 0
  const { url } = await startModelServer({
    respond(response) {
      count += 1
      const sent = count === 1 ? events.slice(0, 3) : events
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.end(sent.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join(''))
    },
  })
  const token = await shop.tokenFor('admin@demo.test', 'demo')
  const set = (own: unknown) => shop.request('PATCH', '/agent/config', { token, body: { model: own } })
  expect(await set({ provider: 'anthropic', url, name: 'claude', key: 'sk-for-tests-1234' })).toMatchObject({
    status: 200,
  })
  try {
    const { shown, run } = await ask(() => ({ text: ['Not asked'] }))
    expect(shown).toMatchObject({ texts: ['Half'], attempt: 2, end: { status: 'succeeded' } })
    expect((await usageOf(run)).map(({ finish_reason }) => finish_reason)).toEqual(['failed: response', 'stop'])
  } finally {
    await set(null)
  }
})
