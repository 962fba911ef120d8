import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type DnsServer, startDnsServer } from '../../../test/dns-server.ts'
import { runJob, startTestService, type TestService } from '../../../test/harness.ts'
import { startTestProvider, type TestProvider } from '../../../test/oidc-provider.ts'
import { connectDirectory } from '../../../test/scim.ts'
import { acceptInvitation, listMyInvitations } from '../../organizations/organizations/invitations.ts'
import { takeHandoff } from '../sign-in/sign-in.ts'
import { domainCheck } from './domain-checks.ts'
import { organizationSignInPath } from './pages.ts'
import { findOrganizationByEmail, hasWaysIn, signInPlanCheck } from './ways-in.ts'

const returnTo = '/oauth/interaction/one'
const ann = { sub: 'ann', email: 'Ann@Acme.Example', name: 'Ann' }

let provider: TestProvider
let dns: DnsServer
let app: TestService
let token: string
let demo: string

beforeAll(async () => {
  provider = await startTestProvider()
  dns = await startDnsServer()
})
afterAll(async () => {
  await provider.stop()
  await dns.stop()
})

beforeEach(async () => {
  app = await startTestService({ INLAY_DNS_SERVERS: dns.address })
  token = await app.tokenFor('admin@demo.test', 'demo')
  demo = await app.organization('demo')
  await provider.expect(ann)
})
afterEach(async () => {
  dns.records.clear()
  dns.isBroken = false
  await app.close()
})

const path = '/organizations/current/sign-in'
const settings = () => ({
  issuer: provider.issuer,
  client_id: 'inlay',
  client_secret: 'secret-of-inlay-at-the-provider',
})

const request = (method: string, at = '', body?: unknown, as = token) =>
  app.request(method, `${path}${at}`, { token: as, body })

async function addDomain(domain = 'acme.example') {
  const { body } = await request('POST', '/domains', { domain })
  return body as { id: string; record_name: string; record_value: string }
}

async function verifyDomain(domain = 'acme.example') {
  const { id, record_name, record_value } = await addDomain(domain)
  dns.records.set(record_name, [record_value])
  const { body } = await request('POST', `/domains/${id}/verify`)
  expect(body).toMatchObject({ status: 'verified', problem: null })
  return { id, record_name, record_value }
}

/** Sets up everything that a user needs to sign in. */
async function setUp(more: object = {}) {
  const domain = await verifyDomain()
  const { body } = await request('PUT', '', { ...settings(), ...more })
  expect(body).toMatchObject({ is_active: true, reason: null })
  return domain
}

/** Signs in as a browser does. */
async function signIn(organizationId = demo) {
  const start = await app.fetch(organizationSignInPath(organizationId, returnTo))
  const cookie = start.headers.getSetCookie()[0]?.split(';')[0] ?? ''
  const back = new URL(await provider.visit(start.headers.get('location') ?? ''))
  const response = await app.fetch(back.pathname + back.search, { headers: { cookie } })
  const location = response.headers.get('location')
  const handoff = location ? new URL(location).searchParams.get('handoff') : null
  const user = handoff ? await takeHandoff(app.service, handoff, returnTo) : undefined
  return { status: response.status, text: await response.text(), user }
}

const readUser = async () =>
  (
    await app.service.database.asService(
      (sql) => sql<{ id: string; issuer: string; email: string; email_verified: boolean; session_generation: number }>`
        select id, issuer, email, email_verified, session_generation from users where subject = 'ann'`,
    )
  )[0]

const listActions = () =>
  app.service.database.asOrg(demo, (sql) => sql<{ action: string }>`select action from audit_events`)

const invite = (email: string) =>
  app.request('POST', '/organizations/current/invitations', { token, body: { email, role: 'member' } })

