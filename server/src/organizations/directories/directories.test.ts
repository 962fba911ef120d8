import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestService, type TestService, useTestService } from '../../../test/harness.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { fingerprint } from '../../kernel/lib/secrets.ts'
import { parseDomain } from './domains.ts'

let app: TestService
let token: string
beforeAll(async () => {
  app = await startTestService()
  token = await app.tokenFor('admin@demo.test', 'demo')
})
afterAll(() => app.close())

const id = expect.stringMatching(/^[0-9a-f-]{36}$/)
const timestamp = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
const newDomain = () => `d-${randomUUID()}.example`
const valid = () => ({ name: 'People', type: 'okta', domain: newDomain() })

const create = (body: unknown) => app.request('POST', '/directories', { token, body })
const created = async (changes: object = {}) => (await create({ ...valid(), ...changes })).body
const update = (directoryId: string, body: unknown) =>
  app.request('PATCH', `/directories/${directoryId}`, { token, body })
const read = async (path: string, as = token) => (await app.request('GET', path, { token: as })).body

/** Adds users and groups, as a SCIM client would. */
async function fill(directoryId: string, users: number, groups: number) {
  await app.service.database.asOrg(await app.organization('demo'), async (sql) => {
    for (let n = 1; n <= users; n += 1) {
      await sql`
        insert into directory_users (organization_id, directory_id, id, external_id, user_name, email, name, active)
        values (current_organization(), ${directoryId}, ${newId()}, ${`ext-${n}`}, ${`user${n}`}, ${`user${n}@acme.example`},
                ${`User ${n}`}, ${n > 1})`
    }
    for (let n = 1; n <= groups; n += 1) {
      await sql`
        insert into directory_groups (organization_id, directory_id, id, display_name)
        values (current_organization(), ${directoryId}, ${newId()}, ${`Group ${n}`})`
    }
  })
}

describe('the status', () => {
  test('reports no directory, an inactive one, and the oldest active one', async () => {
    const app = await useTestService()
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const status = async () => (await app.request('GET', '/directories/status', { token })).body
    const add = async () => (await app.request('POST', '/directories', { token, body: valid() })).body
    const turn = (directoryId: string, status: string) =>
      app.request('PATCH', `/directories/${directoryId}`, { token, body: { status } })

    expect(await status()).toEqual({ has_directory: false, has_active_directory: false, directory_count: 0 })
    const first = await add()
    await turn(first.id, 'inactive')
    expect(await status()).toEqual({ has_directory: true, has_active_directory: false, directory_count: 1 })
    const second = await add()
    await add()
    expect(await status()).toEqual({
      has_directory: true,
      has_active_directory: true,
      directory_count: 3,
      active_directory: {
        id: second.id,
        name: 'People',
        type: 'okta',
        domain: second.domain,
        user_count: 0,
        group_count: 0,
      },
    })
    await turn(first.id, 'active')
    expect(await status()).toMatchObject({ active_directory: { id: first.id } })
  })

  test('is available on every plan', async () => {
    const free = await app.tokenFor('admin@other.test', 'other')
    expect(await read('/directories/status', free)).toMatchObject({ has_directory: false })
    expect(await read('/directories', free)).toEqual({ directories: [] })
  })

  test('counts only the directory’s own users and groups', async () => {
    const [full, empty] = [await created(), await created()]
    await fill(full.id, 3, 2)
    expect(await read(`/directories/${full.id}`)).toMatchObject({ user_count: 3, group_count: 2 })
    expect(await read(`/directories/${empty.id}`)).toMatchObject({ user_count: 0, group_count: 0 })
  })
})

