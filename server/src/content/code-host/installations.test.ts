import { afterAll, beforeAll, beforeEach, describe, expect, inject, onTestFinished, test } from 'vitest'
import { Browser } from '../../../test/browser.ts'
import { type LocalGithub, startGithub } from '../../../test/github.ts'
import { type HttpService, startHttpService } from '../../../test/http-server.ts'
import { saveApp } from './github-app.ts'
import { noGithubApp } from './samples.ts'

let app: HttpService
let github: LocalGithub
let platform: ReturnType<LocalGithub['platformApp']>['app']
/** Signed in as the admins of both organizations. */
let demo: Browser
let other: Browser
beforeAll(async () => {
  github = await startGithub()
  const { app: registered, settings } = github.platformApp()
  platform = registered
  app = await startHttpService({ GITHUB_URL: github.url, ...settings })
  demo = await signIn('admin@demo.test')
  other = await signIn('admin@other.test')
  github.createRepository('acme/playbook', { 'skills/refund/SKILL.md': skill('refund') })
  github.createRepository('globex/secret', { 'skills/secret/SKILL.md': skill('secret') })
})
afterAll(async () => {
  await app.close()
  await github.close()
})
beforeEach(async () => {
  github.stopFailing()
  platform.installations.clear()
  for (const slug of ['demo', 'other'] as const) await noGithubApp(app, slug)
})

const skill = (name: string) => `---\nname: ${name}\ndescription: Use it.\n---\nText.\n`

async function signIn(email: string): Promise<Browser> {
  const browser = await new Browser(app.url).open('/invitations')
  return browser.press(email)
}

type Slug = 'demo' | 'other'
const ask = async (method: string, path: string, { slug = 'demo' as Slug, body = undefined as unknown } = {}) =>
  app.request(method, `/org-github-apps/${path}`, {
    token: await app.tokenFor(`admin@${slug}.test`, slug),
    ...(body !== undefined && { body }),
  })
const config = async (slug: Slug = 'demo') => (await ask('GET', 'config', { slug })).body
const start = async (slug: Slug = 'demo') =>
  new URL((await ask('POST', 'installation-start', { slug })).body.installation_url).searchParams.get('state') ?? ''

/** GitHub's way back after an installation: to the setup URL, and on to the authorization. */
async function comeBack(browser: Browser, state: string, installation_id: number | string) {
  const query = new URLSearchParams({ installation_id: String(installation_id), setup_action: 'install', state })
  const tab = browser.fork()
  await tab.open(`/api/org-github-apps/installed?${query}`)
  browser.page = tab.page
  return tab.left?.searchParams.get('state') ?? undefined
}
async function authorize(browser: Browser, state: string, accounts: string[]) {
  const query = new URLSearchParams({ code: github.authorize(accounts), state })
  await browser.open(`/api/org-github-apps/authorized?${query}`)
  return browser.text
}
async function install(browser: Browser, slug: Slug, account: string) {
  const id = github.installFor(platform, account)
  const state = await comeBack(browser, await start(slug), id)
  await authorize(browser, state ?? '', [account])
  return id
}
const installationOf = async (slug: Slug) => (await config(slug)).platform_app.installation
const connect = (repository: string, slug: Slug = 'demo') => ask('PUT', 'repository', { slug, body: { repository } })

