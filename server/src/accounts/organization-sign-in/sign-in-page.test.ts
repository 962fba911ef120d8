import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type HttpService, startHttpService } from '../../../test/http-server.ts'
import { begin } from '../../../test/oauth-client.ts'
import { startTestProvider, type TestProvider } from '../../../test/oidc-provider.ts'

let acme: TestProvider
beforeAll(async () => {
  acme = await startTestProvider()
  await acme.expect({ sub: 'ann', email: 'ann@acme.example', name: 'Ann' })
})
afterAll(() => acme.stop())

/** Verifies the domain in the database: organization-sign-in.test.ts has the DNS. */
async function setUp(app: HttpService): Promise<void> {
  const token = await app.tokenFor('admin@demo.test', 'demo')
  const body = {
    issuer: acme.issuer,
    client_id: 'inlay',
    client_secret: 'secret-of-inlay-at-the-provider',
    joins_on_first_sign_in: true,
  }
  expect((await app.request('PUT', '/organizations/current/sign-in', { token, body })).status).toBe(200)
  await app.service.database.asOrg(
    await app.organization('demo'),
    (sql) => sql`
      insert into sign_in_domains (organization_id, id, domain, token, verified_at, checked_at)
      values (current_organization(), gen_random_uuid(), 'acme.example', 'token', now(), now())`,
  )
}

async function start(env: Record<string, string> = {}): Promise<HttpService> {
  const app = await startHttpService(env)
  onTestFinished(() => app.close())
  return app
}

describe('with passwords', () => {
  test('the page offers single sign-on only if an organization has it', async () => {
    const app = await start()
    expect((await begin(app.url)).browser.text).not.toContain('Sign in with your organization')
    await setUp(app)
    expect((await begin(app.url)).browser.text).toContain('Sign in with your organization')
  })

  test('a verified domain leads to its provider and back, and then only to that organization', async () => {
    const app = await start()
    await setUp(app)
    const { browser } = await begin(app.url)
    await browser.follow('Sign in with your organization')
    await browser.press('Continue', { email: 'nobody@acme.example' })
    const next = browser.page?.headers.get('refresh') ?? ''
    expect(next).toMatch(/^0; url=\/sign-in\/organization\//)
    await browser.follow('Continue')
    const back = await acme.visit(browser.left?.href ?? '')
    await browser.open(back)
    expect(browser.text).toContain('Organization Demo (demo)')
    expect(browser.text).toContain('Signed in as ann@acme.example')
    await browser.open(`${app.url}/account`)
    expect(browser.text).toContain('Set up passkeys and a second factor there.')
    expect(browser.text).toContain('Signed in as ann@acme.example')
  })

  test('an invited user can accept, and can’t create an organization', async () => {
    const app = await start()
    await setUp(app)
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const body = { email: 'ann@acme.example', role: 'admin' }
    await app.request('POST', '/organizations/current/invitations', { token, body })
    const { browser } = await begin(app.url)
    await browser.follow('Sign in with your organization')
    await browser.press('Continue', { email: 'ann@acme.example' })
    await browser.follow('Continue')
    await browser.open(await acme.visit(browser.left?.href ?? ''))
    expect(browser.text).toContain('invited you to join Demo (demo) as an admin.')
    await browser.press('Create organization', { name: 'Mine' })
    expect(browser.page?.status).toBe(400)
    expect(browser.text).toContain('so it can’t create others')
    await browser.press('Accept')
    expect(browser.text).toContain('Organization Demo (demo)')
  })

  test('an unknown domain is explained, whether or not it has accounts, and passwords keep working', async () => {
    const app = await start()
    await setUp(app)
    const { browser } = await begin(app.url)
    for (const email of ['admin@demo.test', 'nobody@nowhere.example']) {
      await browser.follow('Sign in with your organization')
      await browser.press('Continue', { email })
      expect(browser.page?.status).toBe(400)
      expect(browser.text).toContain('No organization has set up single sign-on for this address.')
      await browser.follow('Sign in another way')
    }
    await browser.press('admin@demo.test')
    expect(browser.text).toContain('Signed in as admin@demo.test')
  })
})

describe('with a sign-in provider of the installation', () => {
  test('the page asks for the address only if an organization has single sign-on', async () => {
    const installation = await startTestProvider()
    onTestFinished(() => installation.stop())
    const app = await start({
      SIGN_IN_ISSUER: installation.issuer,
      SIGN_IN_CLIENT_ID: 'inlay',
      SIGN_IN_CLIENT_SECRET: 'secret-of-inlay-at-the-provider',
    })
    expect((await begin(app.url)).browser.left?.origin).toBe(installation.issuer)
    await setUp(app)
    const cases = [
      ['ann@acme.example', acme.issuer],
      ['ann@nowhere.example', installation.issuer],
    ] as const
    for (const [email, issuer] of cases) {
      const { browser } = await begin(app.url)
      await browser.press('Continue', { email })
      await browser.follow('Continue')
      expect(browser.left?.origin).toBe(issuer)
    }
    const { browser } = await begin(app.url)
    await browser.follow('Sign in another way')
    expect(browser.left?.origin, 'for administrators whose account is there').toBe(installation.issuer)
  })
})
