import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestService, type TestService, useTestService } from '../../../test/harness.ts'
import { addEndUser } from '../../../test/usage-records.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { reserveBudget, settleBudget } from './reservations.ts'

let app: TestService
let token = ''
let demo = ''
beforeAll(async () => {
  app = await startTestService()
  app.clock.now = Date.parse('2026-02-28T23:59:59.000Z')
  token = await app.tokenFor('admin@demo.test', 'demo')
  demo = await app.organization('demo')
})
afterAll(() => app.close())

const none = { day_tokens: null, month_tokens: null, day_cost_micro_usd: null, month_cost_micro_usd: null }
const unused = {
  used_tokens: 0,
  reserved_tokens: 0,
  used_cost_micro_usd: 0,
  reserved_cost_micro_usd: 0,
  is_nearly_reached: false,
}
const day = { starts_on: '2026-02-28', resets_at: '2026-03-01T00:00:00.000Z', ...unused }
const month = { starts_on: '2026-02-01', resets_at: '2026-03-01T00:00:00.000Z', ...unused }

const get = async (path: string) => (await app.request('GET', path, { token })).body
const patch = (path: string, body: unknown) => app.request('PATCH', path, { token, body })
const listAudit = async (action: string) =>
  (await get(`/audit-events?action=${action}&limit=100`)).events.map(
    ({ actor, target, data }: Record<string, unknown>) => ({ actor, target, data }),
  )

describe('the organization’s budgets', () => {
  test('are unlimited at first, except for visitors, and unused', async () => {
    expect(await get('/budgets')).toEqual({
      organization: none,
      end_user_default: none,
      anonymous: { ...none, day_tokens: 500_000 },
      anonymous_shares: {
        day_tokens_per_address: 200_000,
        day_tokens_per_visitor: 100_000,
        day_tokens_per_key: null,
      },
      state: { organization: { day, month }, anonymous: { day, month } },
    })
  })

  test('change field by field, with an audit row for each change', async () => {
    const first = { organization: { day_tokens: 1, month_tokens: 2, day_cost_micro_usd: 3, month_cost_micro_usd: 4 } }
    expect((await patch('/budgets', first)).body).toMatchObject({ ...first, end_user_default: none })
    const second = {
      organization: { day_tokens: null, month_tokens: 0 },
      anonymous: { day_tokens: Number.MAX_SAFE_INTEGER },
      anonymous_shares: { day_tokens_per_address: null, day_tokens_per_key: 5 },
      end_user_default: { month_cost_micro_usd: 50_000_000 },
    }
    const expected = {
      organization: { day_tokens: null, month_tokens: 0, day_cost_micro_usd: 3, month_cost_micro_usd: 4 },
      anonymous: { ...none, day_tokens: Number.MAX_SAFE_INTEGER },
      anonymous_shares: { day_tokens_per_address: null, day_tokens_per_visitor: 100_000, day_tokens_per_key: 5 },
      end_user_default: { ...none, month_cost_micro_usd: 50_000_000 },
    }
    expect((await patch('/budgets', second)).body).toMatchObject(expected)
    expect(await get('/budgets')).toMatchObject(expected)
    // Changes nothing, so there is nothing to audit.
    await patch('/budgets', second)
    await patch('/budgets', {})
    await patch('/budgets', { anonymous: {} })
    expect(await get('/budgets')).toMatchObject(expected)
    expect(await listAudit('budgets.updated')).toEqual(
      [second, first].map((data) => ({ actor: 'admin@demo.test', target: demo, data })),
    )
  })

  test('are not lost if several are changed at once', async () => {
    const changes = [
      { organization: { day_tokens: 11 } },
      { organization: { month_tokens: 12 } },
      { anonymous: { day_tokens: 13 } },
      { end_user_default: { day_tokens: 14 } },
    ]
    await Promise.all(changes.map((change) => patch('/budgets', change)))
    expect(await get('/budgets')).toMatchObject({
      organization: { day_tokens: 11, month_tokens: 12 },
      anonymous: { day_tokens: 13 },
      end_user_default: { day_tokens: 14 },
    })
  })

  test.each([
    [{ organization: { day_tokens: -1 } }, 'organization.day_tokens'],
    [{ organization: { day_tokens: 1.5 } }, 'organization.day_tokens'],
    [{ anonymous: { month_tokens: '5' } }, 'anonymous.month_tokens'],
    [{ anonymous: { month_tokens: 2 ** 53 } }, 'anonymous.month_tokens'],
    [{ anonymous: null }, 'anonymous'],
    [{ anonymous: { week_tokens: 5 } }, 'anonymous.week_tokens'],
    [{ state: {} }, 'state'],
    [{ end_user: {} }, 'end_user'],
  ])('reject %j', async (body, field) => {
    const before = await get('/budgets')
    expect((await patch('/budgets', body)).body.data).toMatchObject({ code: 'VALIDATION_ERROR', field })
    expect(await get('/budgets')).toEqual(before)
  })

  test('can only be read and changed by administrators', async () => {
    const member = await app.tokenFor('member@demo.test', 'demo')
    expect((await app.request('GET', '/budgets', { token: member })).status).toBe(403)
    expect((await app.request('PATCH', '/budgets', { token: member, body: {} })).status).toBe(403)
  })
})

