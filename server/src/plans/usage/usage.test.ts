import fc from 'fast-check'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startThread } from '../../../test/conversation-rows.ts'
import { startTestService, type TestService, useTestService } from '../../../test/harness.ts'
import { addEndUser, addSite, findWrongSums, originOf, usageRecord } from '../../../test/usage-records.ts'
import type { OrgCaller } from '../../kernel/foundation/caller.ts'
import { newId } from '../../kernel/lib/ids.ts'
import type { Transaction } from '../../kernel/stores/database.ts'
import { getDailyUsage as dailyContract } from './contract.ts'
import { wholeSpans } from './ranges.ts'
import { recordUsage, type UsageRecord } from './record.ts'
import * as usage from './usage.ts'

let app: TestService
let token = ''
let demo = ''
let shop = ''
let help = ''
let ada = ''
let bob = ''
let idle = ''

const today = '2026-03-15'
const get = (path: string) => app.request('GET', path, { token })
const read = async (path: string) => (await get(path)).body
const totals = (requests: number, prompt: number, completion: number) => ({
  total_requests: requests,
  total_prompt_tokens: prompt,
  total_completion_tokens: completion,
  total_tokens: prompt + completion,
  total_cost_micro_usd: costOf(prompt, completion),
})
const costOf = (prompt: number, completion: number) => 2 * prompt + 4 * completion
const validationError = (field: string) => ({
  defined: true,
  code: 'BAD_REQUEST',
  status: 400,
  message: 'Invalid request data',
  data: { code: 'VALIDATION_ERROR', field, details: expect.stringMatching(/\S/) },
})
const notFound = (resource: string, resourceId: string) => ({
  defined: true,
  code: 'NOT_FOUND',
  status: 404,
  message: 'Resource not found',
  data: { code: 'RESOURCE_NOT_FOUND', resource, resourceId },
})

let events: UsageRecord[] = []

beforeAll(async () => {
  app = await startTestService()
  // Set before the token is issued, so that the token is valid at this time.
  app.clock.now = Date.parse(`${today}T08:00:00.000Z`)
  token = await app.tokenFor('member@demo.test', 'demo')
  demo = await app.organization('demo')
  shop = await addSite(app, demo)
  help = await addSite(app, demo)
  ada = await addEndUser(app, demo)
  bob = await addEndUser(app, demo)
  idle = await addEndUser(app, demo)
  const event = (created_at: string, prompt_tokens: number, changes: Partial<UsageRecord>) =>
    usageRecord(demo, {
      created_at,
      prompt_tokens,
      completion_tokens: 1,
      cost_micro_usd: costOf(prompt_tokens, 1),
      ...changes,
    })
  events = [
    event('2026-02-13T23:59:59.999Z', 1, { end_user_id: ada, site_id: shop, is_estimated: true }),
    event('2026-02-14T00:00:00.000Z', 10, { end_user_id: ada, site_id: shop }),
    event('2026-03-14T23:59:59.999Z', 100, { end_user_id: bob, site_id: help, model: 'demo-small' }),
    event('2026-03-15T00:00:00.000Z', 1000, { end_user_id: ada, site_id: help }),
    event('2026-03-15T07:00:00.000Z', 10_000, {}),
  ]
  await recordUsage(app.service, events)

  // Ten times the usage in another organization doesn't change these totals.
  const other = await app.organization('other')
  const theirs = await addEndUser(app, other)
  await recordUsage(
    app.service,
    Array.from({ length: 50 }, () =>
      usageRecord(other, { end_user_id: theirs, created_at: `${today}T00:00:00.000Z`, prompt_tokens: 999 }),
    ),
  )
})
afterAll(() => app.close())

