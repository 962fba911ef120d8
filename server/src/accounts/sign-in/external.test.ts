import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import fc from 'fast-check'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, onTestFinished, test } from 'vitest'
import { makeConfig, startTestService, type TestService, useTestService } from '../../../test/harness.ts'
import { startHttpService } from '../../../test/http-server.ts'
import { cert } from '../../../test/localhost-certificate.ts'
import { prepare, register } from '../../../test/oauth-client.ts'
import { startTestProvider, type TestProvider } from '../../../test/oidc-provider.ts'
import { createService } from '../../kernel/foundation/service.ts'
import { systemClock } from '../../kernel/lib/clock.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { createLog } from '../../kernel/lib/log.ts'
import { openStores } from '../../kernel/stores/stores.ts'
import { listMyInvitations } from '../../organizations/organizations/invitations.ts'
import { createSetupLink } from '../setup/setup.ts'
import { ownAddress } from './external.ts'
import { signInAsDemoUser, signInMethods, signInWithPassword, startExternalSignIn, takeHandoff } from './sign-in.ts'

const publicUrl = 'http://localhost:8787'
const clientSecret = 'secret-of-inlay-at-the-provider'
/** Redis has its own clock; expiry is tested with the store. */
const { redisUrl } = inject('engines')
const returnTo = '/oauth/interaction/one?step=2'
const ann = { sub: 'ann', email: 'Ann@Example.com', email_verified: true, name: 'Ann', picture: 'https://p.test/ann' }

let provider: TestProvider
beforeAll(async () => {
  provider = await startTestProvider()
})
afterAll(() => provider.stop())

const settings = (issuer = provider.issuer) => ({
  SIGN_IN_ISSUER: issuer,
  SIGN_IN_CLIENT_ID: 'inlay',
  SIGN_IN_CLIENT_SECRET: clientSecret,
})

let app: TestService
beforeEach(() => provider.expect(ann))

/** Acts as a browser, with or without the cookie that it was given. */
async function leave(to = returnTo, cookie = '', from = app) {
  const start = new URL(await startExternalSignIn(from.service, to))
  const response = await from.fetch(start.pathname + start.search, { headers: { cookie } })
  return {
    response,
    location: response.headers.get('location') ?? '',
    cookie: response.headers.getSetCookie()[0]?.split(';')[0] ?? '',
  }
}

async function comeBack(address: string, cookie: string, from = app) {
  const { pathname, search } = new URL(address)
  const response = await from.fetch(pathname + search, { headers: { cookie } })
  return { status: response.status, text: await response.text(), location: response.headers.get('location') ?? '' }
}

async function signIn(from = app, at = provider) {
  const { location, cookie } = await leave(returnTo, '', from)
  return comeBack(await at.visit(location), cookie, from)
}

/** Acts as the page that the browser returns to. */
const take = (location: string, on = app, path = new URL(location).pathname) =>
  takeHandoff(on.service, new URL(location).searchParams.get('handoff') ?? '', path)

const row = async (subject: string) =>
  (
    await app.service.database.asService(
      (sql) => sql`
        select id, issuer, subject, email, email_verified, name, avatar_url, password_hash from users
        where subject = ${subject}`,
    )
  )[0]

const expectNothingSecret = (text: string) => {
  for (const hidden of [clientSecret, 'code_verifier', 'eyJ']) expect(text).not.toContain(hidden)
}

