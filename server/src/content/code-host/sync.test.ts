import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { type LocalGithub, startGithub } from '../../../test/github.ts'
import { runJob, startTestService, type TestResponse, type TestService } from '../../../test/harness.ts'
import { saveApp } from './github-app.ts'
import { codeSync } from './sync.ts'

let app: TestService
let github: LocalGithub
let token: string
let id: string
let registered: Awaited<ReturnType<typeof registerApp>>
let repository: ReturnType<LocalGithub['createRepository']>
beforeAll(async () => {
  github = await startGithub()
  app = await startTestService({ GITHUB_URL: github.url })
  token = await app.tokenFor('admin@demo.test', 'demo')
  id = await app.organization('demo')
})
afterAll(async () => {
  await app.close()
  await github.close()
})

const skill = (name: string, body = 'Text.', description = 'Use it.') =>
  `---\nname: ${name}\ndescription: ${description}\n---\n${body}\n`
const asDemo: TestService['service']['database']['asOrg'] extends (id: string, work: infer Work) => unknown
  ? (work: Work) => Promise<Record<string, unknown>[]>
  : never = (work) => app.service.database.asOrg(id, work) as never

async function registerApp() {
  const code = github.register({ name: 'inlay-acme', redirect_url: '' }, 'acme')
  const created = await app.service.github.convertManifest(code)
  await saveApp(
    app.service,
    { organization_id: id, user_id: '', github_org_name: 'acme' },
    { id: id, email: 'admin@demo.test' },
    created,
  )
  return github.install(created.id)
}

/** Each test has its own repository with two skills, which isn't connected yet. */
beforeEach(async () => {
  github.stopFailing()
  github.setDown(false)
  await asDemo(async (sql) => {
    await sql`delete from github_repositories`
    await sql`delete from github_apps`
    await sql`delete from organization_skills`
    return []
  })
  registered = await registerApp()
  repository = github.createRepository('acme/playbook', {
    'README.md': 'Hello',
    'skills/refund/SKILL.md': skill('refund'),
    'skills/shop/returns/SKILL.md': skill('returns'),
    'skills/shop/returns/notes.md': 'Not a skill',
    'other/SKILL.md': skill('elsewhere'),
  })
})

const request = (method: string, path: string, body?: unknown): Promise<TestResponse> =>
  app.request(method, path, { token, ...(body !== undefined && { body }) })
const connect = (name = 'acme/playbook') => request('PUT', '/org-github-apps/repository', { repository: name })
const connection = async () => (await request('GET', '/org-github-apps/repository')).body.repository
/** Waits until a sync has ended and no other is due. */
const rested = () =>
  expect
    .poll(async () => {
      const { state, last_sync } = await connection()
      return state === 'idle' && last_sync !== null
    })
    .toBe(true)
    .then(connection)
async function sync() {
  await request('POST', '/org-github-apps/sync')
  return rested()
}
async function connectAndSync() {
  expect((await connect()).status).toBe(200)
  return rested()
}
/** The organization's active skills: names and texts. */
const skills = async () =>
  Object.fromEntries(
    (
      await asDemo(
        (sql) => sql`
          select s.name, v.content from organization_skills s
          join organization_skill_versions v on v.skill_id = s.id and v.version = s.version
          where s.archived_at is null order by s.name`,
      )
    ).map(({ name, content }) => [name, content]),
  )
const idOf = async (name: string) =>
  (await asDemo((sql) => sql`select id from organization_skills where name = ${name}`))[0]?.id as string
const deliver = (delivery: Awaited<ReturnType<LocalGithub['delivery']>>, to = id) =>
  app.fetch(`/api/org-github-apps/webhook/${to}`, delivery)

