import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestService, type TestService, useTestService } from '../../test/harness.ts'
import type { Refusal } from './activity.ts'

let app: TestService
let token: string
let demo: string
beforeAll(async () => {
  app = await startTestService()
  token = await app.tokenFor('admin@demo.test', 'demo')
  demo = await app.organization('demo')
})
afterAll(() => app.close())

const refusal = (seen: string): Refusal => ({
  surface: 'ticket',
  step: 'origin',
  code: 'ORIGIN_NOT_ALLOWED',
  message: 'The page’s origin is not allowed.',
  expected: 'https://shop.example.com',
  seen,
})
const list = async (query = '', on = app, as = token) =>
  (await on.request('GET', `/diagnostics/refusals${query}`, { token: as })).body

test('the same refusal again counts up, and the latest stands first', async () => {
  const { activity } = app.service
  activity.refused(demo, refusal('https://one.example'))
  activity.refused(demo, refusal('https://one.example'))
  await activity.flush()
  app.clock.now += 1_000
  activity.refused(demo, refusal('https://two.example'))
  await activity.flush()
  app.clock.now += 1_000
  activity.refused(demo, refusal('https://one.example'))
  const { refusals, total } = await list()
  expect(total).toBe(2)
  expect(refusals.map(({ seen, count }: { seen: string; count: number }) => [seen, count])).toEqual([
    ['https://one.example', 3],
    ['https://two.example', 1],
  ])
  expect(Date.parse(refusals[0].last_at) - Date.parse(refusals[0].first_at)).toBe(2_000)
  expect((await list('?limit=1&offset=1')).refusals[0].seen).toBe('https://two.example')
})

test('another organization sees none of it', async () => {
  expect(await list('', app, await app.tokenFor('admin@other.test', 'other'))).toEqual({ refusals: [], total: 0 })
})

test('a hostile page fills neither memory nor the table', async () => {
  const app = await useTestService()
  const demo = await app.organization('demo')
  for (let second = 0; second < 6; second += 1) {
    for (let n = 0; n < 500; n += 1) app.service.activity.refused(demo, refusal(`https://h${second}-${n}.example`))
    await app.service.activity.flush()
  }
  expect((await list('', app, await app.tokenFor('admin@demo.test', 'demo'))).total).toBe(200)
})

test('what is still in memory is written when the service closes', async () => {
  const { activity, database } = app.service
  activity.refused(demo, refusal('https://last.example'))
  await activity.close()
  const rows = await database.asOrg(demo, (sql) => sql`select from refusals where seen = 'https://last.example'`)
  expect(rows).toHaveLength(1)
})
