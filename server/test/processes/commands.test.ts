import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { LLMock } from '@copilotkit/aimock'
import { expect, onTestFinished, test } from 'vitest'
import { startTestProvider } from '../oidc-provider.ts'
import { useInstallation } from '../processes.ts'

test('the commands work with and without a server', async () => {
  const inlay = useInstallation()
  const works = async (command: string) => {
    const { code, stdout, stderr } = await inlay.run(command)
    expect({ command, code, stderr }).toEqual({ command, code: 0, stderr: '' })
    return stdout
  }
  const fails = async (command: string) => {
    const { code, stdout, stderr } = await inlay.run(command)
    expect({ command, code, stdout }).toEqual({ command, code: 1, stdout: '' })
    expect(stderr, 'a sentence, not a stack trace').toMatch(/^inlay: (?!.*\n {4}at )/s)
    return stderr
  }

  expect(await works('migrate')).toBe('The schema is up to date\n')
  expect(inlay.postmaster(), 'a command stops the PostgreSQL that it started').toBeUndefined()
  expect(await works('user add --email Ada@Example.com --name Ada')).toContain('ada@example.com')
  expect(await works('org add --name Acme --admin ada@example.com')).toBe('Acme (acme), admin ada@example.com\n')
  expect(await works('token --email ada@example.com --org acme')).toMatch(/^eyJ\S+\n$/)
  const beforeStart = await works('doctor')
  expectHealthy(beforeStart)
  expect(beforeStart).toContain('✓ server         not running\n')
  expect(inlay.postmaster()).toBeUndefined()

  const server = await inlay.start()
  const token = await inlay.token('ada@example.com', 'acme')
  const inside = await server.call('GET', '/api/users/me', { token })
  expect(inside).toMatchObject({ status: 200, body: { email: 'ada@example.com', name: 'Ada' } })
  expect(await works('demo usage'), 'the first start has added it').toBe('Demo: the demo usage is complete\n')
  const [joined, link, other, refusals, verified, health] = await Promise.all([
    works('user add --email bob@example.com --org acme --role admin'),
    works('user password --email ada@example.com'),
    works('org add --name Acme --admin ada@example.com --plan free'),
    Promise.all([
      fails('user add --email ada@example.com'),
      fails('user add --email not-an-address'),
      fails('user add --email carl@example.com --org acme --role king'),
      fails('org add --name Other --admin ada@example.com --slug demo'),
      fails('org add --name Other --admin nobody@example.com'),
      fails('org add --name Other --admin ada@example.com --plan golden'),
      fails('user password --email nobody@example.com'),
      fails('user add --email carl@example.com --role admin'),
      fails('user list --org nowhere'),
      fails('key add --org acme --name Shop --origins shop.example'),
      fails('key add --org nowhere --name Shop'),
      fails('key add --name Shop'),
      fails('key add --org acme --name Shop --origins https://one.example,https://two.example'),
    ]),
    works('audit verify'),
    works('doctor'),
  ])
  expect(joined).toContain('bob@example.com, admin of acme.')
  for (const text of [joined, link]) {
    const address = text.match(/http:\/\/localhost:\d+\/sign-in\/set-password\?token=\S+/)?.[0] ?? ''
    expect((await fetch(address)).status, 'a link to set a password').toBe(200)
  }
  const known = await works('user add --email ada@example.com --org demo')
  expect(known, 'an existing user keeps their password').not.toContain('set-password')
  expect(other, 'a taken name gets another slug').toMatch(/^Acme \(acme-\w+\), admin/)
  expect(refusals.map((text) => text.trim())).toEqual([
    'inlay: An account for ada@example.com already exists',
    `inlay: "not-an-address" isn't an email address`,
    'inlay: --role must be one of admin, member',
    'inlay: The slug "demo" is taken',
    'inlay: No user has the email address nobody@example.com. Add them with: npx inlay user add --email nobody@example.com',
    expect.stringContaining('inlay: --plan must be one of free'),
    'inlay: No user has the email address nobody@example.com. Add them with: npx inlay user add --email nobody@example.com',
    'inlay: --role needs --org, because a user has a role per organization',
    'inlay: No organization has the slug "nowhere"',
    expect.stringContaining("inlay: --origins isn't valid: "),
    'inlay: No organization has the slug "nowhere"',
    'inlay: --org is missing',
    expect.stringMatching(/^inlay: .*site/),
  ])
  expect(verified).toMatch(/^acme: \d+ rows?, head [0-9a-f-]{36}:\d+:[0-9a-f]{64}$/m)
  expectHealthy(health)
  expect(health, 'regardless of PORT').toContain(`✓ server         running at ${server.url}\n`)
  const events = await inlay.query<{ actor: string; action: string; email: string }>(`
    select actor, action, email from audit_events e
    join organizations o on o.id = e.organization_id join users u on u.id::text = e.target
    where slug = 'acme' order by sequence`)
  expect(events.map(({ actor, action, email }) => `${actor} ${action} ${email}`)).toEqual(
    expect.arrayContaining([
      'operator token.issued ada@example.com',
      'operator user.password_link_issued ada@example.com',
      'operator user.password_link_issued bob@example.com',
    ]),
  )
  const [users, ofAcme, organizations, key] = await Promise.all([
    works('user list'),
    works('user list --org acme'),
    works('org list'),
    works('key add --org acme --name Shop --origins https://shop.example'),
  ])
  expect(users.split('\n')).toEqual(
    expect.arrayContaining([
      expect.stringMatching(/^ada@example\.com\tAda\tadmin of acme, admin of acme-\w+, member of demo$/),
      'bob@example.com\tbob\tadmin of acme',
      expect.stringMatching(/^nobody@demo\.test\t[^\t]+\tno organization$/),
    ]),
  )
  expect(ofAcme).toMatch(/^ada@example\.com\t.*\nbob@example\.com\t.*\n$/)
  expect(organizations).toMatch(/^acme\tAcme\tplan free\t2 members\nacme-\w+\tAcme\tplan free\t1 member\n/)
  expect(key).toMatch(/^pk_test_\w+\n$/)

  const bob = await inlay.token('bob@example.com', 'acme')
  const { body: listed } = await server.call('GET', '/api/publishable-keys', { token: bob })
  expect(listed.keys).toMatchObject([{ name: 'Shop', allowed_origins: ['https://shop.example'], can_reveal: true }])
  const revealed = await server.call('POST', `/api/publishable-keys/${listed.keys[0].id}/reveal`, { token: bob })
  expect(revealed.body).toEqual({ key: key.trim() })
  const added = `select actor from audit_events where action = 'publishable_key.created' and target = $1`
  expect(await inlay.query(added, [listed.keys[0].id])).toEqual([{ actor: 'operator' }])
  const created = await server.call('POST', '/api/publishable-keys', { token: bob, body: { name: 'of bob' } })
  expect(created.status).toBe(200)

  const report = join(inlay.dataDir, 'heads.txt')
  writeFileSync(report, await works('audit verify'))
  const head = readFileSync(report, 'utf8').match(/^demo: .* head (\S+)$/m)?.[1]
  expect(await works(`audit verify --from ${report}`)).toMatch(/^acme: \d+ rows?/)
  expect(await works(`audit verify --from ${head} --org demo`)).toMatch(/^demo: \d+ rows?/)
  expect(await fails('audit verify --from /nowhere')).toBe(
    "inlay: --from must be a head or a file with heads, but /nowhere can't be read\n",
  )
  expect(await fails(`audit verify --from ${join(import.meta.dirname, 'commands.test.ts')}`)).toContain(
    'contains no heads',
  )
  // Deletes the last row of one organization and everything of another, as an attacker with database access could.
  await inlay.query(`
    with cut as (
      delete from audit_events where organization_id = (select id from organizations where slug = 'demo')
      and sequence = (select length from audit_chains join organizations o on o.id = organization_id where slug = 'demo'))
    update audit_chains c set length = c.length - 1, hash = e.hash from audit_events e, organizations o
    where o.slug = 'demo' and c.organization_id = o.id and e.organization_id = o.id and sequence = c.length - 1`)
  await inlay.query(`delete from organizations where slug = 'other'`)
  expect(await works('audit verify'), 'the remaining rows are valid').not.toContain('other')
  const cut = await inlay.run(`audit verify --from ${report}`)
  expect(cut).toMatchObject({ code: 1, stderr: expect.stringContaining('tampered with') })
  expect(cut.stdout).toMatch(
    /^demo: BROKEN at row \d+: rows up to \d+ are missing, although an earlier head includes them$/m,
  )
  expect(cut.stdout).toMatch(/^[0-9a-f-]{36}: MISSING: /m)

  await inlay.query(`
    update audit_events set actor = 'somebody else'
    where sequence = 2 and organization_id = (select id from organizations where slug = 'acme')`)
  const [tampered, untouched] = await Promise.all([inlay.run('audit verify'), works('audit verify --org demo')])
  expect(tampered).toMatchObject({ code: 1, stderr: expect.stringContaining('tampered with') })
  expect(tampered.stdout).toMatch(/^acme: BROKEN at row 2: /m)
  expect(tampered.stdout, 'the others are still checked').toMatch(/^demo: \d+ rows?/m)
  expect(untouched).toMatch(/^demo: \d+ rows?/)
})