describe('the settings', () => {
  test('are empty at first, and show the redirect URI to register', async () => {
    const { body } = await request('GET')
    expect(body).toEqual({
      is_active: false,
      reason: 'No provider is set.',
      redirect_uri: `http://localhost:8787/sign-in/organization/${demo}/callback`,
      provider: null,
      domains: [],
    })
  })

  test('keep the secret sealed and show its last four characters', async () => {
    const { body } = await request('PUT', '', settings())
    expect(body.provider).toMatchObject({ client_secret_last4: 'ider', joins_on_first_sign_in: false })
    expect(JSON.stringify(body)).not.toContain(settings().client_secret)
    const [row] = await app.service.database.asOrg(
      demo,
      (sql) => sql<{ client_secret_sealed: string }>`select client_secret_sealed from sign_in_providers`,
    )
    expect(row?.client_secret_sealed).not.toContain('secret')
  })

  test('keep the secret for the same issuer only', async () => {
    await request('PUT', '', settings())
    const { client_secret, ...rest } = settings()
    const kept = await request('PUT', '', { ...rest, client_id: 'another' })
    expect(kept.body.provider).toMatchObject({ client_id: 'another', client_secret_last4: 'ider' })
    const moved = await request('PUT', '', { ...rest, issuer: 'https://evil.example.com' })
    expect(moved.body.data).toMatchObject({ code: 'VALIDATION_ERROR', field: 'client_secret' })
    const open = await request('PUT', '', { ...rest, client_secret: null })
    expect(open.body.provider.client_secret_last4).toBe('')
  })

  test.each([
    ['issuer', { issuer: 'ftp://sso.example.com' }],
    ['issuer', { issuer: 'https://sso.example.com/?x' }],
    ['issuer', { issuer: `https://sso.example.com/${'x'.repeat(500)}` }],
    ['client_id', { client_id: '' }],
    ['client_secret', { client_secret: 'short' }],
  ])('refuse an invalid %s', async (field, change) => {
    const { status, body } = await request('PUT', '', { ...settings(), ...change })
    expect({ status, field: body.data.field }).toEqual({ status: 400, field })
  })

  test('need a plan with single sign-on', async () => {
    const other = await app.tokenFor('admin@other.test', 'other')
    expect((await request('PUT', '', settings(), other)).status).toBe(403)
    expect((await request('POST', '/domains', { domain: 'acme.example' }, other)).body.code).toBe('PAYMENT_REQUIRED')
  })
})

describe('a domain', () => {
  test.each(['_inlay.acme.example', 'acme.example'])('is proven by a TXT record at %s', async (name) => {
    const { id, record_value } = await addDomain()
    const before = await request('POST', `/domains/${id}/verify`)
    expect(before.body).toMatchObject({ status: 'pending', problem: expect.stringContaining(record_value) })
    dns.records.set(name, ['v=spf1 -all', record_value])
    const after = await request('POST', `/domains/${id}/verify`)
    expect(after.body).toMatchObject({ status: 'verified', problem: null })
  })

  test('is not proven by the record of another organization, nor if the DNS fails', async () => {
    const { id, record_name, record_value } = await addDomain()
    dns.records.set(record_name, [`${record_value}x`])
    const wrong = await request('POST', `/domains/${id}/verify`)
    expect(wrong.body).toMatchObject({ status: 'pending', problem: expect.stringContaining('another') })
    dns.isBroken = true
    const broken = await request('POST', `/domains/${id}/verify`)
    expect(broken.body).toMatchObject({ status: 'pending', problem: expect.stringContaining('ESERVFAIL') })
  })

  test('belongs to one organization', async () => {
    const other = await app.organization('other')
    await app.service.database.asOrg(other, async (sql) => {
      await sql`insert into sign_in_domains (organization_id, id, domain, token, verified_at)
                values (current_organization(), gen_random_uuid(), 'acme.example', 'other', now())`
    })
    const { id, record_name, record_value } = await addDomain()
    dns.records.set(record_name, ['inlay-verification=other', record_value])
    const { status, body } = await request('POST', `/domains/${id}/verify`)
    expect({ status, code: body.data.code }).toEqual({ status: 409, code: 'DUPLICATE_RESOURCE' })
  })

  test('changes hands when the old owner’s record is gone, and their sign-ins end at once', async () => {
    const old = await setUp({ joins_on_first_sign_in: true })
    await signIn()
    await app.service.database.asOrg(await app.organization('other'), async (sql) => {
      await sql`update organizations set plan_id = 'enterprise'`
    })
    const other = await app.tokenFor('admin@other.test', 'other')
    const { body: added } = await request('POST', '/domains', { domain: 'acme.example' }, other)
    const verify = async () => (await request('POST', `/domains/${added.id}/verify`, undefined, other)).status
    dns.records.set(added.record_name, [old.record_value, added.record_value])
    expect(await verify(), 'both have a record').toBe(409)
    dns.records.set(added.record_name, [added.record_value])
    expect(await verify()).toBe(200)
    expect((await request('GET')).body).toMatchObject({ is_active: false, domains: [{ status: 'pending' }] })
    expect(await readUser()).toMatchObject({ email_verified: false, session_generation: 1 })
  })

  test.each(['com', '127.0.0.1', 'acme', 'a b.example', 'acme.example/path'])('can’t be %s', async (domain) => {
    expect((await request('POST', '/domains', { domain })).body.data.field).toBe('domain')
  })

  test('is limited to twenty of an organization', async () => {
    for (let n = 0; n < 20; n += 1) await addDomain(`a${n}.example`)
    expect((await request('POST', '/domains', { domain: 'b.example' })).status).toBe(400)
    expect((await request('POST', '/domains', { domain: 'a1.example' })).status).toBe(409)
  })
})

