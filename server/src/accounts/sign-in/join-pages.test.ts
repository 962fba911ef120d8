import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Browser } from '../../../test/browser.ts'
import { type HttpService, startHttpService } from '../../../test/http-server.ts'
import { newEmail } from '../../../test/sample-helpers.ts'
import { type SmtpServer, startSmtp } from '../../../test/smtp.ts'
import { addLocalUser, changePassword, findLocalAccount } from '../users/local-accounts.ts'

const password = 'plum lantern harbor'
const account = { name: 'Ivy', password, repeated: password }

let app: HttpService
let smtp: SmtpServer
beforeAll(async () => {
  smtp = await startSmtp()
  app = await startHttpService(smtp.env)
})
afterAll(async () => {
  await app.close()
  await smtp.close()
})

async function invite(email = newEmail(), slug: 'demo' | 'other' = 'demo') {
  const token = await app.tokenFor(`admin@${slug}.test`, slug)
  const body = { email, role: 'member' }
  const invitation = (await app.request('POST', '/organizations/current/invitations', { token, body })).body
  const path = `/organizations/current/invitations/${invitation.id}`
  return {
    email,
    invitation,
    renew: async () => (await app.request('POST', `${path}/renew`, { token })).body,
    withdraw: () => app.request('DELETE', path, { token }),
    mailedLink: async (count = 1) => linkIn((await smtp.mailTo(email, count)).text),
  }
}

const linkIn = (text: string) => /http\S+token=[\w-]+/.exec(text)?.[0] ?? ''
const open = (url: string) => new Browser(app.url).open(url)
const isMember = async (email: string, slug: 'demo' | 'other' = 'demo') => {
  const token = await app.tokenFor(`admin@${slug}.test`, slug)
  const { body } = await app.request('GET', '/organizations/current/members', { token })
  return body.some(({ user }: { user: { email: string } }) => user.email === email)
}
const isVerified = async (email: string) => {
  const [user] = await app.service.database.asService(
    (sql) => sql<{ email_verified: boolean }>`select email_verified from users where email = ${email}`,
  )
  return user?.email_verified
}

/** How often a user's sign-in was recorded in the organization's audit log. */
const signInsOf = async (email: string) => {
  const account = await findLocalAccount(app.service, email)
  const events = await app.service.database.asOrg(
    await app.organization('demo'),
    (sql) => sql`select from audit_events where target = ${account?.id ?? ''} and action = 'user.signed_in'`,
  )
  return events.length
}

