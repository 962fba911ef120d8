import { refreshTokenGrant } from 'openid-client'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { Browser } from '../../../test/browser.ts'
import { type HttpService, startHttpService } from '../../../test/http-server.ts'
import { begin, exchange } from '../../../test/oauth-client.ts'
import { newEmail } from '../../../test/sample-helpers.ts'
import { type SmtpServer, startSmtp } from '../../../test/smtp.ts'
import { foundOrganization } from '../../organizations/organizations/organizations.ts'
import { addLocalUser, insertLocalUser } from '../users/local-accounts.ts'
import { hashPassword } from '../users/passwords.ts'

const password = 'plum lantern harbor'
const fresh = 'walnut bicycle thunder'

let app: HttpService
let smtp: SmtpServer
beforeAll(async () => {
  smtp = await startSmtp()
  app = await startHttpService({ ...smtp.env, INLAY_TRUSTED_PROXIES: '127.0.0.0/8, ::1/128' })
})
afterAll(async () => {
  await app.close()
  await smtp.close()
})

let networks = 0
function newNetwork(): string {
  networks += 1
  return `198.51.100.${networks}`
}

async function addUser() {
  const email = newEmail()
  await addLocalUser(app.service, { email, name: 'Ivy', password })
  return email
}

async function forget(email: string, network = newNetwork()) {
  const browser = new Browser(app.url, { 'x-forwarded-for': network })
  await browser.open(`${app.url}/sign-in/forgot-password`)
  return browser.press('Send link', { email })
}

const linkTo = async (email: string, count = 1) =>
  /http\S+token=[\w-]+/.exec((await smtp.mailTo(email, count)).text)?.[0] ?? ''
const open = (url: string) => new Browser(app.url).open(url)
const setPassword = (browser: Browser, chosen = fresh) =>
  browser.press('Set password', { password: chosen, repeated: chosen })

/** Waits until the server has handled all requests before. */
async function settle() {
  const email = await addUser()
  await forget(email)
  await smtp.mailTo(email)
}

async function canSignIn(email: string, chosen: string) {
  const { browser } = await begin(app.url)
  await browser.press('Sign in', { email, password: chosen })
  return browser.text.includes(`Signed in as ${email}`)
}

