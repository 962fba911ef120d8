import { randomBytes, randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { startTestService, type TestService } from '../../../test/harness.ts'
import { connectDirectory, proveDomains, type ScimClient, scimClient } from '../../../test/scim.ts'
import { selectDeprovisioned } from '../directories/deprovisioned.ts'
import { scimRate } from './endpoint.ts'
import { scimLimits } from './resources.ts'
import { enterpriseSchema, errorSchema } from './schemas.ts'

let app: TestService
let admin: string
let directory: ScimClient
beforeAll(async () => {
  app = await startTestService()
  admin = await app.tokenFor('admin@demo.test', 'demo')
  directory = await connectDirectory(app)
})
afterAll(() => app.close())

const asAdmin = (method: string, path: string, body?: unknown) =>
  app.request(method, path, { token: admin, ...(body !== undefined && { body }) })
const lastRefusal = async () => (await asAdmin('GET', '/diagnostics/refusals?limit=1')).body.refusals[0]
const withToken = (token: string, directoryId = directory.directoryId) => scimClient(app, directoryId, token, admin)

describe('a request', () => {
  const unauthorized = {
    status: 401,
    body: { schemas: [errorSchema], status: '401', detail: expect.stringContaining('token') },
  }

  test.each([
    ['no token', { authorization: '' }],
    ['another scheme', { authorization: 'Basic c2NpbTp4' }],
    ['a malformed token', { authorization: 'Bearer x' }],
    ['an unknown token', { authorization: `Bearer scim_${'x'.repeat(43)}` }],
  ])('with %s is refused', async (_, headers) => {
    const answer = await directory.send('GET', '/Users', undefined, headers)
    expect(answer).toMatchObject(unauthorized)
    expect(answer.headers.get('www-authenticate')).toBe('Bearer')
    expect(answer.headers.get('content-type')).toBe('application/scim+json')
  })

  test('with a known token gets through while many with unknown tokens wait', async () => {
    const read = (headers = {}) => directory.send('GET', '/Users?count=1', undefined, headers)
    await read()
    const unknown = () => ({ authorization: `Bearer scim_${randomBytes(32).toString('base64url')}` })
    const flood = Array.from({ length: 600 }, () => read(unknown()))
    expect((await read()).status).toBe(200)
    const statuses = new Set((await Promise.all(flood)).map(({ status }) => status))
    expect([...statuses].sort()).toEqual([401, 429])
  })

  test('with an administrator’s access token is refused', async () => {
    expect(await withToken(admin).send('GET', '/Users')).toMatchObject(unauthorized)
    expect((await app.request('GET', '/directories', { token: directory.token })).status).toBe(401)
  })

  test.each([
    ['of the same organization', 'demo'],
    ['of another organization', 'other'],
  ] as const)('with the token of a directory %s is refused, and its administrator sees why', async (_, slug) => {
    const other = await app.organization('other')
    await app.service.database.asOrg(other, (sql) => sql`update organizations set plan_id = 'enterprise'`)
    const theirs = await connectDirectory(app, slug)
    const userId = await directory.addUser(randomUUID())
    const path = `/Users/${userId}`
    for (const [method, body] of [['GET'], ['PUT', { userName: 'x' }], ['DELETE']] as const) {
      expect(await withToken(theirs.token).send(method, path, body)).toMatchObject(unauthorized)
      const answer = await theirs.send(method, path, body)
      expect(answer.status, 'a user of another directory doesn’t exist in this one').toBe(404)
    }
    const group = await theirs.addGroup('Group')
    const added = await theirs.patch(`/Groups/${group}`, { op: 'add', path: 'members', value: [{ value: userId }] })
    expect(added).toMatchObject({ status: 400, body: { scimType: 'invalidValue' } })
    expect((await directory.send('GET', path)).status).toBe(200)
    const token = slug === 'demo' ? admin : await app.tokenFor('admin@other.test', 'other')
    const { refusals } = (await app.request('GET', '/diagnostics/refusals?limit=10', { token })).body
    expect(refusals.map(({ message }: { message: string }) => message)).toContain(
      'The bearer token belongs to another directory.',
    )
  })

  test('to an unknown or malformed directory is refused like one with a wrong token', async () => {
    for (const id of [randomUUID(), 'x', '%00', '..']) {
      expect(await withToken(directory.token, id).send('GET', '/Users')).toMatchObject({
        status: expect.toBeOneOf([401, 404]),
      })
    }
  })

  test('while the directory is inactive is refused', async () => {
    const own = await connectDirectory(app)
    await asAdmin('PATCH', `/directories/${own.directoryId}`, { status: 'inactive' })
    for (const [method, path, body] of [
      ['GET', '/Users'],
      ['POST', '/Users', { userName: 'x' }],
    ] as const) {
      const answer = await own.send(method, path, body)
      expect(answer).toMatchObject({ status: 403, body: { detail: expect.stringContaining('inactive') } })
    }
    expect(await lastRefusal()).toMatchObject({ surface: 'scim', code: '403' })
  })

  test('can read but not write after a downgrade', async () => {
    const own = await connectDirectory(app)
    const organizationId = await app.organization('demo')
    const setPlan = (plan: string) =>
      app.service.database.asOrg(organizationId, (sql) => sql`update organizations set plan_id = ${plan}`)
    await setPlan('team')
    const write = await own.send('POST', '/Users', { userName: 'x' })
    const read = await own.send('GET', '/Users')
    await setPlan('enterprise')
    expect(write).toMatchObject({
      status: 403,
      body: { detail: expect.stringContaining('The Team plan does not include directories') },
    })
    expect(read).toMatchObject({ status: 200, body: { totalResults: 0 } })
  })

  test('can still deactivate and delete users after a downgrade, and nothing else', async () => {
    const own = await connectDirectory(app)
    await proveDomains(app, await app.organization('demo'), 'a.example')
    const group = await own.addGroup('Everyone')
    await own.mapGroup(group, 'member')
    const [ada, bob, cleo] = [
      await own.addUser('ada@a.example'),
      await own.addUser('bob@a.example'),
      await own.addUser('cleo@a.example'),
    ]
    const members = [ada, bob, cleo].map((value) => ({ value }))
    await own.patch(`/Groups/${group}`, { op: 'add', path: 'members', value: members })
    const rolesOf = async () => {
      const rows = await app.service.database.asOrg(
        await app.organization('demo'),
        (sql) => sql<{ email: string; is_active: boolean }>`
          select u.email, m.deactivated_at is null as is_active from members m join users u on u.id = m.user_id
          where u.email like '%@a.example' order by u.email`,
      )
      return rows.map(({ email, is_active }) => `${email} ${is_active ? 'active' : 'inactive'}`)
    }
    const organizationId = await app.organization('demo')
    const setPlan = (plan: string) =>
      app.service.database.asOrg(organizationId, (sql) => sql`update organizations set plan_id = ${plan}`)
    await setPlan('team')
    onTestFinished(() => setPlan('enterprise').then(() => undefined))
    expect((await own.deactivate(ada)).status).toBe(200)
    const put = await own.send('PUT', `/Users/${bob}`, { userName: 'renamed@a.example', active: false })
    expect(put, 'only the deactivation counts').toMatchObject({
      status: 200,
      body: { userName: 'bob@a.example', active: false },
    })
    const ofBob = ['bob@a.example', 'renamed@a.example']
    const closed = await app.service.database.asOrg(organizationId, (sql) => selectDeprovisioned(sql, ofBob))
    expect(closed, 'both addresses lose access').toEqual(ofBob.map((email) => ({ email })))
    expect((await own.send('DELETE', `/Users/${cleo}`)).status).toBe(204)
    expect(await rolesOf()).toEqual(['ada@a.example inactive', 'bob@a.example inactive'])
    const refused = [
      await own.patch(`/Users/${ada}`, { op: 'replace', path: 'active', value: true }),
      await own.patch(
        `/Users/${ada}`,
        { op: 'replace', path: 'active', value: true },
        { op: 'replace', path: 'displayName', value: 'X' },
      ),
      await own.send('PUT', `/Users/${bob}`, { userName: 'bob@a.example', active: true }),
      await own.send('POST', '/Users', { userName: 'dora@a.example' }),
      await own.send('POST', '/Groups', { displayName: 'New' }),
      await own.patch(`/Groups/${group}`, { op: 'replace', path: 'displayName', value: 'X' }),
      await own.send('DELETE', `/Groups/${group}`),
    ]
    for (const answer of refused) {
      expect(answer).toMatchObject({
        status: 403,
        body: { detail: expect.stringContaining('so users can only be deactivated or deleted') },
      })
    }
    expect(await rolesOf()).toEqual(['ada@a.example inactive', 'bob@a.example inactive'])
  })

  test('that is refused names its directory to administrators', async () => {
    const [one, two] = [await connectDirectory(app), await connectDirectory(app)]
    for (const each of [one, two]) await each.send('GET', '/Users?filter=x')
    const listed = await asAdmin('GET', `/diagnostics/refusals?directory_id=${one.directoryId}`)
    expect(listed.body).toMatchObject({
      total: 1,
      refusals: [{ surface: 'scim', directory_id: one.directoryId, directory_name: 'Okta' }],
    })
    await asAdmin('DELETE', `/directories/${one.directoryId}`)
    const after = await asAdmin('GET', `/diagnostics/refusals?directory_id=${one.directoryId}`)
    expect(after.body.refusals).toMatchObject([{ directory_id: one.directoryId, directory_name: null }])
  })

  test.each<[string, string, unknown, Record<string, string>, object]>([
    ['POST', '/Users', '{"userName":', {}, { status: 400, body: { scimType: 'invalidSyntax' } }],
    ['POST', '/Users', '', {}, { status: 400, body: { scimType: 'invalidSyntax' } }],
    ['POST', '/Users', '[]', {}, { status: 400, body: { scimType: 'invalidSyntax' } }],
    ['POST', '/Users', '{"userName":"a","userName":"b"}', {}, { status: 400, body: { scimType: 'invalidSyntax' } }],
    ['POST', '/Users', '{"__proto__":{},"userName":"a"}', {}, { status: 400, body: { scimType: 'invalidSyntax' } }],
    ['POST', '/Users', `{"userName":"\\u0000"}`, {}, { status: 400, body: { scimType: 'invalidSyntax' } }],
    [
      'POST',
      '/Users',
      `${'{"a":'.repeat(100)}1${'}'.repeat(100)}`,
      {},
      { status: 400, body: { scimType: 'invalidSyntax' } },
    ],
    ['POST', '/Users', { userName: 'x' }, { 'content-type': 'text/plain' }, { status: 415 }],
    ['POST', '/Users', { userName: 'x' }, { 'content-encoding': 'gzip' }, { status: 415 }],
    ['POST', '/Users', `{"userName":"${'x'.repeat(2 * 1024 * 1024)}"}`, {}, { status: 413 }],
    ['PATCH', '/Users/ID', {}, {}, { status: 400, body: { scimType: 'invalidSyntax' } }],
    ['PATCH', '/Users/ID', { Operations: [] }, {}, { status: 400, body: { scimType: 'invalidSyntax' } }],
    ['PATCH', '/Users/ID', { Operations: [7] }, {}, { status: 400, body: { scimType: 'invalidSyntax' } }],
    [
      'PATCH',
      '/Users/ID',
      { Operations: [{ op: 'add', path: 7, value: 1 }] },
      {},
      { status: 400, body: { scimType: 'invalidPath' } },
    ],
    [
      'PATCH',
      '/Users/ID',
      { Operations: Array(scimLimits.operations + 1).fill({ op: 'remove', path: 'title' }) },
      {},
      { status: 413 },
    ],
    ['DELETE', '/Users', undefined, {}, { status: 405 }],
    ['POST', '/Users/ID', { userName: 'x' }, {}, { status: 405 }],
    ['GET', '/Users/ID/x', undefined, {}, { status: 404 }],
    ['GET', '/Users/x', undefined, {}, { status: 404 }],
    ['GET', '/constructor', undefined, {}, { status: 404 }],
    ['GET', '/', undefined, {}, { status: 404 }],
    ['POST', '/Bulk', {}, {}, { status: 501 }],
    ['GET', '/Me', undefined, {}, { status: 501 }],
    ['GET', '/Users?filter=%00', undefined, {}, { status: 400 }],
    ['GET', '/Users/%E0%A4%A', undefined, {}, { status: 404 }],
  ])('%s %s with a wrong shape gets its own error (%#)', async (method, path, body, headers, expected) => {
    const id = path.includes('ID') ? await directory.addUser(randomUUID()) : ''
    const answer = await directory.send(method, path.replace('ID', id), body, headers)
    expect(answer).toMatchObject(expected)
    expect(answer.body).toMatchObject({
      schemas: [errorSchema],
      status: String(answer.status),
      detail: expect.stringMatching(/\S/),
    })
  })

  test('of one directory is limited in its rate, without effect on others', async () => {
    const [fast, slow] = [await connectDirectory(app), await connectDirectory(app)]
    const now = app.clock.now
    const send = async (client: ScimClient) => {
      app.clock.now = now - 100
      return (await client.send('GET', '/ServiceProviderConfig')).status
    }
    for (let n = 0; n < scimRate.atOnce; n += 1) expect(await send(fast)).toBe(200)
    expect(await send(fast)).toBe(429)
    expect(await send(slow)).toBe(200)
    app.clock.now = now + 1_000
    const answer = await fast.send('GET', '/ServiceProviderConfig')
    expect(answer.status).toBe(200)
    expect(await lastRefusal()).toMatchObject({ code: '429', message: expect.stringContaining('requests per second') })
  })

  test('of one directory can’t be sent more than 16 times at once', async () => {
    const own = await connectDirectory(app)
    const answers = await Promise.all(Array.from({ length: 40 }, () => own.send('GET', '/Users')))
    const statuses = answers.map(({ status }) => status)
    expect(new Set(statuses)).toEqual(new Set([200, 429]))
    expect(answers.find(({ status }) => status === 429)?.headers.get('retry-after')).toBe('1')
    expect((await own.send('GET', '/Users')).status, 'its requests work again afterwards').toBe(200)
  })

  test('is recorded as the directory’s last activity', async () => {
    const own = await connectDirectory(app)
    await own.send('GET', '/Users')
    await app.service.activity.flush()
    const { body } = await asAdmin('GET', `/directories/${own.directoryId}`)
    const at = new Date(app.clock.now).toISOString()
    expect(body).toMatchObject({ last_synced_at: at, tokens: [{ last_used_at: at }] })
  })
})

describe('versions', () => {
  test('prevent changes of what has changed meanwhile', async () => {
    const id = await directory.addUser(randomUUID())
    const first = await directory.send('GET', `/Users/${id}`)
    expect(first.headers.get('etag')).toBe('W/"1"')
    expect(first.headers.get('location')).toBe(first.body.meta.location)
    const change = (title: string, ifMatch?: string) =>
      directory.send(
        'PATCH',
        `/Users/${id}`,
        { Operations: [{ op: 'replace', value: { title } }] },
        ifMatch === undefined ? {} : { 'if-match': ifMatch },
      )
    expect((await change('A', 'W/"1"')).headers.get('etag')).toBe('W/"2"')
    expect(await change('B', 'W/"1"')).toMatchObject({ status: 412 })
    expect((await change('B', '"1", "2"')).status).toBe(200)
    expect((await change('B', '*')).headers.get('etag'), 'nothing has changed').toBe('W/"3"')
    expect((await directory.send('PUT', `/Users/${id}`, { userName: 'x' }, { 'if-match': 'W/"2"' })).status).toBe(412)
    expect((await directory.send('DELETE', `/Users/${id}`, undefined, { 'if-match': 'W/"2"' })).status).toBe(412)
    const unchanged = await directory.send('GET', `/Users/${id}`, undefined, { 'if-none-match': 'W/"3"' })
    expect(unchanged).toMatchObject({ status: 304, body: undefined })
    expect((await directory.send('DELETE', `/Users/${id}`, undefined, { 'if-match': 'W/"3"' })).status).toBe(204)
  })
})

describe('discovery', () => {
  test('describes the service, its types and its schemas', async () => {
    const get = async (path: string) => (await directory.send('GET', path)).body
    expect(await get('/ServiceProviderConfig')).toMatchObject({
      patch: { supported: true },
      bulk: { supported: false },
      filter: { supported: true, maxResults: 200 },
      sort: { supported: false },
      etag: { supported: true },
      authenticationSchemes: [{ type: 'oauthbearertoken' }],
    })
    const types = await get('/ResourceTypes')
    expect(types.Resources.map(({ endpoint }: { endpoint: string }) => endpoint)).toEqual(['/Users', '/Groups'])
    expect(await get('/ResourceTypes/User')).toMatchObject({
      schemaExtensions: [{ schema: enterpriseSchema, required: false }],
    })
    const schemas = await get('/Schemas')
    for (const { id, meta } of schemas.Resources) {
      expect(await get(`/Schemas/${id}`)).toMatchObject({ id, attributes: expect.arrayContaining([]) })
      expect(meta.location).toBe(`http://localhost:8787/scim/v2/${directory.directoryId}/Schemas/${id}`)
    }
    expect((await directory.send('GET', '/Schemas/x')).status).toBe(404)
    expect((await directory.send('POST', '/Schemas', {})).status).toBe(404)
  })
})

describe('tokens', () => {
  const rotate = (id: string, body?: object) => asAdmin('POST', `/directories/${id}/token`, body)
  const works = async (id: string, token: string) => (await withToken(token, id).send('GET', '/Users')).status === 200

  test('work beside the new one until they expire', async () => {
    const { directoryId: id, token: first } = await connectDirectory(app)
    const { body } = await rotate(id, { overlap_hours: 1 })
    expect(body).toMatchObject({ bearer_token: expect.stringMatching(/^scim_[\w-]{43}$/) })
    expect(body.tokens).toMatchObject([
      { last_four: body.bearer_token.slice(-4), expires_at: null },
      { last_four: first.slice(-4), expires_at: expect.any(String) },
    ])
    expect([await works(id, first), await works(id, body.bearer_token)]).toEqual([true, true])
    await app.service.database.asOrg(
      await app.organization('demo'),
      (sql) => sql`update directory_tokens set expires_at = now() where expires_at is not null`,
    )
    expect(await withToken(first, id).send('GET', '/Users')).toMatchObject({
      status: 401,
      body: { detail: expect.stringContaining('expired') },
    })
    expect(await lastRefusal()).toMatchObject({
      surface: 'scim',
      code: '401',
      message: expect.stringContaining('expired'),
    })
    expect((await asAdmin('GET', `/directories/${id}`)).body.tokens).toHaveLength(1)
  })

  test('stop working at once without an overlap', async () => {
    const { directoryId: id, token: first } = await connectDirectory(app)
    const second = (await rotate(id)).body.bearer_token
    const third = (await rotate(id, { overlap_hours: 0 })).body.bearer_token
    expect(await Promise.all([first, second, third].map((token) => works(id, token)))).toEqual([false, false, true])
  })

  test('are at most five, and a later overlap never extends an earlier one', async () => {
    const { directoryId: id } = await connectDirectory(app)
    await rotate(id, { overlap_hours: 1 })
    const soon = (await asAdmin('GET', `/directories/${id}`)).body.tokens[1].expires_at
    for (let n = 0; n < 3; n += 1) await rotate(id, { overlap_hours: 168 })
    const { tokens } = (await asAdmin('GET', `/directories/${id}`)).body
    expect(tokens).toHaveLength(5)
    expect(tokens[4].expires_at).toBe(soon)
    await rotate(id, { overlap_hours: 168 })
    expect((await asAdmin('GET', `/directories/${id}`)).body.tokens).toHaveLength(5)
  })

  test.each([{ overlap_hours: -1 }, { overlap_hours: 169 }, { overlap_hours: 1.5 }, { token: 'x' }])(
    'reject %j',
    async (body) => {
      expect((await rotate(directory.directoryId, body)).body.data.code).toBe('VALIDATION_ERROR')
    },
  )

  test('are stored as hashes, and never logged', async () => {
    const { directoryId: id, token } = await connectDirectory(app)
    const { bearer_token } = (await rotate(id)).body
    const rows = await app.service.database.asOrg(await app.organization('demo'), async (sql) => [
      ...(await sql`select * from directory_tokens`),
      ...(await sql`select * from audit_events`),
    ])
    for (const secret of [token, bearer_token]) {
      expect(JSON.stringify(rows)).not.toContain(secret)
      expect(app.logged()).not.toContain(secret)
    }
  })
})