describe('the operator’s app', () => {
  test('is offered to organizations without their own', async () => {
    expect(await config()).toMatchObject({
      configured: false,
      repository: null,
      platform_app: { app_slug: 'inlay', app_url: `${github.url}/github-apps/inlay`, installation: null },
    })
    expect((await ask('GET', 'repositories')).body).toEqual({
      is_installed: false,
      repositories: [],
      is_complete: true,
    })
    expect((await connect('acme/playbook')).status).toBe(404)
  })

  test('is installed by an admin, who then connects a repository, and its skills are synced', async () => {
    await install(demo, 'demo', 'acme')
    expect(demo.page?.url.pathname, 'the way back ends on the Code host page').toBe('/o/demo/code-host')
    expect(await installationOf('demo')).toEqual({
      account: 'acme',
      installed_by: 'admin@demo.test',
      installed_at: expect.stringMatching(/Z$/),
    })
    const { body } = await ask('GET', 'repositories')
    expect(body).toMatchObject({ is_installed: true, repositories: [{ repository: 'acme/playbook' }] })
    expect((await connect('acme/playbook')).status).toBe(200)
    await expect
      .poll(async () => (await ask('GET', 'repository')).body.repository.last_sync)
      .toMatchObject({ status: 'succeeded', problems: [] })
    expect(await config()).toMatchObject({ configured: false, repository: 'acme/playbook' })
  })

  test('reads no repository of another organization’s installation', async () => {
    await install(demo, 'demo', 'acme')
    await install(other, 'other', 'globex')
    expect((await ask('GET', 'repositories')).body.repositories).toHaveLength(1)
    const refused = await connect('globex/secret')
    const missing = await connect('acme/missing')
    expect(refused.status).toBe(409)
    expect(refused.body, 'as if it didn’t exist').toEqual(missing.body)
  })

  test('waits while the installation is missing on GitHub', async () => {
    await install(demo, 'demo', 'acme')
    platform.installations.clear()
    expect((await ask('GET', 'repositories')).body).toMatchObject({ is_installed: false, repositories: [] })
  })
})