describe('daily usage', () => {
  test('covers the last 30 days including today, with zeros for days without traffic', async () => {
    const days = await read('/usage/daily')
    expect(days).toHaveLength(30)
    expect(days[0]).toEqual({ date: '2026-02-14', total_requests: 1, total_tokens: 11, total_cost_micro_usd: 24 })
    expect(days[1]).toEqual({ date: '2026-02-15', total_requests: 0, total_tokens: 0, total_cost_micro_usd: 0 })
    expect(days.slice(-2)).toEqual([
      { date: '2026-03-14', total_requests: 1, total_tokens: 101, total_cost_micro_usd: 204 },
      { date: '2026-03-15', total_requests: 2, total_tokens: 11_002, total_cost_micro_usd: 22_008 },
    ])
  })

  test.each([
    ['a start date', '?start_date=2026-03-14', ['2026-03-14', '2026-03-15'], 3],
    ['an inclusive end date', '?end_date=2026-02-14', 30, 2],
    ['one day', '?start_date=2026-03-15&end_date=2026-03-15', ['2026-03-15'], 2],
    ['times, which select their days', '?start_date=2026-03-14T23:30:00Z&end_date=2026-03-15T00:00:00.000Z', 2, 3],
    ['times in another time zone', '?start_date=2026-03-14T20:00:00-05:00&end_date=2026-03-15T23:00:00-05:00', 2, 2],
    ['a time without a zone as UTC', '?start_date=2026-03-15T23:59:59', ['2026-03-15'], 2],
    ['a range in the future', '?start_date=2030-01-01&end_date=2030-01-03', 3, 0],
    ['a leap day', '?start_date=2024-02-28&end_date=2024-03-01', ['2024-02-28', '2024-02-29', '2024-03-01'], 0],
    ['ten years', '?start_date=2016-03-16&end_date=2026-03-15', 3652, 5],
  ])('accepts %s', async (_, query, dates, requests) => {
    const days: { date: string; total_requests: number }[] = await read(`/usage/daily${query.replaceAll('+', '%2B')}`)
    if (typeof dates === 'number') expect(days).toHaveLength(dates)
    else expect(days.map(({ date }) => date)).toEqual(dates)
    expect(days.reduce((total, day) => total + day.total_requests, 0)).toBe(requests)
  })

  test.each([
    ['', 'start_date'],
    ['yesterday', 'start_date'],
    ['2026-02-30', 'start_date'],
    ['2026-3-1', 'start_date'],
    ['20260301', 'start_date'],
    ['0000-01-01', 'start_date'],
    ['1969-12-31', 'start_date'],
    ['1773000000', 'start_date'],
    ['2026-03-16', 'start_date'],
    ['2016-03-14', 'start_date'],
  ])('rejects the start date "%s"', async (date, field) => {
    expect(await read(`/usage/daily?start_date=${date}`)).toEqual(validationError(field))
  })

  test.each([
    ['an end date before the start date', '?start_date=2026-03-02&end_date=2026-03-01', 'start_date'],
    ['an end date after 9999-12-31 UTC', '?end_date=9999-12-31T23:59:59-14:00', 'end_date'],
    ['a date twice', '?end_date=2026-03-01&end_date=2026-03-02', 'end_date'],
    ['an unknown parameter', '?organization_id=x', 'organization_id'],
  ])('rejects %s', async (_, query, field) => {
    expect(await read(`/usage/daily${query}`)).toEqual(validationError(field))
  })

  test('can be filtered by site', async () => {
    const days = await read(`/usage/daily?start_date=2026-03-14&site_id=${help}`)
    expect(days).toEqual([
      { date: '2026-03-14', total_requests: 1, total_tokens: 101, total_cost_micro_usd: 204 },
      { date: '2026-03-15', total_requests: 1, total_tokens: 1001, total_cost_micro_usd: 2004 },
    ])
  })

  test.each<[string, () => string | Promise<string>]>([
    ['an unknown site', newId],
    ['another organization’s site', async () => addSite(app, await app.organization('other'))],
    ['a malformed site ID', () => 'x'],
  ])('is a 404 for %s', async (_, find) => {
    const id = await find()
    expect(await read(`/usage/daily?site_id=${id}`)).toEqual(notFound('site', id))
    expect(await read(`/usage/stats?site_id=${id}`)).toEqual(notFound('site', id))
  })

  test('converts any time to the UTC day it falls on', () => {
    const start = dailyContract.query.shape.start_date
    const moments = fc.date({ min: new Date('1970-01-02'), max: new Date('9999-12-30'), noInvalidDate: true })
    const offsets = fc.integer({ min: -14 * 60, max: 14 * 60 })
    fc.assert(
      fc.property(moments, offsets, (moment, minutes) => {
        const day = moment.toISOString().slice(0, 10)
        const local = new Date(moment.getTime() + minutes * 60_000).toISOString().slice(0, -1)
        const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60]
        const zone = `${minutes < 0 ? '-' : '+'}${String(hours).padStart(2, '0')}:${String(rest).padStart(2, '0')}`
        expect([day, moment.toISOString(), `${local}${zone}`].map((text) => start.parse(text))).toEqual([day, day, day])
      }),
    )
  })
})

