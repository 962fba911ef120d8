import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { type Delegation, hub, hubAtIdp, startDelegation } from '../../../test/delegation.ts'
import { useTestService } from '../../../test/harness.ts'

let world: Delegation
beforeAll(async () => {
  world = await startDelegation()
})
afterAll(() => world.close())
afterEach(() => world.reset())

const timestamp = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
const given = { name: 'crm', kind: 'id_jag', server_url: 'https://crm.example/mcp', ...hub }
const create = (changes: Record<string, unknown> = {}) => world.asAdmin('POST', '/connectors', { ...given, ...changes })
const patch = (id: string, changes: Record<string, unknown>) => world.asAdmin('PATCH', `/connectors/${id}`, changes)

const audit = async () =>
  world.service.database.asOrg(
    await world.organization('demo'),
    (sql) =>
      sql<{ action: string; data: unknown }>`
        select action, data from audit_events where action like 'connector.%' order by sequence desc limit 1`,
  )

describe('a new connector', () => {
  test('has exactly these fields and shows four characters of its secrets', async () => {
    const { body } = await create(hubAtIdp)
    expect(body).toEqual({
      id: expect.any(String),
      name: 'crm',
      kind: 'id_jag',
      server_url: 'https://crm.example/mcp',
      client_id: 'hub',
      client_secret_last4: 'rver',
      idp_client_id: 'hub',
      idp_client_secret_last4: 'ider',
      scopes: ['mcp:tools:read', 'mcp:tools:call'],
      audience_mode: 'resource',
      read_only_tools: [],
      status: 'active',
      created_at: timestamp,
      updated_at: timestamp,
    })
    expect((await world.asAdmin('GET', `/connectors/${body.id}`)).body).toEqual(body)
    expect((await world.asAdmin('GET', '/connectors')).body).toEqual({ connectors: [body] })
  })

  test('doesn’t need a separate client at the identity provider', async () => {
    expect((await create()).body).toMatchObject({ idp_client_id: null, idp_client_secret_last4: null })
  })

  test('writes an audit event without its secrets', async () => {
    await create(hubAtIdp)
    const [row] = await audit()
    const { client_secret, ...shown } = given
    expect(row).toEqual({
      action: 'connector.created',
      data: {
        ...shown,
        idp_client_id: 'hub',
        scopes: ['mcp:tools:read', 'mcp:tools:call'],
        audience_mode: 'resource',
      },
    })
  })

  test('stores its secrets encrypted', async () => {
    await create(hubAtIdp)
    const rows = await world.service.database.asOrg(
      await world.organization('demo'),
      (sql) => sql`select * from connectors`,
    )
    expect(JSON.stringify(rows)).not.toContain(hub.client_secret)
    expect(JSON.stringify(rows)).not.toContain(hubAtIdp.idp_client_secret)
    expect(world.logged()).not.toContain(hub.client_secret)
  })

  test.each<[Record<string, unknown>, string]>([
    [{ name: undefined }, 'name'],
    [{ name: '' }, 'name'],
    [{ name: 'CRM' }, 'name'],
    [{ name: '-crm' }, 'name'],
    [{ name: 'my.crm' }, 'name'],
    [{ name: 'x'.repeat(33) }, 'name'],
    [{ kind: undefined }, 'kind'],
    [{ kind: 'saml' }, 'kind'],
    [{ server_url: undefined }, 'server_url'],
    [{ server_url: 'crm.example' }, 'server_url'],
    [{ server_url: 'ftp://crm.example/mcp' }, 'server_url'],
    [{ server_url: 'https://user:pass@crm.example/mcp' }, 'server_url'],
    [{ server_url: 'https://crm.example/mcp?key=1' }, 'server_url'],
    [{ server_url: 'https://crm.example/mcp#top' }, 'server_url'],
    [{ server_url: 'https://CRM.example/mcp' }, 'server_url'],
    [{ server_url: 'https://crm.example:443/mcp' }, 'server_url'],
    [{ server_url: 'https://crm.example/a/../mcp' }, 'server_url'],
    [{ server_url: `https://crm.example/${'x'.repeat(2000)}` }, 'server_url'],
    [{ client_id: '' }, 'client_id'],
    [{ client_id: 'x'.repeat(256) }, 'client_id'],
    [{ client_id: 'a b' }, 'client_id'],
    [{ client_secret: undefined }, 'client_secret'],
    [{ client_secret: 'short77' }, 'client_secret'],
    [{ client_secret: 'x'.repeat(2001) }, 'client_secret'],
    [{ idp_client_id: 'hub' }, 'idp_client_secret'],
    [{ idp_client_secret: 'secret-alone' }, 'idp_client_secret'],
    [{ scopes: [] }, 'scopes'],
    [{ scopes: ['a b'] }, 'scopes.0'],
    [{ scopes: ['a"b'] }, 'scopes.0'],
    [{ scopes: Array.from({ length: 21 }, (_, n) => `s${n}`) }, 'scopes'],
    [{ scopes: 'mcp:tools:read' }, 'scopes'],
    [{ audience_mode: 'both' }, 'audience_mode'],
    [{ read_only_tools: [''] }, 'read_only_tools.0'],
    [{ read_only_tools: ['x'.repeat(129)] }, 'read_only_tools.0'],
    [{ read_only_tools: ['a\u0001b'] }, 'read_only_tools.0'],
    [{ read_only_tools: ['a\u200bb'] }, 'read_only_tools.0'],
    [{ read_only_tools: Array(513).fill('x') }, 'read_only_tools'],
    [{ status: 'disabled' }, 'status'],
    [{ organization_id: randomUUID() }, 'organization_id'],
  ])('is rejected with %j', async (changes, field) => {
    const { status, body } = await create(changes)
    expect({ status, field: body.data?.field }).toEqual({ status: 400, field })
  })

  test.each<[Record<string, unknown>]>([
    [{ name: 'x' }],
    [{ name: '0-crm-of-32-characters-aaaaaaaaa' }],
    [{ server_url: 'https://crm.example' }],
    [{ server_url: 'http://127.0.0.1:9/mcp' }],
    [{ client_secret: 'exactly8' }],
    [{ scopes: ['one'] }],
    [{ audience_mode: 'issuer' }],
    [{ read_only_tools: ['list_orders', 'größe'] }],
  ])('can have %j', async (changes) => {
    expect((await create(changes)).body).toMatchObject(
      'client_secret' in changes ? { client_secret_last4: 'tly8' } : changes,
    )
  })

  test('for a third party needs no client and no scopes', async () => {
    const { body } = await world.asAdmin('POST', '/connectors', {
      name: 'third',
      kind: 'oauth',
      server_url: 'https://third.example/mcp',
    })
    expect(body).toEqual({
      id: expect.any(String),
      name: 'third',
      kind: 'oauth',
      server_url: 'https://third.example/mcp',
      client_id: null,
      client_secret_last4: null,
      idp_client_id: null,
      idp_client_secret_last4: null,
      scopes: [],
      audience_mode: 'resource',
      read_only_tools: [],
      status: 'active',
      created_at: timestamp,
      updated_at: timestamp,
    })
    expect((await patch(body.id, { scopes: ['read'] })).body.scopes).toEqual(['read'])
    expect((await patch(body.id, { scopes: [] })).body.scopes).toEqual([])
    expect((await patch(body.id, { client_secret: 'for-no-client' })).body.data.field).toBe('client_secret')
  })

  test.each<[Record<string, unknown>, string]>([
    [{ client_secret: 'secret-alone' }, 'client_id'],
    [{ idp_client_id: 'hub', idp_client_secret: 'secret-there' }, 'idp_client_id'],
    [{ audience_mode: 'issuer' }, 'audience_mode'],
    [{ kind: 'id_jag' }, 'client_id'],
    [{ kind: 'id_jag', client_id: 'hub' }, 'client_secret'],
  ])('for a third party is rejected with %j', async (changes, field) => {
    const body = { name: 'third', kind: 'oauth', server_url: 'https://third.example/mcp', ...changes }
    expect((await world.asAdmin('POST', '/connectors', body)).body).toMatchObject({ status: 400, data: { field } })
  })

  test('contains each scope once', async () => {
    expect((await create({ scopes: ['a', 'b', 'a'] })).body.scopes).toEqual(['a', 'b'])
  })

  test('needs a name that is unique in its organization', async () => {
    await create()
    expect((await create()).body).toMatchObject({
      status: 409,
      code: 'CONFLICT',
      data: { code: 'DUPLICATE_RESOURCE', resource: 'connector' },
    })
    const token = await world.tokenFor('admin@other.test', 'other')
    expect((await world.request('POST', '/connectors', { token, body: given })).status).toBe(200)
  })

  test('is limited to fifty per organization, even if many are created concurrently', async () => {
    const answers = await Promise.all(Array.from({ length: 55 }, (_, n) => create({ name: `c${n}` })))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(50)
    expect(answers.find(({ status }) => status !== 200)?.body).toMatchObject({
      status: 400,
      data: { field: '', details: 'An organization can have at most 50 connectors' },
    })
  })

  test('must use https in production', async () => {
    const app = await useTestService({
      NODE_ENV: 'production',
      INLAY_PUBLIC_URL: 'https://inlay.example.com',
    })
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const body = { ...given, server_url: 'http://127.0.0.1:9/mcp' }
    expect((await app.request('POST', '/connectors', { token, body })).body).toMatchObject({
      status: 400,
      data: { field: 'server_url', details: 'Must start with https://' },
    })
  })
})

