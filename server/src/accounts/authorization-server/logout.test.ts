import * as oauth from 'openid-client'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { Browser } from '../../../test/browser.ts'
import { type HttpService, startHttpService } from '../../../test/http-server.ts'
import { allow, begin, claimsOf, exchange, prepare, register, webUri } from '../../../test/oauth-client.ts'
import { startTestProvider } from '../../../test/oidc-provider.ts'
import { findRecord, markEnded, signInOfGrant } from '../access/records.ts'

let app: HttpService
beforeAll(async () => {
  app = await startHttpService()
})
afterAll(() => app.close())

const invalidGrant = { error: 'invalid_grant' }
const afterLogout = 'https://app.example.com/goodbye'

type Tokens = Awaited<ReturnType<typeof exchange>>

/** A user allows a new client in this browser. */
async function allowIn(browser: Browser, email = 'admin@demo.test') {
  const config = await register(app.url, { post_logout_redirect_uris: [afterLogout] })
  return { config, tokens: await allowAgain(config, browser, email) }
}

async function allowAgain(config: oauth.Configuration, browser: Browser, email = 'admin@demo.test'): Promise<Tokens> {
  const attempt = await prepare(config, {}, browser)
  return exchange(config, attempt, await allow(attempt, email))
}

const refresh = (config: oauth.Configuration, { refresh_token }: Tokens) =>
  oauth.refreshTokenGrant(config, String(refresh_token))
const status = async ({ access_token }: Tokens) =>
  (await app.request('GET', '/users/me', { token: access_token })).status

async function isAskedToSignIn(browser: Browser): Promise<boolean> {
  await begin(app.url, {}, {}, browser)
  return browser.text.includes('Sign in to continue to Tool')
}

/** Both ways to sign out. */
const ways: [string, (browser: Browser, tokens: Tokens) => Promise<unknown>][] = [
  [
    'on the page',
    async (browser) => {
      await browser.open('/oauth/logout')
      expect(browser.text).toContain('Sign out? This ends your session in this browser')
      await browser.press('Sign out')
      expect(browser.text).toContain('You’re signed out')
    },
  ],
  [
    'with an access token of the session',
    async (_, { access_token }) =>
      expect((await app.request('POST', '/auth/logout', { token: access_token })).body).toEqual({ success: true }),
  ],
]

describe.each(ways)('signing out %s', (_, signOut) => {
  test('ends the session and all tokens issued in it, and no others', async () => {
    const [browser, elsewhere] = [new Browser(app.url), new Browser(app.url)]
    const first = await allowIn(browser)
    const earlier = first.tokens
    const later = await allowAgain(first.config, browser)
    const second = await allowIn(browser)
    const other = await allowIn(elsewhere)
    expect(await status(second.tokens), 'cached by the node').toBe(200)

    await signOut(browser, earlier)
    expect(await isAskedToSignIn(browser)).toBe(true)
    await expect(refresh(first.config, earlier)).rejects.toMatchObject(invalidGrant)
    await expect(refresh(first.config, later)).rejects.toMatchObject(invalidGrant)
    await expect(refresh(second.config, second.tokens)).rejects.toMatchObject(invalidGrant)
    for (const tokens of [earlier, later, second.tokens])
      expect(await status(tokens), 'immediately on this node').toBe(401)

    expect(await isAskedToSignIn(elsewhere)).toBe(false)
    expect(await refresh(other.config, other.tokens)).toHaveProperty('access_token')
    expect(await status(other.tokens)).toBe(200)
  })

  test('invalidates a code that was not redeemed yet', async () => {
    const browser = new Browser(app.url)
    const { tokens } = await allowIn(browser)
    const config = await register(app.url)
    const attempt = await prepare(config, {}, browser)
    const answer = await allow(attempt, 'admin@demo.test')
    await signOut(browser, tokens)
    await expect(exchange(config, attempt, answer)).rejects.toMatchObject(invalidGrant)
  })

  test('ends a consent in progress', async () => {
    const browser = new Browser(app.url)
    const { tokens } = await allowIn(browser)
    await begin(app.url, {}, {}, browser)
    const { page } = browser
    await signOut(browser, tokens)
    browser.page = page
    await browser.press('Allow')
    expect(browser.left, 'no code').toBeUndefined()
  })

  test('lets the user sign in and allow clients again', async () => {
    const browser = new Browser(app.url)
    const { config, tokens } = await allowIn(browser)
    await signOut(browser, tokens)
    const fresh = await allowAgain(config, browser)
    expect(await status(fresh)).toBe(200)
    expect(await refresh(config, fresh)).toHaveProperty('access_token')
  })
})