describe('the state', () => {
  test('shows what is used and reserved, and warns at 80 %', async () => {
    const app = await useTestService()
    app.clock.now = Date.parse('2026-02-28T12:00:00.000Z')
    const token = await app.tokenFor('admin@other.test', 'other')
    const organization = await app.organization('other')
    const body = { organization: { day_tokens: 1000, month_tokens: 1100 }, anonymous: { month_cost_micro_usd: 900 } }
    await app.request('PATCH', '/budgets', { token, body })
    const endUserId = await addEndUser(app, organization)
    const now = new Date(app.clock.now)
    await app.service.database.asOrg(organization, async (sql) => {
      const reserved = { tokens: 300, cost_micro_usd: 800 }
      await reserveBudget(sql, { endUserId }, { tokens: 100, cost_micro_usd: 90 }, now)
      await reserveBudget(sql, { endUserId: null }, reserved, now)
      await settleBudget(sql, { endUserId: null }, { reserved, used: { tokens: 850, cost_micro_usd: 719 }, at: now })
    })
    const { state } = (await app.request('GET', '/budgets', { token })).body
    const all = { used_tokens: 850, reserved_tokens: 100, used_cost_micro_usd: 719, reserved_cost_micro_usd: 90 }
    const visitors = { used_tokens: 850, reserved_tokens: 0, used_cost_micro_usd: 719, reserved_cost_micro_usd: 0 }
    expect(state).toEqual({
      organization: {
        day: { ...day, ...all, is_nearly_reached: true },
        month: { ...month, ...all, is_nearly_reached: false },
      },
      anonymous: { day: { ...day, ...visitors }, month: { ...month, ...visitors } },
    })
    await app.request('PATCH', '/budgets', { token, body: { anonymous: { month_cost_micro_usd: 898 } } })
    const { state: nearer } = (await app.request('GET', '/budgets', { token })).body
    expect(nearer.anonymous.month.is_nearly_reached).toBe(true)

    app.clock.now = Date.parse('2026-03-01T00:00:00.000Z')
    const fresh = await app.tokenFor('admin@other.test', 'other')
    const { state: later } = (await app.request('GET', '/budgets', { token: fresh })).body
    expect(later.organization).toMatchObject({
      day: { starts_on: '2026-03-01', resets_at: '2026-03-02T00:00:00.000Z', ...unused },
      month: { starts_on: '2026-03-01', resets_at: '2026-04-01T00:00:00.000Z', ...unused },
    })
  })
})

describe('an end user’s budget', () => {
  test('inherits the default until it has limits of its own', async () => {
    await patch('/budgets', { end_user_default: { day_tokens: 100, month_tokens: 1000, month_cost_micro_usd: null } })
    const id = await addEndUser(app, demo)
    const path = `/end-users/${id}/budget`
    const byDefault = { ...none, day_tokens: 100, month_tokens: 1000 }
    expect(await get(path)).toEqual({ ...none, effective: byDefault, state: { day, month } })

    const own = { day_tokens: 500, day_cost_micro_usd: 7 }
    const changed = { ...none, ...own, effective: { ...byDefault, ...own }, state: { day, month } }
    expect((await patch(path, own)).body).toEqual(changed)
    expect(await get(path)).toEqual(changed)
    await patch(path, own)
    expect((await patch(path, { day_tokens: null })).body).toMatchObject({
      day_tokens: null,
      day_cost_micro_usd: 7,
      effective: { day_tokens: 100, day_cost_micro_usd: 7 },
    })
    expect(await listAudit('end_user_budget.updated')).toEqual([
      { actor: 'admin@demo.test', target: id, data: { day_tokens: null } },
      { actor: 'admin@demo.test', target: id, data: own },
    ])
  })

  test('shows what the end user has used', async () => {
    const [id, other] = [await addEndUser(app, demo), await addEndUser(app, demo)]
    await patch(`/end-users/${id}/budget`, { day_tokens: 10, month_tokens: 1_000_000 })
    const now = new Date(app.clock.now)
    await patch('/budgets', { organization: none })
    await app.service.database.asOrg(demo, async (sql) => {
      await reserveBudget(sql, { endUserId: id }, { tokens: 8, cost_micro_usd: 3 }, now)
      await settleBudget(
        sql,
        { endUserId: id },
        { reserved: { tokens: 8, cost_micro_usd: 3 }, used: { tokens: 9, cost_micro_usd: 2 }, at: now },
      )
    })
    expect((await get(`/end-users/${id}/budget`)).state).toEqual({
      day: { ...day, used_tokens: 9, used_cost_micro_usd: 2, is_nearly_reached: true },
      month: { ...month, used_tokens: 9, used_cost_micro_usd: 2 },
    })
    expect((await get(`/end-users/${other}/budget`)).state).toEqual({ day, month })
  })

  test.each<[string, () => string | Promise<string>]>([
    ['is unknown', newId],
    ['belongs to another organization', async () => addEndUser(app, await app.organization('other'))],
    ['has a malformed ID', () => 'x'],
  ])('is a 404 if the end user %s', async (_, find) => {
    const id = await find()
    const missing = { code: 'RESOURCE_NOT_FOUND', resource: 'end_user', resourceId: id }
    expect((await get(`/end-users/${id}/budget`)).data).toEqual(missing)
    expect((await patch(`/end-users/${id}/budget`, { day_tokens: 1 })).body.data).toEqual(missing)
  })

  test('is erased with the end user', async () => {
    const id = await addEndUser(app, demo)
    await patch(`/end-users/${id}/budget`, { day_tokens: 100 })
    await app.service.database.asOrg(demo, (sql) =>
      reserveBudget(sql, { endUserId: id }, { tokens: 1, cost_micro_usd: 0 }, new Date(app.clock.now)),
    )
    expect((await app.request('DELETE', `/end-users/${id}`, { token })).status).toBe(200)
    const left = await app.service.database.asOrg(
      demo,
      (sql) => sql`
        select from end_user_budgets where end_user_id = ${id}
        union all select from budget_periods where subject = ${id}`,
    )
    expect(left).toEqual([])
    expect((await get(`/end-users/${id}/budget`)).data.code).toBe('RESOURCE_NOT_FOUND')
  })
})
