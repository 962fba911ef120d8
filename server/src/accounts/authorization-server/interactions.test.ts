import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Browser } from '../../../test/browser.ts'
import { type HttpService, startHttpService } from '../../../test/http-server.ts'
import {
  allow,
  begin as beginAt,
  claimsOf,
  exchange,
  nativeUri,
  obtain,
  prepare,
  register,
  webUri,
} from '../../../test/oauth-client.ts'
import { addLocalUser } from '../users/local-accounts.ts'

let app: HttpService
beforeAll(async () => {
  app = await startHttpService()
  await addLocalUser(app.service, { email: 'ann@example.com', name: 'Ann', password: 'correct horse battery' })
})
afterAll(() => app.close())

const begin = (metadata?: object, parameters?: object, browser?: Browser) =>
  beginAt(app.url, metadata, parameters, browser)

describe('signing in', () => {
  test('works with email address and password', async () => {
    const { browser } = await begin()
    await browser.press('Sign in', { email: 'ann@example.com', password: 'wrong horse battery' })
    expect(browser.page?.status).toBe(400)
    expect(browser.text).toContain('The email address or password is incorrect.')
    await browser.press('Sign in', { email: 'ANN@example.com', password: 'correct horse battery' })
    expect(browser.text).toContain('Choose an organization')
    expect(browser.text).toContain('Signed in as ann@example.com')
  })

  test('asks about invitations, and no user becomes a member without accepting', async () => {
    await addLocalUser(app.service, { email: 'eve@example.com', name: 'Eve', password: 'correct horse battery' })
    const token = await app.tokenFor('admin@demo.test', 'demo')
    await app.request('POST', '/organizations/current/invitations', {
      token,
      body: { email: 'eve@example.com', role: 'member' },
    })
    const { browser } = await begin()
    await browser.press('Sign in', { email: 'eve@example.com', password: 'correct horse battery' })
    expect(browser.text).toContain('admin@demo.test invited you to join Demo (demo) as a member.')
    expect(browser.text).toContain('You don’t belong to an organization yet.')
    await browser.press('Accept')
    expect(browser.text).toContain('Organization Demo (demo)')
  })

  test('does not show an invitation that was declined', async () => {
    await addLocalUser(app.service, { email: 'flo@example.com', name: 'Flo', password: 'correct horse battery' })
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const body = { email: 'flo@example.com', role: 'admin' }
    await app.request('POST', '/organizations/current/invitations', { token, body })
    const { browser } = await begin()
    await browser.press('Sign in', { email: 'flo@example.com', password: 'correct horse battery' })
    expect(browser.text).toContain('invited you to join Demo (demo) as an admin.')
    await browser.press('Decline')
    expect(browser.text).not.toContain('invited')
    expect(browser.text).toContain('You don’t belong to an organization yet.')
    const members = (await app.request('GET', '/organizations/current/members', { token })).body
    expect(JSON.stringify(members)).not.toContain('flo@example.com')
  })

  test('asks about invitations before a client continues that was allowed before, but never during a silent renewal', async () => {
    await addLocalUser(app.service, { email: 'gus@example.com', name: 'Gus', password: 'correct horse battery' })
    const signIn = { email: 'gus@example.com', password: 'correct horse battery' }
    const { config, attempt, browser } = await begin()
    await browser.press('Sign in', signIn)
    await browser.follow('Continue without an organization')
    await browser.press('Allow')
    expect(browser.left).toBeDefined()
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const body = { email: 'gus@example.com', role: 'member' }
    await app.request('POST', '/organizations/current/invitations', { token, body })

    const silent = await prepare(config, { prompt: 'none' }, browser)
    await browser.open(silent.url)
    expect(browser.left?.searchParams.get('code'), 'a stranger’s invitation does not interrupt a client').toBeTruthy()
    const elsewhere = await prepare(config, {})
    await elsewhere.browser.open(elsewhere.url)
    await elsewhere.browser.press('Sign in', signIn)
    expect(elsewhere.browser.left).toBeUndefined()
    expect(elsewhere.browser.text).toContain('invited you to join Demo (demo)')
    await elsewhere.browser.follow('Continue without an organization')
    await elsewhere.browser.press('Allow')
    expect(elsewhere.browser.left?.searchParams.get('code')).toBeTruthy()
    expect(attempt.verifier).toBeTruthy()
  })

  test('is not needed again for a second client, but consent is', async () => {
    const { attempt, browser } = await begin()
    await allow(attempt, 'admin@demo.test')
    await begin({ client_name: 'Second' }, {}, browser)
    expect(browser.left).toBeUndefined()
    expect(browser.text).toContain('Allow Second?')
  })

  test('as another user replaces the session', async () => {
    const { config, attempt, browser } = await begin()
    await browser.press('admin@demo.test')
    await browser.follow('Use another account')
    await browser.press('admin@other.test')
    expect(browser.text).toContain('Signed in as admin@other.test')
    await browser.press('Allow')
    const tokens = await exchange(config, attempt, browser.left as URL)
    expect(claimsOf(tokens.access_token).org_id).toBe(await app.organization('other'))
  })

  test('prefills the email address that the client sends', async () => {
    const { browser } = await begin({}, { login_hint: 'ann"@example.com' })
    expect(browser.form('Sign in').fields.email).toBe('ann"@example.com')
  })

  test('is required again if the client asks for it', async () => {
    const { attempt, browser } = await begin()
    await allow(attempt, 'admin@demo.test')
    await begin({}, { prompt: 'login' }, browser)
    expect(browser.text).toContain('Sign in to continue to Tool')
  })
})

