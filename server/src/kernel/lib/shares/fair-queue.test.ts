import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createFairQueue, QueueFull, Turns } from './fair-queue.ts'

/** A queue whose jobs end on demand, and the order in which they started. */
function useQueue(options: { atATime: number; waiting: number }) {
  const queue = createFairQueue(options)
  const started: string[] = []
  const running: (() => void)[] = []
  return {
    started,
    running,
    add: (lane: string, name = lane) =>
      queue(lane, () => {
        started.push(name)
        return new Promise<string>((resolve) => running.push(() => resolve(name)))
      }).catch((error) => (error instanceof QueueFull ? 'refused' : 'failed')),
    async finishOne() {
      running.shift()?.()
      await new Promise((resolve) => setImmediate(resolve))
    },
  }
}

test('runs the jobs of one lane in order, and only as many at a time as allowed', async () => {
  const { add, started, running, finishOne } = useQueue({ atATime: 2, waiting: 10 })
  const jobs = ['1', '2', '3', '4', '5'].map((name) => add('a', name))
  expect(started).toEqual(['1', '2'])
  while (running.length > 0) {
    expect(running.length).toBeLessThanOrEqual(2)
    await finishOne()
  }
  expect(await Promise.all(jobs)).toEqual(['1', '2', '3', '4', '5'])
})

test('lets lanes take turns: a new lane does not wait for all earlier jobs of another', async () => {
  const { add, started, running, finishOne } = useQueue({ atATime: 1, waiting: 10 })
  const jobs = [add('a', 'a1'), add('a', 'a2'), add('a', 'a3'), add('a', 'a4'), add('b', 'b1'), add('c', 'c1')]
  while (running.length > 0) await finishOne()
  await Promise.all(jobs)
  expect(started).toEqual(['a1', 'a2', 'b1', 'c1', 'a3', 'a4'])
})

test('rejects the lane that fills the queue, and gives its last place to another lane', async () => {
  const { add, running, finishOne } = useQueue({ atATime: 1, waiting: 3 })
  const jobs = ['a1', 'a2', 'a3', 'a4'].map((name) => add('a', name))
  expect(await add('a', 'a5')).toBe('refused')
  const newcomer = add('b', 'b1')
  expect(await add('b', 'b2'), 'no more than its share').toBe('refused')
  while (running.length > 0) await finishOne()
  expect(await Promise.all([...jobs, newcomer])).toEqual(['a1', 'a2', 'a3', 'refused', 'b1'])
})

test('rejects a new lane when the queue is full of lanes with one job each', async () => {
  const { add, running, finishOne } = useQueue({ atATime: 1, waiting: 2 })
  const jobs = [add('a'), add('b'), add('c'), add('d')]
  while (running.length > 0) await finishOne()
  expect(await Promise.all(jobs)).toEqual(['a', 'b', 'c', 'refused'])
})

test('leaves room: a lane has at most as many places as are free, and gets more as others leave', async () => {
  const turns = new Turns({ atATime: 12, leavesSpace: true, waiting: 100 })
  const got = { a: 0, b: 0, c: 0 }
  const ask = (lane: keyof typeof got) => {
    const turn = turns.enter(lane)
    if (turn) void turn.then(() => (got[lane] += 1))
    else got[lane] += 1
  }
  for (const lane of ['a', 'b', 'c'] as const) for (let n = 0; n < 10; n += 1) ask(lane)
  expect(got).toEqual({ a: 6, b: 3, c: 1 })
  for (let n = 0; n < 5; n += 1) turns.leave('a')
  await new Promise((resolve) => setImmediate(resolve))
  expect(got, 'those who have least are next').toEqual({ a: 8, b: 3, c: 3 })
})

test('frees the slot of a failed job', async () => {
  const queue = createFairQueue({ atATime: 1, waiting: 1 })
  const failing = queue('a', async () => {
    throw new Error('failed')
  })
  const next = queue('a', async () => 'ran')
  await expect(failing).rejects.toThrow('failed')
  expect(await next).toBe('ran')
})

test('runs or rejects every job, within its limits', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.constantFrom('a', 'b', 'c', 'finish'), { maxLength: 60 }), async (steps) => {
      const { add, running, started, finishOne } = useQueue({ atATime: 2, waiting: 4 })
      const jobs: Promise<string>[] = []
      let settled = 0
      for (const step of steps) {
        if (step === 'finish') await finishOne()
        else {
          const job = add(step)
          void job.then(() => settled++)
          jobs.push(job)
          await new Promise((resolve) => setImmediate(resolve))
        }
        expect(running.length).toBeLessThanOrEqual(2)
        expect(jobs.length - settled - running.length).toBeLessThanOrEqual(4)
      }
      while (running.length > 0) await finishOne()
      const names = await Promise.all(jobs)
      expect(names.filter((name) => name !== 'refused')).toHaveLength(started.length)
    }),
    { numRuns: 50 },
  )
})
