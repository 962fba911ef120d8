import { beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { createEventPace, type EventPace, type TextListener } from './event-pace.ts'

const event = (text: string) => `data: {"choices":[{"delta":{"content":"${text}"}}]}\n\n`

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
})

/** A model's stream, and what a reader has received of it. A read returns everything that has arrived, as over HTTP. */
function openStream(pace: EventPace, listener?: TextListener) {
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
  const reader = pace.follow(body, listener).getReader()
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

/** A reply that isn't at its beginning anymore, and a listener that knows what the AI SDK has passed on. */
async function openReply(passedOn: string) {
  const taken: string[] = []
  const listener = { endsWith: (text: string) => passedOn.endsWith(text), take: (text: string) => taken.push(text) }
  const { received, ...stream } = openStream(createEventPace(), listener)
  for (const text of ['Oh', 'Hi']) {
    stream.send(event(text))
    await pass(200)
  }
  expect(received.splice(0)).toEqual([event('Oh'), event('Hi')])
  return {
    async send(...pieces: string[]) {
      for (const piece of pieces) {
        stream.send(piece)
        await pass(200)
      }
      return { taken: taken.splice(0), received: received.splice(0) }
    },
  }
}

test('a listener takes text that continues the reply', async () => {
  const { send } = await openReply('Hi')
  expect(await send(event('a') + event('b'), event('\\"\\u00e9\\n'))).toEqual({ taken: ['ab', '"é\n'], received: [] })
  const end = `${event('c')}data: [DONE]\n\n`
  expect(await send(end)).toEqual({ taken: [], received: [end] })
  // The next one follows another event.
  expect(await send(event('Hi'), event('d'))).toEqual({ taken: ['d'], received: [event('Hi')] })
  for (const end of ['\r', '\r\n']) {
    expect(await send(event('e').replaceAll('\n', end))).toEqual({ taken: ['e'], received: [] })
  }
})

test('a listener doesn’t take the beginning of a reply, which the AI SDK may still be passing on', async () => {
  const { send, received } = openStream(createEventPace(), { endsWith: () => true, take: () => undefined })
  for (const text of 'abc') {
    send(event(text))
    await pass(10)
  }
  expect(received).toEqual([event('a'), event('b'), event('c')])
})

test.each<[string, string, string[]]>([
  ['text that the AI SDK takes for something else', 'a thought', [event('a'), event('b')]],
  ['text in another kind of event', 'Hi', [event('a').replace('}]', '}],"usage":{}'), event('b')]],
  ['text with a character that JSON does not allow', 'Hi', [event('a\tb'), event('\\x')]],
  ['the beginning of a line', 'Hi', [event('a') + event('b').slice(0, 9), event('b').slice(9)]],
  ['a line in pieces', 'Hi', [event('ab').slice(0, -9), event('ab').slice(-9)]],
  ['an event in pieces', 'Hi', [event('a').slice(0, -1), `\n${event('b')}`]],
])('a listener doesn’t take %s', async (_name, passedOn, pieces) => {
  const { send } = await openReply(passedOn)
  expect(await send(...pieces)).toEqual({ taken: [], received: pieces })
})