describe('totals', () => {
  test.each([
    ['cover the last 30 days', '', totals(4, 11_110, 4)],
    ['cover a range', '?start_date=2026-02-01&end_date=2026-02-14', totals(2, 11, 2)],
    ['are zero for a range without traffic', '?end_date=2020-01-01', totals(0, 0, 0)],
  ])('%s', async (_, query, expected) => {
    expect(await read(`/usage/stats${query}`)).toEqual(expected)
  })

  test('can be filtered by site', async () => {
    expect(await read(`/usage/stats?start_date=2026-01-01&site_id=${shop}`)).toEqual(totals(2, 11, 2))
  })

  test('per site are sorted by tokens, and include usage without a site', async () => {
    expect(await read('/usage/sites')).toEqual({
      sites: [
        { site_id: null, origin: null, ...totals(1, 10_000, 1) },
        { site_id: help, origin: originOf(help), ...totals(2, 1100, 2) },
        { site_id: shop, origin: originOf(shop), ...totals(1, 10, 1) },
      ],
      total: 3,
    })
  })

  test('per end user are sorted by tokens, without anonymous visitors and end users without usage', async () => {
    const user = (id: string) => ({
      end_user_id: id,
      external_id: `external-${id}`,
      email: `${id}@example.com`,
      is_preview: false,
    })
    expect(await read('/usage/end-users')).toEqual({
      users: [
        { ...user(ada), ...totals(2, 1010, 2) },
        { ...user(bob), ...totals(1, 100, 1) },
      ],
      total: 2,
    })
  })

  test('per model are sorted by tokens', async () => {
    expect(await read('/usage/models')).toEqual({
      models: [
        { model: 'demo-large', ...totals(3, 11_010, 3) },
        { model: 'demo-small', ...totals(1, 100, 1) },
      ],
      total: 2,
    })
    expect(await read('/usage/models?start_date=2026-03-14&end_date=2026-03-14')).toEqual({
      models: [{ model: 'demo-small', ...totals(1, 100, 1) }],
      total: 1,
    })
  })

  test('count events without a cost as 0', async () => {
    const event = { created_at: '2026-01-20T00:00:00.000Z', model: 'unpriced' }
    await recordUsage(app.service, [
      usageRecord(demo, { ...event, cost_micro_usd: null }),
      usageRecord(demo, { ...event, cost_micro_usd: 7 }),
    ])
    const { models } = await read('/usage/models?start_date=2026-01-20&end_date=2026-01-20')
    expect(models).toEqual([{ model: 'unpriced', ...totals(2, 20, 10), total_cost_micro_usd: 7 }])
  })

  test.each(['/usage/sites', '/usage/end-users', '/usage/models'])('%s is paginated', async (path) => {
    const { total, ...lists } = await read(path)
    const all = Object.values(lists)[0] as unknown[]
    const page = async (query: string) => {
      const { total: counted, ...found } = await read(`${path}?${query}`)
      expect(counted).toBe(total)
      return Object.values(found)[0]
    }
    expect(await page('limit=1')).toEqual(all.slice(0, 1))
    expect(await page('limit=1&offset=1')).toEqual(all.slice(1, 2))
    expect(await page('limit=100')).toEqual(all)
    expect(await page('offset=9007199254740991')).toEqual([])
    const empty = await read(`${path}?end_date=2020-01-01`)
    expect(new Set(Object.values(empty))).toEqual(new Set([[], 0]))
  })

  test.each(['/usage/sites', '/usage/end-users', '/usage/models', '/usage/end-users/ID/history'])(
    '%s rejects an invalid limit or offset',
    async (path) => {
      const place = path.replace('ID', ada)
      for (const query of ['limit=0', 'limit=101', 'limit=1.5', 'limit=x', 'limit=1&limit=2']) {
        expect(await read(`${place}?${query}`), query).toEqual(validationError('limit'))
      }
      for (const query of ['offset=-1', 'offset=9007199254740992']) {
        expect(await read(`${place}?${query}`), query).toEqual(validationError('offset'))
      }
    },
  )

  test.each(['/usage/stats', '/usage/sites', '/usage/end-users', '/usage/models'])(
    '%s accepts and rejects the same ranges',
    async (path) => {
      for (const query of ['start_date=x', 'start_date=2026-03-16', 'start_date=2016-03-14']) {
        expect(await read(`${path}?${query}`), query).toEqual(validationError('start_date'))
      }
      expect((await get(`${path}?start_date=2016-03-16`)).status).toBe(200)
    },
  )
})