describe('the organization', () => {
  test('can be created during sign-in', async () => {
    const { config, attempt, browser } = await begin()
    await browser.press('Sign in', { email: 'ann@example.com', password: 'correct horse battery' })
    await browser.press('Create organization', { name: ' ' })
    expect(browser.text).toContain('Enter a name of up to 100 characters.')
    await browser.press('Create organization', { name: 'Ann & Sons' })
    expect(browser.text).toContain('Organization Ann & Sons')
    await browser.press('Allow')
    const { access_token } = await exchange(config, attempt, browser.left as URL)
    const { body } = await app.request('GET', '/organizations', { token: access_token })
    expect(body).toMatchObject([{ id: claimsOf(access_token).org_id, name: 'Ann & Sons', role: 'admin' }])
  })

  test('is optional', async () => {
    const tokens = await obtain(await register(app.url), 'member@demo.test', {
      organization: 'Continue without an organization',
    })
    expect(claimsOf(tokens.access_token)).not.toHaveProperty('org_id')
    const { body } = await app.request('GET', '/organizations/current/members', { token: tokens.access_token })
    expect(body.code).toBe('ORG_CONTEXT_REQUIRED')
  })

  test.each([
    ['prompt=consent', { prompt: 'consent' }],
    ['the link on the page', {}],
  ])('can be changed with %s without signing in again', async (_, parameters) => {
    const config = await register(app.url, { redirect_uris: [nativeUri] })
    const redirect_uri = nativeUri
    const first = await prepare(config, { redirect_uri })
    const before = await exchange(config, first, await allow(first, 'member@demo.test', 'Demo'))
    const second = await prepare(config, { redirect_uri, ...parameters }, first.browser)
    await second.browser.open(second.url)
    if (!('prompt' in parameters)) {
      expect(second.browser.text).toContain('Organization Demo')
      await second.browser.follow('Choose another organization')
    }
    expect(second.browser.text).toContain('Signed in as member@demo.test')
    await second.browser.follow('Other')
    await second.browser.press('Allow')
    const after = await exchange(config, second, second.browser.left as URL)
    expect(claimsOf(after.access_token).org_id).toBe(await app.organization('other'))
    expect(claimsOf(before.access_token).org_id).toBe(await app.organization('demo'))
  })

  test("must be one of the user's own", async () => {
    const { browser } = await begin()
    await browser.press('admin@demo.test')
    const other = await app.organization('other')
    await browser.open(`${browser.page?.url.pathname}?organization=${other}`)
    expect(browser.text).not.toContain('Other')
    await browser.open(`${browser.page?.url.pathname}?organization=${await app.organization('demo')}`)
    await browser.press('Allow', { organization: other })
    expect(browser.left).toBeUndefined()
    expect(browser.page?.status).toBe(400)
  })
})

