import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { Browser } from '../../../test/browser.ts'
import { type Email, runJob, startTestService, type TestService, useTestService } from '../../../test/harness.ts'
import { type HttpService, startHttpService } from '../../../test/http-server.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { invitationExpiry } from './invitation-links.ts'

const invitee = 'nobody@demo.test'

async function useInvitation(role: 'admin' | 'member' = 'member') {
  const app = await useTestService()
  const admin = await app.tokenFor('admin@demo.test', 'demo')
  const token = await app.tokenFor(invitee)
  const invite = async (email: string = invitee) =>
    (await app.request('POST', '/organizations/current/invitations', { token: admin, body: { email, role } })).body
  const { id } = await invite()
  const decide = (decision: 'accept' | 'decline', which = id, as = token) =>
    app.request('POST', `/users/me/invitations/${which}/${decision}`, { token: as })
  const mine = async () => (await app.request('GET', '/users/me/invitations', { token })).body
  const organizations = async () => (await app.request('GET', '/organizations', { token })).body
  const members = async () =>
    emailsOf((await app.request('GET', '/organizations/current/members', { token: admin })).body)
  const actions = async () =>
    (await app.request('GET', `/audit-events?target=${id}`, { token: admin })).body.events.map(
      ({ actor, action, data }: Record<string, unknown>) => [actor, action, data],
    )
  return { app, admin, token, id: id as string, invite, decide, mine, organizations, members, actions }
}

const emailsOf = (members: { user: { email: string } }[]) => members.map(({ user }) => user.email)

const notFound = (id: string) => ({
  defined: true,
  code: 'NOT_FOUND',
  status: 404,
  message: 'Resource not found',
  data: { code: 'RESOURCE_NOT_FOUND', resource: 'invitation', resourceId: id },
})

