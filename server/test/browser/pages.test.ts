import type { ServerResponse } from 'node:http'
import type { Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { createPasswordLink } from '../../src/accounts/sign-in/password-pages.ts'
import { addLocalUser } from '../../src/accounts/users/local-accounts.ts'
import { type HttpService, startHttpService } from '../http-server.ts'
import { claimsOf, exchange, webUri } from '../oauth-client.ts'
import { startTestProvider } from '../oidc-provider.ts'
import { startThirdParty } from '../third-party.ts'
import { usePage, useSite } from './chromium.ts'
import { arrive, comeBack, follow, press, seeHeading, signInWithPassword, visitConnector } from './visit.ts'

const password = 'correct horse battery'
let app: HttpService
beforeAll(async () => {
  app = await startHttpService()
})
afterAll(() => app.close())

/** A user without an organization. */
async function addPerson(name: string): Promise<string> {
  const { email } = await addLocalUser(app.service, { email: `${name}@example.com`, name, password })
  return email
}

/** A page's details, by term. */
const detail = async (page: Page, term: string) =>
  page.getByRole('term').filter({ hasText: term }).locator('+ dd').innerText()

const isFocused = (field: Locator) => field.evaluate((element) => element === element.ownerDocument.activeElement)

const backgroundOf = (element: Locator) =>
  element.evaluate((node) => node.ownerDocument.defaultView.getComputedStyle(node).backgroundColor)

type Arrival = Awaited<ReturnType<typeof arrive>>

async function allow({ page, config, attempt, callback }: Arrival) {
  await press(page, 'Allow')
  const { access_token } = await exchange(config, attempt, await comeBack(page, callback))
  return access_token
}

describe('signing in', () => {
  test('takes one click in development', async () => {
    const arrival = await arrive(app.url)
    await press(arrival.page, 'admin@demo.test')
    await seeHeading(arrival.page, 'Allow Tool?')
    const token = await allow(arrival)
    expect((await app.request('GET', '/users/me', { token })).body.email).toBe('admin@demo.test')
  })

  test('focuses the first empty field', async () => {
    const { page } = await arrive(app.url)
    expect(await isFocused(page.getByLabel('Email'))).toBe(true)
    await arrive(app.url, { page, parameters: { login_hint: 'known@example.com' } })
    expect(await isFocused(page.getByLabel('Password'))).toBe(true)
  })

  test("shows the product's name and icon", async () => {
    const { page } = await arrive(app.url)
    const violations: string[] = []
    page.on('console', (message) => void violations.push(message.text()))
    await page.reload()
    await page.getByText('Inlay', { exact: true }).waitFor()
    const icon = await page.locator('link[rel=icon]').getAttribute('href')
    const size = await page.evaluate(
      `new Promise((resolve, reject) => {
        const image = new Image()
        image.onload = () => resolve(image.naturalWidth)
        image.onerror = reject
        image.src = ${JSON.stringify(icon)}
      })`,
    )
    expect(size).toBeGreaterThan(0)
    expect(violations).toEqual([])
  })

  test('with a wrong password says so, keeps the email address and allows another attempt', async () => {
    const email = await addPerson('wanda')
    const { page } = await arrive(app.url)
    await signInWithPassword(page, email, 'wrong horse battery')
    await page.getByRole('alert').filter({ hasText: 'The email address or password is incorrect.' }).waitFor()
    expect(await page.getByLabel('Email').inputValue()).toBe(email)
    expect(await page.getByLabel('Password').inputValue()).toBe('')
    expect(await isFocused(page.getByLabel('Password')), 'ready to type the password again').toBe(true)
    await page.getByLabel('Password').fill(password)
    await press(page, 'Sign in')
    await seeHeading(page, 'Choose an organization')
    await page.getByText(`Signed in as ${email}.`).waitFor()
  })

  test('works with a password that was set with a link, which works once', async () => {
    const { email, ...user } = await addLocalUser(app.service, { email: 'linus@example.com', name: 'Linus' })
    const link = await createPasswordLink(app.service, app.url, { ...user, email, password_hash: null })
    const page = await usePage()
    await page.goto(link)
    expect(await isFocused(page.getByLabel('Password', { exact: true }))).toBe(true)
    await page.getByLabel('Password', { exact: true }).fill(password)
    await page.getByLabel('Confirm password').fill(password)
    await press(page, 'Set password')
    await seeHeading(page, 'Your password is set')
    await follow(page, 'Continue to Inlay')
    await seeHeading(page, 'Sign in')
    await page.goto(link)
    await seeHeading(page, 'This link isn’t valid')
    await arrive(app.url, { page })
    await signInWithPassword(page, email, password)
    await seeHeading(page, 'Choose an organization')
  })

  test('at a provider on another site returns the user to the client', async () => {
    const provider = await startTestProvider()
    onTestFinished(() => provider.stop())
    const { issuer } = provider
    const secret = 'secret-of-inlay-at-the-provider'
    const external = await startHttpService({
      SIGN_IN_ISSUER: issuer,
      SIGN_IN_CLIENT_ID: 'inlay',
      SIGN_IN_CLIENT_SECRET: secret,
    })
    onTestFinished(() => external.close())
    await provider.expect({ sub: 'pat', email: 'pat@example.com', email_verified: true })
    // The server is `localhost` and the provider 127.0.0.1: two sites, so each one's cookies must survive the
    // redirects.
    const { page } = await arrive(external.url)
    await seeHeading(page, 'Choose an organization')
    await page.getByText('Signed in as pat@example.com.').waitFor()
  })
})

test('signing out asks first, and then ends the session', async () => {
  const { page } = await arrive(app.url)
  await press(page, 'admin@demo.test')
  await follow(page, 'sign out')
  await seeHeading(page, 'Sign out?')
  await press(page, 'Sign out')
  await seeHeading(page, 'You’re signed out')
  await arrive(app.url, { page })
  await seeHeading(page, 'Sign in')
})

describe('an organization', () => {
  test('can be created by a user without one', async () => {
    const email = await addPerson('olga')
    const arrival = await arrive(app.url)
    const { page } = arrival
    await signInWithPassword(page, email, password)
    await page.getByText('You don’t belong to an organization yet.').waitFor()
    await page.getByLabel('New organization').fill('Olga & Sons')
    await press(page, 'Create organization')
    await seeHeading(page, 'Allow Tool?')
    expect(await detail(page, 'Organization')).toBe('Olga & Sons (olga-sons)')
    const token = await allow(arrival)
    const { body } = await app.request('GET', '/organizations', { token })
    expect(body).toMatchObject([{ name: 'Olga & Sons', role: 'admin', id: claimsOf(token).org_id }])
  })

  test('is joined by accepting an invitation', async () => {
    const email = await addPerson('ines')
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const invitation = { email, role: 'member' }
    await app.request('POST', '/organizations/current/invitations', { token, body: invitation })
    const arrival = await arrive(app.url)
    await signInWithPassword(arrival.page, email, password)
    await seeHeading(arrival.page, 'You’re invited')
    await arrival.page.getByText(`admin@demo.test invited you to join Demo (demo) as a member.`).waitFor()
    await press(arrival.page, 'Accept')
    await seeHeading(arrival.page, 'Allow Tool?')
    expect(await detail(arrival.page, 'Organization')).toBe('Demo (demo)')
    expect(claimsOf(await allow(arrival)).org_id).toBe(await app.organization('demo'))
  })

  test("is joined with the invitation's link too, after signing in", async () => {
    const email = await addPerson('ivan')
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const body = { email, role: 'admin' }
    const { url } = (await app.request('POST', '/organizations/current/invitations', { token, body })).body
    const page = await usePage()
    await page.goto(url)
    await signInWithPassword(page, email, password)
    await seeHeading(page, 'Invitations')
    await page.getByText('admin@demo.test invited you to join Demo (demo) as an admin.').waitFor()
    await press(page, 'Accept')
    await page.getByRole('status').filter({ hasText: 'You’re now an admin of Demo.' }).waitFor()
    await page.getByText('You have no open invitations.').waitFor()
  })

  test('is chosen with the most prominent control of its page', async () => {
    const { page } = await arrive(app.url)
    await press(page, 'member@demo.test')
    const [choose, create] = [page.getByRole('link', { name: 'Demo' }), page.getByRole('button')]
    expect(await create.innerText()).toBe('Create organization')
    expect([await backgroundOf(choose), await backgroundOf(create)]).toEqual([
      expect.stringMatching(/^rgb\(/),
      'rgba(0, 0, 0, 0)',
    ])
  })

  test('can be changed without signing in again', async () => {
    const first = await arrive(app.url)
    await press(first.page, 'member@demo.test')
    await follow(first.page, 'Demo')
    const before = await allow(first)
    const second = await arrive(app.url, { page: first.page, parameters: { prompt: 'consent' } })
    await follow(second.page, 'Demo')
    await follow(second.page, 'Choose another organization')
    await follow(second.page, 'Other')
    const after = await allow(second)
    expect([claimsOf(before).org_id, claimsOf(after).org_id]).toEqual([
      await app.organization('demo'),
      await app.organization('other'),
    ])
    expect(claimsOf(after).sub).toBe(claimsOf(before).sub)
  })
})

describe('consent', () => {
  test('lists what the app will be able to do, including in the user’s open pages', async () => {
    const { page } = await arrive(app.url)
    await press(page, 'admin@demo.test')
    await seeHeading(page, 'Allow Tool?')
    expect(await page.getByRole('listitem').allInnerTexts()).toEqual([
      'read and change everything that you can, through the API',
      'use every tool that you can use, through MCP',
      'see and use the tools of the pages that you have open',
      'use your organization’s connectors as you',
    ])
    await arrive(app.url, { page, parameters: { resource: `${app.url}/api` } })
    await seeHeading(page, 'Allow Tool?')
    expect(await page.getByRole('listitem').allInnerTexts()).toEqual([
      'read and change everything that you can, through the API',
    ])
  })

  test('left with the Back button explains how to return, and Forward works', async () => {
    const { page } = await arrive(app.url)
    await press(page, 'admin@demo.test')
    await seeHeading(page, 'Allow Tool?')
    await page.goBack()
    await seeHeading(page, 'This page is no longer valid')
    await page.getByText('press Forward to return to where you were').waitFor()
    await page.goForward()
    await seeHeading(page, 'Allow Tool?')
  })

  test('escapes a client’s name, shows the host it redirects to, and can be denied', async () => {
    const name = '<img src=x onerror="document.title=1"><h1>Sure</h1>'
    const { page } = await arrive(app.url, {
      metadata: { client_name: name, redirect_uris: [webUri] },
      parameters: { redirect_uri: webUri },
    })
    await press(page, 'admin@demo.test')
    await seeHeading(page, `Allow ${name}?`)
    expect(await page.getByRole('heading').count()).toBe(1)
    expect(await page.getByRole('img').count()).toBe(0)
    expect(await page.title()).toBe('Allow access · Inlay')
    expect(await detail(page, 'You’ll be redirected to')).toBe('app.example.com')
    const left = page.waitForRequest((request) => request.url().startsWith(webUri))
    await press(page, 'Cancel')
    const { searchParams } = new URL((await left).url())
    expect(Object.fromEntries(searchParams)).toMatchObject({ error: 'access_denied', state: 'state', iss: app.url })
  })
})

describe('a third party’s server', () => {
  async function visitThird(name: string) {
    const third = await startThirdParty()
    onTestFinished(() => third.stop())
    const page = await visitConnector(app, { name, server_url: third.serverUrl })
    await seeHeading(page, `Connect ${name}?`)
    return { page, third, goOn: `Continue to ${new URL(third.url).host}` }
  }

  test('is connected by allowing access there, and disconnected on the same page', async () => {
    const { page, third, goOn } = await visitThird('tracker')
    expect(await detail(page, 'Server')).toBe(third.serverUrl)
    expect(await detail(page, 'Added by')).toBe('an administrator of Demo')
    expect(await detail(page, 'Status')).toBe('Not connected')
    expect(await page.getByRole('button', { name: 'Disconnect' }).count()).toBe(0)
    await press(page, 'Connect')
    await seeHeading(page, `Continue to ${new URL(third.url).host}?`)
    await follow(page, goOn)
    await seeHeading(page, 'You’re connected to tracker')
    expect(new URL(page.url()).search, 'the code is not kept in the URL').toBe('')
    expect(await detail(page, 'Status')).toBe('Connected')
    await press(page, 'Disconnect')
    await page.getByRole('status').filter({ hasText: 'You’re disconnected.' }).waitFor()
    await seeHeading(page, 'Connect tracker?')
    expect(await detail(page, 'Status')).toBe('Not connected')
    expect(third.revoked.map(({ form }) => form.token_type_hint)).toEqual(['refresh_token', 'access_token'])
  })

  test('can be left before anything is allowed', async () => {
    const { page } = await visitThird('left')
    await press(page, 'Connect')
    await follow(page, 'Back')
    await seeHeading(page, 'Connect left?')
    expect(await page.getByRole('alert').count()).toBe(0)
  })

  test.each([
    ['denies it', 'denied', { denies: true }, 'The server denied access.'],
    ['fails', 'failed', { instead: { '/token': failWith500 } }, /^The server responded: .*500/],
  ])('that %s stays disconnected, and the page shows why', async (_, name, behaviour, problem) => {
    const { page, third, goOn } = await visitThird(name)
    Object.assign(third, behaviour)
    await press(page, 'Connect')
    await follow(page, goOn)
    await page.getByRole('alert').filter({ hasText: problem }).waitFor()
    await seeHeading(page, `Connect ${name}?`)
    expect(await detail(page, 'Status')).toBe('Not connected')
  })
})

const failWith500 = (response: ServerResponse) => response.writeHead(500).end()

test('no page can be framed by another site', async () => {
  const { page } = await arrive(app.url)
  const signIn = page.url()
  const frame = (name: string, address: string) => `<iframe title="${name}" src="${address}"></iframe>`
  const harmless = await useSite('<h1>Sign in</h1>')
  const frames = [frame('ours', signIn), frame('password', `${app.url}/sign-in/set-password`), frame('other', harmless)]
  await page.goto(await useSite(frames.join('')))
  const headings = (title: string) => page.frameLocator(`[title=${title}]`).getByRole('heading').count()
  expect(await headings('other'), 'frames work here').toBe(1)
  expect([await headings('ours'), await headings('password')]).toEqual([0, 0])
})
