import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { runJob, startTestService, type TestService } from '../../../test/harness.ts'
import { connectDirectory, proveDomains, type ScimClient } from '../../../test/scim.ts'
import { type SmtpServer, startSmtp } from '../../../test/smtp.ts'
import { issueAccessToken } from '../../accounts/access/access-tokens.ts'
import { signIn } from '../../accounts/users/users.ts'
import { resources } from '../../kernel/http/protected-resources.ts'
import { membershipNotices } from './notices.ts'

let app: TestService
let smtp: SmtpServer
let admin: string
let demo: string
let directory: ScimClient
beforeAll(async () => {
  smtp = await startSmtp()
  app = await startTestService(smtp.env)
  admin = await app.tokenFor('admin@demo.test', 'demo')
  demo = await app.organization('demo')
  await proveDomains(app, demo, 'acme.example')
})
afterAll(async () => {
  await app.close()
  await smtp.close()
})
beforeEach(async () => {
  directory = await connectDirectory(app)
})

const newEmail = (domain = 'elsewhere.example') => `user-${randomUUID()}@${domain}`

/** An account at the installation's provider. */
async function addAccount(email: string, subject = email) {
  const identity = { issuer: 'https://idp.example', subject, email, email_verified: true, name: 'Ann', avatar_url: '' }
  const { id } = await signIn(app.service, identity)
  const claim = { userId: id, audience: Object.values(resources('http://localhost:8787')), lifetimeSeconds: 3600 }
  return {
    id,
    email,
    /** The user's token for the organization, or for none. */
    token: (organizationId?: string) => issueAccessToken(app.service, { ...claim, organizationId }),
  }
}
type Account = Awaited<ReturnType<typeof addAccount>>

const asAdmin = async (path: string) =>
  (await app.request('GET', `/organizations/current${path}`, { token: admin })).body
const roleOf = async (email: string): Promise<string | undefined> =>
  (await asAdmin('/members')).find(({ user }: { user: { email: string } }) => user.email === email)?.role
const invitationTo = async (email: string) =>
  (await asAdmin('/invitations')).find((one: { email: string }) => one.email === email)
const invite = (email: string) =>
  app.request('POST', '/organizations/current/invitations', { token: admin, body: { email, role: 'member' } })
async function accept(account: Account) {
  const token = await account.token()
  const [invitation] = (await app.request('GET', '/users/me/invitations', { token })).body
  if (!invitation) return undefined
  return (await app.request('POST', `/users/me/invitations/${invitation.id}/accept`, { token })).status
}
const leave = async (account: Account) =>
  (await app.request('POST', '/organizations/current/leave', { token: await account.token(demo) })).body

/** A user in a group with a role. */
async function enlist(email: string, role: 'admin' | 'member' = 'member', existing?: string) {
  const id = existing ?? (await directory.addUser(email))
  const group = await directory.addGroup(`Group ${randomUUID()}`, [id])
  await directory.mapGroup(group, role)
  return { id, group }
}

