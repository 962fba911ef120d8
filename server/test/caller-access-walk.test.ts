import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { issueAccessToken } from '../src/accounts/access/access-tokens.ts'
import { issuerOfUsers, signInPlanCheck } from '../src/accounts/organization-sign-in/ways-in.ts'
import { createPasswordLink } from '../src/accounts/sign-in/password-pages.ts'
import { addLocalUser, findLocalAccount, type LocalAccount } from '../src/accounts/users/local-accounts.ts'
import { hashPassword } from '../src/accounts/users/passwords.ts'
import { signIn, type User } from '../src/accounts/users/users.ts'
import { addMember } from '../src/console/operator/accounts.ts'
import { resources } from '../src/kernel/http/protected-resources.ts'
import { foundOrganization } from '../src/organizations/organizations/organizations.ts'
import { accessTables, type callerEnds, type callerWays, cellsOf, titleOf } from './access-matrix.ts'
import { Authenticator } from './authenticator.ts'
import { Browser } from './browser.ts'
import { runJob } from './harness.ts'
import { type HttpService, startHttpService } from './http-server.ts'
import { begin, exchange } from './oauth-client.ts'
import { startTestProvider, type TestProvider } from './oidc-provider.ts'
import { proveDomains, scimClient } from './scim.ts'

type Way = (typeof callerWays)[number]
type End = (typeof callerEnds)[number]

const password = 'plum lantern harbor'
const clientSecret = 'secret-of-inlay-at-the-provider'
const hour = 60 * 60_000

let provider: TestProvider
let services: { withPasswords: HttpService; withProvider: HttpService }
/** The one that the current test uses. */
let app: HttpService
let passwordHash: string
beforeAll(async () => {
  provider = await startTestProvider()
  const withProvider = await startHttpService({
    SIGN_IN_ISSUER: provider.issuer,
    SIGN_IN_CLIENT_ID: 'inlay',
    SIGN_IN_CLIENT_SECRET: clientSecret,
  })
  services = { withPasswords: await startHttpService(), withProvider }
  passwordHash = await hashPassword(password)
})
afterAll(async () => {
  await Promise.all(Object.values(services).map((service) => service.close()))
  await provider.stop()
})

const tokenOf = ({ id: userId }: User, organizationId: string, lifetimeSeconds = 3600) =>
  issueAccessToken(app.service, {
    userId,
    organizationId,
    audience: Object.values(resources(app.url)),
    lifetimeSeconds,
  })

async function addUser(email: string): Promise<User> {
  const user = await addLocalUser(app.service, { email, name: 'Ivy' })
  await app.service.database.asService(
    (sql) => sql`update users set password_hash = ${passwordHash} where id = ${user.id}`,
  )
  return user
}

/** The account that a provider's user has before they sign in the next time. */
const addProviderUser = (issuer: string, email: string) =>
  signIn(app.service, { issuer, subject: email, email, email_verified: true, name: 'Ivy', avatar_url: '' })

/** An organization with an admin, who ends access, and a user whose access ends. */
async function usePlace(way: Way) {
  const name = `d${randomUUID().slice(0, 8)}`
  const [admin, email] = [await addUser(`admin@${name}.example`), `ivy@${name}.example`]
  const { id, slug } = await foundOrganization(app.service, { name, founder: admin, planId: 'enterprise' })
  const user = await (way === 'the installation’s provider'
    ? addProviderUser(provider.issuer, email)
    : way === 'single sign-on'
      ? addProviderUser(issuerOfUsers(id, provider.issuer), email)
      : addUser(email))
  await addMember(app.service.config, app.service, id, user, 'member')
  const request = async (method: string, path: string, body?: object) => {
    const answer = await app.request(method, path, { token: await tokenOf(admin, id), body })
    expect(answer.status, JSON.stringify(answer.body)).toBe(200)
    return answer.body
  }
  return { id, slug, name, user, request }
}
type Place = Awaited<ReturnType<typeof usePlace>>

interface Access {
  token: string
  /** The service account. */
  account?: string
  authenticator?: Authenticator
  browser?: Browser
}

/** Signs in for a client in a new browser, and gets the client's token. */
async function signInWith({ name }: Place, press: (browser: Browser) => Promise<Browser>): Promise<Access> {
  const { config, attempt, browser } = await begin(app.url)
  await press(browser)
  if (browser.html.includes('<h1>Choose an organization</h1>')) await browser.follow(name)
  if (!browser.left) await browser.press('Allow')
  if (!browser.left) throw new Error(browser.text)
  return { token: (await exchange(config, attempt, browser.left)).access_token, browser }
}

const byPassword = (place: Place, own = password) =>
  signInWith(place, (browser) => browser.press('Sign in', { email: place.user.email, password: own }))

const byPasskey = (place: Place, authenticator: Authenticator) =>
  signInWith(place, (browser) => browser.press('Sign in with a passkey', { response: authenticator.get(browser.html) }))