test('problems are explained in a sentence, with what to do', async () => {
  const inlay = useInstallation()
  const wrongDatabase = {
    DATABASE_URL: 'postgres://someone:hidden-word@127.0.0.1:1/nothing',
    INLAY_SECRET: randomBytes(32).toString('base64'),
  }
  const [unknown, option, value, help, sick, lost, unstarted] = await Promise.all([
    inlay.run('dance'),
    inlay.run('token --emial ada@example.com'),
    inlay.run('start now'),
    inlay.run('help'),
    inlay.run('doctor', wrongDatabase),
    inlay.run('token --email ada@example.com', wrongDatabase),
    inlay.run('start', wrongDatabase),
  ])
  for (const { code, stdout } of [unknown, option, value, lost, unstarted]) {
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  }
  expect(unknown.stderr).toContain('inlay: Unknown command "dance".')
  expect(unknown.stderr).toContain('Usage: npx inlay <command>')
  expect(option.stderr).toContain("Unknown option '--emial'")
  expect(option.stderr).toContain('Usage: npx inlay token [--url http://localhost:8787] | token --email <address>')
  expect(value.stderr).toContain('Usage: npx inlay start')
  expect(await inlay.run('--version')).toEqual({
    code: 0,
    stdout: `${JSON.parse(readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8')).version}\n`,
    stderr: '',
  })
  expect(help).toMatchObject({ code: 0, stderr: '', stdout: unknown.stderr.slice(unknown.stderr.indexOf('Usage')) })

  expect(sick.code).toBe(1)
  expect(sick.stdout.split('\n').filter((line) => line.startsWith('✗'))).toEqual([
    expect.stringMatching(/^✗ stores .*ECONNREFUSED.* Check DATABASE_URL\.$/),
  ])
  for (const { stderr } of [lost, unstarted]) {
    expect(stderr).toMatch(/^inlay: Can't use the database: .*ECONNREFUSED.* Check DATABASE_URL\.\n$/)
  }
  for (const { stdout, stderr } of [sick, lost, unstarted]) expect(stdout + stderr).not.toContain('hidden-word')
})

test('an unusable Redis is reported with its setting', async () => {
  const inlay = useInstallation({ REDIS_URL: 'redis://:hidden-word@127.0.0.1:1' })
  const problem = "Can't use Redis: connect ECONNREFUSED 127.0.0.1:1. Check REDIS_URL."
  const [start, migrate] = [await inlay.run('start'), await inlay.run('migrate')]
  for (const { code, stderr } of [start, migrate])
    expect({ code, stderr }).toEqual({ code: 1, stderr: `inlay: ${problem}\n` })
  const doctor = await inlay.run('doctor')
  expect(doctor.stdout).toContain(`✗ stores         ${problem}\n`)
  for (const { stdout, stderr } of [start, migrate, doctor]) expect(stdout + stderr).not.toContain('hidden-word')
  expect(inlay.postmaster()).toBeUndefined()
})

test('an unusable data folder is reported with its setting', async () => {
  const inlay = useInstallation()
  mkdirSync(inlay.dataDir)
  const file = join(inlay.dataDir, 'file')
  writeFileSync(file, '')
  const folders = [file, join(file, 'below'), ...(process.platform === 'linux' ? ['/proc/inlay'] : [])]
  for (const folder of folders) {
    for (const env of [{}, { INLAY_SECRET: randomBytes(32).toString('base64') }]) {
      const { code, stdout, stderr } = await inlay.run('start', { INLAY_DATA_DIR: folder, ...env })
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
      expect(stderr).toMatch(/^inlay: Can't use the data folder .* \(INLAY_DATA_DIR\): .*\n$/)
      expect(stderr).toContain(folder)
    }
  }
  writeFileSync(join(inlay.dataDir, 'postgres'), 'in the way')
  const { code, stderr } = await inlay.run('start')
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: expect.stringMatching(/^inlay: Can't use the data folder: .* Check INLAY_DATA_DIR\.\n$/),
  })
})

test('a misspelled setting is reported with the right name, and the server still starts', async () => {
  const inlay = useInstallation({ INLAY_LOGLEVEL: 'debug' })
  const warning = "INLAY_LOGLEVEL isn't a setting and has no effect. Did you mean INLAY_LOG_LEVEL?"
  const doctor = await inlay.run('doctor')
  expect(doctor).toMatchObject({ code: 0, stdout: expect.stringContaining(`! configuration  ${warning}\n`) })
  const server = await inlay.start()
  server.signal('SIGTERM')
  expect(await server.finished).toMatchObject({ code: 0, stderr: `inlay: WARNING: ${warning}\n` })
})

test.each(['token --email admin@demo.test', 'user password --email admin@demo.test', 'audit verify', 'secret rotate'])(
  '"%s" on an unused data folder explains the problem and creates nothing there',
  async (command) => {
    const inlay = useInstallation()
    for (const env of [{}, { INLAY_SECRET: randomBytes(32).toString('base64') }]) {
      expect(await inlay.run(command, env)).toEqual({
        code: 1,
        stdout: '',
        stderr: expect.stringContaining(`inlay: No Inlay server has used the data folder ${inlay.dataDir}.`),
      })
    }
    expect(existsSync(inlay.dataDir)).toBe(false)
  },
)

test('doctor checks the sign-in provider, and explains what is wrong with it', async () => {
  const inlay = useInstallation()
  const provider = await startTestProvider()
  onTestFinished(() => provider.stop())
  const examine = async (env: Record<string, string>) => {
    const { stdout } = await inlay.run('doctor', env)
    return stdout.split('\n').find((line) => line.includes('sign-in'))
  }
  const client = { SIGN_IN_CLIENT_ID: 'inlay', SIGN_IN_CLIENT_SECRET: 'hidden-word' }
  const { issuer } = provider
  expect(await examine({})).toBe('✓ sign-in        with passwords; demo users with one click')
  expect(await examine({ SIGN_IN_ISSUER: issuer, ...client })).toBe(`✓ sign-in        at ${issuer}`)
  expect(await examine({ SIGN_IN_ISSUER: issuer, SIGN_IN_AUDIENCE: 'api' })).toBe(
    `✓ sign-in        with passwords, or access tokens from ${issuer}`,
  )
  expect(await examine({ SIGN_IN_ISSUER: `${issuer}/`, ...client })).toBe(
    `✗ sign-in        Can't use ${issuer}/: Expected the issuer ${issuer}/, but ${issuer}/.well-known/openid-configuration says ${issuer}. Check SIGN_IN_ISSUER.`,
  )
  expect(await examine({ SIGN_IN_ISSUER: 'http://10.0.0.1', ...client })).toMatch(
    /^✗ sign-in {8}Can't use http:\/\/10\.0\.0\.1: .* Check INLAY_ALLOWED_PRIVATE_NETWORKS\.$/,
  )
  await provider.stop()
  expect(await examine({ SIGN_IN_ISSUER: issuer, ...client })).toMatch(/^✗ sign-in .* Check SIGN_IN_ISSUER\.$/)
})

test('doctor calls the configured model, and explains what is wrong with it', async () => {
  const inlay = useInstallation()
  const mock = new LLMock({ port: 0, host: '127.0.0.1' })
  mock.onMessage('Reply with OK', { content: 'OK' })
  await mock.start()
  onTestFinished(() => mock.stop())
  const examine = async (env: Record<string, string>, installation = inlay) => {
    const { code, stdout } = await installation.run('doctor', env)
    return { code, line: stdout.split('\n').find((line) => line.includes(' model ')) }
  }
  const { host } = new URL(mock.url)
  const env = { MODEL_URL: `${mock.url}/v1`, MODEL_NAME: 'tiny', MODEL_KEY: 'hidden-word' }
  expect(await examine(env)).toEqual({
    code: 0,
    line: expect.stringMatching(
      new RegExp(`^✓ model {10}tiny: MODEL_URL is set, to ${host}\\. It responded in \\d+ ms\\.$`),
    ),
  })
  mock.reset().onMessage('Reply with OK', { error: { message: 'Wrong key: hidden-word' }, status: 401 })
  expect(await examine(env)).toEqual({
    code: 1,
    line: `✗ model          ${host} rejected the key (401). Check the key in the server's configuration. ${host} says: Wrong key: [removed]`,
  })
  const production = { INLAY_PUBLIC_URL: 'https://inlay.example.com', INLAY_SECRET: randomBytes(32).toString('base64') }
  expect(await examine(production, useInstallation())).toEqual({
    code: 0,
    line: expect.stringMatching(/^! model {10}No model is configured\. To use a real model, set MODEL_URL/),
  })
})

test('rotating a secret keeps all data readable, and the old secret stops working', async () => {
  const [oldSecret, newSecret] = [randomBytes(32).toString('base64'), randomBytes(32).toString('base64')]
  const inlay = useInstallation()
  const asAdmin = 'token --email admin@demo.test --org demo'
  const logins = async () => (await inlay.query(`select from pg_roles where rolname like 'inlay\\_service\\_%'`)).length
  const serve = async (secrets: string) => {
    const env = { INLAY_SECRET: secrets }
    const server = await inlay.start(env)
    const { stdout } = await inlay.run(asAdmin, env)
    return {
      call: (path: string, body?: unknown) => server.call('POST', path, { token: stdout.trim(), body }),
      async stop() {
        server.signal('SIGTERM')
        expect((await server.finished).code).toBe(0)
      },
    }
  }
  const before = await serve(oldSecret)
  const { id, key } = (await before.call('/api/publishable-keys', { name: 'sealed' })).body
  await before.stop()

  const both = { INLAY_SECRET: `${newSecret},${oldSecret}` }
  const during = await serve(both.INLAY_SECRET)
  expect(await during.call(`/api/publishable-keys/${id}/reveal`)).toEqual({ status: 200, body: { key } })
  expect(await logins()).toBe(2)
  const rotated = await inlay.run('secret rotate', both)
  expect(rotated).toMatchObject({
    code: 0,
    stderr: '',
    stdout: expect.stringMatching(/^Re-encrypted [1-9]\d* values?/),
  })
  expect(await logins(), 'the database no longer accepts logins of the old secret').toBe(1)
  expect(await inlay.run('secret rotate', both)).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^Re-encrypted 0/),
  })
  expect(await during.call(`/api/publishable-keys/${id}/reveal`)).toEqual({ status: 200, body: { key } })
  await during.stop()

  expect(await inlay.run('audit verify', { INLAY_SECRET: newSecret }), 'rows under the old secret too').toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^demo: \d+ rows?/),
  })

  const after = await serve(newSecret)
  expect(await after.call(`/api/publishable-keys/${id}/reveal`)).toEqual({ status: 200, body: { key } })
  expect(await logins()).toBe(1)
  await after.stop()

  for (const command of ['start', asAdmin]) {
    const { code, stderr } = await inlay.run(command, { INLAY_SECRET: oldSecret })
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringMatching(/^inlay: INLAY_SECRET isn't the secret/),
    })
  }
  expect(inlay.postmaster()).toBeUndefined()
})

function expectHealthy(findings: string): void {
  const lines = findings.trim().split('\n')
  expect(lines.map((line) => line.split(/ +/, 2).join(' '))).toEqual(
    ['runtime', 'configuration', 'disk', 'database', 'key-value', 'clock', 'server', 'sign-in', 'model'].map(
      (name) => `✓ ${name}`,
    ),
  )
}
