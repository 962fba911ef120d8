import { expect, onTestFinished, test, vi } from 'vitest'
import { keepDoing } from './clock.ts'

function useRepeated(everyMs: number) {
  const log: string[] = []
  const steps: (() => void)[] = []
  let isOver = false
  const repeated = keepDoing(async () => {
    log.push('begun')
    if (!isOver) await new Promise<void>((resolve) => steps.push(resolve))
    log.push('done')
  }, everyMs)
  onTestFinished(async () => {
    isOver = true
    for (const end of steps) end()
    await repeated.close()
  })
  const finish = async () => {
    await vi.waitFor(() => expect(steps).not.toEqual([]))
    steps.shift()?.()
  }
  return { log, repeated, finish }
}

test('begins on its own, but not at once, and repeats', async () => {
  const { log, finish } = useRepeated(10)
  expect(log).toEqual([])
  await finish()
  await finish()
  await vi.waitFor(() => expect(log.slice(0, 4)).toEqual(['begun', 'done', 'begun', 'done']))
})

test('doesn’t pile up if it takes longer than expected', async () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const { promise, resolve } = Promise.withResolvers<void>()
  let count = 0
  const repeated = keepDoing(() => {
    count += 1
    return promise
  }, 1_000)
  await vi.advanceTimersByTimeAsync(10_000)
  resolve()
  await vi.advanceTimersByTimeAsync(500)
  expect(count).toBe(1)
  await vi.advanceTimersByTimeAsync(1_000)
  expect(count).toBe(2)
  await repeated.close()
})

test('“now” waits for its turn', async () => {
  const { log, repeated, finish } = useRepeated(1e9)
  const both = Promise.all([repeated.now(), repeated.now()])
  await vi.waitFor(() => expect(log).toEqual(['begun']))
  await finish()
  await finish()
  await both
  expect(log).toEqual(['begun', 'done', 'begun', 'done'])
})

test('closing waits for what is in progress, and nothing begins afterwards', async () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  let count = 0
  const idle = keepDoing(async () => void count++, 1_000)
  await idle.close()
  await vi.advanceTimersByTimeAsync(10_000)
  expect(count).toBe(0)

  const { promise, resolve } = Promise.withResolvers<void>()
  const busy = keepDoing(() => promise, 1_000)
  await vi.advanceTimersByTimeAsync(1_000)
  let isClosed = false
  const closing = busy.close().then(() => {
    isClosed = true
  })
  await vi.advanceTimersByTimeAsync(10_000)
  expect(isClosed).toBe(false)
  resolve()
  await closing
})
