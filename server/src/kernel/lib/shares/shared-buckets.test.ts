import { expect, test } from 'vitest'
import { SharedBuckets } from './shared-buckets.ts'

const rate = { perSecond: 400, atOnce: 8_000 }

/** Members of one bucket who ask, and how often they got what they asked for. */
function useBucket() {
  const buckets = new SharedBuckets(rate, { buckets: 10, members: 1_000 })
  const ask = (member: string, cost: number, now: number) => {
    const share = buckets.of('key', [member])
    const wait = share.wait(cost, now)
    if (wait === 0) share.spend(cost, now)
    return wait
  }
  /** Each of the greedy asks for as much as it can get, as 50 units a second are. */
  const flood = (greedy: number, seconds: { from: number; to: number }) => {
    let got = 0
    for (let now = seconds.from * 1_000; now < seconds.to * 1_000; now += 20) {
      for (let n = 0; n < greedy; n += 1) if (ask(`greedy ${n}`, 1, now) === 0) got += 1
    }
    return got
  }
  return { buckets, ask, flood }
}

test.each([10, 32, 128])('%s members that take all they can get leave a quiet one what it needs', (greedy) => {
  const { ask, flood } = useBucket()
  flood(greedy, { from: 0, to: 120 })
  const refused: number[] = []
  for (let second = 120; second < 180; second += 1) {
    flood(greedy, { from: second, to: second + 1 })
    if (ask('quiet', 1, second * 1_000) > 0) refused.push(second)
  }
  expect(refused).toEqual([])
})

test('members together get no more than the rate, and nearly all of it', () => {
  const { flood } = useBucket()
  flood(32, { from: 0, to: 120 })
  const perSecond = flood(32, { from: 120, to: 180 }) / 60
  expect(perSecond).toBeLessThanOrEqual(rate.perSecond)
  expect(perSecond).toBeGreaterThan(0.9 * rate.perSecond)
})

test('a member that must wait can spend after that time', () => {
  const { ask } = useBucket()
  for (let n = 0; n < 4_000; n += 1) expect(ask('a', 1, 0)).toBe(0)
  const wait = ask('a', 4, 0)
  expect(wait).toBeGreaterThan(0)
  expect(wait).toBeLessThan(1_000)
  expect(ask('a', 4, wait)).toBe(0)
})

test('something that costs more than the bucket holds has its turn when the bucket is nearly full', () => {
  const { ask } = useBucket()
  expect(ask('a', 100_000, 0)).toBe(0)
  expect(ask('b', 1, 0)).toBeGreaterThan(0)
  expect(ask('b', 100_000, 120_000)).toBe(0)
})

test('a caller that counts as two members needs the share of both', () => {
  const { buckets } = useBucket()
  const of = (n: number) => buckets.of('key', [`address ${n}`, 'network'])
  for (let n = 0; of(n).wait(1, 0) === 0; n += 1) of(n).spend(1, 0)
  expect(of(9_999).wait(1, 0), 'a new address of the same network').toBeGreaterThan(0)
  expect(buckets.of('key', ['another']).wait(1_000, 0)).toBe(0)
})

test('buckets are counted alone, and forgotten when there are too many', () => {
  const { buckets, ask } = useBucket()
  ask('a', 100_000, 0)
  expect(buckets.of('other', ['a']).wait(1, 0)).toBe(0)
  for (let n = 0; n < 10; n += 1) buckets.of(`${n}`, ['a']).spend(1, 0)
  expect(ask('b', 1, 0)).toBe(0)
})

test('ignores a clock that goes back', () => {
  const { ask } = useBucket()
  expect(ask('a', 100_000, 10_000)).toBe(0)
  expect(ask('a', 1, 0)).toBeGreaterThan(0)
})
