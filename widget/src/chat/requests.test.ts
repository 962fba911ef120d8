import type { ClientMessageInput } from '@inlay/protocol'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { createRequests, type NewRequest, type Refusal } from './requests.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

function useRequests() {
  const sent: (ClientMessageInput & { request_id: string })[] = []
  const outcomes: string[] = []
  const requests = createRequests((message) => void sent.push(message as (typeof sent)[number]))
  const ask = (kind: 'keep' | 'read' | 'once', request: NewRequest = { type: 'chat/about' }) =>
    requests.ask(request, {
      kind,
      onResponse: ({ type }) => outcomes.push(type),
      onRefusal: ({ code }: Refusal) => outcomes.push(code),
    })
  const answer = (index: number) => requests.receive({ type: 'chat/done', request_id: sent[index]?.request_id ?? '' })
  return { requests, ask, answer, sent, outcomes }
}

describe.each([
  ['keep', { unanswered: 3, afterReconnect: 1, lost: [] }],
  ['read', { unanswered: 3, afterReconnect: 0, lost: [] }],
  ['once', { unanswered: 1, afterReconnect: 0, lost: ['OFFLINE'] }],
] as const)('a request of the kind %s', (kind, expected) => {
  test('is sent once, and has one response', () => {
    const { requests, ask, answer, sent, outcomes } = useRequests()
    requests.connected()
    ask(kind)
    answer(0)
    answer(0)
    vi.advanceTimersByTime(60_000)
    expect([sent.length, outcomes]).toEqual([1, ['chat/done']])
  })

  test('without a response is repeated with the same ID or given up', () => {
    const { requests, ask, sent, outcomes } = useRequests()
    requests.connected()
    ask(kind)
    vi.advanceTimersByTime(14_999)
    expect(sent.length).toBe(1)
    vi.advanceTimersByTime(60_000)
    expect([sent.length, outcomes]).toEqual([expected.unanswered, ['NO_RESPONSE']])
    expect(new Set(sent.map(({ request_id }) => request_id)).size).toBe(1)
  })

  test('that is lost with the socket is sent on the next one, or not', () => {
    const { requests, ask, sent, outcomes } = useRequests()
    requests.connected()
    ask(kind)
    requests.disconnected()
    vi.advanceTimersByTime(60_000)
    expect([sent.length, outcomes]).toEqual([1, expected.lost])
    requests.connected()
    expect(sent.length - 1).toBe(expected.afterReconnect)
  })

  test('while there is no socket is kept or not', () => {
    const { requests, ask, sent, outcomes } = useRequests()
    ask(kind)
    expect([sent.length, outcomes]).toEqual([0, expected.lost])
    requests.connected()
    expect(sent.length).toBe(expected.afterReconnect)
  })
})

test('at most six requests are open at the same time, the others follow in order', () => {
  const { requests, ask, answer, sent } = useRequests()
  requests.connected()
  for (let count = 0; count < 8; count += 1) ask('read', { type: 'chat/threads', offset: count })
  expect(sent.length).toBe(6)
  answer(3)
  answer(0)
  expect(sent.map((message) => 'offset' in message && message.offset)).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
})

test('the number of requests that wait is limited', () => {
  const { ask, outcomes } = useRequests()
  for (let count = 0; count < 101; count += 1) ask('keep')
  expect(outcomes).toEqual(['TOO_MANY_REQUESTS'])
})

test('requests of another user are given up', () => {
  const { requests, ask, answer, sent, outcomes } = useRequests()
  requests.connected()
  ask('keep')
  requests.clear()
  answer(0)
  vi.advanceTimersByTime(60_000)
  expect([sent.length, outcomes]).toEqual([1, []])
})