describe('an invitation', () => {
  test('shows the invited user the organization, by name and slug, and who invited them', async () => {
    const { app, id, mine, organizations } = await useInvitation('admin')
    expect(await mine()).toEqual([
      {
        id,
        organization: { id: await app.organization('demo'), name: 'Demo', slug: 'demo' },
        role: 'admin',
        invited_by: 'admin@demo.test',
        created_at: expect.stringMatching(/Z$/),
      },
    ])
    expect(await organizations(), 'no user becomes a member without accepting').toEqual([])
  })

  test('can be accepted by the invited user, once', async () => {
    const { app, id, admin, decide, mine, organizations, actions } = await useInvitation()
    expect((await decide('accept')).body).toEqual({ success: true })
    expect(await organizations()).toMatchObject([{ slug: 'demo', role: 'member' }])
    expect(await mine()).toEqual([])
    expect((await app.request('GET', '/organizations/current/invitations', { token: admin })).body).toEqual([])
    const token = await app.tokenFor(invitee, 'demo')
    expect((await app.request('GET', '/publishable-keys', { token })).status, 'immediately').toBe(200)
    expect((await decide('accept')).body).toEqual(notFound(id))
    expect(await actions()).toEqual([
      [invitee, 'invitation.accepted', { email: invitee, role: 'member' }],
      ['admin@demo.test', 'invitation.created', { email: invitee, role: 'member' }],
    ])
  })

  test('can be declined by the invited user, and sent again', async () => {
    const { id, invite, decide, mine, organizations, members, actions } = await useInvitation()
    expect((await decide('decline')).body).toEqual({ success: true })
    expect(await organizations()).toEqual([])
    expect(await members()).not.toContain(invitee)
    expect(await mine()).toEqual([])
    expect((await decide('accept')).body).toEqual(notFound(id))
    expect((await actions())[0]).toEqual([invitee, 'invitation.declined', { email: invitee, role: 'member' }])
    await invite()
    expect(await mine()).toHaveLength(1)
  })

  test('of another user is not found, like one that never existed', async () => {
    const { app, invite, decide, members } = await useInvitation()
    const { id } = await invite('else@example.com')
    for (const decision of ['accept', 'decline'] as const) {
      expect((await decide(decision, id)).body).toEqual(notFound(id))
      const unknown = newId()
      expect((await decide(decision, unknown)).body).toEqual(notFound(unknown))
    }
    const other = await app.tokenFor('admin@other.test')
    expect((await app.request('GET', '/users/me/invitations', { token: other })).body).toEqual([])
    expect(await members()).toEqual(['admin@demo.test', 'member@demo.test'])
  })

  test('is not shown for an unverified address', async () => {
    const { app, id, decide, mine } = await useInvitation()
    await app.service.database.asService((sql) => sql`update users set email_verified = false where email = ${invitee}`)
    expect(await mine()).toEqual([])
    expect((await decide('accept')).body).toEqual(notFound(id))
  })

  test('counts one of twenty concurrent answers', async () => {
    const { decide, members } = await useInvitation()
    const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => decide(n % 2 ? 'accept' : 'decline')))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    const isMember = (await members()).includes(invitee)
    expect(isMember).toBe(answers.findIndex(({ status }) => status === 200) % 2 === 1)
  })

  test('is renewed for another week, with a new link that is shown once', async () => {
    const { app, admin, id, actions } = await useInvitation()
    const demo = await app.organization('demo')
    await app.service.database.asOrg(
      demo,
      (sql) => sql`update invitations set expires_at = now() + interval '1 hour' where id = ${id}`,
    )
    const renew = (which = id, token = admin) =>
      app.request('POST', `/organizations/current/invitations/${which}/renew`, { token })
    const [first, second] = [(await renew()).body, (await renew()).body]
    expect(first).toMatchObject({ id, email: invitee, role: 'member', mailed: false })
    expect(Date.parse(first.expires_at) - Date.now()).toBeGreaterThan(6.9 * 24 * 60 * 60_000)
    expect(second.url).not.toBe(first.url)
    const listed = (await app.request('GET', '/organizations/current/invitations', { token: admin })).body
    expect(listed).toEqual([{ ...second, url: 'http://localhost:8787/invitations' }])
    expect((await actions())[0]).toEqual(['admin@demo.test', 'invitation.renewed', { email: invitee }])
    const unknown = newId()
    expect((await renew(unknown)).body).toEqual(notFound(unknown))
  })

  test('expires after a week: it can’t be accepted, takes no seat, and the address can be invited again', async () => {
    const { app, admin, id, invite, decide, mine, actions } = await useInvitation()
    const demo = await app.organization('demo')
    const expire = (which: string) =>
      app.service.database.asOrg(demo, (sql) => sql`update invitations set expires_at = now() where id = ${which}`)
    const listed = async () => (await app.request('GET', '/organizations/current/invitations', { token: admin })).body
    await expire(id)
    expect([await listed(), await mine()]).toEqual([[], []])
    expect((await decide('accept')).body).toEqual(notFound(id))
    const again = await invite()
    expect(again.id).not.toBe(id)
    expect((await actions())[0]).toEqual(['inlay', 'invitation.expired', { email: invitee }])

    await expire(again.id)
    await runJob(app, demo, invitationExpiry)
    expect(await app.service.database.asOrg(demo, (sql) => sql`select from invitations`)).toEqual([])
  })

  test('keeps its seat when it is accepted', async () => {
    const app = await useTestService()
    const admin = await app.tokenFor('admin@other.test', 'other')
    const invite = (email: string) =>
      app.request('POST', '/organizations/current/invitations', { token: admin, body: { email, role: 'member' } })
    const { id } = (await invite(invitee)).body
    expect((await invite('fourth@example.com')).body.code).toBe('PAYMENT_REQUIRED')
    await app.request('POST', `/users/me/invitations/${id}/accept`, { token: await app.tokenFor(invitee) })
    expect((await invite('fourth@example.com')).body.code).toBe('PAYMENT_REQUIRED')
  })

  test('does not override the directory that deactivated a member', async () => {
    const { app, id, decide, mine } = await useInvitation()
    const demo = await app.organization('demo')
    await app.service.database.asOrg(demo, async (sql) => {
      const [user] = await sql<{ id: string }>`select id from users where email = ${invitee}`
      await sql`
        insert into members (organization_id, id, user_id, role, deactivated_at)
        values (${demo}, ${newId()}, ${user?.id}, 'member', now())`
    })
    expect((await decide('accept')).body.data).toEqual({
      code: 'ACCESS_DENIED',
      reason: 'The organization’s directory has deactivated your membership',
    })
    expect(await mine()).toMatchObject([{ id }])
  })
})

