import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestService, type TestService, useTestService } from '../../../test/harness.ts'
import { type Refusal, recordRefusal } from './refusals.ts'

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

test('a repeated refusal increases its count, and the latest is listed first', async () => {
  const { activity } = app.service
  recordRefusal(app.service, demo, refusal('https://one.example'))
  recordRefusal(app.service, demo, refusal('https://one.example'))
  await activity.flush()
  app.clock.now += 1_000
  recordRefusal(app.service, demo, refusal('https://two.example'))
  await activity.flush()
  app.clock.now += 1_000
  recordRefusal(app.service, demo, refusal('https://one.example'))
  const { refusals, total } = await list()
  expect(total).toBe(2)
  expect(refusals.map(({ seen, count }: { seen: string; count: number }) => [seen, count])).toEqual([
    ['https://one.example', 3],
    ['https://two.example', 1],
  ])
  expect(Date.parse(refusals[0].last_at) - Date.parse(refusals[0].first_at)).toBe(2_000)
  expect((await list('?limit=1&offset=1')).refusals[0].seen).toBe('https://two.example')
})

test('refusals of another organization are not listed', async () => {
  expect(await list('', app, await app.tokenFor('admin@other.test', 'other'))).toEqual({ refusals: [], total: 0 })
})

test('a malicious page can fill neither memory nor the table', async () => {
  const app = await useTestService()
  const demo = await app.organization('demo')
  for (let second = 0; second < 6; second += 1) {
    for (let n = 0; n < 500; n += 1) recordRefusal(app.service, demo, refusal(`https://h${second}-${n}.example`))
    await app.service.activity.flush()
  }
  expect((await list('', app, await app.tokenFor('admin@demo.test', 'demo'))).total).toBe(200)
})

test('refusals in memory are written when the service closes', async () => {
  const { activity, database } = app.service
  recordRefusal(app.service, demo, refusal('https://last.example'))
  await activity.close()
  const rows = await database.asOrg(demo, (sql) => sql`select from refusals where seen = 'https://last.example'`)
  expect(rows).toHaveLength(1)
})

describe('a key without origins, in an organization without allowed domains', () => {
  async function useOpenKey() {
    const app = await useTestService()
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const { body } = await app.request('POST', '/publishable-keys', { token, body: { name: 'Widget' } })
    const visit = (origin: string) =>
      app.request('POST', '/auth/pk-ticket', { body: { publishable_key: body.key }, headers: { origin } })
    const warnings = async () => (await app.request('GET', '/diagnostics/warnings', { token })).body.warnings
    return { app, token, key: body as { id: string; key: string; key_prefix: string }, visit, warnings }
  }

  test('causes a warning that explains what to set and where the key was used', async () => {
    const { app, token, key, visit, warnings } = await useOpenKey()
    const warning = {
      code: 'KEY_ALLOWS_ANY_ORIGIN',
      message: `The key “Widget” (${key.key_prefix}…) works on any website. Set its allowed origins, or the organization’s allowed domains.`,
      publishable_key_id: key.id,
    }
    expect(await warnings(), 'before the first visit').toEqual([{ ...warning, origins: [] }])
    await visit('https://one.example')
    app.clock.now += 1_000
    await visit('https://two.example')
    await visit('https://two.example')
    const at = expect.stringMatching(/Z$/)
    expect(await warnings()).toEqual([
      {
        ...warning,
        origins: [
          { origin: 'https://two.example', count: 2, first_at: at, last_at: at },
          { origin: 'https://one.example', count: 1, first_at: at, last_at: at },
        ],
      },
    ])
    const other = await app.tokenFor('admin@other.test', 'other')
    expect((await app.request('GET', '/diagnostics/warnings', { token: other })).body.warnings).toEqual([])
    const body = { allowed_origins: ['https://one.example'] }
    await app.request('PATCH', `/publishable-keys/${key.id}`, { token, body })
    expect(await warnings(), 'disappears once fixed').toEqual([])
  })

  test('causes no warning once the organization has allowed domains', async () => {
    const { app, token, warnings } = await useOpenKey()
    const body = { allowed_domains: ['https://one.example'] }
    await app.request('PUT', '/organizations/current/allowed-domains', { token, body })
    expect(await warnings()).toEqual([])
  })

  test('lists at most the 20 latest origins', async () => {
    const { app, visit, warnings } = await useOpenKey()
    for (let n = 0; n < 30; n += 1) {
      await visit(`https://early-${n}.example`)
      if (n % 10 === 0) await app.service.activity.flush()
    }
    await app.service.activity.flush()
    app.clock.now += 60_000
    await visit('https://late.example')
    const [warning] = await warnings()
    expect(warning.origins).toHaveLength(20)
    expect(warning.origins[0].origin).toBe('https://late.example')
    const rows = await app.service.database.asOrg(
      await app.organization('demo'),
      (sql) => sql`select from unallowed_origins`,
    )
    expect(rows).toHaveLength(20)
  })
})
