import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { startTestService, type TestService, useTestService } from '../../test/harness.ts'
import { type ManifestState, manifestStateKey } from './github-app.ts'
import { githubApp, noGithubApp } from './samples.ts'

let app: TestService
let token: string
beforeAll(async () => {
  app = await startTestService()
  token = await app.tokenFor('admin@demo.test', 'demo')
})
afterAll(() => app.close())
beforeEach(() => noGithubApp(app, 'demo'))

const start = (body: unknown) => app.request('POST', '/org-github-apps/manifest-start', { token, body })
const get = async () => (await app.request('GET', '/org-github-apps/config', { token })).body
const remove = () => app.request('DELETE', '/org-github-apps/config', { token })
const stateOf = (answer: { body: { registration_url: string } }) =>
  new URL(answer.body.registration_url).searchParams.get('state') ?? ''

const notConfigured = {
  configured: false,
  github_org_name: null,
  app_id: null,
  app_slug: null,
  app_url: null,
  repository: null,
  created_at: null,
}

describe('starting a registration', () => {
  test('returns the form that a browser posts to GitHub', async () => {
    const { body } = await start({ github_org_name: 'Acme-Inc' })
    expect(body).toEqual({
      success: true,
      github_org_name: 'Acme-Inc',
      registration_url: expect.stringMatching(
        /^https:\/\/github\.com\/organizations\/Acme-Inc\/settings\/apps\/new\?state=[\w-]{43}$/,
      ),
      manifest: expect.any(String),
    })
    expect(JSON.parse(body.manifest)).toEqual({
      name: expect.stringMatching(/^inlay-Acme-Inc-[0-9a-f]{6}$/),
      url: 'http://localhost:8787',
      redirect_url: 'http://localhost:8787/api/org-github-apps/callback',
      hook_attributes: { url: 'http://localhost:8787/api/org-github-apps/webhook', active: false },
      public: false,
      default_permissions: { contents: 'read', metadata: 'read' },
      default_events: ['push'],
    })
    expect(await get(), 'the app is not configured yet').toEqual(notConfigured)
  })

  test('takes its URLs from the configuration, never from the request', async () => {
    const production = await useTestService({ INLAY_PUBLIC_URL: 'https://inlay.example.com' })
    const { body } = await production.request('POST', '/org-github-apps/manifest-start', {
      token: await production.tokenFor('admin@demo.test', 'demo'),
      body: { github_org_name: 'acme' },
      headers: { host: 'evil.test', 'x-forwarded-host': 'evil.test', 'x-forwarded-proto': 'http' },
    })
    expect(JSON.parse(body.manifest)).toMatchObject({
      url: 'https://inlay.example.com',
      redirect_url: 'https://inlay.example.com/api/org-github-apps/callback',
      hook_attributes: { url: 'https://inlay.example.com/api/org-github-apps/webhook', active: true },
    })
  })

  test('creates a unique state bound to the organization and the admin', async () => {
    const answers = await Promise.all([start({ github_org_name: 'acme' }), start({ github_org_name: 'acme' })])
    const [first = '', second = ''] = answers.map(stateOf)
    expect(first).not.toBe(second)
    const names = answers.map(({ body }) => JSON.parse(body.manifest).name)
    expect(names[0], 'app names must be unique').not.toBe(names[1])

    const { user_id, ...bound } = (await app.service.kv.take<ManifestState>(manifestStateKey(first))) as ManifestState
    expect(bound).toEqual({ organization_id: await app.organization('demo'), github_org_name: 'acme' })
    expect(user_id).toBe((await app.request('GET', '/users/me', { token })).body.id)
    expect(manifestStateKey(second), 'only a fingerprint is stored').not.toContain(second)
  })

  // Redis doesn't use the test clock.
  test.skipIf(inject('engines').redisUrl)('expires the state after an hour', async () => {
    const key = manifestStateKey(stateOf(await start({ github_org_name: 'acme' })))
    const started = app.clock.now
    app.clock.now = started + 3_599_000
    expect(await app.service.kv.get(key)).toBeDefined()
    app.clock.now = started + 3_600_000
    expect(await app.service.kv.get(key)).toBeUndefined()
    app.clock.now = started
  })

  test.each(['a', '9', 'A-', 'a--b', 'x'.repeat(39), `A${'-'.repeat(38)}`])('accepts %s', async (github_org_name) => {
    const { body } = await start({ github_org_name })
    expect(body).toMatchObject({ success: true, github_org_name })
    expect(JSON.parse(body.manifest).name.length).toBeLessThanOrEqual(34)
  })

  test.each<[unknown, string]>([
    [{}, 'github_org_name'],
    [null, ''],
    [{ github_org_name: 'acme', organization_id: 'x' }, 'organization_id'],
    ...[null, 1, '', '-a', '_a', 'a_b', 'a b', 'a.b', 'a/b', 'ä', 'a\n', 'a?state=x', '../a', 'x'.repeat(40)].map(
      (github_org_name): [unknown, string] => [{ github_org_name }, 'github_org_name'],
    ),
  ])('rejects %j', async (body, field) => {
    expect((await start(body)).body).toEqual({
      defined: true,
      code: 'BAD_REQUEST',
      status: 400,
      message: 'Invalid request data',
      data: { code: 'VALIDATION_ERROR', field, details: expect.stringMatching(/\S/) },
    })
  })

  test('is rejected while an app is configured, and works again after its removal', async () => {
    await githubApp(app, 'demo')
    expect((await start({ github_org_name: 'acme' })).body).toEqual({
      defined: true,
      code: 'CONFLICT',
      status: 409,
      message: 'Resource already exists',
      data: { code: 'DUPLICATE_RESOURCE', resource: 'github_app' },
    })
    await remove()
    expect((await start({ github_org_name: 'acme' })).status).toBe(200)
  })
})

