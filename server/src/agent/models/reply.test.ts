import fc from 'fast-check'
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { createClient, paceEvents } from './clients.ts'
import { createEventPace } from './event-pace.ts'
import { ReplyTooLong } from './failures.ts'
import type { Model } from './models.ts'
import { noReply, readReply } from './reply.ts'

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
})

/** One element of a reply: text, or the name of a tool that is called. */
type Part = string | { tool: string }
type Provider = 'openai_compatible' | 'anthropic'

const isText = (part: Part) => typeof part === 'string'

function writeOpenAi(parts: readonly Part[]): string {
  const chunk = (delta: object, more: object = {}) =>
    `data: ${JSON.stringify({ id: 'x', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason: null, ...more }] })}\n\n`
  const call = (index: number, name: string) => [
    chunk({ tool_calls: [{ index, id: `call-${index}`, type: 'function', function: { name, arguments: '{"a"' } }] }),
    chunk({ tool_calls: [{ index, function: { arguments: ':1}' } }] }),
  ]
  const events = parts.flatMap((part, index) =>
    typeof part === 'string' ? chunk({ content: part }) : call(index, part.tool),
  )
  const start = chunk({ role: 'assistant', content: '' })
  return [start, ...events, chunk({}, { finish_reason: 'stop' }), 'data: [DONE]\n\n'].join('')
}

