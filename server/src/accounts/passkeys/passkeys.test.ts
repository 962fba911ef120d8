import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { Authenticator, cborBytes, cborText, type Deviation } from '../../../test/authenticator.ts'
import { Browser } from '../../../test/browser.ts'
import { type HttpService, startHttpService } from '../../../test/http-server.ts'
import { begin } from '../../../test/oauth-client.ts'
import { newEmail } from '../../../test/sample-helpers.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { createPasswordLink } from '../sign-in/password-pages.ts'
import { signInMethods } from '../sign-in/sign-in.ts'
import { addLocalUser, findLocalAccount, insertLocalUser } from '../users/local-accounts.ts'
import { hashPassword } from '../users/passwords.ts'
import { listPasskeys, mostPasskeys } from './passkeys.ts'

const password = 'plum lantern harbor'

let app: HttpService
beforeAll(async () => {
  app = await startHttpService()
})
afterAll(() => app.close())

async function addUser() {
  const email = newEmail()
  const { id } = await addLocalUser(app.service, { email, name: 'Ivy', password })
  return { id, email }
}

async function openAccount(email: string) {
  const browser = await new Browser(app.url).open(`${app.url}/account`)
  return browser.press('Sign in', { email, password })
}

async function addTo(browser: Browser, name = 'Laptop', deviation: Deviation = {}) {
  const authenticator = new Authenticator(app.url)
  await browser.press('Add a passkey', { name, response: authenticator.create(browser.html, deviation) })
  return authenticator
}

/** A user with a passkey. */
async function enrol(user?: { id: string; email: string }) {
  const { id, email } = user ?? (await addUser())
  const browser = await openAccount(email)
  const authenticator = await addTo(browser)
  return { id, email, browser, authenticator }
}

async function signIn(authenticator: Authenticator, deviation: Deviation = {}) {
  const { browser } = await begin(app.url)
  return browser.press('Sign in with a passkey', { response: authenticator.get(browser.html, deviation) })
}

const isSignedIn = ({ text }: Browser, email: string) => text.includes(`Signed in as ${email}`)
const namesOf = async (userId: string) => (await listPasskeys(app.service, userId)).map(({ name }) => name)