describe('creating', () => {
  test('returns the URL and the token for the SCIM client, and never returns the token again', async () => {
    const { body } = await create({ name: ' People ', type: 'azure', domain: 'Acme.Example' })
    expect(body).toEqual({
      id,
      name: 'People',
      type: 'azure',
      domain: 'acme.example',
      status: 'active',
      scim_base_url: `http://localhost:8787/scim/v2/${body.id}`,
      bearer_token: expect.stringMatching(/^scim_[\w-]{43}$/),
      user_count: 0,
      group_count: 0,
      tokens: [
        {
          id,
          last_four: body.bearer_token.slice(-4),
          created_at: timestamp,
          expires_at: null,
          last_used_at: null,
        },
      ],
      last_synced_at: null,
      created_at: timestamp,
      updated_at: timestamp,
    })
    const { bearer_token, ...rest } = body
    expect(await read(`/directories/${body.id}`)).toEqual(rest)
    expect((await read('/directories')).directories).toContainEqual(rest)
  })

  test('stores only a hash of the token', async () => {
    const { id, bearer_token } = await created()
    const rows = await app.service.database.asOrg(await app.organization('demo'), async (sql) => [
      ...(await sql`select * from directory_tokens where directory_id = ${id}`),
      ...(await sql`select * from directories where id = ${id}`),
      ...(await sql`select * from audit_events where target = ${id}`),
    ])
    expect(rows).toHaveLength(3)
    expect(rows[0]).toMatchObject({ token_hash: fingerprint(bearer_token), last_four: bearer_token.slice(-4) })
    expect(JSON.stringify(rows)).not.toContain(bearer_token)
    expect(app.logged()).not.toContain(bearer_token)
  })

  test.each(['okta', 'azure', 'google', 'onelogin', 'generic'])('accepts the type %s', async (type) => {
    expect(await created({ type })).toMatchObject({ type })
  })

  test.each<[object, string]>([
    [{ name: undefined }, 'name'],
    [{ name: '' }, 'name'],
    [{ name: ' ' }, 'name'],
    [{ name: 'x'.repeat(101) }, 'name'],
    [{ name: 1 }, 'name'],
    [{ type: undefined }, 'type'],
    [{ type: 'ldap' }, 'type'],
    [{ domain: undefined }, 'domain'],
    [{ domain: '' }, 'domain'],
    [{ domain: 'com' }, 'domain'],
    [{ domain: 'co.uk' }, 'domain'],
    [{ domain: 'localhost' }, 'domain'],
    [{ domain: '10.0.0.1' }, 'domain'],
    [{ domain: 'acme.example.' }, 'domain'],
    [{ domain: 'https://acme.example' }, 'domain'],
    [{ domain: 'acme.example/path' }, 'domain'],
    [{ domain: 'acme.example:443' }, 'domain'],
    [{ domain: 'ann@acme.example' }, 'domain'],
    [{ domain: '*.acme.example' }, 'domain'],
    [{ domain: `${'x'.repeat(64)}.example` }, 'domain'],
    [{ domain: `${'x.'.repeat(124)}example` }, 'domain'],
    [{ domain: null }, 'domain'],
    [{ status: 'active' }, 'status'],
    [{ bearer_token: 'x' }, 'bearer_token'],
    [{ organization_id: 'x' }, 'organization_id'],
  ])('rejects %j', async (changes, field) => {
    const { directories } = await read('/directories')
    const { body } = await create({ ...valid(), ...changes })
    expect(body.data).toEqual({ code: 'VALIDATION_ERROR', field, details: expect.stringMatching(/\S/) })
    expect((await read('/directories')).directories).toEqual(directories)
  })

  test('requires a plan with directories, and validates the input first', async () => {
    const free = await app.tokenFor('admin@other.test', 'other')
    const attempt = async (body: unknown) => (await app.request('POST', '/directories', { token: free, body })).body
    expect(await attempt(valid())).toEqual({
      defined: true,
      code: 'PAYMENT_REQUIRED',
      status: 403,
      message: 'The Free plan does not include directories',
      data: { code: 'PAYMENT_REQUIRED' },
    })
    expect((await attempt({})).data.code).toBe('VALIDATION_ERROR')
    expect((await read('/directories', free)).directories).toEqual([])
  })

  test('succeeds once for concurrent requests with the same domain', async () => {
    const body = valid()
    const answers = await Promise.all(Array.from({ length: 20 }, () => create(body)))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    expect(answers.find(({ status }) => status !== 200)?.body).toEqual({
      defined: true,
      code: 'CONFLICT',
      status: 409,
      message: 'Resource already exists',
      data: { code: 'DUPLICATE_RESOURCE', resource: 'directory' },
    })
  })
})

describe('updating', () => {
  test.each([
    { name: 'New' },
    { type: 'generic' },
    { domain: 'new.example' },
    { status: 'inactive' },
    { name: 'All', type: 'google', domain: 'all.example', status: 'inactive' },
    {},
  ])('with %j changes nothing else', async (changes) => {
    const { bearer_token, ...before } = await created()
    expect((await update(before.id, changes)).body).toEqual({ ...before, ...changes, updated_at: timestamp })
  })

  test('keeps all concurrent changes to different fields', async () => {
    const { id } = await created()
    const changes = { name: 'Both', type: 'google' }
    await Promise.all(Array.from({ length: 20 }, (_, n) => update(id, n % 2 ? { name: 'Both' } : { type: 'google' })))
    expect(await read(`/directories/${id}`)).toMatchObject(changes)
  })

  test.each([
    [{ name: '' }, 'name'],
    [{ name: null }, 'name'],
    [{ type: 'x' }, 'type'],
    [{ domain: 'com' }, 'domain'],
    [{ status: 'deleted' }, 'status'],
    [{ id: 'x' }, 'id'],
  ])('rejects %j', async (changes, field) => {
    expect((await update((await created()).id, changes)).body.data).toMatchObject({ code: 'VALIDATION_ERROR', field })
  })

  test('a domain’s second directory can be activated only once the first is inactive', async () => {
    const first = await created()
    await update(first.id, { status: 'inactive' })
    const second = await created({ domain: first.domain })
    expect((await update(first.id, { status: 'active' })).body.data).toEqual({
      code: 'DUPLICATE_RESOURCE',
      resource: 'directory',
    })
    await update(second.id, { status: 'inactive' })
    expect((await update(first.id, { status: 'active' })).status).toBe(200)
    const elsewhere = await created()
    expect((await update(elsewhere.id, { domain: first.domain })).status).toBe(409)
  })

  test('after a downgrade, allows every change except activation', async () => {
    const { id } = await created()
    const demo = await app.organization('demo')
    const setPlan = (plan: string) =>
      app.service.database.asOrg(demo, (sql) => sql`update organizations set plan_id = ${plan}`)
    await setPlan('team')
    expect((await update(id, { status: 'active' })).body.message).toBe('The Team plan does not include directories')
    expect((await update(randomUUID(), { status: 'active' })).status, 'existence is checked first').toBe(404)
    expect((await update(id, { status: 'inactive', name: 'Off' })).status).toBe(200)
    expect((await app.request('DELETE', `/directories/${id}`, { token })).status).toBe(200)
    await setPlan('enterprise')
  })
})

