import { expect, test } from 'vitest'
import { runJob, type TestService, useTestService } from '../../../test/harness.ts'
import { usageRecord } from '../../../test/usage-records.ts'
import { isRequested } from '../../kernel/jobs/requests.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { manyEndUsers, usageRanking } from './rankings.ts'
import { recordUsage } from './record.ts'
import { moveEndUserUsage } from './usage.ts'

const today = '2026-03-15'
const spans: [title: string, span: string, range: string][] = [
  ['the last 7 days', '7', `start_date=2026-03-09&end_date=${today}`],
  ['the last 30 days', '30', ''],
  ['the last 90 days', '90', `start_date=2025-12-16&end_date=${today}`],
  ['the last 365 days', '365', `start_date=2025-03-16&end_date=${today}`],
  ['the current month', 'month', `start_date=2026-03-01&end_date=${today}`],
]
const endUsersWithUsage = 300

/** An organization with many end users, and what some of them have used. */
async function startLargeOrganization() {
  const app = await useTestService()
  app.clock.now = Date.parse(`${today}T08:00:00.000Z`)
  const demo = await app.organization('demo')
  const token = await app.tokenFor('admin@demo.test', 'demo')
  const ids = Array.from({ length: manyEndUsers }, newId)
  await app.service.database.asOrg(
    demo,
    (sql) => sql`
      insert into end_users (organization_id, id, external_id)
      select current_organization(), id, 'user-' || id from unnest(${ids}::uuid[]) id`,
  )
  const use = (id: string | undefined, daysAgo: number, tokens: number) =>
    usageRecord(demo, {
      end_user_id: id ?? '',
      created_at: new Date(app.clock.now - daysAgo * 86_400_000).toISOString(),
      prompt_tokens: tokens,
    })
  const days = [0, 1, 6, 7, 14, 15, 29, 30, 89, 90, 364, 365]
  // Many have the same number of tokens, so that the order of their IDs matters too.
  await recordUsage(
    app.service,
    ids
      .slice(0, endUsersWithUsage)
      .flatMap((id, n) => [
        use(id, days[n % days.length] ?? 0, 10 * (n % 7)),
        use(id, days[(n * 5) % days.length] ?? 0, n % 3),
      ]),
  )
  const record = (id: string | undefined, daysAgo: number, tokens: number) =>
    recordUsage(app.service, use(id, daysAgo, tokens))
  return { app, demo, token, ids, record }
}

interface Page {
  users: { end_user_id: string; total_requests: number; total_tokens: number }[]
  total: number
}

/** All pages of a ranking. */
async function readAll(app: TestService, token: string, range: string): Promise<Page> {
  const users: Page['users'] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const path = `/usage/end-users?limit=70&${range}${cursor && `&cursor=${cursor}`}`
    const { body, headers } = await app.request('GET', path, { token })
    users.push(...body.users)
    cursor = headers.get('next-cursor')
    if (cursor === null) return { users, total: body.total }
  }
  throw new Error('There is always a last page')
}

const readStored = (app: TestService, organizationId: string) =>
  app.service.database.asOrg(
    organizationId,
    (sql) => sql`select span, count(*) as rows from usage_ranked_end_users group by span order by span`,
  )

test.each(spans)('a kept ranking of %s has the same pages and total as adding up each time', async (_, span, range) => {
  const { app, demo, token, ids, record } = await startLargeOrganization()
  const added = await readAll(app, token, range)
  expect(added.users.length).toBe(added.total)
  expect(added.total).toBeGreaterThan(span === 'month' ? 40 : 70)
  await runJob(app, demo, usageRanking, span)
  expect(await readStored(app, demo)).toEqual([{ span, rows: added.total }])
  expect(await readAll(app, token, range)).toEqual(added)

  // New usage is in the ranking after the next run, also of someone who has used nothing before.
  await record(ids[0], 0, 5_000)
  await record(ids[1], 1, 4_000)
  await record(ids[endUsersWithUsage], 0, 3_000)
  expect(await readAll(app, token, range)).toEqual(added)
  await runJob(app, demo, usageRanking, span)
  const { users } = await readAll(app, token, range)
  expect(users.slice(0, 3).map(({ end_user_id }) => end_user_id)).toEqual([ids[0], ids[1], ids[endUsersWithUsage]])
})

