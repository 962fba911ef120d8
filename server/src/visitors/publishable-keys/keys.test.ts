import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestService, type TestService } from '../../../test/harness.ts'
import { topics } from '../../kernel/stores/topics.ts'
import { generateKey, isWellFormedKey } from './key-format.ts'

let app: TestService
let token: string
beforeAll(async () => {
  app = await startTestService()
  token = await app.tokenFor('admin@demo.test', 'demo')
})
afterAll(() => app.close())

const create = (body: unknown) => app.request('POST', '/publishable-keys', { token, body })
const list = async () => (await app.request('GET', '/publishable-keys', { token })).body.keys

describe('creating', () => {
  test('returns the full key, once', async () => {
    const { body } = await create({
      name: '  Shop ',
      allowed_origins: ['https://Shop.Example.com:443', 'https://shop.example.com'],
    })
    expect(body).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      name: 'Shop',
      key: expect.stringMatching(/^pk_test_[0-9A-Za-z]{49}$/),
      key_prefix: body.key.slice(0, 12),
      allowed_origins: ['https://shop.example.com'],
      can_reveal: true,
      revoked_at: null,
      last_used_at: null,
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    })
    const { key, ...listed } = body
    expect((await list())[0]).toEqual(listed)
  })

  test.each([
    ['one character', { name: 'x' }],
    ['100 characters', { name: 'x'.repeat(100) }],
    ['no origins', { name: 'x', allowed_origins: [] }],
    ['20 origins', { name: 'x', allowed_origins: Array.from({ length: 20 }, (_, n) => `https://h${n}.example.com`) }],
    ['a wildcard', { name: 'x', allowed_origins: ['https://*.preview.example.com'] }],
    ['localhost', { name: 'x', allowed_origins: ['http://localhost:5173'] }],
  ])('accepts %s', async (_, body) => {
    expect((await create(body)).status).toBe(200)
  })

  test.each<[string, unknown, string]>([
    ['no name', {}, 'name'],
    ['an empty name', { name: '' }, 'name'],
    ['a blank name', { name: '   ' }, 'name'],
    ['101 characters', { name: 'x'.repeat(101) }, 'name'],
    ['a name of another type', { name: 1 }, 'name'],
    ['null', null, ''],
    ['an array', [], ''],
    ['an unknown field', { name: 'x', organization_id: 'y' }, 'organization_id'],
    ['origins of another type', { name: 'x', allowed_origins: 'https://a.example.com' }, 'allowed_origins'],
    [
      '21 origins',
      { name: 'x', allowed_origins: Array.from({ length: 21 }, (_, n) => `https://h${n}.example.com`) },
      'allowed_origins',
    ],
    ...[
      'https://a.example.com/path',
      'https://a.example.com/',
      'https://user:pass@a.example.com',
      'https://a.example.com.',
      'http://a.example.com',
      'null',
      'javascript:alert(1)',
      'https://*',
      'https://*.com',
      'https://*.co.uk',
      'https://*.github.io',
      'https://a.*.example.com',
      '*',
      '',
    ].map((origin): [string, unknown, string] => [
      `the origin "${origin}"`,
      { name: 'x', allowed_origins: [origin] },
      'allowed_origins.0',
    ]),
  ])('refuses %s', async (_, body, field) => {
    const before = (await list()).length
    const answer = await create(body)
    expect(answer.body).toEqual({
      defined: true,
      code: 'BAD_REQUEST',
      status: 400,
      message: 'Invalid request data',
      data: { code: 'VALIDATION_ERROR', field, details: expect.stringMatching(/\S/) },
    })
    expect(await list()).toHaveLength(before)
  })
})

describe('updating', () => {
  test.each([
    ['the name', { name: 'New' }, { name: 'New' }],
    ['the origins', { allowed_origins: ['https://b.example.com'] }, { allowed_origins: ['https://b.example.com'] }],
    ['to no origins', { allowed_origins: [] }, { allowed_origins: [] }],
    ['nothing', {}, {}],
  ])('changes %s and nothing else', async (_, changes, expected) => {
    const { key, ...before } = (await create({ name: 'Old', allowed_origins: ['https://a.example.com'] })).body
    const { body } = await app.request('PATCH', `/publishable-keys/${before.id}`, { token, body: changes })
    expect(body).toEqual({ ...before, ...expected })
  })

  test('different fields concurrently loses no change', async () => {
    const { id } = (await create({ name: 'Old' })).body
    const changes = Array.from({ length: 50 }, (_, n) =>
      n % 2 ? { name: 'New' } : { allowed_origins: ['https://b.example.com'] },
    )
    await Promise.all(changes.map((body) => app.request('PATCH', `/publishable-keys/${id}`, { token, body })))
    expect((await list()).find((key: { id: string }) => key.id === id)).toMatchObject(Object.assign({}, ...changes))
  })

  test.each([
    { name: '' },
    { name: null },
    { allowed_origins: null },
    { allowed_origins: ['x'] },
    { key: 'x' },
    { revoked_at: null },
  ])('refuses %j', async (body) => {
    const { id } = (await create({ name: 'Old' })).body
    expect((await app.request('PATCH', `/publishable-keys/${id}`, { token, body })).body.data.code).toBe(
      'VALIDATION_ERROR',
    )
  })
})