test('deleting a directory deletes its users and groups', async () => {
  const { id } = await created()
  await fill(id, 2, 1)
  expect((await app.request('DELETE', `/directories/${id}`, { token })).body).toEqual({ success: true })
  expect((await app.request('DELETE', `/directories/${id}`, { token })).status).toBe(404)
  const left = await app.service.database.asOrg(await app.organization('demo'), async (sql) => [
    ...(await sql`select from directory_users where directory_id = ${id}`),
    ...(await sql`select from directory_groups where directory_id = ${id}`),
  ])
  expect(left).toEqual([])
})

test('every change writes an audit event', async () => {
  const directory = await created()
  await update(directory.id, { name: 'Renamed' })
  await app.request('DELETE', `/directories/${directory.id}`, { token })
  const rows = await app.service.database.asOrg(
    await app.organization('demo'),
    (sql) => sql`select actor, action, data from audit_events where target = ${directory.id} order by sequence`,
  )
  const { domain } = directory
  expect(rows).toEqual([
    { actor: 'admin@demo.test', action: 'directory.created', data: { name: 'People', type: 'okta', domain } },
    { actor: 'admin@demo.test', action: 'directory.updated', data: { name: 'Renamed' } },
    { actor: 'admin@demo.test', action: 'directory.deleted', data: { name: 'Renamed', domain } },
  ])
})

describe('users and groups', () => {
  let directoryId: string
  beforeAll(async () => {
    directoryId = (await created()).id
    await fill(directoryId, 51, 51)
  })

  test('have these fields', async () => {
    const { users, total } = await read(`/directories/${directoryId}/users?limit=1`)
    expect(total).toBe(51)
    expect(users).toEqual([
      {
        id,
        external_id: 'ext-1',
        user_name: 'user1',
        email: 'user1@acme.example',
        name: 'User 1',
        active: false,
        role: null,
        is_invited: false,
        created_at: timestamp,
        updated_at: timestamp,
      },
    ])
    const { groups, total: groupTotal } = await read(`/directories/${directoryId}/groups?limit=1`)
    expect(groupTotal).toBe(51)
    expect(groups).toEqual([
      {
        id,
        external_id: null,
        display_name: 'Group 1',
        member_count: 0,
        role: null,
        created_at: timestamp,
        updated_at: timestamp,
      },
    ])
  })

  describe.each(['users', 'groups'])('%s', (kind) => {
    test.each([
      ['', 50],
      ['?limit=1', 1],
      ['?limit=100', 51],
      ['?offset=50', 1],
      ['?limit=10&offset=45', 6],
      [`?offset=${Number.MAX_SAFE_INTEGER}`, 0],
    ])('with "%s" returns %i', async (query, length) => {
      const body = await read(`/directories/${directoryId}/${kind}${query}`)
      expect(body[kind]).toHaveLength(length)
      expect(body.total).toBe(51)
    })

    test.each([
      'limit=0',
      'limit=101',
      'limit=1.5',
      'limit=x',
      'limit=1&limit=2',
      'offset=-1',
      'offset=9007199254740992',
    ])('rejects "%s"', async (query) => {
      const { data } = await read(`/directories/${directoryId}/${kind}?${query}`)
      expect(data).toMatchObject({ code: 'VALIDATION_ERROR', field: query.replace(/=.*/, '') })
    })
  })
})

describe('a domain', () => {
  test.each([
    ['acme.example', 'acme.example'],
    ['ACME.example', 'acme.example'],
    ['mail.acme.co.uk', 'mail.acme.co.uk'],
    ['ärzte.example', 'xn--rzte-koa.example'],
    ['acme.github.io', 'acme.github.io'],
    ['github.io', null],
    ['', null],
    ['a..example', null],
    ['a b.example', null],
  ])('"%s" is read as %s', (text, expected) => expect(parseDomain(text)).toBe(expected))

  test('that is parsed is a hostname, and parsing it again changes nothing', () => {
    fc.assert(
      fc.property(fc.oneof(fc.domain(), fc.webAuthority(), fc.string(), fc.emailAddress()), (text) => {
        const domain = parseDomain(text)
        if (domain === null) return
        expect(parseDomain(domain)).toBe(domain)
        expect(new URL(`https://${domain}/`).hostname).toBe(domain)
      }),
    )
  })
})