describe('with a sign-in provider', () => {
  beforeEach(async () => {
    app = await startTestService(settings())
  })
  afterEach(async () => {
    await provider.behave({})
    await app.close()
  })

  test('offers neither passwords nor demo users', async () => {
    expect(signInMethods(app.service)).toEqual({
      external: true,
      local: false,
      passkeys: false,
      resets: false,
      demoUsers: [],
    })
    expect(await signInAsDemoUser(app.service, 'admin@demo.test', '203.0.113.7')).toBeUndefined()
    const guess = { email: 'admin@demo.test', password: 'x', address: '203.0.113.7' }
    expect(await signInWithPassword(app.service, guess)).toEqual({ is: 'wrong', waitSeconds: 0 })
    expect((await app.fetch('/sign-in/set-password?token=x')).status).toBe(404)
  })

  test('sends the browser to the provider with state, nonce and PKCE', async () => {
    const { response, location } = await leave()
    expect(response.status).toBe(302)
    const { origin, searchParams } = new URL(location)
    expect(origin).toBe(provider.issuer)
    const random = expect.stringMatching(/^[\w-]{43}$/)
    expect(Object.fromEntries(searchParams)).toEqual({
      client_id: 'inlay',
      redirect_uri: `${publicUrl}/sign-in/callback`,
      response_type: 'code',
      scope: 'openid email profile',
      state: random,
      nonce: random,
      code_challenge: random,
      code_challenge_method: 'S256',
    })
    expect(response.headers.getSetCookie()).toEqual([
      expect.stringMatching(/^inlay-sign-in=[\w-]{43}; Max-Age=600; Path=\/; HttpOnly; SameSite=Lax$/),
    ])
  })

  test('restricts the cookie to this host and TLS in production', async () => {
    const trusted = getCACertificates('default')
    setDefaultCACertificates([...trusted, cert])
    onTestFinished(() => setDefaultCACertificates(trusted))
    const strict = await startTestProvider({ tls: true })
    onTestFinished(() => strict.stop())
    await strict.expect(ann)
    const production = await useTestService({
      INLAY_PUBLIC_URL: 'https://inlay.example.com',
      INLAY_ALLOWED_PRIVATE_NETWORKS: '127.0.0.0/8',
      ...settings(strict.issuer),
    })
    const { response, location, cookie } = await leave(returnTo, '', production)
    expect(response.headers.getSetCookie()).toEqual([
      expect.stringMatching(/^__Host-inlay-sign-in=[\w-]{43}; Max-Age=600; Path=\/; HttpOnly; Secure; SameSite=Lax$/),
    ])
    const back = await comeBack(await strict.visit(location), cookie, production)
    expect(await take(back.location, production)).toMatchObject({ email: 'ann@example.com' })
  })

  test('creates a user once, finds them by issuer and subject, and hands them over once', async () => {
    const first = await signIn()
    expect(first.status).toBe(302)
    const address = new URL(first.location)
    expect(`${address.origin}${address.pathname}`).toBe(`${publicUrl}/oauth/interaction/one`)
    expect(address.searchParams.get('step')).toBe('2')
    const { id, ...rest } = (await row('ann')) as Record<string, unknown>
    expect(rest).toEqual({
      issuer: provider.issuer,
      subject: 'ann',
      email: 'ann@example.com',
      email_verified: true,
      name: 'Ann',
      avatar_url: 'https://p.test/ann',
      password_hash: null,
    })
    const taken = await Promise.all([take(first.location), take(first.location)])
    expect(taken.filter(Boolean)).toEqual([{ id, email: 'ann@example.com', name: 'Ann', session_generation: 0 }])

    await provider.expect({ ...ann, email: 'ann@new.example.com' })
    const again = await take((await signIn()).location)
    expect(again).toEqual({ id, email: 'ann@new.example.com', name: 'Ann', session_generation: 0 })
    await provider.expect({ ...ann, sub: 'another ann' })
    const other = await take((await signIn()).location)
    expect(other?.id, 'the same email address is not the same user').not.toBe(id)
  })

  test("records a sign-in in the user's organizations", async () => {
    const user = await take((await signIn()).location)
    const organizationId = await app.organization('demo')
    const trail = () =>
      app.service.database.asOrg(
        organizationId,
        (sql) => sql<{ actor: string; data: object }>`
          select actor, data from audit_events where action = 'user.signed_in' and target = ${user?.id}`,
      )
    expect(await trail()).toEqual([])
    await app.service.database.asOrg(
      organizationId,
      (sql) => sql`
        insert into members (organization_id, id, user_id, role)
        values (current_organization(), ${newId()}, ${user?.id}, 'member')`,
    )
    await signIn()
    const data = { method: 'provider', address: '127.0.0.1' }
    expect(await trail()).toEqual([{ actor: 'ann@example.com', data }])
  })

  test('accepts a handoff only on the page that asked for it', async () => {
    const { location } = await signIn()
    expect(await take(location, app, '/oauth/interaction/another')).toBeUndefined()
    expect(await take(location), 'the attempt has used it up').toBeUndefined()
  })

  test.skipIf(redisUrl)('expires a handoff after one minute', async () => {
    const { location } = await signIn()
    app.clock.now += 61_000
    expect(await take(location)).toBeUndefined()
  })

  test.each([
    [true, ['Demo']],
    [false, []],
    ['true', []],
    [undefined, []],
  ])(
    'with email_verified %s, a user can accept invitations of %j, and is a member of no organization',
    async (email_verified, names) => {
      const token = await app.tokenFor('admin@demo.test', 'demo')
      const body = { email: 'ann@example.com', role: 'member' }
      expect((await app.request('POST', '/organizations/current/invitations', { token, body })).status).toBe(200)
      await provider.expect({ ...ann, email_verified })
      const user = await take((await signIn()).location)
      const organizations = await app.service.database.asUser(user?.id ?? '', (sql) => sql`select from organizations`)
      expect(organizations).toEqual([])
      const open = await listMyInvitations(app.service, { user: { id: user?.id ?? '' } })
      expect(open.map(({ organization }) => organization.name)).toEqual(names)
    },
  )

  test('fetches an email address that the ID token lacks', async () => {
    const lean = await startTestProvider({ lean: true })
    try {
      await lean.expect(ann)
      const leanApp = await useTestService(settings(lean.issuer))
      const user = await take((await signIn(leanApp, lean)).location, leanApp)
      expect(user).toMatchObject({ email: 'ann@example.com', name: 'Ann' })
    } finally {
      await lean.stop()
    }
  })

  test('accepts new keys of the provider at the next sign-in', async () => {
    expect((await signIn()).status).toBe(302)
    await provider.rotate()
    expect((await signIn()).status).toBe(302)
  })

  test('recovers from an unavailable provider', async () => {
    await provider.behave({ away: true })
    const away = await leave()
    expect(away.response.status).toBe(503)
    expect(away.cookie, 'no sign-in was started').toBe('')
    const text = await away.response.text()
    expect(text).toContain('Your sign-in provider isn’t responding')
    expect(text).toContain(`<a href="${publicUrl}${returnTo}">Try again</a>`)
    await provider.behave({})
    expect((await signIn()).status).toBe(302)

    const { location, cookie } = await leave()
    const back = await provider.visit(location)
    await provider.behave({ away: true })
    expect(await comeBack(back, cookie)).toMatchObject({
      status: 503,
      text: expect.stringContaining('Your sign-in provider isn’t responding'),
    })
    await provider.behave({})
    expect((await signIn()).status).toBe(302)
  })

  test('lets several tabs of one browser sign in concurrently', async () => {
    const one = await leave()
    const two = await leave('/two', one.cookie)
    expect(two.cookie).toBe(one.cookie)
    const [backTwo, backOne] = [await provider.visit(two.location), await provider.visit(one.location)]
    expect(await comeBack(backTwo, one.cookie)).toMatchObject({ status: 302 })
    expect(await comeBack(backOne, one.cookie)).toMatchObject({ status: 302 })
  })

  test("replaces a cookie that isn't ours", async () => {
    const { cookie } = await leave(returnTo, 'inlay-sign-in=chosen-by-somebody')
    expect(cookie).toMatch(/^inlay-sign-in=[\w-]{43}$/)
  })

  describe('shows a page with what to do', () => {
    const ended = { status: 400, text: expect.stringContaining('This sign-in has expired'), location: '' }

    test('when a state is reused, even concurrently', async () => {
      const { location, cookie } = await leave()
      const back = await provider.visit(location)
      const answers = await Promise.all([comeBack(back, cookie), comeBack(back, cookie)])
      expect(answers.map(({ status }) => status).sort()).toEqual([302, 400])
      expect(await comeBack(back, cookie)).toEqual(ended)
    })

    test.each([
      ['without a state', '?code=x'],
      ['with a made-up state', '?code=x&state=made-up'],
      ['without parameters', ''],
    ])('when the callback is opened %s', async (_, search) => {
      const { cookie } = await leave()
      expect(await comeBack(`${publicUrl}/sign-in/callback${search}`, cookie)).toEqual(ended)
      expect(app.logged()).toContain('unknown state')
    })

    test('when another browser returns', async () => {
      const victim = await leave()
      for (const cookie of ['', victim.cookie, `inlay-sign-in=${'x'.repeat(43)}`]) {
        const back = await provider.visit((await leave()).location)
        expect(await comeBack(back, cookie)).toEqual(ended)
      }
      expect(app.logged()).toContain('another browser')
      expect(await row('ann')).toBeUndefined()
    })

    test.skipIf(redisUrl)('when the sign-in took more than ten minutes', async () => {
      const { location, cookie } = await leave()
      const back = await provider.visit(location)
      app.clock.now += 10 * 60_000 + 1
      expect(await comeBack(back, cookie)).toEqual(ended)
    })

    test.each([
      [{ error: 'access_denied' }, 403, 'You’re not signed in', 'access_denied'],
      [{ error: 'temporarily_unavailable' }, 502, 'Sign-in failed', 'temporarily_unavailable'],
      [{ sub: 'ann', name: 'Ann' }, 403, 'Your account has no email address', 'no_address'],
      [{ sub: 'ann', email: '' }, 403, 'Your account has no email address', 'no_address'],
      [{ sub: 'ann', email: 'a\0@example.com' }, 403, 'Your account has no email address', 'no_address'],
    ])('when the provider responds with %j', async (person, status, title, logged) => {
      await provider.expect(person)
      const answer = await signIn()
      expect(answer).toMatchObject({ status, text: expect.stringContaining(`<h1>${title}</h1>`), location: '' })
      expect(answer.text).toContain(`<a href="${publicUrl}${returnTo}">Try again</a>`)
      expect(app.logged()).toContain(logged)
      expectNothingSecret(answer.text + app.logged())
      expect(await row('ann')).toBeUndefined()
    })

    test.each([
      ['nonce', 'OAUTH_JWT_CLAIM_COMPARISON_FAILED'],
      ['code_challenge', 'invalid_grant'],
    ])('when the %s was replaced in transit', async (name, logged) => {
      const { location, cookie } = await leave()
      const changed = new URL(location)
      changed.searchParams.set(name, 'x'.repeat(43))
      const answer = await comeBack(await provider.visit(changed.href), cookie)
      expect(answer).toMatchObject({ status: 502, text: expect.stringContaining('Sign-in failed') })
      expect(app.logged()).toContain(logged)
      expectNothingSecret(answer.text + app.logged())
    })

    test('when the provider signs with unpublished keys', async () => {
      await provider.behave({ lying: true })
      expect(await signIn()).toMatchObject({ status: 502 })
      expect(await row('ann')).toBeUndefined()
    })

    test('when the client secret is wrong', async () => {
      const other = await useTestService({ ...settings(), SIGN_IN_CLIENT_SECRET: 'some-other-secret' })
      const answer = await signIn(other)
      expect(answer).toMatchObject({ status: 502 })
      expect(other.logged()).toContain('"said":"invalid_client"')
      expect(answer.text + other.logged()).not.toContain('some-other-secret')
    })

    test('when the issuer reports another name', async () => {
      const other = await useTestService(settings(`${provider.issuer}/`))
      const { response } = await leave(returnTo, '', other)
      expect(response.status).toBe(502)
      expect(other.logged()).toContain('Set the issuer to ')
    })
  })
})