test('on the next day, a kept ranking is of the days until then', async () => {
  const { app, demo, token } = await startLargeOrganization()
  const range = 'start_date=2026-03-10&end_date=2026-03-16'
  await readAll(app, token, `start_date=2026-03-09&end_date=${today}`)
  await runJob(app, demo, usageRanking, '7')
  app.clock.now += 24 * 60 * 60_000
  const tomorrow = await app.tokenFor('admin@demo.test', 'demo')
  const added = await readAll(app, tomorrow, range)
  await runJob(app, demo, usageRanking, '7')
  expect(await readStored(app, demo)).toEqual([{ span: '7', rows: added.total }])
  expect(await readAll(app, tomorrow, range)).toEqual(added)
})

test('a ranking that is older than ten minutes is added up again', async () => {
  const { app, demo, token, ids, record } = await startLargeOrganization()
  await readAll(app, token, '')
  await runJob(app, demo, usageRanking, '30')
  await record(ids[0], 0, 5_000)
  expect((await readAll(app, token, '')).users[0]?.total_tokens).toBeLessThan(5_000)
  app.clock.now += 10 * 60_000 + 1
  expect((await readAll(app, token, '')).users[0]?.total_tokens).toBeGreaterThan(5_000)
})

test('an erased end user is gone from kept rankings and their totals at once', async () => {
  const { app, demo, token } = await startLargeOrganization()
  const { users, total } = await readAll(app, token, '')
  await runJob(app, demo, usageRanking, '30')
  const first = users[0]?.end_user_id
  expect((await app.request('DELETE', `/end-users/${first}`, { token })).status).toBe(200)
  expect(await readAll(app, token, '')).toEqual({ users: users.slice(1), total: total - 1 })
  expect(await readStored(app, demo)).toEqual([{ span: '30', rows: total - 1 }])
})

test('the usage of a merged end user counts as that of the other one in kept rankings', async () => {
  const { app, demo, token } = await startLargeOrganization()
  const { users, total } = await readAll(app, token, '')
  await runJob(app, demo, usageRanking, '30')
  const [first, second] = users
  await app.service.database.asOrg(demo, (sql) =>
    moveEndUserUsage(sql, [second?.end_user_id ?? ''], [first?.end_user_id ?? '']),
  )
  const merged = await readAll(app, token, '')
  expect(merged.total).toBe(total - 1)
  expect(merged.users[0]).toMatchObject({
    end_user_id: first?.end_user_id,
    total_tokens: (first?.total_tokens ?? 0) + (second?.total_tokens ?? 0),
  })
})

test('a ranking that nobody asks for isn’t added up, and is deleted after a week', async () => {
  const { app, demo, token, ids, record } = await startLargeOrganization()
  const { total } = await readAll(app, token, '')
  await runJob(app, demo, usageRanking, '30')
  const totalsOf = () =>
    app.service.database.asOrg(
      demo,
      (sql) => sql`select requests from usage_ranked_end_users where end_user_id = ${ids[0]}`,
    )
  const before = await totalsOf()
  app.clock.now += 60 * 60_000
  await record(ids[0], 0, 5_000)
  await runJob(app, demo, usageRanking, '30')
  expect(await totalsOf()).toEqual(before)
  expect(await readStored(app, demo)).toEqual([{ span: '30', rows: total }])
  app.clock.now += 7 * 24 * 60 * 60_000
  await runJob(app, demo, usageRanking, '30')
  expect(await readStored(app, demo)).toEqual([])
  const rest = await app.service.database.asOrg(demo, async (sql) => [
    ...(await sql`select from usage_rankings`),
    ...((await isRequested(sql, usageRanking, '30')) ? ['requested'] : []),
  ])
  expect(rest).toEqual([])
})

test.each([
  ['of an organization with few end users', 'other', ''],
  ['of a range that ends before today', 'demo', 'end_date=2026-03-14'],
  ['of a range that the dashboard doesn’t offer', 'demo', 'start_date=2026-03-02'],
] as const)('a ranking %s isn’t kept', async (_, slug, range) => {
  const { app } = await startLargeOrganization()
  await app.request('GET', `/usage/end-users?${range}`, {
    token: await app.tokenFor(`admin@${slug}.test` as const, slug),
  })
  const organization = await app.organization(slug)
  expect(await app.service.database.asOrg(organization, (sql) => sql`select from usage_rankings`)).toEqual([])
})