describe('an end user', () => {
  test('has all-time totals', async () => {
    expect(await read(`/usage/end-users/${ada}/stats`)).toEqual(totals(3, 1011, 3))
  })

  test('without usage has zero totals', async () => {
    expect(await read(`/usage/end-users/${idle}/stats`)).toEqual(totals(0, 0, 0))
    expect(await read(`/usage/end-users/${idle}/history`)).toEqual({ events: [], total: 0 })
  })

  test('has a history, newest event first', async () => {
    const { events: history, total } = await read(`/usage/end-users/${ada}/history`)
    const [first, second, , third] = events as [UsageRecord, UsageRecord, UsageRecord, UsageRecord]
    expect(total).toBe(3)
    expect(history).toEqual(
      [third, second, first].map(({ organization_id, thread_id, ...event }) => ({
        ...event,
        total_tokens: event.prompt_tokens + event.completion_tokens,
      })),
    )
    const page = await read(`/usage/end-users/${ada}/history?limit=1&offset=1`)
    expect(page).toEqual({ events: [history[1]], total: 3 })
    expect(await read(`/usage/end-users/${ada}/history?offset=9007199254740991`)).toEqual({ events: [], total: 3 })
  })

  test('that does not exist is a 404', async () => {
    const id = newId()
    expect(await read(`/usage/end-users/${id}/stats`)).toEqual(notFound('end_user', id))
    expect(await read(`/usage/end-users/${id}/history`)).toEqual(notFound('end_user', id))
  })

  test('still counts toward the organization’s totals after being erased', async () => {
    const end_user_id = await addEndUser(app, demo)
    const gone = usageRecord(demo, { end_user_id, site_id: shop, created_at: '2026-01-05T00:00:00.000Z' })
    await recordUsage(app.service, gone)
    const paths = ['/usage/daily', '/usage/stats', '/usage/sites', '/usage/models'].map(
      (path) => `${path}?end_date=2026-01-10`,
    )
    const before = await Promise.all(paths.map(read))
    expect(before[1]).toEqual(totals(1, 10, 5))
    expect((await read('/usage/end-users?end_date=2026-01-10')).total).toBe(1)

    const admin = await app.tokenFor('admin@demo.test', 'demo')
    expect((await app.request('DELETE', `/end-users/${end_user_id}`, { token: admin })).status).toBe(200)
    expect(await Promise.all(paths.map(read))).toEqual(before)
    expect(await read('/usage/end-users?end_date=2026-01-10')).toEqual({ users: [], total: 0 })
    expect(await recordUsage(app.service, { ...gone, end_user_id: null }), 'the event is still known').toBe(0)
  })
})

test('an end user with more events than fit in one batch is erased from all of them', async () => {
  const end_user_id = await addEndUser(app, demo)
  await app.service.database.asOrg(demo, async (sql) => {
    await sql`
      insert into usage_events (organization_id, id, end_user_id, prompt_tokens, completion_tokens, model, finish_reason, created_at)
      select current_organization(), gen_random_uuid(), ${end_user_id}, 1, 1, 'many', 'stop', '2000-01-01'
      from generate_series(1, 10001)`
    await usage.eraseEndUserUsage(sql, end_user_id)
    const left = await sql`select count(*), count(end_user_id) as named from usage_events where model = 'many'`
    expect(left).toEqual([{ count: 10_001, named: 0 }])
    await sql`delete from usage_events where model = 'many'`
  })
})

