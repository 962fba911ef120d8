import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestService, type TestService, useTestService } from '../../../test/harness.ts'
import { slugOf } from './organizations.ts'

let app: TestService
beforeAll(async () => {
  app = await startTestService()
})
afterAll(() => app.close())

const timestamp = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
const id = expect.stringMatching(/^[0-9a-f-]{36}$/)

describe('organizations', () => {
  test('of a user are listed with the role in each', async () => {
    const { body } = await app.request('GET', '/organizations', { token: await app.tokenFor('member@demo.test') })
    expect(body).toEqual([
      { id, name: 'Demo', slug: 'demo', avatar_url: '', role: 'member', created_at: timestamp, updated_at: timestamp },
      { id, name: 'Other', slug: 'other', avatar_url: '', role: 'admin', created_at: timestamp, updated_at: timestamp },
    ])
    expect(
      (await app.request('GET', '/organizations', { token: await app.tokenFor('nobody@demo.test') })).body,
    ).toEqual([])
  })

  test('are the same by id and by slug', async () => {
    const token = await app.tokenFor('admin@demo.test')
    const bySlug = await app.request('GET', '/organizations/by-slug/demo', { token })
    const byId = await app.request('GET', `/organizations/${bySlug.body.id}`, { token })
    expect(byId.body).toEqual(bySlug.body)
    expect(byId.body).toMatchObject({ slug: 'demo', role: 'admin' })
  })

  test('have their creator as admin, who can use them immediately', async () => {
    const app = await useTestService()
    const { body } = await app.request('POST', '/organizations', {
      token: await app.tokenFor('nobody@demo.test'),
      body: { name: 'Ärzte & Co.' },
    })
    expect(body).toMatchObject({ name: 'Ärzte & Co.', slug: 'arzte-co', role: 'admin' })
    const me = await app.request('GET', '/users/me', { token: await app.tokenFor('nobody@demo.test') })
    expect(me.body).toEqual({
      id,
      email: 'nobody@demo.test',
      name: 'Nobody',
      avatar_url: '',
      organizations: [{ id: body.id, name: 'Ärzte & Co.', slug: 'arzte-co', role: 'admin' }],
    })
  })

  test('with the same name get different slugs, even if created concurrently', async () => {
    const token = await app.tokenFor('nobody@demo.test')
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => app.request('POST', '/organizations', { token, body: { name: 'Twins' } })),
    )
    expect(new Set(answers.map(({ body }) => body.slug)).size).toBe(8)
  })

  test.each([{}, { name: '' }, { name: ' ' }, { name: 'x'.repeat(101) }, { name: 1 }, { name: 'x', slug: 'y' }])(
    'are not created from %j',
    async (body) => {
      const answer = await app.request('POST', '/organizations', {
        token: await app.tokenFor('nobody@demo.test'),
        body,
      })
      expect(answer.body.data.code).toBe('VALIDATION_ERROR')
    },
  )

  test.each([
    ['Acme', 'acme'],
    ['  Ärzte & Co. KG ', 'arzte-co-kg'],
    ['日本語', 'organization'],
    ['x'.repeat(100), 'x'.repeat(48)],
    [`${'x'.repeat(47)} y`, 'x'.repeat(47)],
    ['../../etc', 'etc'],
  ])('the slug of "%s" is %s', (name, slug) => expect(slugOf(name)).toBe(slug))
})