describe('the return address', () => {
  beforeAll(async () => {
    app = await startTestService(settings())
  })
  afterAll(() => app.close())

  const elsewhere = [
    '',
    'https://evil.example',
    `${publicUrl}/path`,
    '//evil.example',
    '/\\evil.example',
    '\\\\evil.example',
    '/\t/evil.example',
    '/\n\\evil.example',
    ' //evil.example',
    'javascript:alert(1)',
    'path',
    '@evil.example',
    `/${'x'.repeat(2000)}`,
  ]
  test.each(elsewhere)('rejects %j', async (path) => {
    await expect(startExternalSignIn(app.service, path)).rejects.toThrow('a path on this server')
    const response = await app.fetch(`/sign-in/external?${new URLSearchParams({ return_to: path })}`)
    expect(response.status).toBe(400)
    expect(response.headers.get('location')).toBeNull()
    expect(response.headers.getSetCookie()).toEqual([])
  })

  test.each(['/..//evil.example', '/.//evil.example/', '/%2f%2fevil.example', '/a?to=//evil.example#//evil.example'])(
    'accepts %s, which is ours',
    async (path) => {
      const { location, cookie } = await leave(path)
      const back = await comeBack(await provider.visit(location), cookie)
      expect(back.location.startsWith(`${publicUrl}/`)).toBe(true)
      expect(new URL(back.location).origin).toBe(publicUrl)
    },
  )
})

