import { Secret, TOTP } from 'otpauth'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { Browser } from '../../../test/browser.ts'
import { type HttpService, startHttpService } from '../../../test/http-server.ts'
import { begin } from '../../../test/oauth-client.ts'
import { newEmail } from '../../../test/sample-helpers.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { addLocalUser, findLocalAccount, insertLocalUser } from '../users/local-accounts.ts'
import { hashPassword } from '../users/passwords.ts'
import { createPasswordLink } from './password-pages.ts'
import { findSecondFactor } from './second-factor.ts'

const password = 'plum lantern harbor'

let app: HttpService
beforeAll(async () => {
  app = await startHttpService()
})
afterAll(() => app.close())

/** A new time step, so that the next code differs from those before. */
const wait = (seconds = 30) => {
  app.clock.now += seconds * 1000
}

const codeOf = (key: string, offsetSeconds = 0) =>
  new TOTP({ secret: Secret.fromBase32(key) }).generate({ timestamp: app.clock.now + offsetSeconds * 1000 })

async function addUser() {
  const email = newEmail()
  const { id } = await addLocalUser(app.service, { email, name: 'Ivy', password })
  return { id, email }
}

async function openAccount(email: string) {
  const browser = await new Browser(app.url).open(`${app.url}/account`)
  return browser.press('Sign in', { email, password })
}

/** A user with an authenticator app, and the browser that they set it up in. */
async function enrol(user?: { id: string; email: string }) {
  const { id, email } = user ?? (await addUser())
  const browser = await openAccount(email)
  await browser.press('Set up')
  const key = (/<code>([A-Z2-7 ]+)<\/code>/.exec(browser.html)?.[1] ?? '').replaceAll(' ', '')
  await browser.press('Turn on', { code: codeOf(key) })
  const codes = (/<pre>([^<]*)<\/pre>/.exec(browser.html)?.[1] ?? '').split('\n')
  return { id, email, key, codes, browser }
}

/** Enters the password of a new sign-in. */
async function enterPassword(email: string) {
  const { browser } = await begin(app.url)
  return browser.press('Sign in', { email, password })
}

async function signIn(email: string, code: string) {
  const browser = await enterPassword(email)
  await browser.press('Continue', { code })
  return browser
}

const isSignedIn = ({ text }: Browser, email: string) => text.includes(`Signed in as ${email}`)

