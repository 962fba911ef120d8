import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startTestService, type TestService, useTestService } from '../../../test/harness.ts'
import { callTool, makeMessage, post } from '../../../test/mcp-messages.ts'
import { generateKey, isWellFormedKey } from '../../visitors/publishable-keys/key-format.ts'
import { createAccountLookup } from './account-lookup.ts'

const hour = 60 * 60_000

let app: TestService
let token: string
beforeAll(async () => {
  app = await startTestService()
  await app.service.database.asOrg(
    await app.organization('demo'),
    (sql) => sql`update organizations set plan_id = 'enterprise'`,
  )
})
afterAll(() => app.close())
// Tests advance the clock.
beforeEach(async () => {
  token = await app.tokenFor('admin@demo.test', 'demo')
})

const create = (body: unknown, as = app) => as.request('POST', '/service-accounts', { token, body })
let count = 0
const newAccount = async (body: object = {}): Promise<{ id: string; name: string; key: string; key_last4: string }> =>
  (await create({ name: `Account ${++count}`, role: 'member', ...body })).body
const get = async (id: string) => (await app.request('GET', `/service-accounts/${id}`, { token })).body
const patch = (id: string, body: unknown) => app.request('PATCH', `/service-accounts/${id}`, { token, body })
const rotate = (id: string, body?: unknown) => app.request('POST', `/service-accounts/${id}/rotate`, { token, body })
const remove = (id: string) => app.request('DELETE', `/service-accounts/${id}`, { token })
/** The status of a request with the key. */
const use = async (key: string) => (await app.request('GET', '/publishable-keys', { token: key })).status
const soon = (ms = hour) => new Date(app.clock.now + ms).toISOString()

const timestamp = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)

describe('creating', () => {
  test('returns the key once, and stores only its hash', async () => {
    const expires_at = soon()
    const { body } = await create({ name: ' Deploy ', role: 'admin', expires_at })
    expect(body).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      name: 'Deploy',
      role: 'admin',
      key: expect.stringMatching(/^sk_test_[0-9A-Za-z]{49}$/),
      key_last4: body.key.slice(-4),
      key_created_at: timestamp,
      previous_key: null,
      expires_at,
      last_used_at: null,
      created_by: 'admin@demo.test',
      created_at: timestamp,
    })
    const { key, ...account } = body
    expect(await get(account.id)).toEqual(account)
    const list = (await app.request('GET', '/service-accounts', { token })).body.service_accounts
    expect(list).toContainEqual(account)
    const stored = await app.service.database.asOrg(
      await app.organization('demo'),
      (sql) => sql<{ row: string }>`select to_jsonb(a)::text as row from service_accounts a where id = ${account.id}`,
    )
    expect(stored[0]?.row).not.toContain(key)
    expect(app.logged()).not.toContain(key)
  })

  test.each<[string, unknown, string]>([
    ['no name', { role: 'member' }, 'name'],
    ['an empty name', { name: ' ', role: 'member' }, 'name'],
    ['101 characters', { name: 'x'.repeat(101), role: 'member' }, 'name'],
    ['invisible characters', { name: 'a\u202eb', role: 'member' }, 'name'],
    ['no role', { name: 'x' }, 'role'],
    ['an unknown role', { name: 'x', role: 'owner' }, 'role'],
    ['an expiry in the past', { name: 'x', role: 'member', expires_at: '2020-01-01T00:00:00Z' }, 'expires_at'],
    ['an expiry without a time', { name: 'x', role: 'member', expires_at: '2099-01-01' }, 'expires_at'],
    ['an expiry after 9999', { name: 'x', role: 'member', expires_at: '9999-12-31T23:59:59-05:00' }, 'expires_at'],
    ['a key of its own', { name: 'x', role: 'member', key: 'sk_live_x' }, 'key'],
  ])('refuses %s', async (_, body, field) => {
    const answer = await create(body)
    expect({ status: answer.status, field: answer.body.data?.field }).toEqual({ status: 400, field })
  })

  test('refuses a name that another account has, whatever its case', async () => {
    await newAccount({ name: 'Nightly' })
    const { id } = await newAccount()
    for (const answer of [await create({ name: 'nightly', role: 'member' }), await patch(id, { name: 'NIGHTLY' })])
      expect({ status: answer.status, data: answer.body.data }).toEqual({
        status: 409,
        data: { code: 'DUPLICATE_RESOURCE', resource: 'service_account' },
      })
  })

  test('is possible 100 times per organization, even concurrently', async () => {
    const app = await useTestService()
    const admin = await app.tokenFor('admin@demo.test', 'demo')
    await app.service.database.asOrg(
      await app.organization('demo'),
      (sql) => sql`
        insert into service_accounts (organization_id, id, name, role, key_hash, key_last4, created_by)
        select current_organization(), gen_random_uuid(), 'Before ' || n, 'member', 'hash ' || n, '0000', 'test'
        from generate_series(1, 98) as n`,
    )
    const createOne = (_: unknown, n: number) =>
      app.request('POST', '/service-accounts', { token: admin, body: { name: `A${n}`, role: 'member' } })
    const answers = await Promise.all(Array.from({ length: 5 }, createOne))
    const refused = answers.filter(({ status }) => status !== 200)
    expect(refused.map(({ body }) => body.data.details)).toEqual(
      Array(3).fill('An organization can have at most 100 service accounts. Delete one first.'),
    )
  })
})