describe('an address in a domain that the organization hasn’t proven', () => {
  test('is invited by the directory, and joins only when its owner accepts', async () => {
    const ann = await addAccount(newEmail())
    const { id } = await enlist(ann.email, 'admin')
    expect(await roleOf(ann.email)).toBeUndefined()
    expect((await app.request('GET', '/publishable-keys', { token: await ann.token(demo) })).status).toBe(403)
    expect(await invitationTo(ann.email)).toMatchObject({ role: 'admin', mailed: true })
    expect((await smtp.mailTo(ann.email)).text).toContain('/invitations/join?token=')
    expect(await accept(ann)).toBe(200)
    expect(await roleOf(ann.email)).toBe('admin')
    expect((await app.request('GET', '/publishable-keys', { token: await ann.token(demo) })).status).toBe(200)
    await directory.deactivate(id)
    expect((await app.request('GET', '/publishable-keys', { token: await ann.token(demo) })).status).toBe(403)
  })

  test('is invited also if the organization has added its domain, but not proven it', async () => {
    await app.service.database.asOrg(
      demo,
      (sql) => sql`
        insert into sign_in_domains (organization_id, id, domain, token)
        values (current_organization(), ${randomUUID()}, 'pending.example', 'pending')`,
    )
    const ann = await addAccount(newEmail('pending.example'))
    await enlist(ann.email)
    expect([await roleOf(ann.email), await invitationTo(ann.email)]).toEqual([undefined, expect.anything()])
  })

  test('looks the same to the tenant and its directory, whether or not it has an account', async () => {
    const known = await addAccount(newEmail())
    const seen = []
    for (const email of [known.email, newEmail()]) {
      const created = await directory.send('POST', '/Users', { userName: email })
      const { id } = await enlist(email, 'member', created.body.id)
      const { users } = (
        await app.request('GET', `/directories/${directory.directoryId}/users?limit=100`, { token: admin })
      ).body
      const listed = users.find((user: { id: string }) => user.id === id)
      const text = JSON.stringify([
        created.status,
        created.body,
        listed,
        await invitationTo(email),
        await roleOf(email),
      ])
      seen.push(text.replaceAll(email, 'EMAIL').replaceAll(/[\da-f-]{36}|\d{4}-[\d-]+T[\d:.]+Z|"W[^"]*"/g, 'X'))
    }
    expect(seen[0]).toBe(seen[1])
    expect(seen[0]).toContain('"is_invited":true')
  })

  test.each<[string, (id: string, group: string) => Promise<unknown>]>([
    ['deactivates the user', (id) => directory.deactivate(id)],
    ['deletes the user', (id) => directory.send('DELETE', `/Users/${id}`)],
    ['takes the role from the group', (_, group) => directory.mapGroup(group, null)],
    ['renames the user', (id) => directory.patch(`/Users/${id}`, { op: 'replace', value: { userName: newEmail() } })],
  ])('has no invitation any more when the directory %s', async (_, end) => {
    const ann = await addAccount(newEmail())
    const { id, group } = await enlist(ann.email)
    expect(await invitationTo(ann.email)).toBeDefined()
    await end(id, group)
    expect(await invitationTo(ann.email)).toBeUndefined()
    expect(await accept(ann)).toBeUndefined()
  })

  test.each<[string, (email: string) => object]>([
    ['deactivates the user', () => ({ active: false })],
    ['deactivates and renames the user', (userName) => ({ active: false, userName })],
  ])('can’t use an administrator’s invitation that is open when the directory %s', async (_, change) => {
    const ann = await addAccount(newEmail())
    const id = await directory.addUser(ann.email)
    await invite(ann.email)
    await directory.patch(`/Users/${id}`, { op: 'replace', value: change(newEmail()) })
    expect(await accept(ann)).toBe(403)
    expect(await roleOf(ann.email)).toBeUndefined()
  })

  test('takes a seat, as a member does', async () => {
    const before = (await app.request('GET', '/plan-tiers/usage', { token: admin })).body
    await enlist(newEmail())
    const after = (await app.request('GET', '/plan-tiers/usage', { token: admin })).body
    expect(JSON.stringify(after)).not.toBe(JSON.stringify(before))
  })

  test('can’t be reached by renaming a user who waits for their first sign-in', async () => {
    const { id } = await enlist(newEmail('acme.example'))
    const victim = newEmail()
    await directory.patch(`/Users/${id}`, { op: 'replace', value: { userName: victim } })
    const { id: account } = await addAccount(victim)
    expect([await roleOf(victim), await invitationTo(victim)]).toEqual([undefined, expect.anything()])
    expect(account).toEqual(expect.any(String))
  })

  test.each<[string, (account: Account) => Promise<unknown>]>([
    [
      'declined',
      async (account) => {
        const token = await account.token()
        const [{ id }] = (await app.request('GET', '/users/me/invitations', { token })).body
        return app.request('POST', `/users/me/invitations/${id}/decline`, { token })
      },
    ],
    [
      'withdrawn by an administrator',
      async ({ email }) =>
        app.request('DELETE', `/organizations/current/invitations/${(await invitationTo(email)).id}`, { token: admin }),
    ],
  ])('isn’t invited again by the directory after the invitation was %s', async (_, end) => {
    const ann = await addAccount(newEmail())
    const { id } = await enlist(ann.email)
    await end(ann)
    await enlist(ann.email, 'admin', id)
    expect(await invitationTo(ann.email)).toBeUndefined()
    const renamed = newEmail()
    await directory.patch(`/Users/${id}`, { op: 'replace', value: { userName: renamed } })
    expect(await invitationTo(renamed), 'nor under another address').toBeUndefined()
  })
})

describe('a member whom a directory made', () => {
  test.each<[string, (account: Account, id: string) => Promise<unknown>]>([
    ['another group', (account, id) => enlist(account.email, 'admin', id)],
    [
      'a new directory user',
      async (account, id) => {
        await directory.send('DELETE', `/Users/${id}`)
        await enlist(account.email)
      },
    ],
    [
      'a new name, at their next sign-in',
      async (account, id) => {
        const renamed = newEmail('acme.example')
        await directory.patch(`/Users/${id}`, { op: 'replace', value: { userName: renamed } })
        await addAccount(renamed, account.email)
      },
    ],
    [
      'another directory user with their new address',
      async (account) => {
        const renamed = newEmail('acme.example')
        await enlist(renamed)
        await addAccount(renamed, account.email)
      },
    ],
  ])('can leave, and isn’t brought back by %s, but by a new invitation', async (_, bringBack) => {
    const ann = await addAccount(newEmail('acme.example'))
    const { id } = await enlist(ann.email)
    expect(await roleOf(ann.email)).toBe('member')
    expect(await leave(ann)).toEqual({ success: true })
    await bringBack(ann, id)
    const member = async () => (await app.request('GET', '/publishable-keys', { token: await ann.token(demo) })).status
    expect(await member()).toBe(403)
    const { body } = await app.request('GET', '/users/me', { token: await ann.token() })
    await invite(body.email)
    expect(await accept({ ...ann, email: body.email })).toBe(200)
    expect(await member()).toBe(200)
  })

  test('comes back when the directory that removed them gives the role again', async () => {
    const ann = await addAccount(newEmail('acme.example'))
    const { group } = await enlist(ann.email)
    await directory.mapGroup(group, null)
    expect(await roleOf(ann.email)).toBeUndefined()
    await directory.mapGroup(group, 'member')
    expect(await roleOf(ann.email)).toBe('member')
  })

  test('isn’t brought back by an invitation that was open when they left', async () => {
    const ann = await addAccount(newEmail('acme.example'))
    await enlist(ann.email)
    await app.service.database.asOrg(
      demo,
      (sql) => sql`
        insert into invitations (organization_id, id, email, role, invited_by)
        values (current_organization(), ${randomUUID()}, ${ann.email}, 'admin', 'admin@demo.test')`,
    )
    await leave(ann)
    expect(await accept(ann)).toBeUndefined()
  })
})

describe('a user whom the directory renames', () => {
  const rename = (id: string, userName: string) =>
    directory.patch(`/Users/${id}`, { op: 'replace', value: { userName } })

  test('has the role with the account of the new address, and the old one loses it', async () => {
    const [one, two] = [await addAccount(newEmail('acme.example')), await addAccount(newEmail('acme.example'))]
    await invite(two.email)
    await accept(two)
    const { id } = await enlist(one.email, 'admin')
    await rename(id, two.email)
    expect([await roleOf(one.email), await roleOf(two.email)]).toEqual([undefined, 'admin'])
    const next = await enlist(one.email, 'member')
    expect(await roleOf(one.email)).toBe('member')
    await directory.deactivate(id)
    expect([await roleOf(one.email), await roleOf(two.email)], 'the new user keeps theirs').toEqual([
      'member',
      undefined,
    ])
    await directory.deactivate(next.id)
    expect(await roleOf(one.email)).toBeUndefined()
  })

  test('gets back what they had by their own account, when they sign in with the new address', async () => {
    const [old, renamed] = [newEmail('acme.example'), newEmail('acme.example')]
    const ann = await addAccount(old)
    await invite(old)
    await accept(ann)
    await rename(await directory.addUser(old), renamed)
    const status = async () => (await app.request('GET', '/publishable-keys', { token: await ann.token(demo) })).status
    expect(await status()).toBe(403)
    await addAccount(renamed, old)
    expect(await status()).toBe(200)
  })

  test('never leaves the organization without an admin', async () => {
    const id = await directory.addUser('admin@demo.test')
    expect(await rename(id, newEmail('acme.example'))).toMatchObject({ status: 409 })
    expect(await roleOf('admin@demo.test')).toBe('admin')
  })
})

test('members whom a directory added without asking get one mail that says how to leave', async () => {
  const ann = await addAccount(newEmail('acme.example'))
  await enlist(ann.email)
  await app.service.database.asOrg(demo, (sql) => sql`update members set notice_due = true where user_id = ${ann.id}`)
  for (let n = 0; n < 2; n += 1) await runJob(app, demo, membershipNotices)
  const mail = await smtp.mailTo(ann.email)
  expect(mail.text).toContain('leave the organization')
  const due = await app.service.database.asOrg(demo, (sql) => sql`select from members where notice_due`)
  expect(due).toEqual([])
})
