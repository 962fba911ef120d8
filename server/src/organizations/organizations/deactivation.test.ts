import * as oauth from 'openid-client'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { type HttpService, startHttpService } from '../../../test/http-server.ts'
import { allow, exchange, obtain, prepare, register } from '../../../test/oauth-client.ts'
import { connectDirectory, type ScimClient } from '../../../test/scim.ts'

let app: HttpService
let admin: string
beforeEach(async () => {
  app = await startHttpService()
  onTestFinished(() => app.close())
  admin = await app.tokenFor('admin@demo.test', 'demo')
})

/** A directory that has a member. */
async function directoryWith(userName = 'member@demo.test'): Promise<ScimClient & { userId: string }> {
  const directory = await connectDirectory(app)
  return { ...directory, userId: await directory.addUser(userName) }
}
const activate = ({ patch, userId }: ScimClient & { userId: string }) =>
  patch(`/Users/${userId}`, { op: 'replace', value: { active: true } })
const list = async (token = admin) => (await app.request('GET', '/organizations/current/members', { token })).body
async function memberId(email: string): Promise<string> {
  return (await list()).find((member: { user: { email: string } }) => member.user.email === email).id
}
const addresses = async () => (await list()).map((member: { user: { email: string } }) => member.user.email).toSorted()

async function removeByAdmin(id: string): Promise<unknown> {
  return app.request('DELETE', `/organizations/current/members/${id}`, { token: admin })
}

async function deactivateByDirectory(): Promise<unknown> {
  const { deactivate, userId } = await directoryWith()
  return deactivate(userId)
}

describe.each<[string, (id: string) => Promise<unknown>]>([
  ['removed', removeByAdmin],
  ['deactivated', deactivateByDirectory],
])('a member who was %s', (_, end) => {
  test('loses their tokens for the organization, immediately on the same node', async () => {
    const token = await app.tokenFor('member@demo.test', 'demo')
    expect((await app.request('GET', '/publishable-keys', { token })).status).toBe(200)
    await end(await memberId('member@demo.test'))
    const { status, body } = await app.request('GET', '/publishable-keys', { token })
    expect({ status, data: body.data }).toEqual({
      status: 403,
      data: { code: 'ACCESS_DENIED', reason: 'You are not a member of this organization' },
    })
  })

  test('gets no new tokens, and is asked to choose an organization', async () => {
    const config = await register(app.url)
    const attempt = await prepare(config)
    const tokens = await exchange(config, attempt, await allow(attempt, 'member@demo.test', 'Demo'))
    await end(await memberId('member@demo.test'))
    const refreshed = oauth.refreshTokenGrant(config, String(tokens.refresh_token))
    await expect(refreshed).rejects.toMatchObject({ error: 'invalid_grant' })
    await attempt.browser.open(attempt.url)
    expect(attempt.browser.left, 'an earlier consent no longer counts').toBeUndefined()
    expect(attempt.browser.text).toContain('Organization Other')
    expect(attempt.browser.text).not.toContain('Demo')
  })

  test('is not listed, and does not see the organization', async () => {
    await end(await memberId('member@demo.test'))
    expect(await addresses()).toEqual(['admin@demo.test'])
    const { body } = await app.request('GET', '/users/me', { token: await app.tokenFor('member@demo.test') })
    expect(body.organizations.map(({ slug }: { slug: string }) => slug)).toEqual(['other'])
  })

  test('stays a member of other organizations', async () => {
    const token = await app.tokenFor('member@demo.test', 'other')
    const { refresh_token, config } = await signInToOther()
    await end(await memberId('member@demo.test'))
    expect((await app.request('GET', '/publishable-keys', { token })).status).toBe(200)
    expect(await oauth.refreshTokenGrant(config, refresh_token)).toHaveProperty('access_token')
  })
})

async function signInToOther() {
  const config = await register(app.url)
  const { refresh_token } = await obtain(config, 'member@demo.test', { organization: 'Other' })
  return { config, refresh_token: String(refresh_token) }
}

test('a node that missed the message notices within 30 seconds', async () => {
  const token = await app.tokenFor('member@demo.test', 'demo')
  const status = async () => (await app.request('GET', '/publishable-keys', { token })).status
  expect(await status()).toBe(200)
  const id = await memberId('member@demo.test')
  // Changes the database directly, as if the message was lost.
  const organizationId = await app.organization('demo')
  await app.service.database.asOrg(
    organizationId,
    (sql) => sql`update members set deactivated_at = now() where id = ${id}`,
  )
  expect(await status(), 'cached').toBe(200)
  app.clock.now += 30_001
  expect(await status()).toBe(403)
})