describe('a key', () => {
  test('has the rights of its role in its own organization, over REST and MCP', async () => {
    const [admin, member] = [await newAccount({ role: 'admin' }), await newAccount()]
    const retain = async ({ key }: { key: string }) =>
      (await app.request('PATCH', '/tool-calls/settings', { token: key, body: { contents_days: 7 } })).status
    expect([await retain(admin), await retain(member)]).toEqual([200, 403])
    const organizations = await app.request('GET', '/organizations', { token: member.key })
    expect(organizations.body).toMatchObject([{ slug: 'demo', role: 'member' }])
    const other = await app.request('GET', `/organizations/${await app.organization('other')}`, { token: admin.key })
    expect(other.status).toBe(404)
    expect(await callTool(app, admin.key, 'verify_api_access')).toMatchObject({
      value: {
        message: `Authenticated as service-account:${admin.name}, admin of Demo`,
        user_email: `service-account:${admin.name}`,
        organization_id: await app.organization('demo'),
        role: 'admin',
        token_expires_at: null,
        token_expiring_soon: false,
        has_refresh_token: false,
      },
    })
  })

  test('names the account in the audit trail, apart from any user', async () => {
    const { id, name, key } = await newAccount({ name: 'admin@demo.test', role: 'admin' })
    await app.request('PATCH', '/tool-calls/settings', { token: key, body: { contents_days: 8 } })
    await patch(id, { name: 'Renamed' })
    await app.request('PATCH', '/tool-calls/settings', { token: key, body: { contents_days: 9 } })
    await rotate(id)
    await app.request('DELETE', `/service-accounts/${id}/previous-key`, { token })
    await remove(id)
    const read = async (query: string) => (await app.request('GET', `/audit-events?${query}`, { token })).body
    const own = await read(`actor=${encodeURIComponent(`service-account:${name}`)}`)
    expect(own.events).toMatchObject([{ action: 'tool_call_settings.updated', data: { contents_days: 8 } }])
    expect((await read('actor=service-account:Renamed')).events).toHaveLength(1)
    const about = await read(`target=${id}`)
    expect(about.events.map(({ actor, action, data }: Record<string, unknown>) => [actor, action, data])).toEqual([
      ['admin@demo.test', 'service_account.deleted', { name: 'Renamed', role: 'admin' }],
      ['admin@demo.test', 'service_account.previous_key_ended', {}],
      ['admin@demo.test', 'service_account.key_rotated', { overlap_hours: 24 }],
      ['admin@demo.test', 'service_account.updated', { name: 'Renamed', previous_name: 'admin@demo.test' }],
      ['admin@demo.test', 'service_account.created', { name, role: 'admin', expires_at: null }],
    ])
    expect(about.verification.broken_at).toBeNull()
  })

  test('that is malformed, unknown or deleted gets the same 401 as a wrong token', async () => {
    const { id, key } = await newAccount()
    await remove(id)
    const typo = `${key.slice(0, -1)}${key.endsWith('x') ? 'y' : 'x'}`
    const wrong = ['sk_', 'sk_live_', typo, `${key}=`, generateKey('sk', 'production'), key]
    const expected = await app.request('GET', '/publishable-keys', { token: 'garbage' })
    for (const text of wrong) {
      const answer = await app.request('GET', '/publishable-keys', { token: text })
      expect({ status: answer.status, body: answer.body }, text).toEqual({ status: 401, body: expected.body })
      expect(answer.headers.get('www-authenticate')).toBe(expected.headers.get('www-authenticate'))
      const { status } = await post(app, text, makeMessage('2026-07-28', 'tools/list'))
      expect(status, text).toBe(401)
    }
  })

  test('of another kind isn’t one', async () => {
    const publishable = (await app.request('POST', '/publishable-keys', { token, body: { name: 'Public' } })).body.key
    expect(await use(publishable)).toBe(401)
    const { key } = await newAccount()
    const ticket = await app.request('POST', '/auth/pk-ticket', { body: { publishable_key: key } })
    expect(ticket.body.data.code).toBe('INVALID_KEY')
  })

  test('can’t outlive its organization', async () => {
    const app = await useTestService()
    const admin = await app.tokenFor('admin@other.test', 'other')
    const { body } = await app.request('POST', '/service-accounts', {
      token: admin,
      body: { name: 'CI', role: 'admin' },
    })
    const status = async () => (await app.request('GET', '/publishable-keys', { token: body.key })).status
    expect(await status()).toBe(200)
    await deleteOrganization(app, await app.organization('other'))
    app.clock.now += 30_001
    expect(await status()).toBe(401)
  })
})