describe('usage per end user', () => {
  const aDay = fc.integer({ min: 0, max: 1200 }).map((n) => new Date(Date.UTC(2023, 0, 1) + n * 86_400_000))

  test('equals the sum of the events for any range and any order of recording', async () => {
    const app = await useTestService()
    const organization = await app.organization('other')
    const people = [null, ...(await Promise.all(Array.from({ length: 6 }, () => addEndUser(app, organization))))]
    const caller = { organization: { id: organization } } as OrgCaller
    const recorded: UsageRecord[] = []
    const event = fc.record({
      created_at: aDay.map((day) => day.toISOString()),
      end_user_id: fc.constantFrom(...people),
      prompt_tokens: fc.nat(1000),
    })
    const recount = (start: string, end: string) => {
      const sums = new Map<string, number>()
      for (const { end_user_id, created_at, prompt_tokens, completion_tokens } of recorded) {
        if (end_user_id && created_at.slice(0, 10) >= start && created_at.slice(0, 10) <= end)
          sums.set(end_user_id, (sums.get(end_user_id) ?? 0) + prompt_tokens + completion_tokens)
      }
      return [...sums].sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1))
    }
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(event, { maxLength: 30 }), { maxLength: 4 }),
        fc.tuple(aDay, aDay),
        async (batches, days) => {
          const events = batches.map((batch) => batch.map((changes) => usageRecord(organization, changes)))
          await Promise.all(events.map((batch) => recordUsage(app.service, batch)))
          recorded.push(...events.flat())
          const [start_date = '', end_date = ''] = days.map((day) => day.toISOString().slice(0, 10)).sort()
          const range = { start_date, end_date, limit: 100, offset: 0 }
          const { users, total } = (await usage.listEndUserUsage(app.service, caller, range)).body
          const expected = recount(start_date, end_date)
          expect(users.map(({ end_user_id, total_tokens }) => [end_user_id, total_tokens])).toEqual(expected)
          expect(total).toBe(expected.length)
        },
      ),
      { numRuns: 60 },
    )
    expect(await findWrongSums(app, organization)).toEqual([])
  })

  test('reads spans of eight days and fewer than eight single days on either side, each day once', () => {
    const number = (day: string) => Date.parse(day) / 86_400_000
    fc.assert(
      fc.property(fc.tuple(aDay, aDay), (days) => {
        const [start = '', end = ''] = days.map((day) => day.toISOString().slice(0, 10)).sort()
        const { from, to } = wholeSpans({ start, end })
        expect(start <= from && from <= to && number(to) <= number(end) + 1).toBe(true)
        if (from < to) expect([number(from) % 8, number(to) % 8]).toEqual([0, 0])
        expect(number(from) - number(start)).toBeLessThan(8)
        expect(number(end) + 1 - number(to)).toBeLessThan(from < to ? 8 : 15)
      }),
    )
  })
})

test('reading totals does not read events', async () => {
  const { database } = app.service
  const plans: unknown[] = []
  const explaining = {
    ...app.service,
    database: {
      ...database,
      asOrg: <T>(id: string, work: (sql: Transaction) => Promise<T>) =>
        database.asOrg(id, async (sql) => {
          const explain = async <Row>(strings: TemplateStringsArray, ...values: unknown[]) => {
            const [first = '', ...rest] = strings
            const texts = Object.assign([`explain (format json) ${first}`, ...rest], { raw: strings.raw })
            plans.push(...(await sql(texts, ...values)))
            return sql<Row>(strings, ...values)
          }
          return work(Object.assign(explain, { auditKey: sql.auditKey, commit: sql.commit }))
        }),
    },
  }
  const caller = { organization: { id: demo } } as OrgCaller
  const page = { limit: 50, offset: 0 }
  const relationsOf = async (reading: Promise<unknown>) => {
    await reading
    const text = JSON.stringify(plans.splice(0))
    return new Set([...text.matchAll(/"Relation Name":"(\w+)"/g)].map(([, name]) => name))
  }
  expect(await relationsOf(usage.getDailyUsage(explaining, caller, {}))).toEqual(new Set(['usage_site_days']))
  expect(await relationsOf(usage.getUsageStats(explaining, caller, { site_id: shop }))).toEqual(
    new Set(['sites', 'usage_site_days']),
  )
  expect(await relationsOf(usage.listSiteUsage(explaining, caller, page))).toEqual(
    new Set(['sites', 'usage_site_days']),
  )
  expect(await relationsOf(usage.listEndUserUsage(explaining, caller, page))).toEqual(
    new Set(['end_users', 'list_totals', 'usage_end_user_spans', 'usage_rankings']),
  )
  expect(await relationsOf(usage.listModelUsage(explaining, caller, page))).toEqual(new Set(['usage_model_days']))
  expect(await relationsOf(usage.getEndUserStats(explaining, caller, { end_user_id: ada }))).toEqual(
    new Set(['end_users', 'usage_end_users']),
  )
})

test('deleting an organization deletes its usage and threads', async () => {
  const app = await useTestService()
  const other = await app.organization('other')
  const [end_user_id, site_id] = [await addEndUser(app, other), await addSite(app, other)]
  const thread_id = await app.service.database.asOrg(other, (sql) =>
    startThread(sql, { endUserId: end_user_id, siteId: site_id }),
  )
  await recordUsage(app.service, usageRecord(other, { end_user_id, site_id, thread_id }))
  const owner = new pg.Client(app.stores.owner)
  await owner.connect()
  await owner.query("select set_config('inlay.organization_id', $1, false)", [other])
  await owner.query('delete from organizations where id = $1', [other])
  for (const table of [
    'usage_events',
    'usage_site_days',
    'usage_model_days',
    'usage_end_user_spans',
    'usage_end_users',
    'threads',
  ]) {
    const { rowCount } = await owner.query(`select from ${table} where organization_id = $1`, [other])
    expect(rowCount, table).toBe(0)
  }
  await owner.end()
})