describe('the page', () => {
  test('is in the discovery document', async () => {
    const metadata = (await (await fetch(`${app.url}/.well-known/openid-configuration`)).json()) as object
    expect(metadata).toMatchObject({ end_session_endpoint: `${app.url}/oauth/logout` })
  })

  test('is linked from pages that show the signed-in user', async () => {
    const { browser } = await begin(app.url)
    await browser.press('admin@demo.test')
    await browser.follow('sign out')
    expect(browser.text).toContain('Sign out?')
  })

  test('cannot be framed, cached or scripted', async () => {
    const browser = new Browser(app.url)
    const { config } = await allowIn(browser)
    for (const [query, target] of [
      ['', "'self'"],
      [
        `?${new URLSearchParams({ client_id: config.clientMetadata().client_id, post_logout_redirect_uri: afterLogout })}`,
        "'self' https://app.example.com",
      ],
    ]) {
      await browser.open(`/oauth/logout${query}`)
      const { headers } = browser.page ?? { headers: new Headers() }
      expect(headers.get('content-security-policy')).toBe(
        `default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; font-src 'self'; form-action ${target}; frame-ancestors 'none'; base-uri 'none'`,
      )
      expect(headers.get('x-frame-options')).toBe('DENY')
      expect(headers.get('cache-control')).toBe('no-store')
    }
  })

  test('redirects to the address that the client registered, with its state', async () => {
    const browser = new Browser(app.url)
    const { config } = await allowIn(browser)
    const goodbye = oauth.buildEndSessionUrl(config, { post_logout_redirect_uri: afterLogout, state: 'a b' })
    await browser.open(goodbye)
    await browser.press('Sign out')
    expect(String(browser.left)).toBe(`${afterLogout}?state=a+b`)
    await browser.open(goodbye)
    expect(browser.left?.searchParams.get('state'), 'also without a session').toBe('a b')
  })

  test('redirects nowhere else', async () => {
    const browser = new Browser(app.url)
    const { config } = await allowIn(browser)
    await browser.open(oauth.buildEndSessionUrl(config, { post_logout_redirect_uri: 'https://evil.example.com/' }))
    expect(browser.page?.status).toBe(400)
    await browser.open('/oauth/logout?post_logout_redirect_uri=https://evil.example.com/')
    await browser.press('Sign out')
    expect(browser.left).toBeUndefined()
    expect(browser.text).toContain('You’re signed out')
  })

  test('stores nothing for long about visitors who are not signed in', async () => {
    const cookies = (await fetch(`${app.url}/oauth/logout`)).headers.getSetCookie()
    const expires = cookies.find((cookie) => cookie.startsWith('inlay-session='))?.match(/expires=([^;]+)/)?.[1] ?? ''
    expect(Date.parse(expires)).toBeLessThan(Date.now() + 2 * 60 * 60_000)
  })

  test('does not ask visitors who are not signed in', async () => {
    const browser = await new Browser(app.url).open('/oauth/logout')
    expect(browser.page?.status).toBe(200)
    expect(browser.text).toContain('You’re signed out')
  })

  test.each([['javascript:alert(1)'], ['http://app.example.com/'], ['https://app.example.com/#x']])(
    'does not redirect to %s',
    async (uri) => {
      await expect(register(app.url, { post_logout_redirect_uris: [uri] })).rejects.toMatchObject({
        error: 'invalid_client_metadata',
        error_description: expect.stringContaining('post_logout_redirect_uris must'),
      })
    },
  )

  test.each<[string, object, Record<string, string>, number]>([
    ['from another origin', {}, { origin: 'https://evil.example.com' }, 403],
    ['without an origin', {}, { origin: '' }, 403],
    ['without its secret', { xsrf: '' }, {}, 400],
    ['with another secret', { xsrf: 'a'.repeat(48) }, {}, 400],
  ])('rejects a confirmation %s', async (_, values, headers, expected) => {
    const browser = new Browser(app.url)
    const { config, tokens } = await allowIn(browser)
    await browser.open('/oauth/logout')
    await browser.press('Sign out', values as Record<string, string>, headers)
    expect(browser.page?.status).toBe(expected)
    expect(await isAskedToSignIn(browser)).toBe(false)
    expect(await refresh(config, tokens)).toHaveProperty('access_token')
  })
})

test("signing out clears the cookie of the sign-in provider, and says that the provider's session may continue", async () => {
  const provider = await startTestProvider()
  onTestFinished(() => provider.stop())
  const service = await startHttpService({
    SIGN_IN_ISSUER: provider.issuer,
    SIGN_IN_CLIENT_ID: 'inlay',
    SIGN_IN_CLIENT_SECRET: 'secret-of-inlay-at-the-provider',
  })
  onTestFinished(() => service.close())
  await provider.expect({ sub: 'ann', email: 'ann@example.com', email_verified: true })
  const { browser } = await begin(service.url)
  await browser.open(await provider.visit(String(browser.left)))
  expect(browser.cookieNames()).toContain('inlay-sign-in')
  await browser.open('/oauth/logout')
  await browser.press('Sign out')
  expect(browser.text).toContain(`You may still be signed in at ${new URL(provider.issuer).host}.`)
  for (const name of ['inlay-session', 'inlay-sign-in']) expect(browser.cookieNames()).not.toContain(name)
})

test('two tabs can sign in as two users, and the last one wins', async () => {
  const browser = new Browser(app.url)
  const first = await begin(app.url, {}, {}, browser)
  const tab = browser.page
  await begin(app.url, {}, {}, browser)
  await browser.press('admin@other.test')
  browser.page = tab
  await browser.press('admin@demo.test')
  expect(browser.text).toContain('Signed in as admin@demo.test')
  await browser.press('Allow')
  expect(String(browser.left)).toContain(webUri)
  expect(await status(await exchange(first.config, first.attempt, browser.left as URL))).toBe(200)
})

test('a node that missed the message notices within 30 seconds', async () => {
  const { tokens } = await allowIn(new Browser(app.url))
  expect(await status(tokens)).toBe(200)
  const { grant_id } = claimsOf(tokens.access_token)
  const session = signInOfGrant(await findRecord(app.service.kv, 'Grant', grant_id))?.session
  // No message is sent, as if it was lost.
  await markEnded(app.service.kv, String(session))
  expect(await status(tokens), 'cached').toBe(200)
  app.clock.now += 30_001
  expect(await status(tokens)).toBe(401)
})
