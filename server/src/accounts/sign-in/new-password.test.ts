import * as oauth from 'openid-client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Browser } from '../../../test/browser.ts'
import { type HttpService, startHttpService } from '../../../test/http-server.ts'
import { begin, exchange, obtain, prepare, register } from '../../../test/oauth-client.ts'
import { addLocalUser, findLocalAccount } from '../users/local-accounts.ts'
import { createPasswordLink } from './password-pages.ts'

const [before, after] = ['correct horse battery', 'staple correct horse']
let app: HttpService
let people = 0
beforeAll(async () => {
  app = await startHttpService()
})
afterAll(() => app.close())

async function addPerson(): Promise<string> {
  people += 1
  const email = `person-${people}@example.com`
  await addLocalUser(app.service, { email, name: 'Person', password: before })
  return email
}

/** Signs in with a password, and allows a client. */
async function signIn(email: string, password: string) {
  const { config, attempt, browser } = await begin(app.url)
  await browser.press('Sign in', { email, password })
  await browser.follow('Continue without an organization')
  await browser.press('Allow')
  return { config, browser, tokens: await exchange(config, attempt, browser.left as URL) }
}

/** Uses a link, in a browser without a session. */
async function choosePassword(email: string, password: string): Promise<void> {
  const account = await findLocalAccount(app.service, email)
  if (!account) throw new Error(`No account ${email}`)
  const browser = await new Browser(app.url).open(await createPasswordLink(app.service, app.url, account))
  await browser.press('Set password', { password, repeated: password })
  expect(browser.text).toContain('Your password is set')
}

const status = async (token: string) => (await app.request('GET', '/users/me', { token })).status

test('a new password ends all sessions of the user and their tokens', async () => {
  const email = await addPerson()
  const sessions = [await signIn(email, before), await signIn(email, before)]
  const other = await register(app.url)
  const { refresh_token } = await obtain(other, 'admin@demo.test')
  for (const { tokens } of sessions) expect(await status(tokens.access_token), 'cached').toBe(200)

  await choosePassword(email, after)
  for (const { config, browser, tokens } of sessions) {
    expect(await status(tokens.access_token), 'immediately on this node').toBe(401)
    const refreshed = oauth.refreshTokenGrant(config, String(tokens.refresh_token))
    await expect(refreshed).rejects.toMatchObject({ error: 'invalid_grant' })
    await begin(app.url, {}, {}, browser)
    expect(browser.text).toContain('Sign in to continue to Tool')
  }
  expect(await oauth.refreshTokenGrant(other, String(refresh_token)), 'other users are not affected').toHaveProperty(
    'access_token',
  )
})

test('after a new password, the same browser has to sign in and consent again', async () => {
  const email = await addPerson()
  const { config, browser } = await signIn(email, before)
  await choosePassword(email, after)
  const attempt = await prepare(config, {}, browser)
  await browser.open(attempt.url)
  await browser.press('Sign in', { email, password: before })
  expect(browser.text).toContain('The email address or password is incorrect.')
  await browser.press('Sign in', { email, password: after })
  expect(browser.left, 'an earlier consent does not count').toBeUndefined()
  await browser.follow('Continue without an organization')
  await browser.press('Allow')
  const tokens = await exchange(config, attempt, browser.left as URL)
  expect(await status(tokens.access_token)).toBe(200)
  expect(await oauth.refreshTokenGrant(config, String(tokens.refresh_token))).toHaveProperty('access_token')
})

test('a new password ends a consent in progress', async () => {
  const email = await addPerson()
  const { browser } = await begin(app.url)
  await browser.press('Sign in', { email, password: before })
  await browser.follow('Continue without an organization')
  await choosePassword(email, after)
  await browser.press('Allow')
  expect(browser.left).toBeUndefined()
  expect(browser.page?.status).toBe(400)
})

test('a node that missed the message notices within 30 seconds', async () => {
  const email = await addPerson()
  const { tokens } = await signIn(email, before)
  expect(await status(tokens.access_token)).toBe(200)
  // Changes the database directly, as if the message was lost.
  await app.service.database.asService(
    (sql) => sql`update users set session_generation = session_generation + 1 where email = ${email}`,
  )
  expect(await status(tokens.access_token), 'cached').toBe(200)
  app.clock.now += 30_001
  expect(await status(tokens.access_token)).toBe(401)
})