describe('consent', () => {
  test('names the client, its host, its access and the organization', async () => {
    const { browser } = await begin({ client_name: 'Desk', redirect_uris: [nativeUri] }, { redirect_uri: nativeUri })
    await browser.press('admin@demo.test')
    expect(browser.text).toContain('Allow Desk?')
    expect(browser.text).toContain('You’ll be redirected to a program on this computer')
    expect(browser.text).toContain('Organization Demo')
    expect(browser.text).toContain('through the API')
    expect(browser.text).toContain('through MCP')
    const web = await begin({}, { resource: `${app.url}/mcp` })
    await web.browser.press('admin@demo.test')
    expect(web.browser.text).toContain('You’ll be redirected to app.example.com')
    expect(web.browser.text).not.toContain('through the API')
  })

  test('is recorded in the organization’s audit trail', async () => {
    const { config, attempt } = await begin({ client_name: 'Audited' })
    await allow(attempt, 'admin@demo.test')
    const rows = await app.service.database.asOrg(
      await app.organization('demo'),
      (sql) =>
        sql`select actor, target, data from audit_events where action = 'client.allowed' order by id desc limit 1`,
    )
    expect(rows).toEqual([
      { actor: 'admin@demo.test', target: config.clientMetadata().client_id, data: { name: 'Audited' } },
    ])
  })

  test('that is denied returns to the client', async () => {
    const { browser } = await begin()
    await browser.press('admin@demo.test')
    await browser.press('Cancel')
    expect(browser.left?.href).toMatch(webUri)
    expect(Object.fromEntries(browser.left?.searchParams ?? [])).toMatchObject({
      error: 'access_denied',
      state: 'state',
      iss: app.url,
    })
  })

  test('is remembered for an identifiable client, for what was allowed', async () => {
    const config = await register(app.url)
    const first = await prepare(config, { resource: `${app.url}/api` })
    await allow(first, 'member@demo.test', 'Other')
    const again = await prepare(config, { resource: `${app.url}/api` }, first.browser)
    await again.browser.open(again.url)
    const tokens = await exchange(config, again, again.browser.left as URL)
    expect(claimsOf(tokens.access_token).org_id).toBe(await app.organization('other'))
    const silent = await prepare(config, { resource: `${app.url}/api`, prompt: 'none' }, first.browser)
    await silent.browser.open(silent.url)
    expect(silent.browser.left?.searchParams.has('code')).toBe(true)
    const wider = await prepare(config, { resource: `${app.url}/mcp` }, first.browser)
    await wider.browser.open(wider.url)
    expect(wider.browser.left).toBeUndefined()
  })

  test('is always asked for by a program on the computer, because any other could impersonate it', async () => {
    const config = await register(app.url, { redirect_uris: [nativeUri] })
    const first = await prepare(config, { redirect_uri: nativeUri })
    await allow(first, 'admin@demo.test')
    const again = await prepare(config, { redirect_uri: nativeUri }, first.browser)
    await again.browser.open(again.url)
    expect(again.browser.left).toBeUndefined()
    expect(again.browser.text).toContain('Allow Tool?')
  })

  test('is not remembered for a member who was removed', async () => {
    const config = await register(app.url)
    const ann = { email: 'joan@example.com', name: 'Joan', password: 'correct horse battery' }
    const { id } = await addLocalUser(app.service, ann)
    const demo = await app.organization('demo')
    const join = () =>
      app.service.database.asOrg(
        demo,
        (sql) =>
          sql`insert into members (organization_id, id, user_id, role) values (${demo}, ${crypto.randomUUID()}, ${id}, 'member')`,
      )
    await join()
    const first = await prepare(config)
    await first.browser.open(first.url)
    await first.browser.press('Sign in', { email: ann.email, password: ann.password })
    await first.browser.press('Allow')
    await app.service.database.asOrg(demo, (sql) => sql`delete from members where user_id = ${id}`)
    await first.browser.open(first.url)
    expect(first.browser.left).toBeUndefined()
    expect(first.browser.text).toContain('You don’t belong to an organization yet.')
  })
})