describe('an update', () => {
  test.each<[Record<string, unknown>, Record<string, unknown>]>([
    [{ name: 'sales' }, { name: 'sales' }],
    [{ client_secret: 'another-secret' }, { client_secret_last4: 'cret' }],
    [{ idp_client_secret: 'another-one' }, { idp_client_secret_last4: '-one' }],
    [{ scopes: ['one'] }, { scopes: ['one'] }],
    [{ audience_mode: 'issuer' }, { audience_mode: 'issuer' }],
    [{ read_only_tools: ['list'] }, { read_only_tools: ['list'] }],
    [{ status: 'disabled' }, { status: 'disabled' }],
    [{}, {}],
  ])('of %j keeps the other fields', async (changes, expected) => {
    const { body } = await create(hubAtIdp)
    expect((await patch(body.id, changes)).body).toEqual({ ...body, ...expected, updated_at: timestamp })
    const secrets = Object.keys(changes).filter((name) => name.endsWith('_secret'))
    const [row] = await audit()
    expect(row).toEqual({
      action: 'connector.updated',
      data: { ...changes, ...Object.fromEntries(secrets.map((name) => [name, 'set'])) },
    })
  })

  test.each<[Record<string, unknown>, string]>([
    [{ server_url: 'https://evil.example/mcp' }, 'server_url'],
    [{ client_id: 'another' }, 'client_id'],
    [{ idp_client_id: 'another' }, 'idp_client_id'],
    [{ kind: 'id_jag' }, 'kind'],
    [{ status: 'gone' }, 'status'],
    [{ name: null }, 'name'],
    [{ idp_client_secret: 'without-a-client' }, 'idp_client_secret'],
    [{ scopes: [] }, 'scopes'],
  ])('of %j is rejected', async (changes, field) => {
    const { body } = await create()
    const { status, body: refused } = await patch(body.id, changes)
    expect({ status, field: refused.data?.field }).toEqual({ status: 400, field })
  })

  test('to a name that is taken is a conflict', async () => {
    await create()
    const { body } = await create({ name: 'sales' })
    expect((await patch(body.id, { name: 'crm' })).status).toBe(409)
  })

  test('of different fields at the same time keeps all changes', async () => {
    const { body } = await create()
    const changes = { name: 'sales', client_secret: 'another-secret', scopes: ['one'], audience_mode: 'issuer' }
    await Promise.all(Object.entries(changes).map(([name, value]) => patch(body.id, { [name]: value })))
    const { client_secret, ...shown } = changes
    expect((await world.asAdmin('GET', `/connectors/${body.id}`)).body).toMatchObject({
      ...shown,
      client_secret_last4: 'cret',
    })
  })
})

