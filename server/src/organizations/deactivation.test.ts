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
  test('has no token for the organization any more, at once on the node that did it', async () => {
    const token = await app.tokenFor('member@demo.test', 'demo')
    expect((await app.request('GET', '/publishable-keys', { token })).status).toBe(200)
    await end(await memberId('member@demo.test'))
    const { status, body } = await app.request('GET', '/publishable-keys', { token })
    expect({ status, data: body.data }).toEqual({
      status: 403,
      data: { code: 'ACCESS_DENIED', reason: 'You are not a member of this organization' },
    })
  })

  test('gets no new tokens, and is asked where to go', async () => {
    const config = await register(app.url)
    const attempt = await prepare(config)
    const tokens = await exchange(config, attempt, await allow(attempt, 'member@demo.test', 'Demo'))
    await end(await memberId('member@demo.test'))
    const refreshed = oauth.refreshTokenGrant(config, String(tokens.refresh_token))
    await expect(refreshed).rejects.toMatchObject({ error: 'invalid_grant' })
    await attempt.browser.open(attempt.url)
    expect(attempt.browser.left, 'a consent from before counts no more').toBeUndefined()
    expect(attempt.browser.text).toContain('Organization Other')
    expect(attempt.browser.text).not.toContain('Demo')
  })

  test('is not listed, and does not see the organization', async () => {
    await end(await memberId('member@demo.test'))
    expect(await addresses()).toEqual(['admin@demo.test'])
    const { body } = await app.request('GET', '/users/me', { token: await app.tokenFor('member@demo.test') })
    expect(body.organizations.map(({ slug }: { slug: string }) => slug)).toEqual(['other'])
  })

  test('goes on as a member of other organizations', async () => {
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

test('a node that missed the message knows within 30 seconds', async () => {
  const token = await app.tokenFor('member@demo.test', 'demo')
  const status = async () => (await app.request('GET', '/publishable-keys', { token })).status
  expect(await status()).toBe(200)
  const id = await memberId('member@demo.test')
  // Behind the service's back, as a lost message would be.
  const change = (await trailIn()).organizationId
  await app.service.database.asOrg(change, (sql) => sql`update members set deactivated_at = now() where id = ${id}`)
  expect(await status(), 'remembered').toBe(200)
  app.clock.now += 30_001
  expect(await status()).toBe(403)
})

test('a member who was brought back is who they were', async () => {
  const before = await list()
  const id = await memberId('member@demo.test')
  await deactivateMember(app.service, await trailIn(), id)
  await reactivateMember(app.service, await trailIn(), id)
  expect(await list()).toEqual(before)
  const token = await app.tokenFor('member@demo.test', 'demo')
  expect((await app.request('GET', '/publishable-keys', { token })).status).toBe(200)
})

test('both write one audit row each, however often a directory says it', async () => {
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

// Abuse case 53.
describe('the last admin', () => {
  const lastAdmin = { envelope: { status: 409, data: { code: 'LAST_ADMIN' } } }

  test('stays, and a deactivated admin is none', async () => {
    const [first, second] = [await memberId('admin@demo.test'), await memberId('member@demo.test')]
    await expect(deactivateMember(app.service, await trailIn(), first)).rejects.toMatchObject(lastAdmin)
    const promote = { token: admin, body: { role: 'admin' } }
    await app.request('PATCH', `/organizations/current/members/${second}`, promote)
    await deactivateMember(app.service, await trailIn(), second)
    await expect(deactivateMember(app.service, await trailIn(), first)).rejects.toMatchObject(lastAdmin)
    const removed = await app.request('DELETE', `/organizations/current/members/${first}`, { token: admin })
    expect(removed.body.data.code).toBe('LAST_ADMIN')
  })

  test('stays when two are deactivated at once', async () => {
    const [first, second] = [await memberId('admin@demo.test'), await memberId('member@demo.test')]
    const promote = { token: admin, body: { role: 'admin' } }
    await app.request('PATCH', `/organizations/current/members/${second}`, promote)
    const trail = await trailIn()
    const ends = await Promise.allSettled([first, second].map((id) => deactivateMember(app.service, trail, id)))
    expect(ends.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
  })
})

describe('somebody unknown', () => {
  const notFound = { envelope: { status: 404, data: { code: 'RESOURCE_NOT_FOUND', resource: 'member' } } }
  test.each([deactivateMember, reactivateMember])('cannot be changed (%o)', async (change) => {
    await expect(change(app.service, await trailIn(), crypto.randomUUID())).rejects.toMatchObject(notFound)
    const id = await memberId('member@demo.test')
    await expect(change(app.service, await trailIn('other'), id), 'of another organization').rejects.toMatchObject(
      notFound,
    )
  })

  test('as is a deactivated member to admins', async () => {
    const id = await memberId('member@demo.test')
    await deactivateMember(app.service, await trailIn(), id)
    const path = `/organizations/current/members/${id}`
    for (const [method, body] of [['DELETE'], ['PATCH', { role: 'admin' }]] as const) {
      expect((await app.request(method, path, { token: admin, ...(body && { body }) })).status).toBe(404)
    }
    const body = { email: 'member@demo.test', role: 'admin' }
    const invitation = await app.request('POST', '/organizations/current/invitations', { token: admin, body })
    expect(invitation.body.data, 'an invitation does not overrule the directory').toEqual({
      code: 'DUPLICATE_RESOURCE',
      resource: 'member',
    })
  })
})

// Abuse case 25: the free plan has three seats.
test('a deactivated member frees a seat, and needs one to come back', async () => {
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
  expect((await list(token)).length, 'nothing was changed').toBe(1)
})