describe('a second factor', () => {
  test('is set up with a QR code and a key, and confirmed with a code', async () => {
    const { id, email } = await addUser()
    const browser = await openAccount(email)
    await browser.press('Set up')
    expect(browser.html).toContain('<svg')
    const key = (/<code>([A-Z2-7 ]+)<\/code>/.exec(browser.html)?.[1] ?? '').replaceAll(' ', '')
    expect(key).toHaveLength(32)
    await browser.press('Turn on', { code: codeOf(key, 3600) })
    expect([browser.page?.status, browser.text]).toEqual([400, expect.stringContaining('This code is incorrect.')])
    expect(await findSecondFactor(app.service, id), 'still off').toBeUndefined()
    await browser.press('Turn on', { code: codeOf(key) })
    expect(browser.text).toContain('Your second factor is on')
    expect(await findSecondFactor(app.service, id)).toMatchObject({ codes_left: 10 })
  })

  test('is only set up soon after signing in, from the first step to the last', async () => {
    const { id, email } = await addUser()
    const browser = await openAccount(email)
    const stale = 'You signed in more than 15 minutes ago.'
    await browser.press('Set up')
    const key = (/<code>([A-Z2-7 ]+)<\/code>/.exec(browser.html)?.[1] ?? '').replaceAll(' ', '')
    wait(15 * 60)
    await browser.press('Turn on', { code: codeOf(key) })
    expect([browser.page?.status, browser.text]).toEqual([400, expect.stringContaining(stale)])
    expect(browser.text).toContain('Sign in again to set it up')
    expect(await findSecondFactor(app.service, id)).toBeUndefined()

    const other = await openAccount(email)
    wait(15 * 60)
    await other.press('Set up')
    expect([other.page?.status, other.text]).toEqual([400, expect.stringContaining(stale)])
  })

  test('is asked for after the password, and only then signs the user in', async () => {
    const { email, key } = await enrol()
    wait()
    const browser = await enterPassword(email)
    expect(browser.text).toContain('Enter your code')
    expect(isSignedIn(await browser.fork().open(`${app.url}/account`), email), 'the password isn’t enough').toBe(false)
    await browser.press('Continue', { code: codeOf(key) })
    expect(isSignedIn(browser, email)).toBe(true)
  })

  test.each([
    ['of the step before', -30, true],
    ['of the next step', 30, true],
    ['of two steps before', -60, false],
    ['of two steps later', 60, false],
  ])('accepts a code %s: %s s, %s', async (_, offset, isAccepted) => {
    const { email, key } = await enrol()
    wait(300)
    expect(isSignedIn(await signIn(email, codeOf(key, offset)), email)).toBe(isAccepted)
  })

  test('refuses a code that was used, also an older one, and one of two concurrent uses', async () => {
    const { email, key } = await enrol()
    expect(isSignedIn(await signIn(email, codeOf(key)), email), 'the code of the enrolment').toBe(false)
    wait(90)
    const code = codeOf(key)
    const browsers = [await enterPassword(email), await enterPassword(email)]
    await Promise.all(browsers.map((browser) => browser.press('Continue', { code })))
    expect(browsers.filter((browser) => isSignedIn(browser, email))).toHaveLength(1)
    wait(10)
    expect(isSignedIn(await signIn(email, codeOf(key, -30)), email)).toBe(false)
  })

  test('accepts each recovery code once, with or without hyphens', async () => {
    const { id, email, codes } = await enrol()
    expect(new Set(codes).size).toBe(10)
    const [first = '', second = ''] = codes
    expect(isSignedIn(await signIn(email, first), email)).toBe(true)
    expect(isSignedIn(await signIn(email, first), email)).toBe(false)
    expect(isSignedIn(await signIn(email, ` ${second.replaceAll('-', '').toUpperCase()} `), email)).toBe(true)
    expect(await findSecondFactor(app.service, id)).toMatchObject({ codes_left: 8 })
  })

  test('is stored encrypted, and its recovery codes as hashes', async () => {
    const { id, key, codes } = await enrol()
    const rows = await app.service.database.asService(async (sql) => [
      ...(await sql`select key_sealed as stored from second_factors where id = ${id}`),
      ...(await sql`select code_hash as stored from recovery_codes where user_id = ${id}`),
    ])
    expect(rows).toHaveLength(11)
    const stored = JSON.stringify(rows)
    for (const secret of [key, ...codes]) expect(stored).not.toContain(secret)
  })

  test('slows down guesses for the account, from all visits together', async () => {
    const { email, key } = await enrol()
    wait()
    for (let turn = 0; turn < 3; turn += 1) await signIn(email, '000000')
    const browser = await signIn(email, codeOf(key))
    expect([browser.page?.status, browser.text]).toEqual([429, expect.stringContaining('Too many incorrect codes.')])
    expect(browser.page?.headers.get('retry-after')).toBe('1')
    wait(2)
    await browser.press('Continue', { code: codeOf(key) })
    expect(isSignedIn(browser, email)).toBe(true)
  })

  test('is turned off with a code, and not without one', async () => {
    const { id, email, key, browser } = await enrol()
    await browser.follow('Done')
    await browser.press('Turn off', { code: '000000' })
    expect(browser.page?.status).toBe(400)
    expect(await findSecondFactor(app.service, id)).toBeDefined()
    wait()
    await browser.press('Turn off', { code: codeOf(key) })
    expect(await findSecondFactor(app.service, id)).toBeUndefined()
    expect(isSignedIn(await enterPassword(email), email)).toBe(true)
  })

  test('can’t be replaced by setting up another', async () => {
    const user = await addUser()
    const tabs = [await openAccount(user.email), await openAccount(user.email)]
    const keys = []
    for (const tab of tabs) {
      await tab.press('Set up')
      keys.push((/<code>([A-Z2-7 ]+)<\/code>/.exec(tab.html)?.[1] ?? '').replaceAll(' ', ''))
    }
    for (const [index, tab] of tabs.entries()) await tab.press('Turn on', { code: codeOf(keys[index] ?? '') })
    wait()
    expect(isSignedIn(await signIn(user.email, codeOf(keys[1] ?? '')), user.email)).toBe(false)
    wait(60)
    expect(isSignedIn(await signIn(user.email, codeOf(keys[0] ?? '')), user.email)).toBe(true)
  })

  test('survives a new password, except on an account whose address nobody had verified', async () => {
    const setPassword = async (email: string) => {
      const account = await findLocalAccount(app.service, email)
      if (!account) throw new Error(`No account ${email}`)
      const browser = await new Browser(app.url).open(await createPasswordLink(app.service, app.url, account))
      await browser.press('Set password', { password: 'walnut bicycle thunder', repeated: 'walnut bicycle thunder' })
    }
    const verified = await enrol()
    await setPassword(verified.email)
    expect(await findSecondFactor(app.service, verified.id)).toBeDefined()

    const email = newEmail()
    const passwordHash = await hashPassword(password)
    const { id } = await app.service.database.asService((sql) =>
      insertLocalUser(sql, { email, name: 'Squatter', passwordHash, isVerified: false }),
    )
    await enrol({ id, email })
    await setPassword(email)
    expect(await findSecondFactor(app.service, id), 'it isn’t the owner’s').toBeUndefined()
  })

  test('of another user, or in another visit, can’t be used', async () => {
    const [ann, eve] = [await enrol(), await enrol()]
    wait()
    expect(isSignedIn(await signIn(ann.email, codeOf(eve.key)), ann.email)).toBe(false)
    const [mine, other] = [await enterPassword(eve.email), await enterPassword(ann.email)]
    const { fields } = other.form('Continue')
    wait()
    await mine.press('Continue', { pending: fields.pending ?? '', code: codeOf(ann.key) })
    expect(isSignedIn(mine, ann.email)).toBe(false)
    expect(mine.text).toContain('Enter your password again.')
  })

  test('has forms that other websites and signed-out users can’t send', async () => {
    const { email } = await addUser()
    const browser = await openAccount(email)
    const { fields } = browser.form('Set up')
    const tab = browser.fork()
    await browser.press('Set up', {}, { origin: 'https://evil.example.com' })
    expect(browser.page?.status).toBe(403)
    const headers = { origin: app.url }
    const body = new URLSearchParams(fields)
    expect((await app.fetch('/account/second-factor/start', { method: 'POST', body, headers })).status).toBe(400)
    await tab.open(`${app.url}/account`)
    expect(tab.text).toContain('Set up')
  })

  test('whose code is wrong is recorded as a failed sign-in', async () => {
    const { id, email } = await enrol()
    const demo = await app.organization('demo')
    await app.service.database.asOrg(
      demo,
      (sql) =>
        sql`insert into members (organization_id, id, user_id, role) values (${demo}, ${newId()}, ${id}, 'member')`,
    )
    await signIn(email, '000000')
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const failures = async () =>
      (await app.request('GET', `/audit-events?target=${id}&action=user.sign_in_failed`, { token })).body.events
    await expect.poll(failures, { timeout: 30_000 }).toMatchObject([{ actor: 'sign-in', data: { failures: 1 } }])
  })

  test('is recorded for the user’s organizations', async () => {
    const account = await findLocalAccount(app.service, 'member@demo.test')
    const browser = await new Browser(app.url).open(`${app.url}/account`)
    await browser.press('member@demo.test')
    await browser.press('Set up')
    const key = (/<code>([A-Z2-7 ]+)<\/code>/.exec(browser.html)?.[1] ?? '').replaceAll(' ', '')
    await browser.press('Turn on', { code: codeOf(key) })
    const [code = ''] = (/<pre>([^<]*)<\/pre>/.exec(browser.html)?.[1] ?? '').split('\n')
    await browser.follow('Done')
    await browser.press('Turn off', { code })
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const { events } = (await app.request('GET', `/audit-events?target=${account?.id}`, { token })).body
    expect(events.slice(0, 3).map(({ action }: { action: string }) => action)).toEqual([
      'user.second_factor_removed',
      'user.recovery_code_used',
      'user.second_factor_added',
    ])
  })
})

test('with a sign-in provider, users set up their second factor there', async () => {
  const other = await startHttpService({ SIGN_IN_ISSUER: 'https://idp.example.com', SIGN_IN_CLIENT_ID: 'inlay' })
  onTestFinished(() => other.close())
  const body = new URLSearchParams({ token: 'x' })
  const headers = { origin: other.url }
  expect((await other.fetch('/account/second-factor/start', { method: 'POST', body, headers })).status).toBe(400)
})
