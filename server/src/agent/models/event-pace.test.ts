import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { createEventPace, type EventPace, joinEvents } from './event-pace.ts'

const event = (text: string) => `data: {"choices":[{"delta":{"content":"${text}"}}]}\n\n`

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
})

/** A model's stream, and what a reader has received of it. A read returns everything that has arrived, as over HTTP. */
function openStream(pace: EventPace) {
  let arrived: Uint8Array[] = []
  let hasEnded = false
  let wake = () => {}
  let fail: (error: Error) => void = () => undefined
  const cancel = vi.fn()
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        fail = (error) => controller.error(error)
        while (arrived.length === 0 && !hasEnded) await new Promise<void>((resolve) => (wake = resolve))
        if (arrived.length > 0) controller.enqueue(Buffer.concat(arrived))
        else controller.close()
        arrived = []
      },
      cancel,
    },
    { highWaterMark: 0 },
  )
  const reader = pace.follow(body).getReader()
  const received: string[] = []
  const reading = (async () => {
    const decoder = new TextDecoder()
    for (let { value } = await reader.read(); value; { value } = await reader.read()) {
      received.push(decoder.decode(value, { stream: true }))
    }
    received.push('end')
  })()
  reading.catch(() => undefined)
  return {
    send(text: string | Uint8Array) {
      arrived.push(Buffer.from(text))
      wake()
    },
    received,
    reader,
    reading,
    cancel,
    end() {
      hasEnded = true
      wake()
    },
    fail: (error: Error) => fail(error),
  }
}

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms)

test('the text of a single reply arrives at once', async () => {
  const { send, received, end } = openStream(createEventPace())
  for (const text of ['a', 'b', 'c']) {
    await pass(50)
    send(event(text))
    await pass(0)
  }
  end()
  await pass(1)
  expect(received).toEqual([event('a'), event('b'), event('c'), 'end'])
})

test('with many replies, a reply begins at once, and text then arrives together about every 120 ms', async () => {
  const pace = createEventPace()
  const others = Array.from({ length: 400 }, () => openStream(pace))
  const { send, received } = openStream(pace)
  const othersSend = async (ms: number) => {
    for (const other of others) other.send(event('x'))
    await pass(ms)
  }
  // Their beginnings are over.
  for (let times = 0; times < 40; times += 1) await othersSend(10)
  expect(received).toEqual([])
  for (const text of 'abc') {
    send(event(text))
    await othersSend(10)
  }
  expect(received).toEqual([event('a'), event('b'), event('c')])
  for (let times = 0; times < 20; times += 1) await othersSend(10)
  const numbers = Array.from({ length: 100 }, (_, index) => String(index % 10))
  for (const text of numbers) {
    send(event(text))
    await othersSend(10)
  }
  await pass(200)
  const later = received.slice(3)
  expect(later.length).toBeGreaterThanOrEqual(8)
  expect(later.length).toBeLessThanOrEqual(11)
  expect(later.map((each) => /"content":"(\d+)"/.exec(each)?.[1]).join('')).toBe(numbers.join(''))
  // When the others are silent, there is nothing to wait for.
  await pass(500)
  const before = received.length
  for (const text of 'de') {
    send(event(text))
    await pass(3)
  }
  expect(received.slice(before)).toEqual([event('d'), event('e')])
})

test('lines and characters that arrive in pieces stay whole', async () => {
  const { send, received, end } = openStream(createEventPace())
  const bytes = new TextEncoder().encode(event('é') + event('ü'))
  for (const byte of bytes) {
    send(Uint8Array.of(byte))
    await pass(1)
  }
  end()
  await pass(1)
  expect(received.join('')).toBe(`${event('é') + event('ü')}end`)
})

test('lines that aren’t part of an event are dropped', async () => {
  const { send, received, end } = openStream(createEventPace())
  send(`: ping\r\nretry: 1\r\n${event('a')}${'b\n'.repeat(1_000)}\r\n`)
  end()
  await pass(1)
  expect(received).toEqual([`${event('a')}\n`, 'end'])
})

test('a large chunk is passed on in parts, and everything else on the server runs in between', async () => {
  const text = event('a'.repeat(20_000))
  let turns = 0
  const count = () => {
    turns += 1
    immediate = setImmediate(count)
  }
  let immediate = setImmediate(count)
  const parts: { bytes: Uint8Array; turns: number }[] = []
  const body = ReadableStream.from([Buffer.from(text)])
  for await (const bytes of createEventPace().follow(body)) parts.push({ bytes, turns })
  clearImmediate(immediate)
  expect(Buffer.concat(parts.map(({ bytes }) => bytes)).toString()).toBe(text)
  expect(parts.map(({ bytes }) => bytes.length)).toEqual([8_192, 8_192, text.length - 2 * 8_192])
  expect(new Set(parts.map((part) => part.turns)).size).toBe(parts.length)
})