describe('a forgotten password', () => {
  test('is replaced with a mailed link, which works once and ends all sessions and tokens', async () => {
    const email = await addUser()
    const visit = await begin(app.url)
    expect(visit.browser.html).toContain('<a href="/sign-in/forgot-password">Forgot password?</a>')
    await visit.browser.press('Sign in', { email, password })
    await visit.browser.follow('Continue without an organization')
    await visit.browser.press('Allow')
    const tokens = await exchange(visit.config, visit.attempt, visit.browser.left as URL)
    expect((await app.request('GET', '/users/me', { token: tokens.access_token })).status).toBe(200)

    const answer = await forget(email)
    expect(answer.text).toContain(`If ${email} has an account here, we’re mailing a link to it.`)
    const url = await linkTo(email)
    await setPassword(await open(url))
    expect((await app.request('GET', '/users/me', { token: tokens.access_token })).status).toBe(401)
    await expect(refreshTokenGrant(visit.config, tokens.refresh_token as string)).rejects.toThrow()
    expect(await canSignIn(email, password)).toBe(false)
    expect(await canSignIn(email, fresh)).toBe(true)
    expect((await open(url)).page?.status, 'once').toBe(404)
  })

  test('looks the same for an address without an account, and mails nothing', async () => {
    const [known, unknown] = [await addUser(), newEmail()]
    const pages = [await forget(known), await forget(unknown)].map(({ page, text }, index) => ({
      status: page?.status,
      text: text.replace(index ? unknown : known, ''),
    }))
    expect(pages[0]).toEqual(pages[1])
    await smtp.mailTo(known)
    await settle()
    expect(smtp.received.some(({ to }) => to.includes(unknown))).toBe(false)
  })

  test('is mailed to an address three times an hour, and the page doesn’t tell', async () => {
    const email = await addUser()
    for (let turn = 0; turn < 5; turn += 1) expect((await forget(email)).page?.status).toBe(200)
    await smtp.mailTo(email, 3)
    await settle()
    expect(smtp.received.filter(({ to }) => to.includes(email))).toHaveLength(3)
  })

  test('can be asked for twenty times an hour from a network', async () => {
    const network = newNetwork()
    for (let turn = 0; turn < 20; turn += 1) expect((await forget(newEmail(), network)).page?.status).toBe(200)
    const refused = await forget(newEmail(), network)
    expect([refused.page?.status, refused.text]).toEqual([429, expect.stringContaining('Try again in an hour.')])
    expect((await forget(newEmail())).page?.status, 'other networks').toBe(200)
  })

  test('has a link that ends when the password is set with another link', async () => {
    const email = await addUser()
    await forget(email)
    const first = await linkTo(email)
    await forget(email)
    const second = await linkTo(email, 2)
    await setPassword(await open(second))
    const late = await setPassword(await open(first), 'copper violin meadow')
    expect(late.page?.status).toBe(404)
    expect(await canSignIn(email, fresh)).toBe(true)
  })

  // Redis has its own clock.
  test.runIf(!inject('engines').redisUrl)('has a link that ends after an hour', async () => {
    const email = await addUser()
    await forget(email)
    const link = await linkTo(email)
    app.clock.now += 61 * 60_000
    const { status } = (await open(link)).page ?? {}
    app.clock.now -= 61 * 60_000
    expect(status).toBe(404)
  })

  test('verifies the address, because only its owner has the link', async () => {
    const email = newEmail()
    const passwordHash = await hashPassword(password)
    const founder = await app.service.database.asService((sql) =>
      insertLocalUser(sql, { email, name: 'Mallory', passwordHash, isVerified: false }),
    )
    await foundOrganization(app.service, { name: 'Made before', founder })
    await forget(email)
    const { text } = await setPassword(await open(await linkTo(email)))
    const [user] = await app.service.database.asService(
      (sql) => sql<{ email_verified: boolean; name: string }>`
        select email_verified, name from users where email = ${email}`,
    )
    expect(user, 'without the name that someone else chose').toEqual({ email_verified: true, name: email })
    expect(text, 'what was done before is shown').toContain('Made before (made-before), as an admin')
    await forget(email)
    expect((await setPassword(await open(await linkTo(email, 2)))).text, 'once').not.toContain('Made before')
  })

  test('is recorded for the user’s organizations', async () => {
    await forget('member@demo.test', '203.0.113.9')
    await smtp.mailTo('member@demo.test')
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const { events } = (await app.request('GET', '/audit-events?action=user.password_reset_requested', { token })).body
    expect(events).toMatchObject([{ actor: 'sign-in', data: { address: '203.0.113.9' } }])
  })

  test.each(['', 'nobody', `${'x'.repeat(250)}@example.com`, 'a@example.com, b@example.com', 'a@example.com\0'])(
    'isn’t looked up for %j',
    async (email) => {
      const browser = await forget(email)
      expect([browser.page?.status, browser.text]).toEqual([400, expect.stringContaining('Enter your email address.')])
    },
  )

  test('is refused if another website sends the form', async () => {
    const browser = await new Browser(app.url).open(`${app.url}/sign-in/forgot-password`)
    await browser.press('Send link', { email: 'member@demo.test' }, { origin: 'https://evil.example.com' })
    expect(browser.page?.status).toBe(403)
  })
})

test.each([
  ['without SMTP', {}],
  ['with a sign-in provider', { SIGN_IN_ISSUER: 'https://idp.example.com', SIGN_IN_CLIENT_ID: 'inlay' }],
])('%s, no page offers a new password', async (_, env) => {
  const plain = await startHttpService({ ...env, ...('SIGN_IN_ISSUER' in env ? smtp.env : {}) })
  expect((await plain.fetch('/sign-in/forgot-password')).status).toBe(404)
  if (!('SIGN_IN_ISSUER' in env)) {
    const { browser } = await begin(plain.url)
    expect(browser.html).not.toContain('Forgot password?')
  }
  await plain.close()
})
