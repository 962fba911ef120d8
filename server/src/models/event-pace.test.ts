import { beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { createEventPace, type EventPace } from './event-pace.ts'

const event = (text: string) => `data: {"choices":[{"delta":{"content":"${text}"}}]}\n\n`

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
})

/** A model's stream, and what a reader has received of it. */
function openStream(pace: EventPace) {
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined
  const cancel = vi.fn()
  const body = new ReadableStream<Uint8Array>({
    start(given) {
      controller = given
    },
    cancel,
  })
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
  const send = (text: string | Uint8Array) =>
    controller?.enqueue(typeof text === 'string' ? new TextEncoder().encode(text) : text)
  return {
    send,
    received,
    reader,
    reading,
    cancel,
    end: () => controller?.close(),
    fail: (error: Error) => controller?.error(error),
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

test('with many replies, a reply begins at once, and text then arrives together every 150 ms', async () => {
  const pace = createEventPace()
  const others = Array.from({ length: 400 }, () => openStream(pace))
  const { send, received } = openStream(pace)
  await pass(1_000)
  send(event('a'))
  await pass(0)
  expect(received).toEqual([event('a')])
  send(event('b') + event('c'))
  await pass(149)
  expect(received).toHaveLength(1)
  await pass(2)
  expect(received).toEqual([event('a'), event('bc')])
  // When the others have ended, there is nothing to wait for.
  for (const { end } of others) end()
  await pass(200)
  send(event('d'))
  await pass(1)
  send(event('e'))
  await pass(1)
  expect(received.slice(2)).toEqual([event('d'), event('e')])
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

test('a failure and a cancellation are passed on', async () => {
  const failing = openStream(createEventPace())
  await pass(1)
  failing.fail(new Error('broken'))
  await expect(failing.reading).rejects.toThrow('broken')
  const cancelled = openStream(createEventPace())
  await cancelled.reader.cancel('enough')
  expect(cancelled.cancel).toHaveBeenCalledWith('enough')
})
