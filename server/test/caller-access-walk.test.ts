import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { issueAccessToken } from '../src/access/access-tokens.ts'
import { resources } from '../src/http/protected-resources.ts'
import { addMember } from '../src/operator/accounts.ts'
import { foundOrganization } from '../src/organizations/organizations.ts'
import { createPasswordLink } from '../src/sign-in/password-pages.ts'
import { addLocalUser, findLocalAccount, type LocalAccount } from '../src/users/local-accounts.ts'
import { hashPassword } from '../src/users/passwords.ts'
import type { User } from '../src/users/users.ts'
import { accessTables, type callerEnds, type callerWays, cellsOf, titleOf } from './access-matrix.ts'
import { Authenticator } from './authenticator.ts'
import { Browser } from './browser.ts'
import { type HttpService, startHttpService } from './http-server.ts'
import { begin, exchange } from './oauth-client.ts'
import { scimClient } from './scim.ts'

type Way = (typeof callerWays)[number]
type End = (typeof callerEnds)[number]

const password = 'plum lantern harbor'
const hour = 60 * 60_000

let app: HttpService
let passwordHash: string
beforeAll(async () => {
  app = await startHttpService()
  passwordHash = await hashPassword(password)
})
afterAll(() => app.close())

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

/** An organization with an admin, who ends access, and a user whose access ends. */
async function usePlace() {
  const name = `d${randomUUID().slice(0, 8)}`
  const [admin, user] = [await addUser(`admin@${name}.example`), await addUser(`ivy@${name}.example`)]
  const { id, slug } = await foundOrganization(app.service, { name, founder: admin, planId: 'enterprise' })
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
    const place = await usePlace()
    const access = await arrivals[way as Way](place)
    expect(await statusOf(access.token), 'before').toBe(200)

    await ends[end as End](place, access)

    if (end === 'removal of the passkey, at the next sign-in') {
      expect(await statusOf(access.token), 'until then').toBe(200)
      await expect(byPasskey(place, access.authenticator as Authenticator)).rejects.toThrow('wasn’t accepted')
    } else expect(await statusOf(access.token), 'after').toBeOneOf([401, 403])
  })
}