describe('the link of an invitation', () => {
  test('lets a user without an account create one and join, and then works no longer', async () => {
    const { email, invitation } = await invite()
    expect(invitation).toMatchObject({ email, mailed: true, url: expect.stringMatching(/\/join\?token=[\w-]{43}$/) })
    const browser = await open(invitation.url)
    expect(browser.text).toContain('admin@demo.test invited you to join Demo (demo) as a member.')
    await browser.press('Create account and join', account)
    expect(browser.text).toContain('You’re now a member of Demo.')
    expect(await isMember(email)).toBe(true)
    expect((await open(invitation.url)).page?.status).toBe(404)
  })

  test('signs a user in with the account that they created, once, and only in their browser', async () => {
    const { email, invitation } = await invite()
    const browser = await open(invitation.url)
    await browser.press('Create account and join', account)
    const [stranger, copy] = [await open(`${app.url}/invitations`), browser.fork()]
    expect(stranger.text).not.toContain('Signed in')
    await browser.open(`${app.url}/invitations`)
    expect(browser.text).toContain(`Signed in as ${email}`)
    expect(await signInsOf(email)).toBe(1)
    await copy.open(`${app.url}/invitations`)
    await copy.press('Sign in', { email, password })
    expect(copy.text).toContain(`Signed in as ${email}`)
  })

  test('signs nobody in whose password was changed in the meantime', async () => {
    const { email, invitation } = await invite()
    const browser = await open(invitation.url)
    await browser.press('Create account and join', account)
    const created = await findLocalAccount(app.service, email)
    expect(created && (await changePassword(app.service, created, 'another harbor plum'))).toBeTruthy()
    await browser.open(`${app.url}/invitations`)
    expect(browser.text).not.toContain('Signed in')
    expect(await signInsOf(email)).toBe(0)
    await browser.press('Sign in', { email, password: 'another harbor plum' })
    expect(browser.text).toContain(`Signed in as ${email}`)
  })

  test('leaves a user signed in who creates an account for another address', async () => {
    const { email, invitation } = await invite()
    const form = await open(invitation.url)
    const user = await open(`${app.url}/invitations`)
    await user.press('admin@other.test')
    // Opened before the user signed in.
    user.page = form.page
    await user.press('Create account and join', account)
    expect(user.text).toContain('You’re now a member of Demo.')
    expect(user.cookieNames()).not.toContain('inlay-new-user')
    await user.open(`${app.url}/invitations`)
    expect(user.text).toContain('Signed in as admin@other.test')
    expect(await isMember(email)).toBe(true)
  })

  test('verifies the address only if it was mailed', async () => {
    const shown = await invite()
    await (await open(shown.invitation.url)).press('Create account and join', account)
    expect(await isVerified(shown.email), 'the administrator may have opened it').toBe(false)
    const mailed = await invite()
    await (await open(await mailed.mailedLink())).press('Create account and join', account)
    expect(await isVerified(mailed.email)).toBe(true)
    expect(await isMember(mailed.email)).toBe(true)
  })

  test('doesn’t give an administrator who opens it what other organizations gave to the address', async () => {
    const email = newEmail()
    const { withdraw } = await invite(email, 'other')
    const { invitation } = await invite(email)
    await (await open(invitation.url)).press('Create account and join', account)
    const browser = await open(`${app.url}/invitations`)
    await browser.press('Sign in', { email, password })
    expect(browser.text).toContain('You have no open invitations.')
    expect(await isMember(email, 'other')).toBe(false)
    await withdraw()
  })

  test('lets a user with an unverified address join a second organization', async () => {
    const first = await invite()
    await (await open(first.invitation.url)).press('Create account and join', account)
    const second = await invite(first.email, 'other')
    const browser = await open(second.invitation.url)
    await browser.press('Sign in', { email: first.email, password })
    expect(browser.text).toContain('Join Other?')
    await browser.press('Join')
    expect(browser.text).toContain('You’re now a member of Other.')
    expect(await isMember(first.email, 'other')).toBe(true)
    await second.withdraw()
  })

  test('asks a user with an account to sign in, and then to accept', async () => {
    const email = newEmail()
    await addLocalUser(app.service, { email, name: 'Ivy', password })
    const browser = await open((await invite(email)).invitation.url)
    await browser.press('Sign in', { email, password })
    expect(browser.text).toContain('admin@demo.test invited you to join Demo (demo) as a member.')
    await browser.press('Accept')
    expect(await isMember(email)).toBe(true)
  })

  test('is of no use to a user with another address', async () => {
    const { email, invitation } = await invite()
    const browser = await open(`${app.url}/invitations`)
    await browser.press('admin@other.test')
    await browser.open(invitation.url)
    expect(browser.text).toContain('You have no open invitations.')
    const body = new URLSearchParams({ token: new URL(invitation.url).searchParams.get('token') ?? '' })
    const headers = { origin: app.url }
    const response = await app.fetch('/invitations/join', { method: 'POST', body, headers })
    expect(response.status).toBe(404)
    expect(await isMember(email)).toBe(false)
  })

  test.each([
    ['a short password', { password: 'short', repeated: 'short' }, 'Use at least 12 characters.'],
    ['two passwords', { repeated: 'another harbor plum' }, 'The passwords don’t match.'],
    ['no name', { name: ' ' }, 'Enter your name'],
    ['a long name', { name: 'x'.repeat(101) }, 'Your name is too long'],
  ])('shows the form again for %s', async (_, values, problem) => {
    const { email, invitation, withdraw } = await invite()
    const browser = await open(invitation.url)
    await browser.press('Create account and join', { ...account, ...values })
    expect([browser.page?.status, browser.text]).toEqual([400, expect.stringContaining(problem)])
    expect(await findLocalAccount(app.service, email)).toBeUndefined()
    await withdraw()
  })

  test('ends when the invitation is withdrawn, renewed or expired', async () => {
    const withdrawn = await invite()
    const form = await open(withdrawn.invitation.url)
    await withdrawn.withdraw()
    expect((await open(withdrawn.invitation.url)).page?.status).toBe(404)
    await form.press('Create account and join', account)
    expect(form.page?.status).toBe(404)
    expect(await findLocalAccount(app.service, withdrawn.email)).toBeUndefined()

    const renewed = await invite()
    const firstMail = await renewed.mailedLink()
    const { url } = await renewed.renew()
    for (const old of [renewed.invitation.url, firstMail]) expect((await open(old)).page?.status).toBe(404)
    for (const link of [url, await renewed.mailedLink(2)]) expect((await open(link)).page?.status).toBe(200)

    await app.service.database.asOrg(
      await app.organization('demo'),
      (sql) => sql`update invitations set expires_at = now() where id = ${renewed.invitation.id}`,
    )
    expect((await open(url)).page?.status).toBe(404)
  })

  test('creates one account for ten concurrent forms', async () => {
    const { email, invitation } = await invite()
    const body = () =>
      new URLSearchParams({ ...account, token: new URL(invitation.url).searchParams.get('token') ?? '' })
    const send = () =>
      app.fetch('/invitations/join/new-account', { method: 'POST', body: body(), headers: { origin: app.url } })
    const statuses = (await Promise.all(Array.from({ length: 10 }, send))).map(({ status }) => status)
    expect(statuses.filter((status) => status === 200)).toHaveLength(1)
    expect(await isMember(email)).toBe(true)
  })

  test('is refused if another website sends the form, or if it is made up', async () => {
    const { email, invitation, withdraw } = await invite()
    const browser = await open(invitation.url)
    await browser.press('Create account and join', account, { origin: 'https://evil.example.com' })
    expect(browser.page?.status).toBe(403)
    for (const token of ['', 'x'.repeat(43), invitation.id, '%00', 'x'.repeat(5000)])
      expect((await app.fetch(`/invitations/join?token=${token}`)).status).toBe(404)
    expect(await findLocalAccount(app.service, email)).toBeUndefined()
    await withdraw()
  })
})