describe('connecting a repository', () => {
  test('lists the repositories that the app can read', async () => {
    github.createRepository('acme/another')
    github.createRepository('globex/secret')
    expect((await request('GET', '/org-github-apps/repositories')).body).toEqual({
      is_installed: true,
      is_complete: true,
      repositories: [
        { repository: 'acme/another', is_private: true, default_branch: 'main' },
        { repository: 'acme/playbook', is_private: true, default_branch: 'main' },
      ],
    })
    registered.installationId = undefined
    expect((await request('GET', '/org-github-apps/repositories')).body).toMatchObject({ is_installed: false })
  })

  test('syncs its skills, with their source', async () => {
    expect((await connect()).body.repository).toMatchObject({ repository: 'acme/playbook', last_sync: null })
    expect(await rested()).toMatchObject({
      url: `${github.url}/acme/playbook`,
      connected_by: 'admin@demo.test',
      synced_commit: repository.commit,
      last_sync: {
        status: 'succeeded',
        created: 2,
        updated: 0,
        archived: 0,
        unchanged: 0,
        problem: null,
        problems: [],
      },
    })
    expect(await skills()).toEqual({ refund: skill('refund'), returns: skill('returns') })
    const source = {
      repository: 'acme/playbook',
      path: 'skills/shop/returns/SKILL.md',
      commit: repository.commit,
      url: `${github.url}/acme/playbook/blob/main/skills/shop/returns/SKILL.md`,
      edit_url: `${github.url}/acme/playbook/edit/main/skills/shop/returns/SKILL.md`,
    }
    const returns = await idOf('returns')
    expect((await request('GET', `/organization-skills/${returns}`)).body).toMatchObject({ source })
    const listed = (await request('POST', '/organization-skills/list', {})).body as { id: string; source: unknown }[]
    expect(listed.find(({ id: each }) => each === returns)).toMatchObject({ source })
    expect(listed[0], 'a built-in skill').not.toHaveProperty('source')
    github.push(repository, { 'skills/refund/SKILL.md': skill('refund', 'New.') })
    await sync()
    const commitOf = async (name: string) =>
      (await request('GET', `/organization-skills/${await idOf(name)}`)).body.source.commit
    expect([await commitOf('refund'), await commitOf('returns')], 'the commit of each text').toEqual([
      repository.commit,
      source.commit,
    ])
    const { versions } = (await request('GET', `/organization-skills/${await idOf('refund')}/versions`)).body
    expect(versions[0].created_by).toBe(`acme/playbook@${repository.commit.slice(0, 7)}`)
  })

  test.each([
    ['a repository that does not exist', 'acme/missing', 409],
    ['a repository of another organization', 'globex/secret', 409],
    ['a path', 'acme/..', 400],
    ['a name without an owner', 'playbook', 400],
  ])('refuses %s', async (_, name, status) => {
    github.createRepository('globex/secret')
    expect((await connect(name)).status).toBe(status)
    expect(await connection()).toBeNull()
  })

  test('needs an app, and explains GitHub’s failures', async () => {
    github.fail(/access_tokens/, { status: 500 })
    expect((await connect()).body).toMatchObject({
      status: 503,
      message: 'GitHub has a problem at the moment (status 500).',
      data: { code: 'CODE_HOST_UNAVAILABLE' },
    })
    registered.isSuspended = true
    expect((await connect()).body.message).toContain('suspended on GitHub')
    await request('DELETE', '/org-github-apps/config')
    for (const response of [await connect(), await request('GET', '/org-github-apps/repositories')]) {
      expect(response.body.data).toMatchObject({ code: 'RESOURCE_NOT_FOUND', resource: 'github_app' })
    }
    expect((await request('POST', '/org-github-apps/sync')).body.data.resource).toBe('github_repository')
  })
})

test('an outage of GitHub while repositories are listed is a warning in the log, without a stack', async () => {
  const before = app.logged().length
  github.setDown(true)
  expect((await request('GET', '/org-github-apps/repositories')).status).toBe(503)
  const lines = app
    .logged()
    .slice(before)
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect(lines.filter(({ level }) => level === 'error')).toEqual([])
  expect(lines.find(({ msg }) => msg === 'another service is unavailable')).toMatchObject({
    level: 'warn',
    reason: 'GitHub has a problem at the moment (status 503).',
  })
})

