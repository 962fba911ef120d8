import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestService, type TestService } from '../../../test/harness.ts'
import { readPlanFile, shippedPlanFile } from '../../kernel/config/plan-file.ts'
import { requireFeature } from './plans.ts'

let app: TestService
/** Tokens for `demo`, which is on the enterprise plan, and `other`, which is on the free plan. */
const tokens = { demo: '', other: '' }
beforeAll(async () => {
  app = await startTestService()
  tokens.demo = await app.tokenFor('member@demo.test', 'demo')
  tokens.other = await app.tokenFor('admin@other.test', 'other')
})
afterAll(() => app.close())

describe('the list', () => {
  test('returns every plan in the file, without the billing provider’s product ID', async () => {
    const { body } = await app.request('GET', '/plan-tiers', { token: tokens.other })
    expect(body.count).toBe(3)
    expect(body.plans.map(({ id }: { id: string }) => id)).toEqual(['free', 'team', 'enterprise'])
    expect(body.plans[1]).toEqual({
      id: 'team',
      name: 'Team',
      description: 'For one product and the team behind it',
      features: { sso: true, scim: false, audit_logs: false, custom_domains: false, end_users: true, seats: true },
      limits: { seats: 25, end_users: 5000, sites: 10, skills: 200 },
      created_at: '2026-01-01T00:00:00.000Z',
      updated_at: '2026-01-01T00:00:00.000Z',
    })
  })
})

describe('the current plan', () => {
  const plan = { id: 'free', name: 'Free', description: 'For trying Inlay out on one site' }
  const features = { sso: false, scim: false, audit_logs: false, custom_domains: false, end_users: true, seats: true }
  const limits = { seats: 3, end_users: 100, sites: 1, skills: 10 }
  const usage = { seats_used: 2, end_users_used: 0 }

  test.each([
    ['', { plan, features, limits, usage }],
    ['?include=all', { plan, features, limits, usage }],
    ['?include=basic', { plan }],
    ['?include=features', { plan, features, limits }],
    ['?include=usage', { plan, limits, usage }],
  ])('with "%s" returns the requested parts', async (query, expected) => {
    const { body } = await app.request('GET', `/plan-tiers/current${query}`, { token: tokens.other })
    expect(body).toEqual(expected)
  })

  test.each([
    ['include=everything', 'include'],
    ['include=', 'include'],
    ['include=all&include=all', 'include'],
    ['feature=sso', 'feature'],
  ])('rejects "%s"', async (query, field) => {
    const { body } = await app.request('GET', `/plan-tiers/current?${query}`, { token: tokens.other })
    expect(body.data).toMatchObject({ code: 'VALIDATION_ERROR', field })
  })

  test('has the usage of every limit', async () => {
    const content = '---\nname: counted\ndescription: Counts.\n---\n'
    const skill = await app.request('POST', '/organization-skills', { token: tokens.other, body: { content } })
    const read = async () => (await app.request('GET', '/plan-tiers/usage', { token: tokens.other })).body
    expect(await read()).toEqual({ seats: 2, end_users: 0, sites: 0, skills: 1 })
    await app.request('DELETE', `/organization-skills/${skill.body.id}`, { token: tokens.other })
    expect(await read()).toMatchObject({ skills: 0 })
  })

  test('counts invitations as seats, and shows when all seats are in use', async () => {
    const invite = await app.request('POST', '/organizations/current/invitations', {
      token: tokens.other,
      body: { email: 'third@example.com', role: 'member' },
    })
    const { body } = await app.request('GET', '/plan-tiers/current', { token: tokens.other })
    expect(body.usage.seats_used).toBe(3)
    expect(body.features).toEqual({ ...features, seats: false })
    await app.request('DELETE', `/organizations/current/invitations/${invite.body.id}`, { token: tokens.other })
  })

  test('counts end users up to the limit', async () => {
    const other = await app.organization('other')
    const add = (count: number) =>
      app.service.database.asOrg(
        other,
        (sql) => sql`
          insert into end_users (organization_id, id, external_id)
          select current_organization(), id, id::text from (select gen_random_uuid() as id from generate_series(1, ${count})) n`,
      )
    const read = async () => (await app.request('GET', '/plan-tiers/current', { token: tokens.other })).body
    await add(99)
    expect(await read()).toMatchObject({ usage: { end_users_used: 99 }, features: { end_users: true } })
    await add(1)
    expect(await read()).toMatchObject({ usage: { end_users_used: 100 }, features: { end_users: false } })
    await app.service.database.asOrg(other, (sql) => sql`delete from end_users`)
  })

  test('falls back to the free plan if the organization’s plan is no longer in the file', async () => {
    const other = await app.organization('other')
    const setPlan = (id: string) =>
      app.service.database.asOrg(other, (sql) => sql`update organizations set plan_id = ${id}`)
    await setPlan('discontinued')
    const { body } = await app.request('GET', '/plan-tiers/current', { token: tokens.other })
    expect(body.plan.id).toBe('free')
    await setPlan('free')
  })
})

