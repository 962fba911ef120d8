import { expect, test } from 'vitest'
import { useTestService } from '../../../test/harness.ts'
import { findWrongSums } from '../../../test/usage-records.ts'
import { seedDemoUsage } from './demo-usage.ts'

test('the demo has 90 days of traffic with three sites, forty end users, quiet weekends, growth and exact totals', async () => {
  const app = await useTestService()
  const demo = await app.organization('demo')
  const added = await seedDemoUsage(app.service, demo)
  const token = await app.tokenFor('member@demo.test', 'demo')
  const read = async (path: string) => (await app.request('GET', path, { token })).body
  const start = new Date(app.clock.now - 90 * 86_400_000).toISOString()

  expect((await read('/usage/sites')).sites.map(({ origin }: { origin: string }) => origin)).toEqual([
    'https://shop.demo.test',
    'https://help.demo.test',
    'https://app.demo.test',
  ])
  expect((await read(`/usage/end-users?start_date=${start}`)).total).toBe(40)
  const days: { date: string; total_requests: number; total_tokens: number }[] = await read(
    `/usage/daily?start_date=${start}`,
  )
  expect(days.reduce((total, day) => total + day.total_requests, 0)).toBe(added)
  expect(added).toBeGreaterThan(5000)
  const mean = (some: typeof days) => some.reduce((total, day) => total + day.total_requests, 0) / some.length
  const isWeekend = ({ date }: { date: string }) => [0, 6].includes(new Date(date).getUTCDay())
  // The first and last days are partial, because the range starts in the middle of a day.
  const whole = days.slice(1, -1)
  expect(whole.every((day) => day.total_requests > 0 && day.total_tokens > day.total_requests)).toBe(true)
  const [quiet, busy] = [whole.filter(isWeekend), whole.filter((day) => !isWeekend(day))]
  expect(mean(quiet)).toBeLessThan(0.6 * mean(busy))
  expect(mean(whole.slice(-28))).toBeGreaterThan(1.3 * mean(whole.slice(0, 28)))
  expect(await findWrongSums(app, demo)).toEqual([])
})

test('seeding again, even on another day, adds only missing events', async () => {
  const app = await useTestService()
  const demo = await app.organization('demo')
  const added = await seedDemoUsage(app.service, demo)
  expect(await seedDemoUsage(app.service, demo)).toBe(0)
  await app.service.database.asOrg(demo, async (sql) => {
    await sql`delete from usage_events where created_at > now() - interval '10 days'`
    await sql`delete from usage_site_days`
    await sql`delete from usage_end_user_spans`
    await sql`delete from usage_end_users`
  })
  app.clock.now += 5 * 86_400_000
  const again = await seedDemoUsage(app.service, demo)
  expect(again).toBeGreaterThan(500)
  const [row] = await app.service.database.asOrg(
    demo,
    (sql) => sql<{ events: number; sites: number; people: number }>`
      select (select count(*) from usage_events) as events, (select count(*) from sites) as sites,
             (select count(*) from end_users) as people`,
  )
  expect(row).toEqual({ events: added, sites: 3, people: 40 })
})

test('two organizations get the same traffic with different IDs', async () => {
  const app = await useTestService()
  const [demo, other] = [await app.organization('demo'), await app.organization('other')]
  expect(await seedDemoUsage(app.service, other)).toBe(await seedDemoUsage(app.service, demo))
  const ids = (organizationId: string) =>
    app.service.database.asOrg(
      organizationId,
      (sql) =>
        sql<{
          id: string
        }>`select id from end_users union all select id from sites union all select id from usage_events`,
    )
  const theirs = new Set((await ids(other)).map(({ id }) => id))
  expect((await ids(demo)).filter(({ id }) => theirs.has(id))).toEqual([])
})