test('a failure and a cancellation are passed on', async () => {
  const failing = openStream(createEventPace())
  await pass(1)
  failing.fail(new Error('broken'))
  await expect(failing.reading).rejects.toThrow('broken')
  const cancelled = openStream(createEventPace())
  await cancelled.reader.cancel('enough')
  expect(cancelled.cancel).toHaveBeenCalledWith('enough')
})

const openAi = (delta: string, more = '') =>
  `data: {"id":"1","choices":[{"index":0,"delta":${delta},"finish_reason":null}]${more}}\n\n`
const spaced = (text: string) => `data: {"id": "1", "choices": [{"delta": {"content": "${text}"}}]}\n\n`
const anthropic = (index: number, delta: string) =>
  `event: content_block_delta\ndata: {"type":"content_block_delta","index":${index},"delta":${delta}}\n\n`

describe('events that only differ in their text become one', () => {
  test.each<[string, string[], string]>([
    ['OpenAI', ['{"content":"Hel"}', '{"content":"lo"}'].map((delta) => openAi(delta)), openAi('{"content":"Hello"}')],
    [
      'with a role and empty members, as Ollama and vLLM send them',
      ['a', 'b'].map((text) => openAi(`{"role":"assistant","reasoning_content":null,"content":"${text}"}`)),
      openAi('{"role":"assistant","reasoning_content":null,"content":"ab"}'),
    ],
    ['with spaces', [spaced('a'), spaced('b')], spaced('ab')],
    [
      'with padding of various lengths',
      [openAi('{"content":"a"}', ',"obfuscation":"x1"'), openAi('{"content":"b"}', ',"obfuscation":"q"')],
      openAi('{"content":"ab"}'),
    ],
    [
      'with escapes, and with a character in two halves',
      [openAi('{"content":"\\"\\\\"}'), openAi('{"content":"\\ud83d"}'), openAi('{"content":"\\ude00\\n"}')],
      openAi('{"content":"\\"\\\\\\ud83d\\ude00\\n"}'),
    ],
    [
      'Anthropic',
      [anthropic(0, '{"type":"text_delta","text":"a"}'), anthropic(0, '{"type":"text_delta","text":"b"}')],
      anthropic(0, '{"type":"text_delta","text":"ab"}'),
    ],
  ])('%s', (_name, events, joined) => {
    expect(joinEvents(events.join(''))).toBe(joined)
  })
})

describe('other events stay as they are', () => {
  const toolCall = (args: string) => openAi(`{"tool_calls":[{"index":0,"function":{"arguments":"${args}"}}]}`)
  const stop = 'data: {"id":"1","choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"stop"}]}\n\n'
  test.each<[string, string[]]>([
    ['arguments of a tool', [toolCall('{'), toolCall('}')]],
    ['the end of a reply', [openAi('{"content":"a"}'), stop, 'data: [DONE]\n\n']],
    ['usage', [openAi('{"content":"a"}', ',"usage":{"n":1}'), openAi('{"content":"b"}', ',"usage":{"n":2}')]],
    ['two choices', ['0', '1'].map((n) => openAi('{"content":"a"}').replace('"index":0', `"index":${n}`))],
    ['two texts', [anthropic(0, '{"type":"text_delta","text":"a"}'), anthropic(1, '{"type":"text_delta","text":"b"}')]],
    ['thoughts', ['a', 'b'].map((text) => anthropic(0, `{"type":"thinking_delta","thinking":"${text}"}`))],
    [
      'a text that looks like an event',
      ['a', 'b'].map((text) => openAi(`{"refusal":"\\"delta\\":{\\"content\\":\\"${text}"}`)),
    ],
    ['text between tool calls', [openAi('{"content":"a"}'), toolCall('{}'), openAi('{"content":"b"}')]],
    ['comments and other lines', [': ping\n\n', 'retry: 5\n\n', 'data: {"error":"broken"\n\n']],
    [
      'lines that end with CRLF',
      ['data: {"delta":{"content":"a"}}\r\n\r\n', 'data: {"delta":{"content":"b"}}\r\n\r\n'],
    ],
    [
      'an event without an end',
      [openAi('{"content":"a"}'), 'data: {"id":"1","choices":[{"index":0,"delta":{"content":"b'],
    ],
  ])('%s', (_name, events) => {
    expect(joinEvents(events.join(''))).toBe(events.join(''))
  })
})
