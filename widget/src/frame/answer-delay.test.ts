import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { AnswerDelay } from './answer-delay.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const [key, click, secondClick] = [0, 1, 2]

/** Whether a click counts that begins and ends now. */
function clickOn(delay: AnswerDelay, clicks = click): boolean {
  delay.press()
  return delay.accepts(clicks)
}

function useDelay() {
  const changes: boolean[] = []
  const delay = new AnswerDelay((isOver) => changes.push(isOver))
  return { delay, changes }
}

test('accepts clicks and keys after half a second', () => {
  const { delay, changes } = useDelay()
  delay.restart()
  vi.advanceTimersByTime(499)
  expect([clickOn(delay), delay.accepts(key)]).toEqual([false, false])
  vi.advanceTimersByTime(1)
  expect([clickOn(delay), delay.accepts(key)]).toEqual([true, true])
  expect(changes).toEqual([false, true])
})

test('ignores the second click of a double click', () => {
  const { delay } = useDelay()
  delay.restart()
  vi.advanceTimersByTime(10_000)
  expect([clickOn(delay, secondClick), clickOn(delay, 3)]).toEqual([false, false])
})

test('starts again for the next question, and for one that comes back into view', () => {
  const { delay } = useDelay()
  delay.restart()
  vi.advanceTimersByTime(400)
  delay.restart()
  vi.advanceTimersByTime(499)
  expect(clickOn(delay)).toBe(false)
  vi.advanceTimersByTime(1)
  expect(clickOn(delay)).toBe(true)
  delay.restart()
  expect(clickOn(delay)).toBe(false)
})

test('ignores input before a question is shown', () => {
  expect(clickOn(useDelay().delay)).toBe(false)
})

test('ignores a click that began before the delay was over, however long it takes', () => {
  const { delay } = useDelay()
  delay.restart()
  vi.advanceTimersByTime(400)
  delay.press()
  vi.advanceTimersByTime(400)
  expect(delay.accepts(click)).toBe(false)
  expect(clickOn(delay)).toBe(true)
})

test('ignores a click that began on a former question', () => {
  const { delay } = useDelay()
  delay.restart()
  vi.advanceTimersByTime(500)
  delay.press()
  delay.restart()
  vi.advanceTimersByTime(500)
  expect(delay.accepts(click)).toBe(false)
})

test('pauses for a surprise, and never shortens a delay that has begun', () => {
  const { delay } = useDelay()
  delay.restart()
  delay.restart(300)
  vi.advanceTimersByTime(499)
  expect(clickOn(delay)).toBe(false)
  vi.advanceTimersByTime(1)
  expect(clickOn(delay)).toBe(true)
  delay.restart(300)
  vi.advanceTimersByTime(299)
  expect([clickOn(delay), delay.accepts(key)]).toEqual([false, false])
  vi.advanceTimersByTime(1)
  expect([clickOn(delay), delay.accepts(key)]).toEqual([true, true])
})
