import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, onTestFinished, test } from 'vitest'
import { Browser } from '../../../test/browser.ts'
import { startEngineProxy } from '../../../test/engine-proxy.ts'
import { testSecret } from '../../../test/engines/engines.ts'
import { type LocalGithub, startGithub } from '../../../test/github.ts'
import { type Email, makeConfig, useTestService } from '../../../test/harness.ts'
import { type HttpService, startHttpService } from '../../../test/http-server.ts'
import { resealColumns } from '../../console/operator/reseal.ts'
import { createSecrets } from '../../kernel/lib/secrets.ts'
import { registrationState } from './github-app.ts'
import { githubApp, githubRepository, noGithubApp } from './samples.ts'

let app: HttpService
/** The `Cookie` header of a browser in which the admin is signed in. */
let cookie: string
let github: LocalGithub
let token: string
beforeAll(async () => {
  github = await startGithub()
  app = await startHttpService({ GITHUB_URL: github.url })
  cookie = await signIn(app, 'admin@demo.test')
  token = await app.tokenFor('admin@demo.test', 'demo')
})
afterAll(async () => {
  await app.close()
  await github.close()
})
beforeEach(() => noGithubApp(app, 'demo'))

async function signIn({ url }: HttpService, email: Email): Promise<string> {
  const browser = await (await new Browser(url).open('/invitations')).press(email)
  return browser.cookieHeader()
}

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
  installation_url: null,
  client_secret_last4: null,
  webhook_secret_last4: null,
  created_at: null,
  platform_app: null,
}

