import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { startThread } from '../../../test/conversation-rows.ts'
import { startTestService, type TestService, useTestService } from '../../../test/harness.ts'
import { startTestProvider } from '../../../test/oidc-provider.ts'
import { usageRecord } from '../../../test/usage-records.ts'
import { recordRefusal } from '../../organizations/diagnostics/refusals.ts'
import { recordUsage } from '../../plans/usage/record.ts'
import { mostCounted } from './end-users.ts'

let app: TestService
let token: string
const ids: string[] = []
beforeAll(async () => {
  app = await startTestService()
  token = await app.tokenFor('admin@demo.test', 'demo')
  const demo = await app.organization('demo')
  await app.service.database.asOrg(demo, async (sql) => {
    for (let n = 0; n < 120; n += 1) {
      const id = randomUUID()
      ids.push(id)
      await sql`
        insert into end_users (organization_id, id, external_id, email, created_at)
        values (${demo}, ${id}, ${`user-${n}`}, ${`user-${n}@example.com`}, now() + ${n} * interval '1 second')`
    }
  })
  await app.service.database.asOrg(
    await app.organization('other'),
    (sql) => sql`
      insert into end_users (organization_id, id, external_id)
      select current_organization(), gen_random_uuid(), 'user-' || n from generate_series(0, 99) n`,
  )
})
afterAll(() => app.close())

const list = (query = '') => app.request('GET', `/end-users${query}`, { token })

describe('the list', () => {
  test('has exactly the documented fields, in order of creation', async () => {
    const { body } = await list('?limit=2')
    const timestamp = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    const user = (n: number) => ({
      id: ids[n],
      organization_id: expect.any(String),
      external_id: `user-${n}`,
      email: `user-${n}@example.com`,
      metadata: '{}',
      is_preview: false,
      last_activity_at: timestamp,
      created_at: timestamp,
      updated_at: timestamp,
    })
    expect(body).toEqual({ users: [user(0), user(1)], total: 120 })
  })

  test.each([
    ['', 50, 0],
    ['?limit=1', 1, 0],
    ['?limit=100', 100, 0],
    ['?offset=100', 20, 100],
    ['?limit=3&offset=118', 2, 118],
    ['?offset=120', 0, 120],
    ['?offset=9007199254740991', 0, 0],
  ])('"%s" is a page of %i from %i', async (query, length, from) => {
    const { body } = await list(query)
    expect(body.total, 'other organizations’ users are not counted').toBe(120)
    expect(body.users.map(({ id }: { id: string }) => id)).toEqual(length ? ids.slice(from, from + length) : [])
  })

  test.each([
    ['the beginning of an email address', 'search=user-11', 'user-11, user-110 to user-119'],
    ['in any case', 'search=%20USER-7%40Example', 'user-7'],
    ['the whole external ID', 'search=user-119', 'user-119'],
    ['part of the matches', 'search=user-11&limit=1&offset=10', 'user-119'],
    ['wildcards as characters', 'search=user-1%25', ''],
    ['no other part', 'search=example.com', ''],
  ])('finds %s', async (_, query, expected) => {
    const { body } = await list(`?${query}`)
    const names = body.users.map(({ external_id }: { external_id: string }) => external_id)
    const tens = Array.from({ length: 10 }, (_, n) => `user-11${n}`)
    expect(names).toEqual(expected.endsWith('to user-119') ? ['user-11', ...tens] : expected ? [expected] : [])
    expect(body.total).toBe(query.includes('user-11&') ? 11 : names.length)
  })

  test('finds external IDs and email addresses that differ', async () => {
    const app = await useTestService()
    const token = await app.tokenFor('member@demo.test', 'demo')
    await app.service.database.asOrg(
      await app.organization('demo'),
      (sql) => sql`
        insert into end_users (organization_id, id, external_id, email)
        values (current_organization(), gen_random_uuid(), 'auth0|Zoë', 'Ann@example.com'),
               (current_organization(), gen_random_uuid(), 'Ann', '')`,
    )
    const find = async (search: string) => {
      const { body } = await app.request('GET', `/end-users?search=${encodeURIComponent(search)}`, { token })
      return body.users.map(({ external_id }: { external_id: string }) => external_id).sort()
    }
    expect(await find('ann')).toEqual(['auth0|Zoë'])
    expect(await find('Ann')).toEqual(['Ann', 'auth0|Zoë'])
    expect(await find('auth0|Zo')).toEqual(['auth0|Zoë'])
    expect(await find('\u{10ffff}')).toEqual([])
  })

  test('finds more than are counted, page after page, in the order of the list', async () => {
    const app = await useTestService()
    const token = await app.tokenFor('member@demo.test', 'demo')
    const demo = await app.organization('demo')
    const found = mostCounted + 150
    const others = 20_100
    // The end users that come first don't match, and fill more than one request.
    const atOnce = 5_000
    for (let first = 1; first <= others + found; first += atOnce)
      await app.service.database.asOrg(
        demo,
        (sql) => sql`
          insert into end_users (organization_id, id, external_id, email, created_at)
          select current_organization(), gen_random_uuid(), case when n > ${others} then 'many-' else 'other-' end || n,
                 case when n > ${others} and n % 2 = 0 then 'many-' || n || '@example.com' else '' end,
                 timestamptz '2020-01-01' + n * interval '1 second'
          from generate_series(${first}::int, ${Math.min(first + atOnce - 1, others + found)}) n`,
      )
    const names: string[] = []
    const lengths: number[] = []
    for (let cursor: string | null = ''; cursor !== null; ) {
      const path = `/end-users?search=many&limit=100${cursor && `&cursor=${cursor}`}`
      const { body, headers } = await app.request('GET', path, { token })
      expect(body.total).toBe(mostCounted)
      names.push(...body.users.map(({ external_id }: { external_id: string }) => external_id))
      lengths.push(body.users.length)
      cursor = headers.get('next-cursor')
    }
    expect(names).toEqual(Array.from({ length: found }, (_, n) => `many-${others + 1 + n}`))
    expect(lengths[0], 'the first request only finds others').toBe(0)
    const { body } = await app.request('GET', `/end-users?search=many&limit=2&offset=${mostCounted}`, { token })
    expect(body.users.map(({ external_id }: { external_id: string }) => external_id)).toEqual(
      names.slice(mostCounted, mostCounted + 2),
    )
  })

  test.each([
    ['search=', 'search'],
    [`search=${'x'.repeat(201)}`, 'search'],
    ['limit=0', 'limit'],
    ['limit=101', 'limit'],
    ['limit=1.5', 'limit'],
    ['limit=-1', 'limit'],
    ['limit=ten', 'limit'],
    ['limit=', 'limit'],
    ['limit=1&limit=2', 'limit'],
    ['limit=1e1', 'limit'],
    ['offset=-1', 'offset'],
    ['offset=9007199254740992', 'offset'],
    ['page=2', 'page'],
    ['organization_id=x', 'organization_id'],
  ])('rejects ?%s', async (query, field) => {
    expect((await list(`?${query}`)).body).toMatchObject({ status: 400, data: { code: 'VALIDATION_ERROR', field } })
  })

  test('has the same end user as the request by id', async () => {
    const { users } = (await list('?limit=1')).body
    expect((await app.request('GET', `/end-users/${ids[0]}`, { token })).body).toEqual(users[0])
  })
})