describe('revealing and revoking', () => {
  test('returns the same key again until it is revoked', async () => {
    const { id, key } = (await create({ name: 'x' })).body
    const reveal = () => app.request('POST', `/publishable-keys/${id}/reveal`, { token })
    expect((await reveal()).body).toEqual({ key })

    const revoked = (await app.request('DELETE', `/publishable-keys/${id}`, { token })).body
    expect(revoked).toMatchObject({ id, can_reveal: false, revoked_at: expect.any(String) })
    expect((await reveal()).body.data).toEqual({
      code: 'RESOURCE_NOT_FOUND',
      resource: 'publishable_key',
      resourceId: id,
    })
    const again = (await app.request('DELETE', `/publishable-keys/${id}`, { token })).body
    expect(again, 'revoking twice changes nothing').toEqual(revoked)
    expect(
      (await list()).map((entry: { id: string }) => entry.id),
      'it stays in the list',
    ).toContain(id)
  })

  test('notifies the other nodes', async () => {
    const heard: string[] = []
    const end = app.service.changes.watch({ changed: (topic) => heard.push(topic), missed: () => undefined })
    const { id } = (await create({ name: 'x' })).body
    await app.request('PATCH', `/publishable-keys/${id}`, { token, body: { name: 'y' } })
    await app.request('DELETE', `/publishable-keys/${id}`, { token })
    end()
    const sites = topics.frames(await app.organization('demo'))
    expect(heard).toEqual([sites, topics.key(id), sites, topics.key(id), sites])
  })

  test('writes an audit row with the actor for every change', async () => {
    const { id } = (await create({ name: 'Audited' })).body
    await app.request('PATCH', `/publishable-keys/${id}`, { token, body: { name: 'Renamed' } })
    await app.request('POST', `/publishable-keys/${id}/reveal`, { token })
    await app.request('DELETE', `/publishable-keys/${id}`, { token })
    await app.request('DELETE', `/publishable-keys/${id}`, { token })
    const rows = await app.service.database.asOrg(
      await app.organization('demo'),
      (sql) => sql`select actor, action, data from audit_events where target = ${id} order by sequence`,
    )
    expect(rows).toEqual([
      { actor: 'admin@demo.test', action: 'publishable_key.created', data: { name: 'Audited', allowed_origins: [] } },
      { actor: 'admin@demo.test', action: 'publishable_key.updated', data: { name: 'Renamed' } },
      { actor: 'admin@demo.test', action: 'publishable_key.revealed', data: {} },
      { actor: 'admin@demo.test', action: 'publishable_key.revoked', data: {} },
    ])
  })
})

test('another organization’s keys do not appear in the list', async () => {
  const before = await list()
  const other = await app.tokenFor('admin@other.test', 'other')
  await Promise.all(
    Array.from({ length: 30 }, () =>
      app.request('POST', '/publishable-keys', { token: other, body: { name: 'Other' } }),
    ),
  )
  expect(await list()).toEqual(before)
})

test('a dump of the database contains no usable key', async () => {
  const { key } = (await create({ name: 'Secret' })).body
  const rows = await app.service.database.asOrg(await app.organization('demo'), async (sql) => [
    ...(await sql`select * from publishable_keys`),
    ...(await sql`select * from audit_events`),
  ])
  expect(rows.length).toBeGreaterThan(0)
  expect(JSON.stringify(rows)).not.toContain(key.slice(12))
})

describe('the key format', () => {
  test('accepts a generated key, and rejects a mistyped one', () => {
    const arbitraryTypo = fc.record({ at: fc.nat(56), to: fc.constantFrom(...'0aZ-') })
    fc.assert(
      fc.property(fc.constantFrom('development' as const, 'production' as const), arbitraryTypo, (mode, { at, to }) => {
        const key = generateKey('pk', mode)
        const typo = key.slice(0, at) + to + key.slice(at + 1)
        expect(isWellFormedKey('pk', key)).toBe(true)
        expect(isWellFormedKey('pk', typo)).toBe(typo === key)
      }),
    )
  })
})