describe('a passkey', () => {
  test('is added with a name, signs the user in, and is removed', async () => {
    const { id, email, browser, authenticator } = await enrol()
    expect(browser.text).toMatch(/Laptop Added [\d-]{10}, not used yet/)
    expect(isSignedIn(await signIn(authenticator), email)).toBe(true)
    await browser.open('/account')
    expect(browser.text).toMatch(/last used [\d-]{10}/)
    await browser.press('Remove')
    expect(await namesOf(id)).toEqual([])
    const refused = await signIn(authenticator)
    expect([refused.page?.status, refused.text]).toEqual([
      400,
      expect.stringContaining('This passkey wasn’t accepted.'),
    ])
    expect(isSignedIn(await browser.open('/account'), email), 'sessions go on').toBe(true)
  })

  test('is both factors: no code is asked for after it', async () => {
    const { id, email, authenticator } = await enrol()
    await app.service.database.asService(
      (sql) => sql`insert into second_factors (id, key_sealed, last_step) values (${id}, 'sealed', 0)`,
    )
    const withPassword = (await begin(app.url)).browser
    expect((await withPassword.press('Sign in', { email, password })).text).toContain('Enter your code')
    expect(isSignedIn(await signIn(authenticator), email)).toBe(true)
  })

  const deviations: [string, Deviation][] = [
    ['from another origin', { origin: 'https://evil.example.com' }],
    ['for another relying party', { rpId: 'evil.example.com' }],
    ['without user verification', { isVerified: false }],
    ['for another challenge', { challenge: Buffer.alloc(32).toString('base64url') }],
  ]

  test.each([...deviations, ['that is a sign-in', { type: 'webauthn.get' }]] satisfies [string, Deviation][])(
    'isn’t added by a response %s',
    async (_, deviation) => {
      const { id, email } = await addUser()
      const browser = await openAccount(email)
      await addTo(browser, 'Laptop', deviation)
      expect([browser.page?.status, browser.text]).toEqual([400, expect.stringContaining('the passkey wasn’t added.')])
      expect(await namesOf(id)).toEqual([])
    },
  )

  test('isn’t added with a certificate, because the server would fetch the URLs in it', async () => {
    const statement = Buffer.concat([
      Buffer.from([0xa3]),
      cborText('alg'),
      Buffer.from([0x26]),
      cborText('sig'),
      cborBytes(Buffer.alloc(70)),
      cborText('x5c'),
      Buffer.from([0x81]),
      cborBytes(Buffer.alloc(300)),
    ])
    const { id, email } = await addUser()
    await addTo(await openAccount(email), 'Laptop', { attestation: { fmt: 'packed', statement } })
    expect(await namesOf(id)).toEqual([])
    expect(app.logged()).toContain('The attestation has certificates')
  })

  test.each([
    ...deviations,
    ['that is a registration', { type: 'webauthn.create' }],
    ['with another user’s handle', { userHandle: Buffer.from(newId()).toString('base64url') }],
    ['without a user’s handle', { userHandle: '' }],
  ] satisfies [string, Deviation][])('doesn’t sign in with a response %s', async (_, deviation) => {
    const { email, authenticator } = await enrol()
    const browser = await signIn(authenticator, deviation)
    expect([browser.page?.status, isSignedIn(browser, email)]).toEqual([400, false])
    expect(isSignedIn(await signIn(authenticator), email), 'the honest response').toBe(true)
  })

  test.each([
    ['nothing', ''],
    ['text that isn’t JSON', '{'],
    ['another type', '[]'],
    ['an unknown credential', JSON.stringify({ id: 'AAAA', rawId: 'AAAA', type: 'public-key', response: {} })],
    ['values that aren’t base64url', JSON.stringify({ id: '\0', rawId: '\0', type: 'public-key', response: {} })],
    ['a long credential ID', JSON.stringify({ id: 'A'.repeat(5000), rawId: 'A', type: 'public-key', response: {} })],
  ])('is refused if the response is %s', async (_, response) => {
    const { browser } = await begin(app.url)
    await browser.press('Sign in with a passkey', { response })
    expect(browser.page?.status).toBe(400)
    const account = await openAccount((await addUser()).email)
    await account.press('Add a passkey', { name: 'Laptop', response })
    expect(account.page?.status).toBe(400)
  })

  test('is refused if the signature is of another key', async () => {
    const { email, authenticator } = await enrol()
    const { browser } = await begin(app.url)
    const forged = JSON.parse(new Authenticator(app.url).get(browser.html))
    const honest = JSON.parse(authenticator.get(browser.html))
    honest.response.signature = forged.response.signature
    await browser.press('Sign in with a passkey', { response: JSON.stringify(honest) })
    expect([browser.page?.status, isSignedIn(browser, email)]).toEqual([400, false])
  })

  test('signs in once per response, in the visit that it was created for', async () => {
    const { email, authenticator } = await enrol()
    const { browser } = await begin(app.url)
    const [again, concurrent] = [browser.fork(), browser.fork()]
    for (const tab of [again, concurrent]) Object.assign(tab, { page: browser.page })
    const response = authenticator.get(browser.html)
    await Promise.all([browser, concurrent].map((tab) => tab.press('Sign in with a passkey', { response })))
    expect([browser, concurrent].filter((tab) => isSignedIn(tab, email))).toHaveLength(1)
    await again.press('Sign in with a passkey', { response })
    expect([again.page?.status, again.text]).toEqual([400, expect.stringContaining('This page is no longer valid')])
    const other = (await begin(app.url)).browser
    await other.press('Sign in with a passkey', { response })
    expect([other.page?.status, isSignedIn(other, email)]).toEqual([400, false])
  })

  test('whose counter doesn’t rise may be a copy, and is refused', async () => {
    const { email, authenticator } = await enrol()
    authenticator.counter = 5
    expect(isSignedIn(await signIn(authenticator), email)).toBe(true)
    for (const counter of [5, 4, 0]) {
      expect(isSignedIn(await signIn(authenticator, { counter }), email), `counter ${counter}`).toBe(false)
    }
    expect(isSignedIn(await signIn(authenticator, { counter: 6 }), email)).toBe(true)
  })

  test('is added and removed within 15 minutes of a sign-in, and after signing in again', async () => {
    const { id, email, browser } = await enrol()
    const stale = browser.fork()
    Object.assign(stale, { page: browser.page })
    const removal = browser.fork()
    await removal.open('/account')
    app.clock.now += 16 * 60_000
    await addTo(stale, 'Phone')
    expect([stale.page?.status, stale.text]).toEqual([400, expect.stringContaining('more than 15 minutes ago')])
    await removal.press('Remove')
    expect([removal.page?.status, await namesOf(id)]).toEqual([400, ['Laptop']])
    await browser.open('/account')
    expect(browser.html).not.toContain('/account/passkeys/')
    await browser.follow('Sign in again to change passkeys')
    await browser.press('Sign in', { email, password })
    await addTo(browser, 'Phone')
    expect(await namesOf(id)).toEqual(['Laptop', 'Phone'])
  })

  test('of another user can’t be removed, and isn’t added a second time', async () => {
    const [ann, eve] = [await enrol(), await enrol()]
    const [{ id: target } = { id: '' }] = await listPasskeys(app.service, ann.id)
    await eve.browser.press('Remove', { id: target })
    await eve.browser.press('Remove', { id: 'x' })
    expect([await namesOf(ann.id), await namesOf(eve.id)]).toEqual([['Laptop'], ['Laptop']])
    await eve.browser.press('Add a passkey', { name: 'Hers', response: ann.authenticator.create(eve.browser.html) })
    expect(eve.browser.text).toContain('already belongs to an account')
    expect(
      isSignedIn(await signIn(ann.authenticator, { userHandle: Buffer.from(ann.id).toString('base64url') }), ann.email),
    ).toBe(true)
  })

  test(`is one of at most ${mostPasskeys}, also if the last ones are added concurrently`, async () => {
    const { id, email, browser } = await enrol()
    await app.service.database.asService(
      (sql) => sql`
        insert into passkeys (id, user_id, name, credential_id, public_key, counter)
        select gen_random_uuid(), ${id}, 'Old', ${id} || n, '', 0 from generate_series(1, ${mostPasskeys - 2}) n`,
    )
    const tabs = await Promise.all([1, 2, 3].map(() => browser.fork().open('/account')))
    await Promise.all(tabs.map((tab) => addTo(tab, 'New')))
    expect(await namesOf(id)).toHaveLength(mostPasskeys)
    expect(tabs.map(({ page }) => page?.status).sort()).toEqual([200, 400, 400])
    const full = await openAccount(email)
    expect(full.text).toContain(`You have ${mostPasskeys} passkeys. Remove one to add another.`)
  })

  test.each([
    ['', 'Must not be empty'],
    ['x'.repeat(61), 'up to 60 characters'],
    ['Lap\u202Etop', 'right-to-left override'],
  ])('doesn’t get the name %j', async (name, reason) => {
    const { id, email } = await addUser()
    const browser = await openAccount(email)
    await addTo(browser, name)
    expect([browser.page?.status, browser.text]).toEqual([400, expect.stringContaining(reason)])
    expect(await namesOf(id)).toEqual([])
  })

  test('has forms that other websites and signed-out users can’t send', async () => {
    const { id, browser } = await enrol()
    const tab = await browser.fork().open('/account')
    await tab.press('Remove', {}, { origin: 'https://evil.example.com' })
    expect(tab.page?.status).toBe(403)
    const body = new URLSearchParams(browser.form('Remove').fields)
    const headers = { origin: app.url }
    expect((await app.fetch('/account/passkeys/remove', { method: 'POST', body, headers })).status).toBe(400)
    expect(await namesOf(id)).toEqual(['Laptop'])
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
    expect(isSignedIn(await signIn(verified.authenticator), verified.email)).toBe(true)

    const email = newEmail()
    const passwordHash = await hashPassword(password)
    const { id } = await app.service.database.asService((sql) =>
      insertLocalUser(sql, { email, name: 'Squatter', passwordHash, isVerified: false }),
    )
    const { authenticator } = await enrol({ id, email })
    await setPassword(email)
    expect(isSignedIn(await signIn(authenticator), email), 'it isn’t the owner’s').toBe(false)
  })

  test('is recorded for the user’s organizations', async () => {
    const { id, email } = await addUser()
    const demo = await app.organization('demo')
    await app.service.database.asOrg(
      demo,
      (sql) =>
        sql`insert into members (organization_id, id, user_id, role) values (${demo}, ${newId()}, ${id}, 'member')`,
    )
    const { browser, authenticator } = await enrol({ id, email })
    await signIn(authenticator)
    await browser.press('Remove')
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const { events } = (await app.request('GET', `/audit-events?target=${id}`, { token })).body
    expect(events.slice(0, 3)).toMatchObject([
      { action: 'user.passkey_removed', actor: email, data: { name: 'Laptop' } },
      { action: 'user.signed_in', data: { method: 'passkey' } },
      { action: 'user.passkey_added', actor: email, data: { name: 'Laptop' } },
    ])
  })

  test('whose response is refused is recorded as a failed sign-in', async () => {
    const { id, email } = await addUser()
    const demo = await app.organization('demo')
    await app.service.database.asOrg(
      demo,
      (sql) =>
        sql`insert into members (organization_id, id, user_id, role) values (${demo}, ${newId()}, ${id}, 'member')`,
    )
    const { authenticator } = await enrol({ id, email })
    await signIn(authenticator, { isVerified: false })
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const failures = async () =>
      (await app.request('GET', `/audit-events?target=${id}&action=user.sign_in_failed`, { token })).body.events
    await expect.poll(failures, { timeout: 30_000 }).toMatchObject([{ actor: 'sign-in', data: { failures: 1 } }])
  })
})