describe('erasing', () => {
  test('deletes the end user with threads and identity, and keeps the organization’s usage', async () => {
    const provider = await startTestProvider()
    onTestFinished(() => provider.stop())
    const app = await useTestService()
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const organization_id = await app.organization('demo')
    await app.request('PATCH', '/identity-providers/config', {
      token,
      body: { idp_type: 'custom_oidc', idp_issuer: provider.issuer, allowed_audiences: ['shop'] },
    })
    const { key } = (await app.request('POST', '/publishable-keys', { token, body: { name: 'Widget' } })).body
    const idToken = await provider.idToken({ sub: 'ann', email: 'ann@example.com' })
    const signIn = async () =>
      (await app.request('POST', '/auth/pk-ticket', { body: { publishable_key: key, id_token: idToken } })).body.userId

    const id = await signIn()
    const thread = await app.service.database.asOrg(organization_id, (sql) =>
      startThread(sql, { endUserId: id, siteId: null }),
    )
    await recordUsage(
      app.service,
      usageRecord(organization_id, { end_user_id: id, created_at: new Date().toISOString() }),
    )
    expect((await app.request('DELETE', `/end-users/${id}`, { token })).body).toEqual({ success: true })

    const gone = { data: { code: 'RESOURCE_NOT_FOUND' } }
    expect((await app.request('GET', `/end-users/${id}`, { token })).body).toMatchObject(gone)
    expect((await app.request('GET', `/usage/end-users/${id}/stats`, { token })).body).toMatchObject(gone)
    expect((await app.request('GET', `/threads/${thread}`, { token })).body).toMatchObject(gone)
    expect((await app.request('DELETE', `/end-users/${id}`, { token })).body).toMatchObject(gone)
    expect((await app.request('GET', '/usage/stats', { token })).body).toMatchObject({
      total_requests: 1,
      total_tokens: 15,
    })
    const rows = await app.service.database.asOrg(organization_id, async (sql) => [
      ...(await sql`select * from usage_events`),
      ...(await sql`select * from audit_events`),
    ])
    expect(JSON.stringify(rows)).not.toContain('ann@example.com')

    const again = await signIn()
    expect(again, 'a returning user becomes a new end user, although the token was cached').not.toBe(id)
    expect((await app.request('GET', `/usage/end-users/${again}/stats`, { token })).body.total_requests).toBe(0)
  })

  test('deletes refusals that name the end user, also those that weren’t written yet', async () => {
    const { activity, database } = app.service
    const demo = await app.organization('demo')
    const id = randomUUID()
    await database.asOrg(
      demo,
      (sql) => sql`
        insert into end_users (organization_id, id, external_id, email)
        values (${demo}, ${id}, 'refused', 'Refused@example.com')`,
    )
    const refuse = (seen: string) =>
      recordRefusal(app.service, demo, {
        surface: 'id_token',
        step: 'directory',
        code: 'ID_TOKEN_REFUSED',
        message: '',
        seen,
      })
    refuse('other@example.com')
    refuse('refused')
    await activity.flush()
    refuse('refused@example.com')
    expect((await app.request('DELETE', `/end-users/${id}`, { token })).status).toBe(200)
    await activity.flush()
    const rows = await database.asOrg(demo, (sql) => sql`select seen from refusals`)
    expect(rows).toEqual([{ seen: 'other@example.com' }])
  })
})