describe('checking a feature', () => {
  const check = async (slug: 'demo' | 'other', body: unknown) =>
    (await app.request('POST', '/plan-tiers/check-feature', { token: tokens[slug], body })).body
  const seatsTaken = 'Your plan includes 3 seats, and all are in use'

  test.each<[object, string | null]>([
    [{ feature: 'sso' }, 'The Free plan does not include single sign-on'],
    [{ feature: 'scim' }, 'The Free plan does not include directories'],
    [{ feature: 'audit_logs' }, 'The Free plan does not include audit logs'],
    [{ feature: 'custom_domains' }, 'The Free plan does not include custom domains'],
    [{ feature: 'custom_domains', current_usage: 0 }, 'The Free plan does not include custom domains'],
    [{ feature: 'seats' }, null],
    [{ feature: 'seats', current_usage: 0 }, null],
    [{ feature: 'seats', current_usage: 2 }, null],
    [{ feature: 'seats', current_usage: 3 }, seatsTaken],
    [{ feature: 'seats', current_usage: 1e9 }, seatsTaken],
    [{ feature: 'end_users' }, null],
    [{ feature: 'end_users', current_usage: 99 }, null],
    [{ feature: 'end_users', current_usage: 100 }, 'Your plan includes 100 end users, and all are in use'],
  ])('on the free plan: %j', async (body, reason) => {
    expect(await check('other', body)).toEqual({ feature: 'feature' in body && body.feature, allowed: !reason, reason })
  })

  test.each(['sso', 'scim', 'audit_logs', 'custom_domains', 'seats', 'end_users'])(
    'the enterprise plan allows %s at any usage',
    async (feature) => {
      expect(await check('demo', { feature, current_usage: 1e9 })).toEqual({ feature, allowed: true, reason: null })
    },
  )

  test.each([
    [{}, 'feature'],
    [{ feature: 'sites' }, 'feature'],
    [{ feature: 1 }, 'feature'],
    [{ feature: 'constructor' }, 'feature'],
    [{ feature: 'seats', current_usage: -1 }, 'current_usage'],
    [{ feature: 'seats', current_usage: '1' }, 'current_usage'],
    [{ feature: 'seats', current_usage: null }, 'current_usage'],
    [{ feature: 'seats', plan: 'team' }, 'plan'],
  ])('rejects %j', async (body, field) => {
    expect((await check('demo', body)).data).toMatchObject({ code: 'VALIDATION_ERROR', field })
  })

  test('a write that needs a missing feature fails with PAYMENT_REQUIRED', async () => {
    const attempt = async (slug: 'demo' | 'other') =>
      app.service.database.asOrg(await app.organization(slug), (sql) =>
        requireFeature(app.service.config.plans, sql, 'sso'),
      )
    await expect(attempt('other')).rejects.toMatchObject({
      envelope: {
        status: 403,
        message: 'The Free plan does not include single sign-on',
        data: { code: 'PAYMENT_REQUIRED' },
      },
    })
    await expect(attempt('demo')).resolves.toBeUndefined()
  })
})

test('the shipped plans have these limits', () => {
  const limits = readPlanFile(shippedPlanFile).map(({ id, limits }) => [id, ...Object.values(limits)])
  expect(limits).toEqual([
    ['free', 3, 100, 1, 10],
    ['team', 25, 5000, 10, 200],
    ['enterprise', 0, 0, 0, 0],
  ])
})