/** At the provider to which the browser was sent. */
async function byProvider(browser: Browser, { user: { email } }: Place): Promise<Browser> {
  await provider.expect({ sub: email, email, email_verified: true })
  return browser.open(await provider.visit(String(browser.left)))
}

async function setPassword({ user }: Place, chosen: string): Promise<void> {
  const account = (await findLocalAccount(app.service, user.email)) as LocalAccount
  const browser = await new Browser(app.url).open(await createPasswordLink(app.service, app.url, account))
  await browser.press('Set password', { password: chosen, repeated: chosen })
}

const arrivals: Record<Way, (place: Place) => Promise<Access>> = {
  'a password': (place) => byPassword(place),
  async 'a passkey'(place) {
    const browser = await new Browser(app.url).open(`${app.url}/account`)
    await browser.press('Sign in', { email: place.user.email, password })
    const authenticator = new Authenticator(app.url)
    await browser.press('Add a passkey', { name: 'Laptop', response: authenticator.create(browser.html) })
    return { ...(await byPasskey(place, authenticator)), authenticator, browser }
  },
  async 'a link to set the password'(place) {
    await setPassword(place, 'walnut bicycle thunder')
    return byPassword(place, 'walnut bicycle thunder')
  },
  'the installation’s provider': (place) => signInWith(place, (browser) => byProvider(browser, place)),
  async 'single sign-on'(place) {
    const settings = { issuer: provider.issuer, client_id: 'inlay', client_secret: clientSecret }
    await place.request('PUT', '/organizations/current/sign-in', settings)
    await proveDomains(app, place.id, `${place.name}.example`)
    return signInWith(place, async (browser) => {
      await browser.follow('Sign in with your organization')
      await browser.press('Continue', { email: place.user.email })
      await browser.follow('Continue')
      return byProvider(browser, place)
    })
  },
  async 'the command inlay token'({ user, id }) {
    return { token: await tokenOf(user, id) }
  },
  async 'a service account’s key'({ request }) {
    const expires_at = new Date(app.clock.now + 2 * hour).toISOString()
    const { id, key } = await request('POST', '/service-accounts', { name: 'Deploys', role: 'member', expires_at })
    return { token: key, account: id }
  },
}

const ends: Record<End, (place: Place, access: Access) => Promise<unknown>> = {
  async 'removal by an administrator'({ request, user }) {
    const members: { id: string; user: { id: string } }[] = await request('GET', '/organizations/current/members')
    const own = members.find((one) => one.user.id === user.id)
    return request('DELETE', `/organizations/current/members/${own?.id}`)
  },
  async 'deactivation in the directory'({ request, id, user, name }) {
    const settings = { name: 'Okta', type: 'okta', domain: `${name}.example` }
    const { id: directoryId, bearer_token } = await request('POST', '/directories', settings)
    const directory = scimClient(app, directoryId, bearer_token, id)
    return directory.deactivate(await directory.addUser(user.email))
  },
  'deletion of the organization': ({ request, slug }) => request('POST', '/organizations/current/delete', { slug }),
  'signing out': (_, { token }) => app.request('POST', '/auth/logout', { token }),
  'a password reset': (place) => setPassword(place, 'copper anchor meadow'),
  'removal of the passkey, at the next sign-in': async (_, { browser }) =>
    (await browser?.open(`${app.url}/account`))?.press('Remove'),
  'removal of the organization’s provider': ({ request }) => request('DELETE', '/organizations/current/sign-in'),
  async 'removal of the domain'({ request }) {
    const { domains } = await request('GET', '/organizations/current/sign-in')
    return request('DELETE', `/organizations/current/sign-in/domains/${domains[0].id}`)
  },
  async 'the end of single sign-on in the plan'({ id }) {
    await app.service.database.asOrg(id, (sql) => sql`update organizations set plan_id = 'free'`)
    return runJob(app, id, signInPlanCheck)
  },
  'deletion of the service account': ({ request }, { account }) => request('DELETE', `/service-accounts/${account}`),
  'a new key': ({ request }, { account }) =>
    request('POST', `/service-accounts/${account}/rotate`, { overlap_hours: 0 }),
  async 'its expiry'() {
    app.clock.now += 3 * hour
  },
}

const statusOf = async (token: string) => (await app.request('GET', '/publishable-keys', { token })).status

const table = accessTables.callers

for (const [way, end] of cellsOf(table)) {
  test(titleOf(table.who, way, end), async () => {
    app = way === 'the installation’s provider' ? services.withProvider : services.withPasswords
    const place = await usePlace(way as Way)
    const access = await arrivals[way as Way](place)
    expect(await statusOf(access.token), 'before').toBe(200)

    await ends[end as End](place, access)

    if (end === 'removal of the passkey, at the next sign-in') {
      expect(await statusOf(access.token), 'until then').toBe(200)
      await expect(byPasskey(place, access.authenticator as Authenticator)).rejects.toThrow('wasn’t accepted')
    } else expect(await statusOf(access.token), 'after').toBeOneOf([401, 403])
  })
}
