import * as oauth from 'openid-client'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { Browser } from '../../../test/browser.ts'
import { type HttpService, startHttpService } from '../../../test/http-server.ts'
import { allow, begin, exchange } from '../../../test/oauth-client.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { verifyAuditChain } from '../../organizations/audit-events/verify.ts'
import { addLocalUser, findLocalAccount } from '../users/local-accounts.ts'
import { createPasswordLink } from './password-pages.ts'
import { recordFailedSignIn } from './sign-in-audit.ts'

const password = 'correct horse battery'
const address = '198.51.100.1'

let app: HttpService
let people = 0
beforeAll(async () => {
  app = await startHttpService({ INLAY_TRUSTED_PROXIES: '127.0.0.0/8, ::1/128' })
})
afterAll(() => app.close())

/** A member of these organizations. */
async function addPerson(slugs: ('demo' | 'other')[] = ['demo']) {
  people += 1
  const user = await addLocalUser(app.service, { email: `p${people}@example.com`, name: 'P', password })
  for (const slug of slugs) {
    await app.service.database.asOrg(
      await app.organization(slug),
      (sql) => sql`
        insert into members (organization_id, id, user_id, role)
        values (current_organization(), ${newId()}, ${user.id}, 'member')`,
    )
  }
  return user
}

/** The user's events in an organization's trail, oldest first. */
async function trailOf(userId: string, slug: 'demo' | 'other' = 'demo') {
  return app.service.database.asOrg(
    await app.organization(slug),
    (sql) => sql<{ actor: string; action: string; data: object }>`
      select actor, action, data from audit_events where target = ${userId} order by sequence`,
  )
}

const visit = async () => begin(app.url, {}, {}, new Browser(app.url, { 'x-forwarded-for': address }))

async function signIn(email: string, given = password) {
  const visited = await visit()
  await visited.browser.press('Sign in', { email, password: given })
  return visited
}

test('records a sign-in in every organization of the user, with method and address', async () => {
  const { id, email } = await addPerson(['demo', 'other'])
  await signIn(email)
  const event = { actor: email, action: 'user.signed_in', data: { method: 'password', address } }
  expect(await trailOf(id, 'demo')).toEqual([event])
  expect(await trailOf(id, 'other')).toEqual([event])
  for (const slug of ['demo', 'other'] as const) {
    const report = await verifyAuditChain(app.service, await app.organization(slug))
    expect(report.broken, `the chain of ${slug}`).toBeUndefined()
  }
})

test('records nothing for a user without an organization', async () => {
  const { id, email } = await addPerson([])
  expect((await signIn(email)).browser.text).toContain('Choose an organization')
  expect(await trailOf(id)).toEqual([])
})

test('records a sign-in of a demo user', async () => {
  const account = await findLocalAccount(app.service, 'admin@other.test')
  await (await visit()).browser.press('admin@other.test')
  expect(await trailOf(account?.id ?? '', 'other')).toMatchObject([
    { action: 'user.signed_in', data: { method: 'demo', address } },
  ])
})

test('records failed sign-ins once a minute per address, with the number of failures', async () => {
  const { id, email } = await addPerson()
  const { browser } = await visit()
  for (let turn = 0; turn < 3; turn += 1) await browser.press('Sign in', { email, password: 'wrong horse battery' })
  const first = { actor: 'sign-in', action: 'user.sign_in_failed', data: { address, failures: 1 } }
  await vi.waitFor(async () => expect(await trailOf(id)).toEqual([first]))
  await signIn(email)
  expect(
    (await trailOf(id)).map(({ action }) => action),
    'no other events',
  ).not.toContain('user.signed_in')
  app.clock.now += 1000
  await signIn(email)
  expect((await trailOf(id)).map(({ action }) => action)).toEqual(['user.sign_in_failed', 'user.signed_in'])
})

test('records at most ten failed sign-ins a minute for an account, regardless of addresses', async () => {
  const person = await addPerson()
  for (let n = 0; n < 40; n += 1) recordFailedSignIn(app.service, person, { address: `203.0.113.${n}`, failures: 1 })
  await vi.waitFor(async () => expect(await trailOf(person.id)).toHaveLength(10))
  await app.service.kv.ping()
  expect(await trailOf(person.id)).toHaveLength(10)
})

test('records nothing for a failed sign-in to an unknown account', async () => {
  const before = await app.request('GET', '/audit-events', { token: await app.tokenFor('admin@demo.test', 'demo') })
  await signIn('nobody@example.com')
  const after = await app.request('GET', '/audit-events', { token: await app.tokenFor('admin@demo.test', 'demo') })
  expect(after.body.events).toEqual(before.body.events)
})

test('records signing out, on the page and with a token', async () => {
  const { id, email } = await addPerson()
  const { browser, config, attempt } = await signIn(email)
  const { access_token: token } = await exchange(config, attempt, await allow(attempt, email))
  await browser.open('/oauth/logout')
  await browser.press('Sign out')
  expect((await trailOf(id)).at(-1)).toEqual({ actor: email, action: 'user.signed_out', data: { address } })
  expect((await app.request('POST', '/auth/logout', { token })).status).toBe(401)
  const next = await signIn(email)
  const tokens = await exchange(next.config, next.attempt, await allow(next.attempt, email))
  await app.request('POST', '/auth/logout', { token: tokens.access_token })
  const actions = (await trailOf(id)).map(({ action }) => action)
  expect(actions).toEqual(['user.signed_in', 'user.signed_out', 'user.signed_in', 'user.signed_out'])
})

test('records a new password in the same transaction', async () => {
  const { id, email } = await addPerson(['demo', 'other'])
  const account = await findLocalAccount(app.service, email)
  if (!account) throw new Error('No account')
  const browser = await new Browser(app.url).open(await createPasswordLink(app.service, app.url, account))
  await browser.press('Set password', { password: 'jolly teapots', repeated: 'jolly teapots' })
  const event = { actor: email, action: 'user.password_changed', data: {} }
  expect([await trailOf(id, 'demo'), await trailOf(id, 'other')]).toEqual([[event], [event]])
})

test('records that a user allowed a client, and that the client revoked its grant', async () => {
  const { email } = await addPerson()
  const { config, attempt } = await signIn(email)
  const tokens = await exchange(config, attempt, await allow(attempt, email))
  await oauth.tokenRevocation(config, String(tokens.refresh_token))
  const clientId = config.clientMetadata().client_id
  expect(await trailOf(clientId)).toEqual([
    { actor: email, action: 'client.allowed', data: { name: 'Tool' } },
    { actor: email, action: 'client.revoked', data: { name: 'Tool' } },
  ])
})