/** As the schema's owner, because the service can't delete organizations. */
async function deleteOrganization(app: TestService, id: string): Promise<void> {
  const { default: pg } = await import('pg')
  const owner = new pg.Client(app.stores.owner)
  await owner.connect()
  await owner.query("select set_config('inlay.organization_id', $1, false)", [id])
  const { rowCount } = await owner.query('delete from organizations where id = $1', [id])
  expect(rowCount).toBe(1)
  await owner.end()
}

describe('access ends', () => {
  test('at once when the account is deleted', async () => {
    const { id, key } = await newAccount()
    expect(await use(key)).toBe(200)
    expect((await remove(id)).body).toEqual({ success: true })
    expect([await use(key), (await remove(id)).status]).toEqual([401, 404])
  })

  test('within 30 seconds on a node that missed the message', async () => {
    const { id, key } = await newAccount()
    expect(await use(key)).toBe(200)
    await app.service.database.asOrg(
      await app.organization('demo'),
      (sql) => sql`delete from service_accounts where id = ${id}`,
    )
    expect(await use(key), 'cached').toBe(200)
    app.clock.now += 30_001
    expect(await use(key)).toBe(401)
  })

  test('to the second when the account expires, and begins again with a new expiry', async () => {
    const { id, key } = await newAccount({ expires_at: soon(10_000) })
    expect(await use(key)).toBe(200)
    app.clock.now += 9_999
    expect(await use(key)).toBe(200)
    app.clock.now += 1
    expect(await use(key)).toBe(401)
    expect((await patch(id, { expires_at: soon() })).status).toBe(200)
    expect(await use(key)).toBe(200)
    expect((await patch(id, { expires_at: new Date(app.clock.now).toISOString() })).body.data.field).toBe('expires_at')
    expect((await patch(id, { expires_at: null })).body.expires_at).toBeNull()
  })

  test('for admin rights, at once when the role changes', async () => {
    const { id, key } = await newAccount({ role: 'admin' })
    const list = async () => (await app.request('GET', '/service-accounts', { token: key })).status
    expect(await list()).toBe(200)
    expect((await patch(id, { role: 'member' })).body.role).toBe('member')
    expect([await list(), await use(key)]).toEqual([403, 200])
  })
})