describe('starting a registration', () => {
  test('returns the form that a browser posts to GitHub', async () => {
    const { body } = await start({ github_org_name: 'Acme-Inc' })
    expect(body).toEqual({
      success: true,
      github_org_name: 'Acme-Inc',
      registration_url: expect.stringMatching(/\/organizations\/Acme-Inc\/settings\/apps\/new\?state=[\w-]{43}$/),
      manifest: expect.any(String),
    })
    expect(new URL(body.registration_url).origin).toBe(github.url)
    const id = await app.organization('demo')
    expect(JSON.parse(body.manifest)).toEqual({
      name: expect.stringMatching(/^inlay-Acme-Inc-[0-9a-f]{6}$/),
      url: app.url,
      redirect_url: `${app.url}/api/org-github-apps/callback`,
      setup_url: `${app.url}/o/demo/code-host`,
      hook_attributes: { url: `${app.url}/api/org-github-apps/webhook/${id}`, active: false },
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
    expect(body.registration_url, 'GitHub, unless the operator has their own').toMatch(/^https:\/\/github\.com\//)
    const id = await production.organization('demo')
    expect(JSON.parse(body.manifest)).toMatchObject({
      url: 'https://inlay.example.com',
      redirect_url: 'https://inlay.example.com/api/org-github-apps/callback',
      hook_attributes: { url: `https://inlay.example.com/api/org-github-apps/webhook/${id}`, active: true },
    })
  })

  test('creates a unique state bound to the organization and the admin', async () => {
    const answers = await Promise.all([start({ github_org_name: 'acme' }), start({ github_org_name: 'acme' })])
    const [first = '', second = ''] = answers.map(stateOf)
    expect(first).not.toBe(second)
    const names = answers.map(({ body }) => JSON.parse(body.manifest).name)
    expect(names[0], 'app names must be unique').not.toBe(names[1])

    expect(await registrationState.read(app.service.kv, first)).toEqual({
      organization_id: await app.organization('demo'),
      user_id: (await app.request('GET', '/users/me', { token })).body.id,
      github_org_name: 'acme',
    })
  })

  // Redis doesn't use the test clock.
  test.skipIf(inject('engines').redisUrl)('expires the state after an hour', async () => {
    const state = stateOf(await start({ github_org_name: 'acme' }))
    const started = app.clock.now
    app.clock.now = started + 3_599_000
    expect(await registrationState.read(app.service.kv, state)).toBeDefined()
    app.clock.now = started + 3_600_000
    expect(await registrationState.read(app.service.kv, state)).toBeUndefined()
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
    await githubRepository(app, 'demo')
    expect(await get()).toEqual({
      configured: true,
      github_org_name: 'sample',
      app_id: expect.any(Number),
      app_slug: 'inlay-sample-demo',
      app_url: expect.stringMatching(/\/github-apps\/inlay-sample-demo$/),
      installation_url: expect.stringMatching(/\/github-apps\/inlay-sample-demo\/installations\/new$/),
      client_secret_last4: 'abcd',
      webhook_secret_last4: expect.stringMatching(/^\w{4}$/),
      repository: 'sample/skills',
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      platform_app: null,
    })
  })

  test.each([
    ['with a repository', githubRepository, true],
    ['without a repository', githubApp, false],
  ])('can be removed %s', async (_, prepare, repo_disconnected) => {
    await prepare(app, 'demo')
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

describe('the way back from GitHub', () => {
  const comeBack = (code: string, state: string, cookies = cookie) =>
    app.fetch(`/api/org-github-apps/callback?${new URLSearchParams({ code, state })}`, { headers: { cookie: cookies } })
  const text = async (response: Response) => (await response.text()).replace(/\s+/g, ' ')
  const begin = async (owner = 'acme') => {
    const started = await start({ github_org_name: owner })
    return { state: stateOf(started), manifest: JSON.parse(started.body.manifest) }
  }
  beforeEach(() => {
    github.stopFailing()
    Object.assign(app.service.config.github, { url: github.url, apiUrl: github.apiUrl })
  })

  test('stores the app with sealed credentials, and shows the dashboard', async () => {
    const { state, manifest } = await begin()
    const code = github.register(manifest, 'acme')
    const response = await comeBack(code, state)
    expect([response.status, response.headers.get('location')]).toEqual([303, `${app.url}/o/demo/code-host`])
    expect(await get()).toMatchObject({ configured: true, github_org_name: 'acme', client_secret_last4: 'abcd' })
    const id = await app.organization('demo')
    const [row = {}] = await app.service.database.asOrg(id, (sql) => sql`select * from github_apps`)
    const sealed = Object.entries(row).filter(([name]) => name.endsWith('_sealed'))
    expect(sealed.map(([name]) => name)).toEqual([
      'client_secret_sealed',
      'private_key_sealed',
      'webhook_secret_sealed',
    ])
    for (const [name, value] of sealed) {
      expect(app.service.secrets.open(String(value), `github_apps.${name}:${id}`)).not.toBe('')
      expect(() => app.service.secrets.open(String(value), `github_apps.${name}:other`)).toThrow('another place')
    }
    expect(app.logged()).not.toContain('BEGIN RSA PRIVATE KEY')
  })

  test('stores credentials that a rotation of the secret re-encrypts', async () => {
    const rotated = await useTestService({ GITHUB_URL: github.url })
    await githubApp(rotated, 'demo')
    const id = await rotated.organization('demo')
    const secrets = createSecrets([randomBytes(32).toString('base64'), testSecret])
    await resealColumns({ ...rotated.stores, secrets }, [id])
    const [row = {}] = await rotated.service.database.asOrg(id, (sql) => sql`select * from github_apps`)
    for (const [name, value] of Object.entries(row).filter(([column]) => column.endsWith('_sealed'))) {
      expect(secrets.isCurrent(String(value)), name).toBe(true)
      expect(secrets.open(String(value), `github_apps.${name}:${id}`)).not.toBe('')
    }
  })

  test('works once for a state, even if it comes twice at the same time', async () => {
    const { state, manifest } = await begin()
    const codes = [github.register(manifest, 'acme'), github.register(manifest, 'acme')]
    const responses = await Promise.all(codes.map((code) => comeBack(code, state)))
    expect(responses.map(({ status }) => status).toSorted()).toEqual([303, 400])
    const again = await comeBack('x', state)
    expect(await text(again)).toContain('This link isn’t valid. It can be used once, within an hour')
  })

  test('leaves an app alone that was registered in the meantime', async () => {
    const [one, two] = [await begin(), await begin()]
    expect((await comeBack(github.register(one.manifest, 'acme'), one.state)).status).toBe(303)
    const before = await get()
    const late = await comeBack(github.register(two.manifest, 'acme'), two.state)
    expect(await text(late)).toContain('Your organization already has a GitHub app. Delete the new one on GitHub.')
    expect(await get()).toEqual(before)
  })

  type Failing = Parameters<LocalGithub['fail']>[1]
  test.each<[name: string, code: string | Failing, problem: string]>([
    ['an unknown code', 'unknown', 'GitHub doesn’t find this, or the app has no access to it.'],
    ['no code', '', 'GitHub didn’t say which app it created.'],
    ['a code that is a path', '../app', 'GitHub didn’t say which app it created.'],
    ['an outage', { status: 502 }, 'GitHub has a problem at the moment (status 502).'],
    ['a broken connection', 'drop', 'GitHub can’t be reached:'],
    ['a rate limit', { status: 429 }, 'GitHub’s rate limit is reached.'],
    [
      'a response without a key',
      { status: 201, body: { id: 1 } },
      'GitHub sent a response that Inlay doesn’t understand.',
    ],
    [
      'a redirect',
      { status: 302, headers: { location: 'http://127.0.0.1:9/' } },
      'The repository was renamed or moved.',
    ],
  ])('explains %s, and stores nothing', async (_, given, problem) => {
    const { state, manifest } = await begin()
    const isCode = typeof given === 'string' && given !== 'drop'
    if (!isCode) github.fail(/conversions/, given as Failing)
    const response = await comeBack(isCode ? given : github.register(manifest, 'acme'), state)
    expect(response.status).toBe(400)
    const shown = await text(response)
    expect(shown).toContain(problem)
    expect(shown, 'one full stop before the advice').not.toContain('..')
    expect(await get()).toEqual(notConfigured)
  })

  test('keeps the credentials if the database fails after GitHub’s only response, and stores them on a retry', async () => {
    const { config, remove: removeFolder } = await makeConfig({}, 'demo')
    onTestFinished(removeFolder)
    const direct = new URL(config.databaseUrl ?? '')
    const proxy = await startEngineProxy(`unix:${direct.searchParams.get('host')}/.s.PGSQL.${direct.port || 5432}`)
    const cut = await startHttpService({
      GITHUB_URL: github.url,
      DATABASE_URL: `postgres://${direct.username}@${proxy.host}${direct.pathname}`,
    })
    onTestFinished(() => cut.close())
    const headers = { cookie: await signIn(cut, 'admin@demo.test') }
    const admin = await cut.tokenFor('admin@demo.test', 'demo')
    const ask = (method: string, path: string, body?: unknown) =>
      cut.request(method, `/org-github-apps/${path}`, { token: admin, ...(body !== undefined && { body }) })
    const started = await ask('POST', 'manifest-start', { github_org_name: 'acme' })
    const code = github.register(JSON.parse(started.body.manifest), 'acme')
    const address = `/api/org-github-apps/callback?${new URLSearchParams({ code, state: stateOf(started) })}`
    github.beforeResponse(/conversions/, () => proxy.cut())
    const failed = await cut.fetch(address, { headers })
    expect([failed.status, await text(failed)]).toEqual([503, expect.stringContaining('Nothing is lost: try again')])
    proxy.restore()
    await expect.poll(async () => (await cut.fetch('/readyz')).status).toBe(200)
    expect((await ask('GET', 'config')).body.configured).toBe(false)
    expect((await cut.fetch(address, { headers })).status, 'GitHub would not answer the code again').toBe(303)
    expect((await ask('GET', 'config')).body).toMatchObject({ configured: true, client_secret_last4: 'abcd' })
    expect((await cut.fetch(address, { headers })).status, 'and then the link is used up').toBe(400)
  })

  test('refuses an app of another owner', async () => {
    const { state, manifest } = await begin()
    const response = await comeBack(github.register(manifest, 'mallory'), state)
    expect(await text(response)).toContain('The app belongs to mallory on GitHub, not to acme')
    expect(await get()).toEqual(notConfigured)
  })

  test('refuses an admin who was demoted in the meantime', async () => {
    const { state, manifest } = await begin()
    const id = await app.organization('demo')
    const role = (name: string) =>
      app.service.database.asOrg(
        id,
        (sql) => sql`
          update members set role = ${name} where user_id = (select id from users where email = 'admin@demo.test')`,
      )
    await role('member')
    const response = await comeBack(github.register(manifest, 'acme'), state)
    await role('admin')
    expect(await text(response)).toContain('This link isn’t valid.')
    expect(await get()).toEqual(notConfigured)
  })

  test.each<[string, () => Promise<string>]>([
    ['the GitHub organization’s owner, who has no account at Inlay', async () => ''],
    ['an admin of another organization', () => signIn(app, 'admin@other.test')],
    ['another member of the same organization', () => signIn(app, 'member@demo.test')],
  ])('in the browser of %s stores nothing, and still works for the admin who started it', async (_, open) => {
    const { state, manifest } = await begin()
    const code = github.register(manifest, 'acme')
    const response = await comeBack(code, state, await open())
    expect(response.status).toBe(400)
    expect(await text(response)).toContain('If you didn’t start a registration in Inlay, delete the new app on GitHub.')
    expect(await get()).toEqual(notConfigured)
    expect((await comeBack(code, state)).status).toBe(303)
  })

  test('no longer works after the admin has signed out', async () => {
    const { state, manifest } = await begin()
    const browser = await (await new Browser(app.url).open('/invitations')).press('admin@demo.test')
    const signedIn = browser.cookieHeader()
    await browser.open('/oauth/logout')
    await browser.press('Sign out')
    const response = await comeBack(github.register(manifest, 'acme'), state, signedIn)
    expect(await text(response)).toContain('sign in here, and reload this page')
    expect(await get()).toEqual(notConfigured)
  })
})

test('every step writes an audit event, and a rejected one writes none', async () => {
  const id = await app.organization('demo')
  const auditRows = () =>
    app.service.database.asOrg(id, (sql) => sql`select actor, action, target, data from audit_events order by sequence`)
  const lengthBefore = (await auditRows()).length
  await start({ github_org_name: 'acme' })
  await githubRepository(app, 'demo')
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
      actor: 'sample@example.com',
      action: 'github_app.registered',
      target: id,
      data: { github_org_name: 'sample', app_id: expect.any(Number), app_slug: 'inlay-sample-demo' },
    },
    {
      actor: 'admin@demo.test',
      action: 'github_app.removed',
      target: id,
      data: { github_org_name: 'sample', app_slug: 'inlay-sample-demo', repository: 'sample/skills' },
    },
  ])
})