describe('members', () => {
  test('are listed with profile and role', async () => {
    const { body } = await app.request('GET', '/organizations/current/members', {
      token: await app.tokenFor('member@demo.test', 'demo'),
    })
    const user = { id, avatar_url: '', created_at: timestamp, updated_at: timestamp }
    expect(body).toEqual([
      { id, role: 'admin', created_at: timestamp, user: { ...user, email: 'admin@demo.test', name: 'Demo Admin' } },
      { id, role: 'member', created_at: timestamp, user: { ...user, email: 'member@demo.test', name: 'Demo Member' } },
    ])
  })

  test('include at least one admin, who can be neither demoted nor removed', async () => {
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const { body: members } = await app.request('GET', '/organizations/current/members', { token })
    const path = `/organizations/current/members/${members[0].id}`
    const refusal = {
      defined: false,
      code: 'CONFLICT',
      status: 409,
      message: 'The last admin can’t be demoted or removed, and can’t leave. Make another member an admin first.',
      data: { code: 'LAST_ADMIN' },
    }
    expect((await app.request('PATCH', path, { token, body: { role: 'member' } })).body).toEqual(refusal)
    expect((await app.request('DELETE', path, { token })).body).toEqual(refusal)
    expect(
      (await app.request('PATCH', path, { token, body: { role: 'admin' } })).status,
      'setting the same role succeeds',
    ).toBe(200)
  })

  test('keep one of two admins who remove each other concurrently', async () => {
    const app = await useTestService()
    const tokens = await Promise.all(
      (['admin@other.test', 'member@demo.test'] as const).map((email) => app.tokenFor(email, 'other')),
    )
    const { body: members } = await app.request('GET', '/organizations/current/members', { token: tokens[0] as string })
    const path = (email: string) =>
      `/organizations/current/members/${members.find((member: { user: { email: string } }) => member.user.email === email).id}`
    const answers = await Promise.all([
      app.request('DELETE', path('member@demo.test'), { token: tokens[0] as string }),
      app.request('DELETE', path('admin@other.test'), { token: tokens[1] as string }),
    ])
    // The other one is too late, or no longer an admin.
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    expect(answers.find(({ status }) => status !== 200)?.body.data.code).toMatch(/^(LAST_ADMIN|ACCESS_DENIED)$/)
  })

  test.each([{}, { role: 'owner' }, { role: null }, { role: 'admin', user_id: 'x' }])(
    'are not changed by %j',
    async (body) => {
      const token = await app.tokenFor('admin@demo.test', 'demo')
      const { body: members } = await app.request('GET', '/organizations/current/members', { token })
      const answer = await app.request('PATCH', `/organizations/current/members/${members[1].id}`, { token, body })
      expect(answer.body.data.code).toBe('VALIDATION_ERROR')
    },
  )
})

describe('invitations', () => {
  const path = '/organizations/current/invitations'

  test('are created, listed and withdrawn', async () => {
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const { body } = await app.request('POST', path, { token, body: { email: 'New@Example.com', role: 'admin' } })
    expect(body).toEqual({
      id,
      email: 'new@example.com',
      role: 'admin',
      invited_by: 'admin@demo.test',
      url: expect.stringMatching(/^http:\/\/localhost:8787\/invitations\/join\?token=[\w-]{43}$/),
      mailed: false,
      created_at: timestamp,
      expires_at: timestamp,
    })
    const url = `${app.service.config.publicUrl}/invitations`
    expect((await app.request('GET', path, { token })).body, 'the link is shown once').toEqual([{ ...body, url }])
    expect((await app.request('DELETE', `${path}/${body.id}`, { token })).body).toEqual({ success: true })
    expect((await app.request('GET', path, { token })).body).toEqual([])
    expect((await app.request('DELETE', `${path}/${body.id}`, { token })).status).toBe(404)
  })

  test.each([
    ['an invited user', 'twice@example.com', 'invitation'],
    ['a member', 'member@demo.test', 'member'],
    ['a member in another case', 'MEMBER@demo.test', 'member'],
  ])('are rejected for %s', async (_, email, resource) => {
    const token = await app.tokenFor('admin@demo.test', 'demo')
    await app.request('POST', path, { token, body: { email: 'twice@example.com', role: 'member' } })
    expect((await app.request('POST', path, { token, body: { email, role: 'member' } })).body).toEqual({
      defined: true,
      code: 'CONFLICT',
      status: 409,
      message: 'Resource already exists',
      data: { code: 'DUPLICATE_RESOURCE', resource },
    })
  })

  test.each([
    {},
    { email: 'x', role: 'member' },
    { email: 'a@example.com' },
    { email: 'a@example.com', role: 'owner' },
  ])('are not created from %j', async (body) => {
    const token = await app.tokenFor('admin@demo.test', 'demo')
    expect((await app.request('POST', path, { token, body })).body.data.code).toBe('VALIDATION_ERROR')
  })

  // The free plan has three seats, two of them taken.
  test('use a seat each: of fifty concurrent ones, only as many succeed as there are seats', async () => {
    const app = await useTestService()
    const token = await app.tokenFor('admin@other.test', 'other')
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, n) =>
        app.request('POST', path, { token, body: { email: `p${n}@example.com`, role: 'member' } }),
      ),
    )
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    expect(answers.find(({ status }) => status !== 200)?.body).toEqual({
      defined: true,
      code: 'PAYMENT_REQUIRED',
      status: 403,
      message: 'Your plan includes 3 seats, and all are in use',
      data: { code: 'PAYMENT_REQUIRED' },
    })
    expect((await app.request('GET', path, { token })).body).toHaveLength(1)
  })
})
