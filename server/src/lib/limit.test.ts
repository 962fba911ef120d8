import { expect, test } from 'vitest'
import { createLimit } from './limit.ts'

test('never more than so many run at once, all of them run, in order', async () => {
  const limit = createLimit(3)
  let running = 0
  let most = 0
  const started: number[] = []
  const work = (n: number) => async () => {
    started.push(n)
    running += 1
    most = Math.max(most, running)
    await new Promise((resolve) => setImmediate(resolve))
    running -= 1
    return n
  }
  const numbers = Array.from({ length: 20 }, (_, n) => n)
  expect(await Promise.all(numbers.map((n) => limit(work(n))))).toEqual(numbers)
  expect(most).toBe(3)
  expect(started).toEqual(numbers)
})

test('a failure gives its place back', async () => {
  const limit = createLimit(1)
  const failing = limit(async () => {
    throw new Error('failed')
  })
  const next = limit(async () => 'ran')
  await expect(failing).rejects.toThrow('failed')
  expect(await next).toBe('ran')
  expect(await limit(async () => 'runs')).toBe('runs')
})

test('whoever comes just when a place is handed on waits behind', async () => {
  const limit = createLimit(1)
  let running = 0
  const work = async () => {
    running += 1
    expect(running).toBe(1)
    await new Promise((resolve) => setImmediate(resolve))
    running -= 1
  }
  const late: Promise<void>[] = []
  const first = limit(work).then(() => void late.push(limit(work)))
  await Promise.all([first, limit(work), limit(work)])
  await Promise.all(late)
  expect(late).toHaveLength(1)
})