describe('the configuration', () => {
  test('shows the app’s metadata and no secret', async () => {
    expect(await get()).toEqual(notConfigured)
    await githubApp(app, 'demo', 'sample/skills')
    expect(await get()).toEqual({
      configured: true,
      github_org_name: 'sample',
      app_id: 4711,
      app_slug: 'inlay-sample',
      app_url: 'https://github.com/apps/inlay-sample',
      repository: 'sample/skills',
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    })
  })

  test.each([
    ['with a repository', 'sample/skills', true],
    ['without a repository', null, false],
  ])('can be removed %s', async (_, repository, repo_disconnected) => {
    await githubApp(app, 'demo', repository)
    expect((await remove()).body).toEqual({ success: true, repo_disconnected })
    expect(await get()).toEqual(notConfigured)
  })

  test('can be removed only once', async () => {
    await githubApp(app, 'demo')
    const answers = await Promise.all([remove(), remove()])
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 404])
    expect((await remove()).body).toEqual({
      defined: true,
      code: 'NOT_FOUND',
      status: 404,
      message: 'Resource not found',
      data: { code: 'RESOURCE_NOT_FOUND', resource: 'github_app', resourceId: await app.organization('demo') },
    })
  })

  test('of another organization can be neither seen nor removed', async () => {
    await githubApp(app, 'other')
    expect(await get()).toEqual(notConfigured)
    expect((await remove()).status).toBe(404)
    expect((await start({ github_org_name: 'acme' })).status).toBe(200)
    const other = await app.tokenFor('admin@other.test', 'other')
    expect((await app.request('GET', '/org-github-apps/config', { token: other })).body.configured).toBe(true)
  })
})

test('every step writes an audit event, and a rejected one writes none', async () => {
  const id = await app.organization('demo')
  const auditRows = () =>
    app.service.database.asOrg(id, (sql) => sql`select actor, action, target, data from audit_events order by sequence`)
  const lengthBefore = (await auditRows()).length
  await start({ github_org_name: 'acme' })
  await githubApp(app, 'demo', 'sample/skills')
  await start({ github_org_name: 'acme' })
  await remove()
  await remove()
  expect((await auditRows()).slice(lengthBefore)).toEqual([
    {
      actor: 'admin@demo.test',
      action: 'github_app.registration_started',
      target: id,
      data: { github_org_name: 'acme' },
    },
    {
      actor: 'admin@demo.test',
      action: 'github_app.removed',
      target: id,
      data: { github_org_name: 'sample', app_slug: 'inlay-sample', repository: 'sample/skills' },
    },
  ])
})