describe('an installation', () => {
  test('of another organization is refused, even if the user has access to it on GitHub', async () => {
    const id = await install(other, 'other', 'globex')
    const state = await comeBack(demo, await start(), id)
    expect(await authorize(demo, state ?? '', ['globex'])).toContain('already connected to another organization')
    expect(await installationOf('demo')).toBeNull()
    expect(await installationOf('other')).toMatchObject({ account: 'globex' })
  })

  test('that was guessed is refused: GitHub says that the user has no access to it', async () => {
    const id = github.installFor(platform, 'globex')
    const state = await comeBack(demo, await start(), id)
    expect(await authorize(demo, state ?? '', ['acme'])).toContain('Your GitHub account has no access')
    expect(await installationOf('demo')).toBeNull()
  })

  test('is connected only in the browser of the admin who started it', async () => {
    const id = github.installFor(platform, 'globex')
    const state = await start('demo')
    // An attacker sends their link to another person, who installs the app.
    expect(await comeBack(other, state, id)).toBeUndefined()
    expect(other.text).toContain('This link isn’t valid.')
    expect(await comeBack(new Browser(app.url), state, id)).toBeUndefined()
    const next = await comeBack(demo, state, id)
    expect(await authorize(other, next ?? '', ['globex'])).toContain('This link isn’t valid.')
    expect(await installationOf('demo')).toBeNull()
    await authorize(demo, next ?? '', ['globex'])
    expect(await installationOf('demo'), 'visits of others don’t use the link up').toMatchObject({ account: 'globex' })
  })

  test('needs a state, which can be used once', async () => {
    const id = github.installFor(platform, 'acme')
    expect(await comeBack(demo, 'unknown', id)).toBeUndefined()
    const state = await start()
    const next = await comeBack(demo, state, id)
    expect(next).toBeDefined()
    expect(await comeBack(demo, state, id)).toBeUndefined()
    await authorize(demo, next ?? '', ['acme'])
    expect(await authorize(demo, next ?? '', ['acme'])).toContain('This link isn’t valid.')
  })

  // Redis doesn't use the test clock.
  test.skipIf(inject('engines').redisUrl).each([
    ['an hour', 'to install the app', 3_600_000, 0],
    ['ten minutes', 'to authorize it', 0, 600_000],
  ])('has %s %s', async (_, _step, installing, authorizing) => {
    const started = app.clock.now
    onTestFinished(() => {
      app.clock.now = started
    })
    const id = github.installFor(platform, 'acme')
    const attempt = async (early: number) => {
      app.clock.now = started
      const state = await start()
      app.clock.now += Math.max(0, installing - early)
      const next = await comeBack(demo, state, id)
      if (!next) return false
      app.clock.now += Math.max(0, authorizing - early)
      return !(await authorize(demo, next, ['acme'])).includes('This link isn’t valid.')
    }
    expect(await attempt(0)).toBe(false)
    expect(await attempt(1_000)).toBe(true)
  })

  test.each(['', '0', '-1', '1e3', '../1', '9'.repeat(17)])('needs an ID, not "%s"', async (id) => {
    expect(await comeBack(demo, await start(), id)).toBeUndefined()
    expect(demo.text).toContain('GitHub didn’t say where the app was installed.')
  })

  test('that has to be approved first, or only changed its access, is explained', async () => {
    await demo.open('/api/org-github-apps/installed?setup_action=request')
    expect(demo.text).toContain('An owner of your GitHub organization has to approve the installation.')
    await demo.open('/api/org-github-apps/installed?setup_action=update&installation_id=1')
    expect(demo.text).toContain('Access changed')
  })

  test.each<[string, string, string]>([
    ['an unknown code', 'unknown', 'GitHub doesn’t accept its own code.'],
    ['no code', '', 'GitHub didn’t confirm who you are there.'],
  ])('with %s isn’t connected', async (_, code, problem) => {
    const next = await comeBack(demo, await start(), github.installFor(platform, 'acme'))
    await demo.open(`/api/org-github-apps/authorized?${new URLSearchParams({ code, state: next ?? '' })}`)
    expect(demo.text).toContain(problem)
    expect(await installationOf('demo')).toBeNull()
  })

  test('leaves no token of the user behind at GitHub, whether they have access or not', async () => {
    const id = await install(demo, 'demo', 'acme')
    expect(github.userTokens()).toBe(0)
    const next = await comeBack(demo, await start(), id)
    expect(await authorize(demo, next ?? '', ['globex'])).toContain('Your GitHub account has no access')
    expect(github.userTokens()).toBe(0)
  })

  test('is connected, and the log says so, if the user’s token can’t be given back', async () => {
    const id = github.installFor(platform, 'acme')
    const state = await comeBack(demo, await start('demo'), id)
    github.fail(/^DELETE \/applications/, { status: 502 })
    await authorize(demo, state ?? '', ['acme'])
    expect(await installationOf('demo')).toMatchObject({ account: 'acme' })
    expect(app.logged()).toContain('Could not revoke a user’s token at GitHub')
  })

  test('isn’t connected while GitHub is unavailable', async () => {
    const next = await comeBack(demo, await start(), github.installFor(platform, 'acme'))
    github.fail(/user\/installations/, { status: 502 })
    expect(await authorize(demo, next ?? '', ['acme'])).toContain('GitHub has a problem at the moment (status 502).')
    expect(await installationOf('demo')).toBeNull()
  })

  test('that GitHub replaced isn’t followed, because the new one may be another organization’s', async () => {
    await install(demo, 'demo', 'acme')
    await connect('acme/playbook')
    const lastSync = async () => (await ask('GET', 'repository')).body.repository.last_sync
    await expect.poll(lastSync).toMatchObject({ status: 'succeeded' })
    platform.installations.clear()
    await install(other, 'other', 'acme')
    await ask('POST', 'sync')
    await expect
      .poll(lastSync)
      .toMatchObject({ status: 'failed', problem: expect.stringContaining('or the app has no access to it') })
  })

  test('replaces the former one, whose repository is disconnected', async () => {
    await install(demo, 'demo', 'acme')
    await connect('acme/playbook')
    await install(demo, 'demo', 'globex')
    expect(await config()).toMatchObject({ repository: null, platform_app: { installation: { account: 'globex' } } })
  })

  test('can be disconnected, and then belongs to whoever has access to it on GitHub', async () => {
    const id = await install(demo, 'demo', 'acme')
    await connect('acme/playbook')
    expect((await ask('DELETE', 'installation')).body).toEqual({ success: true, repo_disconnected: true })
    expect(await config()).toMatchObject({ repository: null, platform_app: { installation: null } })
    expect((await ask('DELETE', 'installation')).status).toBe(404)
    const state = await comeBack(other, await start('other'), id)
    await authorize(other, state ?? '', ['acme'])
    expect(await installationOf('other')).toMatchObject({ account: 'acme' })
  })
})