test('a reactivated member has the same role and membership as before', async () => {
  const before = await list()
  const directory = await directoryWith()
  await directory.deactivate(directory.userId)
  expect(await list()).toHaveLength(before.length - 1)
  await activate(directory)
  expect(await list()).toEqual(before)
  const token = await app.tokenFor('member@demo.test', 'demo')
  expect((await app.request('GET', '/publishable-keys', { token })).status).toBe(200)
})

test('both write one audit row each, even if a directory repeats the update', async () => {
  const id = await memberId('member@demo.test')
  const directory = await directoryWith()
  for (const change of [directory.deactivate, directory.deactivate]) await change(directory.userId)
  for (const _ of [1, 2]) await activate(directory)
  const rows = await app.service.database.asOrg(
    await app.organization('demo'),
    (sql) => sql`select actor, action, target, data from audit_events where target = ${id} order by sequence`,
  )
  const data = { email: 'member@demo.test', role: 'member' }
  expect(rows).toEqual([
    { actor: 'directory Okta', action: 'member.deactivated', target: id, data },
    { actor: 'directory Okta', action: 'member.reactivated', target: id, data },
  ])
})

describe('the last admin', () => {
  const promote = async (id: string) =>
    app.request('PATCH', `/organizations/current/members/${id}`, { token: admin, body: { role: 'admin' } })
  const refused = {
    status: 409,
    body: {
      detail: 'The last admin can’t be demoted or removed, and can’t leave. Make another member an admin first.',
    },
  }

  test('cannot be deactivated, and a deactivated admin does not count', async () => {
    const [first, second] = [await directoryWith('admin@demo.test'), await directoryWith()]
    expect(await first.deactivate(first.userId)).toMatchObject(refused)
    await promote(await memberId('member@demo.test'))
    expect(await second.deactivate(second.userId)).toMatchObject({ status: 200 })
    expect(await first.deactivate(first.userId)).toMatchObject(refused)
    expect(await first.send('DELETE', `/Users/${first.userId}`)).toMatchObject(refused)
    const path = `/organizations/current/members/${await memberId('admin@demo.test')}`
    const removed = await app.request('DELETE', path, { token: admin })
    expect(removed.body.data.code).toBe('LAST_ADMIN')
    expect((await first.send('GET', `/Users/${first.userId}`)).body.active, 'nothing changed').toBe(true)
  })

  test('remains when two are deactivated concurrently', async () => {
    const directory = await directoryWith()
    const other = await directory.addUser('admin@demo.test')
    await promote(await memberId('member@demo.test'))
    const ends = await Promise.all([directory.userId, other].map(directory.deactivate))
    expect(ends.map(({ status }) => status).toSorted()).toEqual([200, 409])
    expect((await list(await app.tokenFor('member@demo.test', 'demo'))).length ?? 1).toBe(1)
  })
})

test('a deactivated member does not exist for admins, and cannot be invited', async () => {
  const id = await memberId('member@demo.test')
  await deactivateByDirectory()
  const path = `/organizations/current/members/${id}`
  for (const [method, body] of [['DELETE'], ['PATCH', { role: 'admin' }]] as const) {
    expect((await app.request(method, path, { token: admin, ...(body && { body }) })).status).toBe(404)
  }
  const body = { email: 'member@demo.test', role: 'admin' }
  const invitation = await app.request('POST', '/organizations/current/invitations', { token: admin, body })
  expect(invitation.body.data, 'an invitation does not override the directory').toEqual({
    code: 'DUPLICATE_RESOURCE',
    resource: 'member',
  })
})

test('a deactivated member frees a seat, and needs one to be reactivated', async () => {
  const directory = await directoryWith()
  const invite = (email: string) =>
    app.request('POST', '/organizations/current/invitations', { token: admin, body: { email, role: 'member' } })
  await directory.deactivate(directory.userId)
  await app.service.database.asOrg(
    await app.organization('demo'),
    (sql) => sql`update organizations set plan_id = 'three-seats'`,
  )
  Object.assign(app.service.config, {
    plans: app.service.config.plans.map((plan) =>
      plan.id === 'enterprise' ? { ...plan, id: 'three-seats', limits: { ...plan.limits, seats: 3 } } : plan,
    ),
  })
  expect((await invite('one@example.com')).status).toBe(200)
  expect((await invite('two@example.com')).status).toBe(200)
  expect((await invite('three@example.com')).body.data.code).toBe('PAYMENT_REQUIRED')
  const refused = await activate(directory)
  expect(refused).toMatchObject({ status: 403, body: { detail: 'Your plan includes 3 seats, and all are in use' } })
  expect(await addresses(), 'nothing changed').toEqual(['admin@demo.test'])
})
