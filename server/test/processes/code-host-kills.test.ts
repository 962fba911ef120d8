import { expect, onTestFinished, test, vi } from 'vitest'
import { Browser } from '../browser.ts'
import { startGithub } from '../github.ts'
import { patience, type ServerProcess, useUsedInstallation } from '../processes.ts'

const skill = (name: string, body: string) => `---\nname: ${name}\ndescription: Use it.\n---\n${body}\n`

test('kill -9 during syncs and webhooks: the next server repeats them, and skills are exactly those of the repository', async () => {
  const github = await startGithub()
  onTestFinished(() => github.close())
  const inlay = useUsedInstallation()
  const env = { GITHUB_URL: github.url }
  let server = await inlay.start(env)
  let token = await inlay.token('admin@demo.test', 'demo')
  const call = (method: string, path: string, body?: unknown) =>
    server.call(method, `/api/org-github-apps${path}`, { token, ...(body !== undefined && { body }) })
  const waitForCommit = () =>
    vi.waitFor(async () => {
      const { body } = await call('GET', '/repository')
      expect(body.repository.synced_commit).toBe(repository.commit)
    }, patience)
  async function killAndRestart(killed: ServerProcess): Promise<void> {
    killed.signal('SIGKILL')
    await killed.finished
    server = await inlay.start(env)
    token = await inlay.token('admin@demo.test', 'demo')
  }

  const started = (await call('POST', '/manifest-start', { github_org_name: 'acme' })).body
  const code = github.register(JSON.parse(started.manifest), 'acme')
  const state = new URL(started.registration_url).searchParams.get('state') ?? ''
  const callback = `${server.url}/api/org-github-apps/callback?${new URLSearchParams({ code, state })}`
  const admin = await (await new Browser(server.url).open('/invitations')).press('admin@demo.test')
  const headers = { cookie: admin.cookieHeader() }
  expect((await fetch(callback, { redirect: 'manual', headers })).status).toBe(303)
  const [app] = [...github.apps.values()]
  if (!app) throw new Error('The app was not registered')
  github.install(app.id)
  const repository = github.createRepository('acme/playbook', { 'skills/a/SKILL.md': skill('a', '0') })
  expect((await call('PUT', '/repository', { repository: 'acme/playbook' })).status).toBe(200)
  await waitForCommit()

  /** The server is killed while it waits for these responses. */
  for (const [round, at] of [/\/git\/ref/, /\/trees\//, /\/blobs\//].entries()) {
    github.push(repository, {
      'skills/a/SKILL.md': skill('a', String(round + 1)),
      [`skills/b${round}/SKILL.md`]: skill(`b${round}`, 'New.'),
      [`skills/b${round - 1}/SKILL.md`]: null,
    })
    github.fail(at, 'hang')
    const before = github.asked.length
    const delivery = await github.pushDelivery(app, repository)
    const [{ id = '' } = {}] = await inlay.query<{ id: string }>("select id from organizations where slug = 'demo'")
    const accepted = await fetch(`${server.url}/api/org-github-apps/webhook/${id}`, delivery)
    expect(accepted.status, 'from then on, the push must not be lost').toBe(202)
    await vi.waitFor(() => expect(github.asked.slice(before).some((name) => at.test(name))).toBe(true), patience)
    await killAndRestart(server)
    await waitForCommit()
  }

  const stored = await inlay.query<{ name: string; content: string; version: number; versions: number }>(`
    select s.name, v.content, s.version, (select count(*)::int from organization_skill_versions w where w.skill_id = s.id) as versions
    from organization_skills s join organization_skill_versions v on v.skill_id = s.id and v.version = s.version
    where s.archived_at is null order by s.name`)
  expect(stored).toEqual([
    { name: 'a', content: skill('a', '3'), version: 4, versions: 4 },
    { name: 'b2', content: skill('b2', 'New.'), version: 1, versions: 1 },
  ])
  const events = await inlay.query<{ event: string; count: number }>(`
    select action || ' ' || (data->>'name') as event, count(*)::int as count from audit_events
    where action like 'skill.%' and actor = 'github:acme/playbook' group by 1 order by 1`)
  expect(events).toEqual([
    { event: 'skill.archived b0', count: 1 },
    { event: 'skill.archived b1', count: 1 },
    { event: 'skill.created a', count: 1 },
    { event: 'skill.created b0', count: 1 },
    { event: 'skill.created b1', count: 1 },
    { event: 'skill.created b2', count: 1 },
    { event: 'skill.updated a', count: 3 },
  ])
  expect(await inlay.run('audit verify')).toMatchObject({ code: 0 })
})