function writeAnthropic(parts: readonly Part[]): string {
  const event = (type: string, data: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`
  const usage = { input_tokens: 1, output_tokens: 1 }
  const message = { type: 'message', id: 'x', role: 'assistant', model: 'm', content: [], stop_reason: null, usage }
  const events = [event('message_start', { message })]
  let index = -1
  parts.forEach((part, position) => {
    const goesOn = isText(part) && position > 0 && isText(parts[position - 1] as Part)
    if (!goesOn && index >= 0) events.push(event('content_block_stop', { index }))
    if (!goesOn) {
      index += 1
      const block = isText(part)
        ? { type: 'text', text: '' }
        : { type: 'tool_use', id: `call-${position}`, name: part.tool, input: {} }
      events.push(event('content_block_start', { index, content_block: block }))
    }
    const delta = isText(part)
      ? { type: 'text_delta', text: part }
      : { type: 'input_json_delta', partial_json: '{"a":1}' }
    events.push(event('content_block_delta', { index, delta }))
  })
  if (index >= 0) events.push(event('content_block_stop', { index }))
  events.push(event('message_delta', { delta: { stop_reason: 'end_turn' }, usage }), event('message_stop', {}))
  return events.join('')
}

const write = { openai_compatible: writeOpenAi, anthropic: writeAnthropic }

const Parts = fc.array(
  fc.oneof(
    { weight: 8, arbitrary: fc.string({ minLength: 1, maxLength: 6, unit: 'grapheme' }) },
    { weight: 1, arbitrary: fc.constantFrom('"', '\\', '\n', '\n\n', 'data: {"delta":{"content":"', '😀') },
    { weight: 1, arbitrary: fc.constantFrom({ tool: 'find' }, { tool: 'buy' }) },
  ),
  { maxLength: 30 },
)
/** Where the stream is cut, and how long each piece comes after the last one. */
const Cuts = fc.array(fc.record({ bytes: fc.integer({ min: 1, max: 400 }), ms: fc.constantFrom(0, 1, 30, 130, 300) }), {
  minLength: 1,
})

async function* cut(text: string, cuts: readonly { bytes: number; ms: number }[]): AsyncGenerator<Uint8Array> {
  const bytes = new TextEncoder().encode(text)
  let from = 0
  for (let index = 0; from < bytes.length; index += 1) {
    const { bytes: size, ms } = cuts[index % cuts.length] as (typeof cuts)[number]
    if (ms > 0) await new Promise((resolve) => setTimeout(resolve, ms))
    yield bytes.subarray(from, from + size)
    from += size
  }
}

const LineEnd = fc.constantFrom('\n', '\r\n', '\r')

test.each<Provider>(['openai_compatible', 'anthropic'])('a reply is read as it was sent: %s', async (provider) => {
  await fc.assert(
    fc.asyncProperty(Parts, Cuts, LineEnd, async (parts, cuts, lineEnd) => {
      const body = ReadableStream.from(cut(write[provider](parts).replaceAll('\n', lineEnd), cuts))
      const response = new Response(body, { headers: { 'content-type': 'text/event-stream' } })
      const fetch = paceEvents(async () => response, createEventPace())
      const language = createClient({ provider, url: 'https://model.example.com/v1', name: 'm', key: 'k' }, fetch)
      const reply = noReply()
      const heard: (string | number)[] = []
      const reading = readReply({ language } as Model, { prompt: [], maxOutputTokens: 4_096 }, reply, {
        mostCalls: parts.length,
        silenceMs: 1_000_000,
        signal: new AbortController().signal,
        onText: (text) => heard.push(text),
      })
      const ended = reading.then(
        () => undefined,
        (error) => error,
      )
      await vi.runAllTimersAsync()
      expect(await ended).toBeUndefined()
      expect(reply.text).toBe(parts.filter(isText).join(''))
      expect(heard.join('')).toBe(reply.text)
      expect(reply.calls.map(({ toolName, input }) => [toolName, JSON.parse(input)])).toEqual(
        parts.filter((part) => typeof part !== 'string').map(({ tool }) => [tool, { a: 1 }]),
      )
    }),
  )
})

test('a successful response is paced whatever its type, because the AI SDK reads it as an event stream', async () => {
  const respond = (status: number) =>
    paceEvents(
      async () => new Response('data: a\r\n\r\n', { status, headers: { 'content-type': 'text/plain' } }),
      createEventPace(),
    )('https://model.example.com/v1')
  expect(await (await respond(200)).text()).toBe('data: a\n\n')
  expect(await (await respond(400)).text()).toBe('data: a\r\n\r\n')
})

const replies: [string, (length: number) => string][] = [
  ['text', (length) => writeOpenAi(Array(100).fill('x'.repeat(length / 100)))],
  ['text in one event', (length) => writeOpenAi(['x'.repeat(length)])],
  [
    'thoughts',
    (length) =>
      `data: ${JSON.stringify({ choices: [{ delta: { reasoning_content: 'x'.repeat(length) } }] })}\n\n${writeOpenAi(['End'])}`,
  ],
  ['arguments', (length) => writeOpenAi([]).replace('data: [DONE]', `${callWith('x'.repeat(length))}data: [DONE]`)],
]

/** A call with arguments of this length. */
function callWith(text: string): string {
  const call = { index: 0, id: 'c', type: 'function', function: { name: 'add', arguments: JSON.stringify({ text }) } }
  return `data: ${JSON.stringify({ choices: [{ index: 0, delta: { tool_calls: [call] } }] })}\n\n`
}

test.each(replies)('a reply with far more %s than was asked for is cut off', async (_, writeReply) => {
  const fetch = async () => new Response(writeReply(20_000), { headers: { 'content-type': 'text/event-stream' } })
  const language = createClient(
    { provider: 'openai_compatible', url: 'http://model.test/v1', name: 'm', key: '' },
    fetch,
  )
  const reply = noReply()
  const model: Model = { source: 'operator', provider: 'openai_compatible', name: 'm', url: '', language }
  const listener = { mostCalls: 16, silenceMs: 60_000, signal: new AbortController().signal }
  const ask = (maxOutputTokens: number) => readReply(model, { prompt: [], maxOutputTokens }, reply, listener)
  await expect(ask(1_000)).rejects.toThrow(ReplyTooLong)
  expect(reply.text.length).toBeLessThanOrEqual(16_000)
  expect(reply.calls).toEqual([])
  await expect(ask(2_000)).resolves.toBeUndefined()
})