describe('rotating', () => {
  test('keeps the old key for the overlap, and no longer', async () => {
    const { id, key: old, key_last4 } = await newAccount()
    const { body } = await rotate(id, { overlap_hours: 1 })
    expect(body).toMatchObject({
      key: expect.stringMatching(/^sk_test_/),
      key_last4: body.key.slice(-4),
      previous_key: { last4: key_last4, expires_at: soon(), last_used_at: null },
    })
    expect([await use(old), await use(body.key)]).toEqual([200, 200])
    app.clock.now += hour
    expect([await use(old), await use(body.key)]).toEqual([401, 200])
    expect((await get(id)).previous_key).toBeNull()
  })

  test('ends a leaked key at once without an overlap', async () => {
    const { id, key: old } = await newAccount()
    expect(await use(old)).toBe(200)
    const { body } = await rotate(id, { overlap_hours: 0 })
    expect(body.previous_key).toBeNull()
    expect([await use(old), await use(body.key)]).toEqual([401, 200])
  })

  test('again ends the oldest of three keys', async () => {
    const { id, key: first } = await newAccount()
    const second = (await rotate(id)).body.key
    const third = (await rotate(id)).body.key
    expect([await use(first), await use(second), await use(third)]).toEqual([401, 200, 200])
  })

  test('can be finished early', async () => {
    const { id, key: old } = await newAccount()
    const { body } = await rotate(id)
    const finish = () => app.request('DELETE', `/service-accounts/${id}/previous-key`, { token })
    expect((await finish()).body.previous_key).toBeNull()
    expect([await use(old), await use(body.key), (await finish()).status]).toEqual([401, 200, 200])
  })

  test('returns the same key to a retry with the same Idempotency-Key', async () => {
    const { id } = await newAccount()
    const retry = () =>
      app.request('POST', `/service-accounts/${id}/rotate`, { token, headers: { 'idempotency-key': 'once' } })
    expect((await retry()).body).toEqual((await retry()).body)
  })

  test.each([-1, 169, 1.5, '1', null])('refuses an overlap of %j hours', async (overlap_hours) => {
    const { id } = await newAccount()
    expect((await rotate(id, { overlap_hours })).body.data.field).toBe('overlap_hours')
  })
})

describe('the last use', () => {
  test('is recorded to the minute, without a write per request', async () => {
    const { id, key } = await newAccount()
    const first = new Date(app.clock.now).toISOString()
    await use(key)
    await app.service.activity.flush()
    expect((await get(id)).last_used_at).toBe(first)
    app.clock.now += 59_000
    await use(key)
    await app.service.activity.flush()
    expect((await get(id)).last_used_at, 'less than a minute later').toBe(first)
    app.clock.now += 1_000
    await use(key)
    await app.service.activity.flush()
    expect((await get(id)).last_used_at).toBe(soon(0))
  })

  test('shows whether the previous key is still used', async () => {
    const { id, key: old } = await newAccount()
    await use(old)
    await app.service.activity.flush()
    app.clock.now += 60_000
    const { key } = (await rotate(id)).body
    await use(key)
    await app.service.activity.flush()
    expect((await get(id)).previous_key.last_used_at).toBeNull()
    await use(old)
    await app.service.activity.flush()
    expect(await get(id)).toMatchObject({ last_used_at: soon(0), previous_key: { last_used_at: soon(0) } })
  })
})

describe('a flood of unknown keys', () => {
  test('looks up a few at a time, refuses the rest, and leaves known keys their turn', async () => {
    let running = 0
    let most = 0
    const { database } = app.service
    const counted: typeof database.asKeyHolder = async (hash, work) => {
      running += 1
      most = Math.max(most, running)
      return database.asKeyHolder(hash, work).finally(() => {
        running -= 1
      })
    }
    const clock = { now: app.clock.now }
    const lookup = createAccountLookup({
      ...app.service,
      database: { ...database, asKeyHolder: counted },
      clock: () => clock.now,
    })
    const { key, name } = await newAccount()
    expect(await lookup.find(key)).toMatchObject({ actor: `service-account:${name}` })
    clock.now += 30_001
    const flood = Array.from({ length: 1_500 }, () =>
      lookup.find(generateKey('sk', 'production')).catch((error) => error.envelope.status),
    )
    expect(await lookup.find(key), 'checked again during the flood').toMatchObject({ role: 'member' })
    const answers = await Promise.all(flood)
    expect(answers.filter((answer) => answer === 503).length).toBeGreaterThan(400)
    expect(answers.every((answer) => answer === undefined || answer === 503)).toBe(true)
    expect(most).toBeLessThanOrEqual(4)
  })

  test('needs no lookup if the checksum is wrong', async () => {
    const { database } = app.service
    const never = () => Promise.reject(new Error('looked up'))
    const lookup = createAccountLookup({ ...app.service, database: { ...database, asKeyHolder: never } })
    const key = generateKey('sk', 'production')
    expect(isWellFormedKey('sk', key)).toBe(true)
    expect(await lookup.find(`${key.slice(0, 12)}${key[12] === 'a' ? 'b' : 'a'}${key.slice(13)}`)).toBeUndefined()
    await expect(lookup.find(key)).rejects.toThrow('looked up')
  })
})