test('pages with passkeys allow our own script file, and no inline scripts', async () => {
  const { browser } = await begin(app.url)
  const account = await openAccount((await addUser()).email)
  for (const { page } of [browser, account]) {
    expect(page?.headers.get('content-security-policy')).toMatch(/default-src 'none';.*; script-src 'self'$/)
    expect(page?.html).toContain('<script type="module" src="/passkeys.js"></script>')
  }
  const script = await app.fetch('/passkeys.js')
  expect([script.status, script.headers.get('content-type')]).toEqual([200, 'text/javascript; charset=utf-8'])
})

test.each([
  ['with a sign-in provider', { SIGN_IN_ISSUER: 'https://idp.example.com', SIGN_IN_CLIENT_ID: 'inlay' }],
  ['on an IP address, for which browsers have none', { INLAY_PUBLIC_URL: 'http://127.0.0.1:8787' }],
])('passkeys aren’t offered %s', async (_, env) => {
  const other = await startHttpService(env)
  onTestFinished(() => other.close())
  expect(signInMethods(other.service).passkeys).toBe(false)
  const body = new URLSearchParams({ token: 'x' })
  const headers = { origin: other.url }
  expect((await other.fetch('/account/passkeys/add', { method: 'POST', body, headers })).status).toBe(400)
})