test('a deleted connector is not found', async () => {
  const { body } = await create()
  expect((await world.asAdmin('DELETE', `/connectors/${body.id}`)).body).toEqual({ success: true })
  expect((await audit())[0]).toEqual({ action: 'connector.deleted', data: { name: 'crm' } })
  for (const method of ['GET', 'DELETE'])
    expect((await world.asAdmin(method, `/connectors/${body.id}`)).status).toBe(404)
})

describe('a test', () => {
  const run = async (id: string) => (await world.asAdmin('POST', `/connectors/${id}/test`)).body
  const connectAdmin = () => world.connect({ sub: 'adm', email: 'admin@demo.test', email_verified: true })

  test('runs every step and reports what it finds', async () => {
    const { id } = await world.addConnector()
    await connectAdmin()
    expect(await run(id)).toEqual({
      success: true,
      steps: [
        { step: 'metadata', status: 'ok', message: `The token endpoint is ${world.tools.url}/oauth/token` },
        {
          step: 'provider_exchange',
          status: 'ok',
          message: `${world.idp.url} issued an assertion with the scopes mcp:tools:read mcp:tools:call`,
        },
        {
          step: 'redemption',
          status: 'ok',
          message: 'The tool server issued an access token with the scopes mcp:tools:read mcp:tools:call',
        },
        { step: 'tools_list', status: 'ok', message: '1 tool' },
      ],
    })
    expect((await audit())[0]).toEqual({ action: 'connector.tested', data: { success: true } })
  })

  test('neither reads nor writes cached tokens', async () => {
    const { id } = await world.addConnector()
    const { userId } = await connectAdmin()
    await run(id)
    await run(id)
    expect(world.idp.tokenRequests()).toHaveLength(2)
    expect(await world.service.kv.get(`token:${await world.organization('demo')}:${id}:${userId}`)).toBeUndefined()
  })

  test('works for a disabled connector', async () => {
    const { id } = await world.addConnector()
    await patch(id, { status: 'disabled' })
    await connectAdmin()
    expect((await run(id)).success).toBe(true)
  })

  const instead = (path: RegExp, response: () => Response) => (request: Request) =>
    path.test(new URL(request.url).pathname) ? response() : undefined
  const broken = () => new Response(null, { status: 500 })

  test.each<[string, () => unknown, string[], RegExp]>([
    [
      'metadata',
      () => Object.assign(world.tools, { instead: instead(/protected-resource/, broken) }),
      ['failed', 'skipped', 'skipped', 'skipped'],
      /responded with status 500/,
    ],
    [
      'provider_exchange',
      () => Object.assign(world.idp, { assertion: { claims: { aud: 'https://other.example' } } }),
      ['ok', 'failed', 'skipped', 'skipped'],
      /the wrong audience: expected http.*\/mcp, found https:\/\/other\.example/,
    ],
    [
      'redemption',
      () => Object.assign(world.idp, { assertion: { claims: { sub: '' } } }),
      ['ok', 'ok', 'failed', 'skipped'],
      /status 400: invalid_grant/,
    ],
    [
      'tools_list',
      () => Object.assign(world.tools, { instead: instead(/^\/mcp$/, broken) }),
      ['ok', 'ok', 'ok', 'failed'],
      /status 500/,
    ],
  ])('reports the step that fails: %s', async (step, breakIt, statuses, why) => {
    const { id } = await world.addConnector()
    await connectAdmin()
    breakIt()
    const { success, steps } = await run(id)
    expect(success).toBe(false)
    expect(steps.map(({ status }: { status: string }) => status)).toEqual(statuses)
    expect(steps.find(({ status }: { status: string }) => status === 'failed')).toMatchObject({
      step,
      message: expect.stringMatching(why),
    })
  })

  test('explains how to get an identity if there is none', async () => {
    const { id } = await world.addConnector()
    expect((await run(id)).steps).toMatchObject([
      { status: 'ok' },
      { step: 'provider_exchange', status: 'failed', message: expect.stringMatching(/^Open a page with the widget/) },
      { status: 'skipped', message: '' },
      { status: 'skipped', message: '' },
    ])
  })

  test.each(['https://127.0.0.1/mcp', 'https://10.0.0.1/mcp', 'https://[::1]/mcp', 'https://169.254.169.254/latest'])(
    'doesn’t reach private networks that the operator doesn’t allow: %s',
    async (server_url) => {
      const app = await useTestService({ INLAY_ALLOWED_PRIVATE_NETWORKS: '10.9.0.0/16' })
      const token = await app.tokenFor('admin@demo.test', 'demo')
      const { body } = await app.request('POST', '/connectors', { token, body: { ...given, server_url } })
      const answer = await app.request('POST', `/connectors/${body.id}/test`, { token })
      expect(answer.body.steps[0]).toMatchObject({
        status: 'failed',
        message: expect.stringContaining('private or reserved address'),
      })
    },
  )
})
