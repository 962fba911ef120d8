import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { IdentityRequests } from './identity-requests.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

function useRequests() {
  const asked: number[] = []
  const requests = new IdentityRequests(
    () => asked.push(Date.now()),
    () => Date.now(),
  )
  return { requests, asked }
}

test('the page is asked at once, and not again before it has answered', () => {
  const { requests, asked } = useRequests()
  expect(requests.request()).toBe(false)
  vi.advanceTimersByTime(0)
  requests.request()
  vi.advanceTimersByTime(3_600_000)
  expect(asked).toHaveLength(1)
  requests.answered()
  requests.request()
  vi.advanceTimersByTime(1_000)
  expect(asked).toHaveLength(2)
})

test('while its tokens keep being refused, it is asked less and less often, and never less than every five minutes', () => {
  const { requests, asked } = useRequests()
  const repeated = Array.from({ length: 30 }, () => {
    const isRepeated = requests.request()
    vi.advanceTimersByTime(300_000)
    requests.answered()
    return isRepeated
  })
  expect(repeated).toEqual([false, ...Array(29).fill(true)])
  expect(asked).toHaveLength(30)
  const start = asked[0] ?? 0
  const delays = asked.map((at, n) => at - start - n * 300_000)
  expect(Math.max(...delays.slice(0, 3))).toBeLessThanOrEqual(2_000)
  expect(Math.min(...delays.slice(20))).toBeGreaterThanOrEqual(75_000)
})

test('tokens that are accepted and refused in turn do not make it ask in circles', () => {
  const { requests, asked } = useRequests()
  for (let turn = 0; turn < 1_000; turn++) {
    requests.request()
    vi.advanceTimersByTime(3_600)
    requests.answered()
    requests.accepted()
  }
  expect(asked.length, 'in an hour').toBeLessThan(30)
})

test('a token that runs out after a calm time is replaced at once', () => {
  const { requests, asked } = useRequests()
  requests.request()
  vi.advanceTimersByTime(0)
  requests.answered()
  requests.accepted()
  vi.advanceTimersByTime(60_000)
  expect(requests.request()).toBe(false)
  vi.advanceTimersByTime(0)
  expect(asked).toHaveLength(2)
})

test('a page that says who the user is while a request waits is not asked any more', () => {
  const { requests, asked } = useRequests()
  requests.request()
  requests.answered()
  vi.advanceTimersByTime(300_000)
  expect(asked).toEqual([])
})
