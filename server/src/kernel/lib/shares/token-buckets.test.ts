import { expect, test } from 'vitest'
import { TokenBuckets } from './token-buckets.ts'

/** Spends if there is enough, and returns how long to wait otherwise. */
function useBuckets() {
  const buckets = new TokenBuckets({ perSecond: 10, atOnce: 20 }, 2)
  return (key: string, cost: number, now: number) => {
    const wait = buckets.of(key).wait(cost, now)
    if (wait === 0) buckets.of(key).spend(cost, now)
    return wait
  }
}

test('lets a caller spend a lot at once, then only as much as refills, and says how long to wait', () => {
  const take = useBuckets()
  expect([take('a', 15, 0), take('a', 5, 0), take('a', 1, 0), take('a', 10, 0)]).toEqual([0, 0, 100, 1_000])
  expect([take('a', 5, 500), take('a', 1, 500)]).toEqual([0, 100])
  expect(take('a', 20, 1_000_000), 'no more than at once').toBe(0)
  expect(take('a', 1, 1_000_000)).toBe(100)
})

test('counts each caller alone', () => {
  const take = useBuckets()
  expect([take('a', 20, 0), take('a', 20, 0), take('b', 20, 0)]).toEqual([0, 2_000, 0])
})

test('lets something through that costs more than the bucket holds, once it is full', () => {
  const take = useBuckets()
  expect([take('a', 100, 0), take('a', 1, 0), take('a', 1, 2_100)]).toEqual([0, 2_100, 0])
})

test('ignores a clock that goes back', () => {
  const take = useBuckets()
  expect([take('a', 20, 10_000), take('a', 1, 0)]).toEqual([0, 100])
})