describe('a sign-in', () => {
  test('is found by the domain of an address only', async () => {
    expect(await hasWaysIn(app.service)).toBe(false)
    await setUp()
    expect(await hasWaysIn(app.service)).toBe(true)
    const found = [
      'nobody@acme.example',
      'x@ACME.example',
      'x@sub.acme.example',
      'x@other.example',
      'acme.example',
      'a@b@acme.example',
    ]
    expect(await Promise.all(found.map((email) => findOrganizationByEmail(app.service, email)))).toEqual([
      demo,
      demo,
      undefined,
      undefined,
      undefined,
      undefined,
    ])
  })

  test('leads to the provider with state, nonce, PKCE and a redirect URI of the organization', async () => {
    await setUp()
    const start = await app.fetch(organizationSignInPath(demo, returnTo))
    const { origin, searchParams } = new URL(start.headers.get('location') ?? '')
    expect(origin).toBe(provider.issuer)
    expect(Object.fromEntries(searchParams)).toMatchObject({
      redirect_uri: `http://localhost:8787/sign-in/organization/${demo}/callback`,
      state: expect.stringMatching(/^[\w-]{43}$/),
      nonce: expect.stringMatching(/^[\w-]{43}$/),
      code_challenge_method: 'S256',
    })
  })

  test.each(['https://169.254.169.254', 'https://10.0.0.1'])('doesn’t connect to %s', async (issuer) => {
    await setUp({ issuer })
    const start = await app.fetch(organizationSignInPath(demo, returnTo))
    expect([start.status, await start.text()]).toEqual([503, expect.stringContaining('isn’t responding')])
    expect(app.logged()).toContain('is not a public address')
  })

  test('of a stranger creates nothing, and says whom to ask', async () => {
    await setUp()
    const { status, text, user } = await signIn()
    expect({ status, user }).toEqual({ status: 403, user: undefined })
    expect(text).toContain('Ask an administrator of Demo to invite ann@acme.example')
    expect(await readUser()).toBeUndefined()
  })

  test('of an invited user makes them a user of this organization’s provider with a verified address', async () => {
    await setUp()
    await invite('ann@acme.example')
    const { user } = await signIn()
    expect(await readUser()).toEqual({
      id: user?.id,
      issuer: `org:${demo}:${provider.issuer}`,
      email: 'ann@acme.example',
      email_verified: true,
      session_generation: 0,
    })
  })

  test('doesn’t trust an address that the provider calls unverified', async () => {
    await setUp({ joins_on_first_sign_in: true })
    await invite('ann@acme.example')
    await provider.expect({ ...ann, email_verified: false })
    expect((await signIn()).text).toContain('You’re not a member of Demo')
  })

  test('with an address in another domain is refused', async () => {
    await setUp({ joins_on_first_sign_in: true })
    await provider.expect({ ...ann, email: 'admin@demo.test' })
    const { text, user } = await signIn()
    expect(user).toBeUndefined()
    expect(text).toContain('hasn’t verified its domain')
  })

  test('of a user whom a directory deactivated is refused in an international domain too, however it is spelled', async () => {
    await setUp({ joins_on_first_sign_in: true })
    await verifyDomain('bücher.example')
    const directory = await connectDirectory(app)
    await directory.addUser('Ann@Bücher.example', { active: false })
    await provider.expect({ ...ann, email: 'ann@xn--bcher-kva.example' })
    expect((await signIn()).text).toContain('You’re not a member of Demo')
    await provider.expect({ ...ann, sub: 'bo', email: 'bo@bücher.example' })
    expect((await signIn()).user, 'others join').toMatchObject({ email: 'bo@xn--bcher-kva.example' })
  })

  test('with a letter that looks like the invited address’s is refused', async () => {
    await setUp()
    await invite('mike@acme.example')
    await provider.expect({ ...ann, email: 'mi\u212ae@acme.example' })
    expect((await signIn()).text).toContain('You’re not a member of Demo')
    await provider.expect({ ...ann, email: 'MIKE@acme.example' })
    expect((await signIn()).user).toMatchObject({ email: 'mike@acme.example' })
  })

  test('makes a member once if the organization wants that, and not again after a removal', async () => {
    await setUp({ joins_on_first_sign_in: true })
    const { user } = await signIn()
    const members = async () => (await app.request('GET', '/organizations/current/members', { token })).body
    const added = (await members()).find((member: { user: { id: string } }) => member.user.id === user?.id)
    expect(added).toMatchObject({ role: 'member' })
    expect((await signIn()).user?.id).toBe(user?.id)
    await app.request('DELETE', `/organizations/current/members/${added.id}`, { token })
    expect((await signIn()).text).toContain('You’re not a member of Demo')
  })

  test('that finds no seat is explained, and leaves no account', async () => {
    await setUp({ joins_on_first_sign_in: true })
    const plans = app.service.config.plans.map((plan) =>
      plan.id === 'enterprise' ? { ...plan, limits: { ...plan.limits, seats: 1 } } : plan,
    )
    Object.assign(app.service.config, { plans })
    expect((await signIn()).text).toContain('no free seat')
    expect(await readUser()).toBeUndefined()
  })

  test('never reaches another account with the same address', async () => {
    await setUp({ joins_on_first_sign_in: true })
    const own = await signIn()
    const [stranger] = await app.service.database.asService(
      (sql) => sql<{ id: string }>`
        insert into users (id, issuer, subject, email, email_verified, name)
        values (gen_random_uuid(), ${provider.issuer}, 'ann', 'ann@acme.example', true, 'Ann') returning id`,
    )
    expect((await signIn()).user?.id).toBe(own.user?.id)
    expect(own.user?.id).not.toBe(stranger?.id)
  })

  test('gives the new account a membership of its own, if the address is invited again', async () => {
    await setUp()
    await provider.expect({ ...ann, email: 'bo@acme.example' })
    const email = 'bo@acme.example'
    const [{ id: local } = { id: '' }] = await app.service.database.asService(
      (sql) => sql<{ id: string }>`
        insert into users (id, issuer, subject, email, email_verified, name)
        values (gen_random_uuid(), 'local', ${email}, ${email}, true, 'Bo') returning id`,
    )
    await app.service.database.asOrg(
      demo,
      (sql) => sql`
        insert into members (organization_id, id, user_id, role)
        values (current_organization(), gen_random_uuid(), ${local}, 'admin')`,
    )
    expect((await invite(email)).status).toBe(200)
    const { user } = await signIn()
    const [invitation] = await listMyInvitations(app.service, { user: { id: user?.id ?? '' } })
    await expect(acceptInvitation(app.service, { user: { id: local } }, { id: invitation?.id ?? '' })).rejects.toThrow()
    await acceptInvitation(app.service, { user: { id: user?.id ?? '' } }, { id: invitation?.id ?? '' })
    expect((await invite(email)).status, 'both are members').toBe(409)
    expect((await invite('admin@demo.test')).status, 'not in a proven domain').toBe(409)
  })

  test('can’t be finished in another browser, or at another organization', async () => {
    await setUp({ joins_on_first_sign_in: true })
    const start = await app.fetch(organizationSignInPath(demo, returnTo))
    const back = new URL(await provider.visit(start.headers.get('location') ?? ''))
    const stolen = await app.fetch(back.pathname + back.search)
    expect(stolen.status).toBe(400)
    const other = await app.organization('other')
    const elsewhere = await app.fetch(`/sign-in/organization/${other}/callback${back.search}`)
    expect(elsewhere.status).toBe(404)
    expect((await app.fetch('/sign-in/organization/x?return_to=/')).status).toBe(404)
  })

  test('doesn’t let the user create organizations', async () => {
    await setUp({ joins_on_first_sign_in: true })
    const { user } = await signIn()
    const { createOrganization } = await import('../../organizations/organizations/organizations.ts')
    const caller = { user: { id: user?.id ?? '', email: '', name: '', avatar_url: '' } }
    await expect(createOrganization(app.service, caller, { name: 'Mine' })).rejects.toMatchObject({
      envelope: { data: { code: 'ACCESS_DENIED' } },
    })
  })
})

