import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { AnswerDelay } from './answer-delay.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const [key, click, secondClick] = [0, 1, 2]

function useDelay() {
  const changes: boolean[] = []
  const delay = new AnswerDelay((isOver) => changes.push(isOver))
  return { delay, changes }
}

test('accepts clicks and keys after half a second', () => {
  const { delay, changes } = useDelay()
  delay.restart()
  vi.advanceTimersByTime(499)
  expect([delay.accepts(click), delay.accepts(key)]).toEqual([false, false])
  vi.advanceTimersByTime(1)
  expect([delay.accepts(click), delay.accepts(key)]).toEqual([true, true])
  expect(changes).toEqual([false, true])
})

test('ignores the second click of a double click', () => {
  const { delay } = useDelay()
  delay.restart()
  vi.advanceTimersByTime(10_000)
  expect([delay.accepts(secondClick), delay.accepts(3)]).toEqual([false, false])
})

test('starts again for the next question, and for one that comes back into view', () => {
  const { delay } = useDelay()
  delay.restart()
  vi.advanceTimersByTime(400)
  delay.restart()
  vi.advanceTimersByTime(499)
  expect(delay.accepts(click)).toBe(false)
  vi.advanceTimersByTime(1)
  expect(delay.accepts(click)).toBe(true)
  delay.restart()
  expect(delay.accepts(click)).toBe(false)
})

test('ignores input before a question is shown', () => {
  expect(useDelay().delay.accepts(click)).toBe(false)
})