describe('a member', () => {
  let app: TestService
  beforeAll(async () => {
    app = await startTestService()
  })
  afterAll(() => app.close())
  const leave = async (email: Email, slug: 'demo' | 'other') =>
    app.request('POST', '/organizations/current/leave', { token: await app.tokenFor(email, slug) })

  test('can leave, and then has no access', async () => {
    const token = await app.tokenFor('member@demo.test', 'demo')
    expect((await app.request('GET', '/publishable-keys', { token })).status).toBe(200)
    expect((await leave('member@demo.test', 'demo')).body).toEqual({ success: true })
    expect((await app.request('GET', '/publishable-keys', { token })).body.data.code).toBe('ACCESS_DENIED')
    const { body } = await app.request('GET', '/organizations', { token: await app.tokenFor('member@demo.test') })
    expect(
      body.map(({ slug }: { slug: string }) => slug),
      'the others stay',
    ).toEqual(['other'])
    const admin = await app.tokenFor('admin@demo.test', 'demo')
    const { events } = (await app.request('GET', '/audit-events?action=member.left', { token: admin })).body
    expect(events).toMatchObject([{ actor: 'member@demo.test', data: { email: 'member@demo.test', role: 'member' } }])
  })

  test('who is the last admin cannot leave, and is told what to do', async () => {
    expect((await leave('admin@demo.test', 'demo')).body).toEqual({
      defined: false,
      code: 'CONFLICT',
      status: 409,
      message: 'The last admin can’t be demoted or removed, and can’t leave. Make another member an admin first.',
      data: { code: 'LAST_ADMIN' },
    })
  })

  test('one of two admins who leave concurrently stays', async () => {
    await app.organization('other')
    const answers = await Promise.all([leave('admin@other.test', 'other'), leave('member@demo.test', 'other')])
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409])
  })
})

describe('the invitations page', () => {
  let app: HttpService
  beforeAll(async () => {
    app = await startHttpService()
  })
  afterAll(() => app.close())

  async function visit(email: Email = invitee) {
    const browser = new Browser(app.url)
    await browser.open(new URL('/invitations', app.url))
    await browser.press(email)
    return browser
  }
  async function invite() {
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const body = { email: invitee, role: 'member' }
    const { id } = (await app.request('POST', '/organizations/current/invitations', { token, body })).body
    onTestFinished(
      async () => void (await app.request('DELETE', `/organizations/current/invitations/${id}`, { token })),
    )
  }

  test('asks users to sign in, then shows their invitations and handles the answer', async () => {
    await invite()
    const browser = await visit()
    expect(browser.page?.url.href).toBe(`${app.url}/invitations`)
    expect(browser.text).toContain('admin@demo.test invited you to join Demo (demo) as a member.')
    await browser.press('Decline')
    expect(browser.text).toContain('You declined the invitation to Demo.')
    expect(browser.text).toContain('You have no open invitations.')
    await invite()
    await browser.open(new URL('/invitations', app.url))
    await browser.press('Accept')
    expect(browser.text).toContain('You’re now a member of Demo.')
    const { body } = await app.request('GET', '/organizations', { token: await app.tokenFor(invitee) })
    expect(body).toMatchObject([{ slug: 'demo' }])
  })

  test("hides other users' invitations, and rejects forms from elsewhere or sent twice", async () => {
    const browser = await visit('admin@other.test')
    expect(browser.text).toContain('You have no open invitations.')
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const body = { email: 'admin@other.test', role: 'member' }
    await app.request('POST', '/organizations/current/invitations', { token, body })
    await browser.open(new URL('/invitations', app.url))
    const { fields } = browser.form('Accept')
    await browser.press('Accept', {}, { origin: 'https://evil.example.com' })
    expect(browser.page?.status).toBe(403)
    await browser.open(new URL('/invitations', app.url))
    await browser.press('Decline')
    await app.request('POST', '/organizations/current/invitations', { token, body })
    await browser.open(new URL('/invitations', app.url))
    await browser.press('Accept', { ...fields, token: 'x'.repeat(43) })
    expect(browser.page?.status).toBe(400)
    const mine = await app.request('GET', '/organizations', { token: await app.tokenFor('admin@other.test') })
    expect(mine.body).toMatchObject([{ slug: 'other' }])
  })
})