describe('after a change on GitHub', () => {
  const installationEvent = async (action: string) => {
    const event = await github.delivery(registered, 'installation', { action, installation: { id: 1 } })
    expect((await deliver(event)).status).toBe(202)
  }

  test('a sync goes on by itself when the app was uninstalled and installed again', async () => {
    await connectAndSync()
    const refund = await idOf('refund')
    const former = registered.installationId
    github.uninstall(registered)
    await installationEvent('deleted')
    await expect.poll(async () => (await connection()).last_sync.status).toBe('failed')
    github.push(repository, { 'skills/new/SKILL.md': skill('new') })
    github.install(registered.id)
    expect(registered.installationId).not.toBe(former)
    await installationEvent('created')
    await expect.poll(async () => (await connection()).last_sync.status).toBe('succeeded')
    expect(Object.keys(await skills())).toEqual(['new', 'refund', 'returns'])
    expect(await idOf('refund')).toBe(refund)
    const asked = github.asked.length
    await sync()
    expect(github.asked.slice(asked), 'the new installation was stored').not.toContain(
      'GET /repos/acme/playbook/installation',
    )
  })

  test.each<[string, () => () => void, string]>([
    [
      'suspended the installation',
      () => {
        registered.isSuspended = true
        return () => {
          registered.isSuspended = false
        }
      },
      'The app’s installation is suspended on GitHub. Unsuspend it in the app’s settings there.',
    ],
    [
      'took the repository from the installation',
      () => {
        registered.withheld.add(repository.id)
        return () => registered.withheld.clear()
      },
      'GitHub doesn’t find this, or the app has no access to it. Check its installation on GitHub.',
    ],
    [
      'uninstalled the app',
      () => {
        github.uninstall(registered)
        return () => void github.install(registered.id)
      },
      'GitHub doesn’t find this, or the app has no access to it. Check its installation on GitHub.',
    ],
    [
      'deleted the app',
      () => {
        github.apps.delete(registered.id)
        return () => void github.apps.set(registered.id, registered)
      },
      'GitHub no longer accepts the app’s credentials. Was the app deleted there? Remove it here, and register a new one.',
    ],
  ])(
    'a sync says what to do if an owner %s, changes nothing, and succeeds once that is undone',
    async (_, change, problem) => {
      await connectAndSync()
      github.push(repository, { 'skills/new/SKILL.md': skill('new') })
      const undo = change()
      expect((await sync()).last_sync).toMatchObject({ status: 'failed', problem })
      expect(Object.keys(await skills())).toEqual(['refund', 'returns'])
      undo()
      expect((await sync()).last_sync).toMatchObject({ status: 'succeeded', problem: null })
      expect(Object.keys(await skills())).toEqual(['new', 'refund', 'returns'])
    },
  )
})

test('a hostile repository costs little, and only valid skills are stored', async () => {
  const laughs = Array.from({ length: 12 }, (_, n) => `a${n + 1}: &a${n + 1} [${`*a${n},`.repeat(10)}]`).join('\n')
  const hostile: Record<string, string | Buffer> = {
    'skills/../SKILL.md': skill('parent'),
    'skills/link/SKILL.md': '->../../../../etc/passwd',
    'skills/huge/SKILL.md': skill('huge', 'x'.repeat(2 * 1024 * 1024)),
    'skills/nul/SKILL.md': skill('nul', 'a\0b'),
    'skills/bytes/SKILL.md': Buffer.from([0xff, 0xfe, 0x00]),
    'skills/bomb/SKILL.md': `---\na0: &a0 lol\n${laughs}\nname: bomb\ndescription: Bomb.\n---\nText.\n`,
    'skills/deep/SKILL.md': `---\nname: deep\ndescription: ${'['.repeat(50_000)}\n---\nText.\n`,
    'skills/proto/SKILL.md': '---\n__proto__: { isAdmin: true }\nname: proto\ndescription: Use it.\n---\nText.\n',
  }
  for (let n = 0; n < 10_000; n += 1) hostile[`skills/noise/${n}/README.md`] = ''
  github.push(repository, hostile)
  const { last_sync } = await connectAndSync()
  expect(last_sync).toMatchObject({ status: 'succeeded' })
  const skipped = last_sync.problems.map(({ path }: { path: string }) => path)
  for (const name of ['huge', 'nul', 'bytes', 'bomb', 'deep']) expect(skipped).toContain(`skills/${name}/SKILL.md`)
  const stored = Object.keys(await skills())
  for (const name of ['parent', 'huge', 'nul', 'bomb', 'deep']) expect(stored).not.toContain(name)
  expect(skipped).toContain('skills/../SKILL.md')
  expect(JSON.stringify(await skills())).not.toContain('root:')
  expect(({} as { isAdmin?: boolean }).isAdmin).toBeUndefined()
})

