import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { useInstallation, useUsedInstallation } from '../processes.ts'

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

  expect(await works('doctor')).toContain(
    `! stores         No Inlay server has used the data folder ${inlay.dataDir}. `,
  )
  expect(existsSync(inlay.dataDir), 'doctor changes nothing').toBe(false)
  expect(await works('migrate')).toMatch(
    /^Creating the database\n.*Applied \d+ migrations\nThe schema is up to date\n$/s,
  )
  expect(await fails('convert')).toContain('There is nothing to convert')
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
      fails('user second-factor-off --email nobody@example.com'),
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
  await inlay.query(`
    insert into second_factors (id, key_sealed, last_step)
    select id, 'sealed', 0 from users where email = 'ada@example.com'`)
  const turnOff = () => works('user second-factor-off --email ada@example.com')
  expect(await turnOff()).toBe('ada@example.com signs in with the password alone now.\n')
  expect(await turnOff()).toBe('ada@example.com has no second factor.\n')
  await inlay.query(`
    insert into passkeys (id, user_id, name, credential_id, public_key, counter)
    select gen_random_uuid(), id, 'Lost phone', 'x', 'x', 0 from users where email = 'ada@example.com'`)
  expect(await turnOff()).toContain(
    'They can still sign in with passkeys: Lost phone. To remove these too, add --passkeys',
  )
  const removePasskeys = () => works('user second-factor-off --email ada@example.com --passkeys')
  expect(await removePasskeys()).toContain('Removed passkeys: Lost phone\n')
  expect(await removePasskeys()).toContain('They have no passkeys.\n')
  await inlay.query(`update users set email_verified = false where email = 'bob@example.com'`)
  expect(await fails('user add --email bob@example.com --org demo')).toContain("its address isn't verified")
  expect(other, 'a taken name gets another slug').toMatch(/^Acme \(acme-\w+\), admin/)
  expect(refusals.map((text) => text.trim())).toEqual([
    'inlay: An account for ada@example.com already exists',
    `inlay: "not-an-address" isn't an email address`,
    'inlay: --role must be one of admin, member',
    'inlay: The slug "demo" is taken',
    'inlay: No user has the email address nobody@example.com. Add them with: npx inlay user add --email nobody@example.com',
    expect.stringContaining('inlay: --plan must be one of free'),
    'inlay: No user has the email address nobody@example.com. Add them with: npx inlay user add --email nobody@example.com',
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

test('the operator reads the receipt of a deleted organization, and audit verify names it', async () => {
  const inlay = useUsedInstallation()
  const server = await inlay.start()
  const token = await inlay.token('admin@other.test', 'other')
  const [organization] = await inlay.query<{ id: string }>(`select id from organizations where slug = 'other'`)
  const heads = join(inlay.dataDir, 'heads.txt')
  writeFileSync(heads, (await inlay.run('audit verify')).stdout)
  expect((await inlay.run('org deleted')).stdout.trim()).toBe('')

  const { body } = await server.call('POST', '/api/organizations/current/delete', { token, body: { slug: 'other' } })
  expect(body).toMatchObject({ finished_at: expect.any(String) })
  for (const command of ['org deleted', `org deleted --id ${organization?.id}`])
    expect((await inlay.run(command)).stdout).toMatch(
      new RegExp(`^${body.id}\\t${body.organization_hash}\\tdeleted \\S+\\terased \\S+\\t\\d+ rows\\n$`),
    )
  expect((await inlay.run(`org deleted --id ${body.id}`)).stdout.trim()).toBe('')
  const verified = await inlay.run(`audit verify --from ${heads}`)
  expect(verified.stdout).toContain(`${organization?.id}: MISSING: an administrator deleted the organization on`)
  expect(verified.stdout).toContain(body.id)
  expect(verified.stdout).toMatch(/^demo: \d+ rows?/m)
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

test('a misspelled setting is reported with the right name, and the server still starts', async () => {
  const inlay = useUsedInstallation({ INLAY_LOGLEVEL: 'debug' })
  const warning = "INLAY_LOGLEVEL isn't a setting and has no effect. Did you mean INLAY_LOG_LEVEL?"
  const doctor = await inlay.run('doctor')
  expect(doctor).toMatchObject({ code: 0, stdout: expect.stringContaining(`! configuration  ${warning}\n`) })
  const server = await inlay.start()
  server.signal('SIGTERM')
  expect(await server.finished).toMatchObject({ code: 0, stderr: `inlay: WARNING: ${warning}\n` })
})

test.each(['token --email admin@demo.test', 'audit verify'])(
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

function expectHealthy(findings: string): void {
  const lines = findings.trim().split('\n')
  expect(lines.map((line) => line.split(/ +/, 2).join(' '))).toEqual(
    [
      'runtime',
      'configuration',
      'disk',
      'database',
      'partitions',
      'key-value',
      'clock',
      'jobs',
      'server',
      'sign-in',
      'model',
    ].map((name) => `✓ ${name}`),
  )
}