describe('an organization’s own app', () => {
  async function register() {
    const created = await app.service.github.convertManifest(
      github.register({ name: 'inlay-acme', redirect_url: '' }, 'acme'),
    )
    github.install(created.id)
    const organization_id = await app.organization('demo')
    const registration = { organization_id, user_id: '', github_org_name: 'acme' }
    await saveApp(app.service, registration, { id: organization_id, email: 'admin@demo.test' }, created)
  }

  test('takes the place of the operator’s, and gives it back when it’s removed', async () => {
    await install(demo, 'demo', 'acme')
    await connect('acme/playbook')
    await register()
    expect(await config(), 'it was read through the other app').toMatchObject({ configured: true, repository: null })
    expect((await ask('POST', 'installation-start')).status).toBe(409)
    await connect('acme/playbook')
    expect((await ask('DELETE', 'config')).body).toEqual({ success: true, repo_disconnected: true })
    expect(await config()).toMatchObject({
      configured: false,
      repository: null,
      platform_app: { installation: { account: 'acme' } },
    })
    expect((await connect('acme/playbook')).status).toBe(200)
  })

  test('without a repository disconnects none', async () => {
    await register()
    expect((await ask('DELETE', 'config')).body).toEqual({ success: true, repo_disconnected: false })
  })
})

describe('the operator’s webhook', () => {
  const deliver = async (delivery: Awaited<ReturnType<LocalGithub['delivery']>>) => {
    const response = await app.fetch('/api/org-github-apps/webhook', delivery)
    return [response.status, ((await response.json()) as { status?: unknown }).status]
  }
  const lastSync = async (slug: Slug) => {
    const id = await app.organization(slug)
    const [row] = await app.service.database.asOrg(
      id,
      (sql) => sql<{ at: string | null }>`select last_sync ->> 'finished_at' as at from github_repositories`,
    )
    return row?.at
  }

  test('reaches the organization of its installation, and no other', async () => {
    const id = await install(demo, 'demo', 'acme')
    await connect('acme/playbook')
    await install(other, 'other', 'globex')
    await connect('globex/secret', 'other')
    const { repository } = (await ask('GET', 'repository')).body
    const [{ repository_id } = { repository_id: 0 }] = await app.service.database.asOrg(
      await app.organization('demo'),
      (sql) => sql<{ repository_id: number }>`select repository_id from github_repositories`,
    )
    for (const slug of ['demo', 'other'] as const) await expect.poll(() => lastSync(slug)).toBeTruthy()
    const before = { demo: await lastSync('demo'), other: await lastSync('other') }
    const push = {
      ref: 'refs/heads/main',
      repository: { id: repository_id, default_branch: repository.default_branch },
      installation: { id },
    }
    expect(await deliver(await github.delivery(platform, 'push', push))).toEqual([202, 'accepted'])
    await expect.poll(() => lastSync('demo')).not.toBe(before.demo)
    expect(await lastSync('other')).toBe(before.other)
    const unknown = { ...push, installation: { id: 999_999 } }
    expect(await deliver(await github.delivery(platform, 'push', unknown))).toEqual([202, 'ignored'])
    expect(await deliver(await github.delivery(platform, 'ping', { zen: 'Hello' }))).toEqual([202, 'ignored'])
  })

  test('ends the organization’s use of an installation that was removed on GitHub', async () => {
    const id = await install(demo, 'demo', 'acme')
    await connect('acme/playbook')
    const event = { action: 'deleted', installation: { id } }
    expect(await deliver(await github.delivery(platform, 'installation', event))).toEqual([202, 'accepted'])
    expect(await config()).toMatchObject({ repository: null, platform_app: { installation: null } })
  })

  test('with another secret is refused', async () => {
    const id = await install(demo, 'demo', 'acme')
    const event = { action: 'deleted', installation: { id } }
    const forged = await github.delivery({ ...platform, webhookSecret: 'x'.repeat(40) }, 'installation', event)
    expect((await deliver(forged))[0]).toBe(401)
    expect(await installationOf('demo')).toMatchObject({ account: 'acme' })
  })
})

test('if the operator removes their app, a sync says so, and nothing changes', async () => {
  await install(demo, 'demo', 'acme')
  await connect('acme/playbook')
  await expect.poll(async () => (await ask('GET', 'repository')).body.repository.state).toBe('idle')
  const { github: settings } = app.service.config
  const removed = settings.app
  settings.app = undefined
  await ask('POST', 'sync')
  await expect
    .poll(async () => (await ask('GET', 'repository')).body.repository.last_sync.problem)
    .toBe('The GitHub app is no longer available. Register your own app.')
  settings.app = removed
})

test('without the operator’s app, nothing can be installed', async () => {
  const { github: settings } = app.service.config
  const removed = settings.app
  settings.app = undefined
  expect((await ask('POST', 'installation-start')).status).toBe(404)
  settings.app = removed
})