describe('the mail of an invitation', () => {
  test('names the organization and the administrator, and escapes them', async () => {
    const { email } = await invite()
    const { headers, text, html } = await smtp.mailTo(email)
    expect(headers.subject).toBe('Join Demo on Inlay')
    expect(text).toContain('admin@demo.test invited you to join “Demo” on Inlay.')
    expect(html).toContain('within 7 days')
  })

  test('isn’t sent once the invitation is withdrawn', async () => {
    smtp.trouble = () => 'hang up'
    const { email, withdraw } = await invite()
    await withdraw()
    const left = await app.service.database.asService((sql) => sql`select from mail_outbox`)
    smtp.trouble = undefined
    expect(left).toEqual([])
    expect(smtp.received.some(({ to }) => to.includes(email))).toBe(false)
  })

  test('is sent to an address five times a day, and the administrator sends the link otherwise', async () => {
    const { invitation, renew } = await invite()
    const renewed = []
    for (let turn = 0; turn < 5; turn += 1) renewed.push((await renew()).mailed)
    expect([invitation.mailed, ...renewed]).toEqual([true, true, true, true, true, false])
  })
})

test('without SMTP, an invitation isn’t mailed', async () => {
  const plain = await startHttpService()
  const token = await plain.tokenFor('admin@demo.test', 'demo')
  const body = { email: newEmail(), role: 'member' }
  const invitation = (await plain.request('POST', '/organizations/current/invitations', { token, body })).body
  expect(invitation.mailed).toBe(false)
  expect(await plain.service.database.asService((sql) => sql`select from mail_outbox`)).toEqual([])
  await plain.close()
})
