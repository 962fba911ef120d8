import * as oauth from 'openid-client'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { type HttpService, startHttpService } from '../../test/http-server.ts'
import { allow, exchange, obtain, prepare, register } from '../../test/oauth-client.ts'
import { deactivateMember, reactivateMember } from './members.ts'

let app: HttpService
let admin: string
beforeEach(async () => {
  app = await startHttpService()
  onTestFinished(() => app.close())
  admin = await app.tokenFor('admin@demo.test', 'demo')
})

const trailIn = async (slug: 'demo' | 'other' = 'demo') => ({
  organizationId: await app.organization(slug),
  actor: 'directory Okta',
})
const list = async (token = admin) => (await app.request('GET', '/organizations/current/members', { token })).body
async function memberId(email: string): Promise<string> {
  return (await list()).find((member: { user: { email: string } }) => member.user.email === email).id
}
const addresses = async () => (await list()).map((member: { user: { email: string } }) => member.user.email).toSorted()

async function removeByAdmin(id: string): Promise<unknown> {
  return app.request('DELETE', `/organizations/current/members/${id}`, { token: admin })
}

describe.each<[string, (id: string) => Promise<unknown>]>([
  ['removed', removeByAdmin],
  ['deactivated', async (id) => deactivateMember(app.service, await trailIn(), id)],
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
  const change = (await trailIn()).organizationId
  await app.service.database.asOrg(change, (sql) => sql`update members set deactivated_at = now() where id = ${id}`)
  expect(await status(), 'cached').toBe(200)
  app.clock.now += 30_001
  expect(await status()).toBe(403)
})

test('a reactivated member has the same role and membership as before', async () => {
  const before = await list()
  const id = await memberId('member@demo.test')
  await deactivateMember(app.service, await trailIn(), id)
  await reactivateMember(app.service, await trailIn(), id)
  expect(await list()).toEqual(before)
  const token = await app.tokenFor('member@demo.test', 'demo')
  expect((await app.request('GET', '/publishable-keys', { token })).status).toBe(200)
})

test('both write one audit row each, even if a directory repeats the update', async () => {
  const id = await memberId('member@demo.test')
  for (const change of [deactivateMember, deactivateMember, reactivateMember, reactivateMember]) {
    await change(app.service, await trailIn(), id)
  }
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
  const lastAdmin = { envelope: { status: 409, data: { code: 'LAST_ADMIN' } } }

  test('cannot be deactivated, and a deactivated admin does not count', async () => {
    const [first, second] = [await memberId('admin@demo.test'), await memberId('member@demo.test')]
    await expect(deactivateMember(app.service, await trailIn(), first)).rejects.toMatchObject(lastAdmin)
    const promote = { token: admin, body: { role: 'admin' } }
    await app.request('PATCH', `/organizations/current/members/${second}`, promote)
    await deactivateMember(app.service, await trailIn(), second)
    await expect(deactivateMember(app.service, await trailIn(), first)).rejects.toMatchObject(lastAdmin)
    const removed = await app.request('DELETE', `/organizations/current/members/${first}`, { token: admin })
    expect(removed.body.data.code).toBe('LAST_ADMIN')
  })

  test('remains when two are deactivated concurrently', async () => {
    const [first, second] = [await memberId('admin@demo.test'), await memberId('member@demo.test')]
    const promote = { token: admin, body: { role: 'admin' } }
    await app.request('PATCH', `/organizations/current/members/${second}`, promote)
    const trail = await trailIn()
    const ends = await Promise.allSettled([first, second].map((id) => deactivateMember(app.service, trail, id)))
    expect(ends.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
  })
})

describe('an unknown member', () => {
  const notFound = { envelope: { status: 404, data: { code: 'RESOURCE_NOT_FOUND', resource: 'member' } } }
  test.each([deactivateMember, reactivateMember])('cannot be changed (%o)', async (change) => {
    await expect(change(app.service, await trailIn(), crypto.randomUUID())).rejects.toMatchObject(notFound)
    const id = await memberId('member@demo.test')
    await expect(change(app.service, await trailIn('other'), id), 'of another organization').rejects.toMatchObject(
      notFound,
    )
  })

  test('includes a deactivated one, for admins', async () => {
    const id = await memberId('member@demo.test')
    await deactivateMember(app.service, await trailIn(), id)
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
})

// The free plan has three seats.
test('a deactivated member frees a seat, and needs one to be reactivated', async () => {
  const token = await app.tokenFor('admin@other.test', 'other')
  const trail = await trailIn('other')
  const { id } = (await list(token)).find((one: { user: { email: string } }) => one.user.email === 'member@demo.test')
  const invite = (email: string) =>
    app.request('POST', '/organizations/current/invitations', { token, body: { email, role: 'member' } })
  await deactivateMember(app.service, trail, id)
  expect((await invite('one@example.com')).status).toBe(200)
  expect((await invite('two@example.com')).status).toBe(200)
  expect((await invite('three@example.com')).body.data.code).toBe('PAYMENT_REQUIRED')
  await expect(reactivateMember(app.service, trail, id)).rejects.toMatchObject({
    envelope: { status: 403, data: { code: 'PAYMENT_REQUIRED' } },
  })
  expect((await list(token)).length, 'nothing changed').toBe(1)
})