test('prints no setup link if users sign in at a provider', async () => {
  const { config, remove } = await makeConfig(settings())
  const log = createLog('silent')
  const stores = await openStores(config, { clock: systemClock, log, claim: 'own' })
  const service = createService(stores, { config: { ...config, publicUrl }, clock: systemClock, log })
  onTestFinished(async () => {
    await service.close()
    await stores.close()
    await remove()
  })
  expect(await createSetupLink(service)).toBeUndefined()
  const local = { ...service, config: { ...service.config, signInClient: undefined } }
  expect(await createSetupLink(local)).toContain(`${publicUrl}/setup?token=`)
})

test("sends a client's user to the provider and then to the consent page", async () => {
  const service = await startHttpService(settings())
  onTestFinished(() => service.close())
  const attempt = await prepare(await register(service.url))
  const browser = await attempt.browser.open(attempt.url)
  expect(browser.left?.origin).toBe(provider.issuer)
  await browser.open(await provider.visit(String(browser.left)))
  expect(browser.text).toContain('Signed in as ann@example.com')
})

test('asks the provider for an account chooser when the user wants another account', async () => {
  const service = await startHttpService(settings())
  onTestFinished(() => service.close())
  const attempt = await prepare(await register(service.url))
  const browser = await attempt.browser.open(attempt.url)
  expect(browser.left?.searchParams.has('prompt')).toBe(false)
  await browser.open(await provider.visit(String(browser.left)))
  await browser.follow('Use another account')
  expect(browser.left?.searchParams.get('prompt')).toBe('select_account')
  await provider.expect({ ...ann, sub: 'bob', email: 'bob@example.com' })
  // This provider has no account chooser, so it is asked for a plain login.
  await browser.open(await provider.visit(String(browser.left)))
  expect(browser.left?.searchParams.get('prompt')).toBe('login')
  await browser.open(await provider.visit(String(browser.left)))
  expect(browser.text).toContain('Signed in as bob@example.com')
})

test.each(['invalid_request', 'account_selection_required', 'interaction_required'])(
  'does not retry after %s if it did not ask for an account chooser',
  async (error) => {
    app = await useTestService(settings())
    await provider.expect({ error })
    expect(await signIn()).toMatchObject({ status: 502, location: '' })
  },
)

test('only accepts return addresses on our own origin', () => {
  const piece = fc.constantFrom(
    '/',
    '\\',
    '.',
    '..',
    '\t',
    '\n',
    '@',
    ':',
    '?',
    '#',
    '%2f',
    'evil.example',
    'http:',
    ' ',
  )
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
      const address = ownAddress(publicUrl, pieces.join(''))
      if (address) expect(new URL(address.href).origin).toBe(publicUrl)
      if (address) expect(address.href.startsWith(`${publicUrl}/`)).toBe(true)
    }),
  )
})
