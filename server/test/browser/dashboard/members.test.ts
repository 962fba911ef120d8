import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type HttpService, startHttpService } from '../../http-server.ts'
import { asOrg } from '../../sample-helpers.ts'
import { press } from '../visit.ts'
import { findAccessibilityProblems, openDashboard } from './dashboard.ts'

let app: HttpService
beforeAll(async () => {
  app = await startHttpService()
})
afterAll(() => app.close())

const item = (page: Page, email: string) => page.getByRole('listitem').filter({ hasText: email })

test('an admin invites a user, and withdraws the invitation', async () => {
  const page = await openDashboard(app, '/o/demo/members', { permissions: ['clipboard-read', 'clipboard-write'] })
  await item(page, 'member@demo.test').waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await press(page, 'Invite a member')
  const dialog = page.getByRole('dialog', { name: 'Invite a member' })
  await dialog.getByLabel('Email').fill('member@demo.test')
  await dialog.getByLabel('Role').selectOption('Admin')
  expect(await findAccessibilityProblems(page)).toEqual([])
  await press(page, 'Create invitation')
  await dialog.getByRole('alert').waitFor()
  expect(await dialog.getByLabel('Email').inputValue(), 'the input is kept').toBe('member@demo.test')
  await dialog.getByLabel('Email').fill('new@example.com')
  await press(page, 'Create invitation')
  await dialog.getByText('Send this link to new@example.com.').waitFor()
  await dialog.getByRole('button', { name: 'Copy link' }).click()
  await dialog.getByText('Copied').waitFor()
  expect(await page.evaluate('navigator.clipboard.readText()')).toContain(`${app.url}/invitations/join?token=`)
  await dialog.getByRole('button', { name: 'Close' }).first().click()

  await item(page, 'new@example.com').getByRole('button', { name: 'New link' }).click()
  const renewed = page.getByRole('dialog', { name: 'New link' })
  await renewed.getByText('Earlier links of this invitation no longer work.').waitFor()
  await renewed.getByText(`${app.url}/invitations/join?token=`).waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await renewed.getByRole('button', { name: 'Close' }).first().click()

  await item(page, 'new@example.com').getByRole('button', { name: 'Withdraw' }).click()
  const question = page.getByRole('dialog', { name: 'Withdraw the invitation for new@example.com?' })
  await question.getByRole('button', { name: 'Withdraw' }).click()
  await page.getByText('No open invitations.').waitFor()
})

test('a list is shown to its end, although a request for it returns a hundred entries', async () => {
  await asOrg(
    app,
    'other',
    (sql) => sql`
      insert into invitations (organization_id, id, email, role, invited_by)
      select current_organization(), gen_random_uuid(), 'guest-' || n || '@example.com', 'member', 'admin@other.test'
      from generate_series(1, 101) n`,
  )
  const page = await openDashboard(app, '/o/other/members', { user: 'admin@other.test' })
  const requests = new Set<string>()
  page.on('request', (request) => void requests.add(request.url()))
  await page.reload()
  await item(page, 'guest-101@example.com').waitFor()
  expect(await item(page, '@example.com').count()).toBe(101)
  expect([...requests].filter((url) => url.includes('/current/invitations?limit=100'))).toHaveLength(2)
})

test('an admin changes a role, and removes a member who then has no access', async () => {
  const page = await openDashboard(app, '/o/demo/members')
  await page.getByText('The last admin can’t leave or become a member.').waitFor()
  expect(await page.getByLabel('Role of admin@demo.test').isDisabled()).toBe(true)
  await page.getByLabel('Role of member@demo.test').selectOption('Admin')
  await page.getByText('member@demo.test is now admin').waitFor()
  await expect.poll(() => page.getByLabel('Role of admin@demo.test').isEnabled()).toBe(true)
  await press(page, 'Undo')
  await expect.poll(() => page.getByLabel('Role of member@demo.test').inputValue()).toBe('member')
  await press(page, 'Remove member@demo.test')
  const question = page.getByRole('dialog', { name: 'Remove member@demo.test?' })
  await question.waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await question.getByRole('button', { name: 'Remove member' }).click()
  await page.getByText('member@demo.test was removed').waitFor()
  await item(page, 'member@demo.test').waitFor({ state: 'detached' })
  const members = await app.request('GET', '/organizations/current/members', {
    token: await app.tokenFor('admin@demo.test', 'demo'),
  })
  expect(members.body.map(({ user }: { user: { email: string } }) => user.email)).toEqual(['admin@demo.test'])
})

test('a member sees the others, and leaves', async () => {
  const admin = await app.tokenFor('admin@other.test', 'other')
  const { body } = await app.request('GET', '/organizations/current/members', { token: admin })
  const { id } = body.find(({ user }: { user: { email: string } }) => user.email === 'member@demo.test')
  await app.request('PATCH', `/organizations/current/members/${id}`, { token: admin, body: { role: 'member' } })
  const page = await openDashboard(app, '/o/other/members', { user: 'member@demo.test' })
  await page.getByText('Only admins can change this.').waitFor()
  await item(page, 'admin@other.test').waitFor()
  expect(await page.getByRole('button', { name: /Invite|Remove/ }).count()).toBe(0)
  expect(await page.getByRole('combobox').count()).toBe(0)
  await press(page, 'Leave')
  await page.getByRole('dialog', { name: 'Leave Other?' }).getByRole('button', { name: 'Leave' }).click()
  await page.getByRole('heading', { name: 'Create an organization' }).waitFor()
})