describe('the way in, and the sessions that came through it, end', () => {
  let domainId: string
  beforeEach(async () => {
    domainId = (await setUp({ joins_on_first_sign_in: true })).id
    await signIn()
    expect(await readUser()).toMatchObject({ session_generation: 0, email_verified: true })
  })

  async function expectEnd() {
    expect(await readUser()).toMatchObject({ session_generation: 1, email_verified: false })
    expect((await app.fetch(organizationSignInPath(demo, returnTo))).status).toBe(404)
    expect(await findOrganizationByEmail(app.service, 'ann@acme.example')).toBeUndefined()
    expect((await listActions()).map(({ action }) => action)).toContain('sign_in_provider.sessions_ended')
  }

  const age = (change: 'checked_at' | 'missing_since', days: number) =>
    app.service.database.asOrg(demo, (sql) =>
      change === 'checked_at'
        ? sql`update sign_in_domains set checked_at = now() - make_interval(days => ${days})`
        : sql`update sign_in_domains set missing_since = now() - make_interval(days => ${days})`,
    )

  test('when the provider is deleted', async () => {
    await request('DELETE')
    await expectEnd()
  })

  test('when the domain is removed', async () => {
    await request('DELETE', `/domains/${domainId}`)
    await expectEnd()
  })

  test('when the plan no longer includes it', async () => {
    await app.service.database.asOrg(demo, (sql) => sql`update organizations set plan_id = 'free'`)
    await runJob(app, demo, signInPlanCheck)
    await expectEnd()
    expect(await hasWaysIn(app.service), 'the sign-in page no longer asks').toBe(false)
    await runJob(app, demo, signInPlanCheck)
    expect((await readUser())?.session_generation, 'once').toBe(1)
  })

  test('when the organization is deleted', async () => {
    const { status } = await app.request('POST', '/organizations/current/delete', { token, body: { slug: 'demo' } })
    expect(status).toBe(200)
    expect(await readUser(), 'the account is deleted too').toBeUndefined()
    expect((await app.fetch(organizationSignInPath(demo, returnTo))).status).toBe(404)
  })

  test('when the issuer changes', async () => {
    await request('PUT', '', { ...settings(), issuer: 'https://sso.example.com' })
    expect(await readUser()).toMatchObject({ session_generation: 1, email_verified: false })
  })

  test('when the record has been missing for a week, with a line in the diagnostics', async () => {
    dns.records.clear()
    await age('checked_at', 2)
    await runJob(app, demo, domainCheck, domainId)
    expect((await request('GET')).body).toMatchObject({ is_active: true, domains: [{ status: 'missing' }] })
    await age('missing_since', 8)
    await runJob(app, demo, domainCheck, domainId)
    expect((await readUser())?.session_generation, 'checked once a day').toBe(0)
    await age('checked_at', 2)
    await runJob(app, demo, domainCheck, domainId)
    await expectEnd()
    await app.service.activity.flush()
    const { body } = await app.request('GET', '/diagnostics/refusals?surface=sign_in', { token })
    expect(body.refusals).toMatchObject([{ step: 'domain', message: expect.stringContaining('acme.example') }])
  })

  test('but not while the DNS doesn’t respond, or when the record is back', async () => {
    await age('checked_at', 2)
    await age('missing_since', 8)
    dns.isBroken = true
    await runJob(app, demo, domainCheck, domainId)
    expect(await readUser()).toMatchObject({ session_generation: 0 })
    dns.isBroken = false
    await age('checked_at', 2)
    await runJob(app, demo, domainCheck, domainId)
    expect((await request('GET')).body).toMatchObject({ is_active: true, domains: [{ status: 'verified' }] })
  })

  test('but not when only the secret changes', async () => {
    await request('PUT', '', { ...settings(), client_secret: 'another-secret' })
    expect(await readUser()).toMatchObject({ session_generation: 0, email_verified: true })
  })
})
