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

test('asks the page immediately, and not again before it responds', () => {
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

test('asks less often while tokens keep being rejected, but at least every five minutes', () => {
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

test('does not loop when tokens are accepted and rejected in turn', () => {
  const { requests, asked } = useRequests()
  for (let turn = 0; turn < 1_000; turn++) {
    requests.request()
    vi.advanceTimersByTime(3_600)
    requests.answered()
    requests.accepted()
  }
  expect(asked.length, 'in an hour').toBeLessThan(30)
})

test('replaces a token that expires after a calm time immediately', () => {
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

test('does not ask a page that identifies the user while a request is pending', () => {
  const { requests, asked } = useRequests()
  requests.request()
  requests.answered()
  vi.advanceTimersByTime(300_000)
  expect(asked).toEqual([])
})