describe('a sync', () => {
  test('creates, updates, moves and archives skills, and reads only files that changed', async () => {
    await connectAndSync()
    const returns = await idOf('returns')
    github.push(repository, {
      'skills/refund/SKILL.md': skill('refund', 'New text.'),
      'skills/shop/returns/SKILL.md': null,
      'skills/returns/SKILL.md': skill('returns'),
      'skills/SKILL.md': skill('top'),
      'skills/link/SKILL.md': '->../refund/SKILL.md',
    })
    const before = github.asked.length
    expect((await sync()).last_sync).toMatchObject({ created: 1, updated: 2, archived: 0, unchanged: 0, problems: [] })
    expect(github.asked.slice(before).filter((name) => name.includes('/blobs/'))).toHaveLength(3)
    expect(await idOf('returns'), 'a moved file is the same skill').toBe(returns)
    expect(Object.keys(await skills())).toEqual(['refund', 'returns', 'top'])

    github.push(repository, { 'skills/returns/SKILL.md': null })
    expect((await sync()).last_sync).toMatchObject({ created: 0, updated: 0, archived: 1, unchanged: 2 })
    github.push(repository, { 'skills/returns/SKILL.md': skill('returns', 'Again.') })
    expect((await sync()).last_sync).toMatchObject({ created: 1, unchanged: 2 })
    expect(await idOf('returns'), 'a file that comes back is the same skill').toBe(returns)
  })

  test('swaps the names of two skills', async () => {
    await connectAndSync()
    const before = await idOf('refund')
    github.push(repository, {
      'skills/refund/SKILL.md': skill('returns', 'Was refund.'),
      'skills/shop/returns/SKILL.md': skill('refund', 'Was returns.'),
    })
    expect((await sync()).last_sync).toMatchObject({ updated: 2, problems: [] })
    expect(await idOf('returns')).toBe(before)
  })

  test('reports files that it skips, and keeps what came from them before', async () => {
    await request('POST', '/organization-skills', { content: skill('mine', 'By hand.') })
    await connectAndSync()
    github.push(repository, {
      'skills/refund/SKILL.md': 'No frontmatter',
      'skills/a/SKILL.md': skill('mine'),
      'skills/b/SKILL.md': skill('skill-creator-webmcp'),
      'skills/c/SKILL.md': skill('twin'),
      'skills/d/SKILL.md': skill('twin'),
      'skills/h/SKILL.md': skill('returns'),
      'skills/e/SKILL.md': skill('big', 'x'.repeat(257 * 1024)),
      'skills/f/SKILL.md': Buffer.from([0xff, 0xfe]),
      'skills/g/SKILL.md': skill('refund'),
    })
    const { last_sync } = await sync()
    expect(last_sync).toMatchObject({ status: 'succeeded', created: 1, updated: 0, archived: 0, unchanged: 1 })
    expect(last_sync.problems).toEqual([
      { path: 'skills/a/SKILL.md', problem: 'Another skill that isn’t from this repository is named mine' },
      { path: 'skills/b/SKILL.md', problem: expect.stringContaining('is named skill-creator-webmcp') },
      { path: 'skills/d/SKILL.md', problem: 'skills/c/SKILL.md has the same name, twin' },
      { path: 'skills/e/SKILL.md', problem: 'content exceeds 256 KiB' },
      { path: 'skills/f/SKILL.md', problem: 'The file isn’t UTF-8 text' },
      { path: 'skills/g/SKILL.md', problem: 'skills/refund/SKILL.md has the same name, refund' },
      { path: 'skills/h/SKILL.md', problem: 'skills/shop/returns/SKILL.md has the same name, returns' },
      { path: 'skills/refund/SKILL.md', problem: 'frontmatter is missing' },
    ])
    expect(await skills()).toMatchObject({ refund: skill('refund'), mine: skill('mine', 'By hand.') })
  })

  test('stays within the plan, and never at the expense of active skills', async () => {
    const [{ plan_id } = {}] = await asDemo((sql) => sql`select plan_id from organizations`)
    await asDemo((sql) => sql`update organizations set plan_id = 'free'`)
    const limit = app.config.plans.find((plan) => plan.id === 'free')?.limits.skills ?? 0
    const many = Object.fromEntries(
      Array.from({ length: limit + 2 }, (_, n) => [`skills/a${n}/SKILL.md`, skill(`a${n}`)]),
    )
    await connectAndSync()
    github.push(repository, { ...many, 'skills/refund/SKILL.md': skill('refund', 'New.') })
    const { last_sync } = await sync()
    await asDemo((sql) => sql`update organizations set plan_id = ${plan_id}`)
    expect(Object.keys(await skills())).toHaveLength(limit)
    expect(await skills()).toMatchObject({ refund: skill('refund', 'New.'), returns: skill('returns') })
    expect(last_sync.problems).toHaveLength(4)
    expect(last_sync.problems[0].problem).toBe(`Your plan includes ${limit} skills, and all are in use`)
  })

  type Failing = Parameters<LocalGithub['fail']>[1]
  const emptied = { status: 200, body: { sha: 'x', truncated: true, tree: [] } }
  test.each<[name: string, at: RegExp, fault: Failing, status: string, problem: string]>([
    ['a truncated list of files', /trees/, emptied, 'retrying', 'The folder has more files than GitHub lists'],
    [
      'a list without files',
      /trees/,
      { status: 200, body: {} },
      'retrying',
      'a response that Inlay doesn’t understand',
    ],
    ['an outage', /trees/, { status: 503 }, 'retrying', 'GitHub has a problem at the moment (status 503)'],
    ['an outage half-way', /blobs/, { status: 500 }, 'retrying', 'GitHub has a problem at the moment (status 500)'],
    ['a broken connection', /blobs/, 'drop', 'retrying', 'GitHub can’t be reached'],
    [
      'an incomplete file',
      /blobs/,
      { status: 200, body: { encoding: 'base64', content: 'eA==', size: 9 } },
      'retrying',
      'GitHub sent an incomplete file',
    ],
    [
      'a used-up rate limit',
      /ref/,
      { status: 403, headers: { 'x-ratelimit-remaining': '0' } },
      'retrying',
      'rate limit',
    ],
    ['a secondary rate limit', /ref/, { status: 403, headers: { 'retry-after': '60' } }, 'retrying', 'rate limit'],
    ['too many requests', /ref/, { status: 429 }, 'retrying', 'GitHub’s rate limit is reached'],
    ['a lost permission', /ref/, { status: 403 }, 'failed', 'The app may not read this on GitHub'],
    ['a deleted repository', /playbook$/, { status: 404 }, 'failed', 'GitHub doesn’t find this'],
    ['a moved repository', /playbook$/, { status: 301 }, 'failed', 'The repository was renamed or moved'],
    ['a deleted app', /access_tokens/, { status: 401 }, 'failed', 'no longer accepts the app’s credentials'],
  ])('changes nothing after %s, says so, and succeeds later', async (_, at, fault, status, problem) => {
    await connectAndSync()
    const before = await skills()
    github.push(repository, {
      'skills/refund/SKILL.md': skill('refund', 'New.'),
      'skills/shop/returns/SKILL.md': null,
      'skills/new/SKILL.md': skill('new'),
    })
    github.fail(at, fault)
    const failed = await sync()
    expect(failed.last_sync).toMatchObject({ status, problem: expect.stringContaining(problem), commit: null })
    expect(failed.synced_commit, 'the last success is still shown').not.toBeNull()
    expect(Date.parse(failed.next_sync_at)).toBeGreaterThan(Date.parse(failed.last_sync.finished_at))
    expect(await skills()).toEqual(before)
    await asDemo((sql) => sql`update github_repositories set blocked_until = null`)
    await runJob(app, id, codeSync)
    await expect.poll(async () => (await connection()).last_sync.status).toBe('succeeded')
    expect(Object.keys(await skills())).toEqual(['new', 'refund'])
  })

  test('refuses more than 200 skills as a whole', async () => {
    await connectAndSync()
    const many = Array.from({ length: 200 }, (_, n) => [`skills/a${n}/SKILL.md`, skill(`a${n}`)])
    github.push(repository, Object.fromEntries(many))
    expect((await sync()).last_sync).toMatchObject({
      status: 'failed',
      problem: expect.stringContaining('at most 200'),
    })
    expect(Object.keys(await skills())).toEqual(['refund', 'returns'])
  })

  test('waits for GitHub’s rate limit, even if someone asks for a sync', async () => {
    await connectAndSync()
    const reset = String(Math.floor(app.clock.now / 1000) + 600)
    github.fail(/ref/, { status: 403, headers: { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': reset } })
    await sync()
    const before = github.asked.length
    const { next_sync_at } = (await request('POST', '/org-github-apps/sync')).body.repository
    expect(Date.parse(next_sync_at) - Date.now()).toBeGreaterThan(500_000)
    expect(github.asked.length).toBe(before)
  })

  test('catches up after a day of outage, whatever was pushed meanwhile', async () => {
    await connectAndSync()
    github.setDown(true)
    for (const n of [1, 2, 3]) {
      github.push(repository, { [`skills/n${n}/SKILL.md`]: skill(`n${n}`) })
      await deliver(await github.pushDelivery(registered, repository))
      await rested()
    }
    expect((await connection()).last_sync.status).toBe('retrying')
    github.setDown(false)
    await runJob(app, id, codeSync)
    await expect.poll(async () => (await connection()).synced_commit).toBe(repository.commit)
    expect(Object.keys(await skills())).toEqual(['n1', 'n2', 'n3', 'refund', 'returns'])
  })

  test('writes nothing after it has lost its lease', async () => {
    await connectAndSync()
    github.push(repository, { 'skills/new/SKILL.md': skill('new') })
    github.fail(/blobs/, 'hang')
    const asked = github.asked.length
    await request('POST', '/org-github-apps/sync')
    await expect.poll(() => github.asked.slice(asked).some((name) => name.includes('/blobs/'))).toBe(true)
    await request('DELETE', '/org-github-apps/repository')
    const { status } = await connect()
    expect(status).toBe(200)
    expect((await rested()).last_sync).toMatchObject({ status: 'succeeded', created: 1 })
    const [audit] = await asDemo(
      (
        sql,
      ) => sql`select count(*)::int as count from audit_events where action = 'skill.created' and data->>'name' = 'new'
        and created_at > (select connected_at from github_repositories)`,
    )
    expect(audit?.count).toBe(1)
  })

  test('writes nothing if another node has its lease by then', async () => {
    await connectAndSync()
    github.push(repository, { 'skills/new/SKILL.md': skill('new') })
    const { database } = app.service
    const { asOrg } = database
    onTestFinished(() => {
      database.asOrg = asOrg
    })
    let hasEnded = false
    database.asOrg = async (organizationId, work) => {
      if (!String(work).includes('await end(')) return asOrg(organizationId, work)
      await asOrg(organizationId, (sql) => sql`update jobs set lease = gen_random_uuid() where kind = ${codeSync}`)
      return asOrg(organizationId, work).finally(() => {
        hasEnded = true
      })
    }
    await request('POST', '/org-github-apps/sync')
    await expect.poll(() => hasEnded).toBe(true)
    expect(Object.keys(await skills())).toEqual(['refund', 'returns'])
  })

  test('writes audit events', async () => {
    const rows = () => asDemo((sql) => sql`select actor, action, data from audit_events order by sequence`)
    const before = (await rows()).length
    await connectAndSync()
    await request('DELETE', '/org-github-apps/repository')
    const added = (await rows()).slice(before)
    expect(added.map(({ actor, action }) => `${actor} ${action}`)).toEqual([
      'admin@demo.test github_repository.connected',
      'github:acme/playbook skill.created',
      'github:acme/playbook skill.created',
      'github:acme/playbook github_repository.synced',
      'admin@demo.test github_repository.disconnected',
    ])
    expect(added[3]?.data).toMatchObject({ commit: repository.commit, created: 2, problems: 0 })
  })
})

describe('a synced skill', () => {
  test('is edited, archived and restored in the repository; only its domains are set here', async () => {
    await connectAndSync()
    const path = `/organization-skills/${await idOf('refund')}`
    const url = `${github.url}/acme/playbook/blob/main/skills/refund/SKILL.md`
    const operations = [{ type: 'replace', before: 'Text.', after: 'Changed.' }]
    const edit = url.replace('/blob/', '/edit/')
    const attempts = [
      await request('PATCH', path, { patch: { version: 1, operations } }),
      await request('DELETE', path),
      await request('POST', `${path}/restore`, { version: 1 }),
    ]
    for (const { body } of attempts) {
      expect(body).toEqual({
        defined: false,
        code: 'CONFLICT',
        status: 409,
        message: `The skill is synced from acme/playbook. Edit skills/refund/SKILL.md there: ${edit}`,
        data: { code: 'SKILL_SYNCED', url, edit_url: edit },
      })
    }
    expect((await request('PATCH', path, { domains: ['shop.example.com'] })).body).toMatchObject({
      version: 2,
      source: { url },
    })
    github.push(repository, { 'skills/refund/SKILL.md': skill('refund', 'New.') })
    await sync()
    expect((await request('GET', path)).body).toMatchObject({ version: 3, domains: ['shop.example.com'] })
  })

  test('becomes the organization’s own when the repository is disconnected', async () => {
    await connectAndSync()
    expect((await request('DELETE', '/org-github-apps/config')).body).toEqual({
      success: true,
      repo_disconnected: true,
    })
    const path = `/organization-skills/${await idOf('refund')}`
    expect((await request('GET', path)).body.source).toBeNull()
    const operations = [{ type: 'replace', before: 'Text.', after: 'Mine.' }]
    expect((await request('PATCH', path, { patch: { version: 1, operations } })).status).toBe(200)

    registered = await registerApp()
    const { last_sync } = await connectAndSync()
    expect(last_sync, 'an untouched skill is synced again, an edited one isn’t overwritten').toMatchObject({
      created: 0,
      unchanged: 1,
      problems: [{ path: 'skills/refund/SKILL.md' }],
    })
    expect((await skills()).refund).toBe(skill('refund', 'Mine.'))
  })
})

describe('a webhook', () => {
  const receive = async (delivery: Awaited<ReturnType<LocalGithub['delivery']>>, to = id) => {
    const response = await deliver(delivery, to)
    return [response.status, ((await response.json()) as { status: unknown }).status]
  }

  test('of a push to the default branch starts a sync; a repeated one doesn’t', async () => {
    await connectAndSync()
    github.push(repository, { 'skills/new/SKILL.md': skill('new') })
    const delivery = await github.pushDelivery(registered, repository)
    expect(await receive(delivery)).toEqual([202, 'accepted'])
    await expect.poll(async () => (await connection()).synced_commit).toBe(repository.commit)
    expect(await receive(delivery)).toEqual([202, 'duplicate'])
    expect((await connection()).state).toBe('idle')
  })

  test('that is late doesn’t move skills backwards', async () => {
    await connectAndSync()
    const late = await github.pushDelivery(registered, repository)
    github.push(repository, { 'skills/new/SKILL.md': skill('new') })
    await receive(await github.pushDelivery(registered, repository))
    await receive(late)
    await expect.poll(async () => (await connection()).synced_commit).toBe(repository.commit)
    await rested()
    expect(Object.keys(await skills())).toContain('new')
  })

  test('of anything else is ignored', async () => {
    await connectAndSync()
    const elsewhere = github.createRepository('acme/elsewhere')
    const ignored = [202, 'ignored']
    expect(await receive(await github.pushDelivery(registered, repository, 'refs/heads/draft'))).toEqual(ignored)
    expect(await receive(await github.pushDelivery(registered, elsewhere))).toEqual(ignored)
    const { body } = await github.pushDelivery(registered, repository)
    const unknown = { ...JSON.parse(body), installation: { id: 1 } }
    expect(await receive(await github.delivery(registered, 'push', unknown)), 'an unknown installation').toEqual(
      ignored,
    )
    expect(await receive(await github.delivery(registered, 'ping', { zen: 'Keep it simple' }))).toEqual(ignored)
    expect(await receive(await github.delivery(registered, 'installation', { action: 'suspend' }))).toEqual([
      202,
      'accepted',
    ])
  })

  test('can be a form', async () => {
    await connectAndSync()
    const { body } = await github.pushDelivery(registered, repository)
    const form = new URLSearchParams({ payload: body }).toString()
    const signed = await github.deliverText(registered, 'push', form)
    const headers = { ...signed.headers, 'content-type': 'application/x-www-form-urlencoded' }
    expect(await receive({ ...signed, headers })).toEqual([202, 'accepted'])
  })

  test('without a valid signature is refused, and changes nothing', async () => {
    await connectAndSync()
    const good = await github.pushDelivery(registered, repository)
    const other = await app.organization('other')
    const change = (headers: Record<string, string>, body = good.body) => ({
      ...good,
      body,
      headers: { ...good.headers, ...headers },
    })
    const { 'x-hub-signature-256': signature, ...unsigned } = good.headers
    const refused = await Promise.all([
      deliver(change({ 'x-hub-signature-256': `sha256=${'0'.repeat(64)}` })),
      deliver(change({ 'x-hub-signature-256': 'sha256=' })),
      deliver(change({ 'x-hub-signature-256': signature.replace('sha256', 'sha1') })),
      deliver(change({}, good.body.replace('main', 'evil'))),
      deliver({ ...good, headers: unsigned as typeof good.headers }),
      deliver(good, other),
      deliver(good, crypto.randomUUID()),
      deliver(good, 'not-an-id'),
    ])
    const bodies = await Promise.all(refused.map((response) => response.text()))
    expect(refused.map(({ status }) => status)).toEqual(refused.map(() => 401))
    expect(new Set(bodies).size, 'the response doesn’t tell whether an organization has an app').toBe(1)
    expect((await connection()).state).toBe('idle')
  })

  test('has limits', async () => {
    const long = await github.delivery(registered, 'push', { text: 'x'.repeat(1024 * 1024) })
    expect((await deliver(long)).status).toBe(413)
    const broken = await github.deliverText(registered, 'push', '{')
    expect((await deliver(broken)).status).toBe(400)
    const odd = await github.delivery(registered, 'push', { ref: 1 })
    expect((await deliver(odd)).status).toBe(400)
    const { headers, ...rest } = await github.pushDelivery(registered, repository)
    expect((await deliver({ ...rest, headers: { ...headers, 'x-github-delivery': 'x'.repeat(101) } })).status).toBe(400)
  })
})
