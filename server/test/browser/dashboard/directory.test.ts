import { afterAll, beforeAll, expect, test } from 'vitest'
import { type HttpService, startHttpService } from '../../http-server.ts'
import { connectDirectory, proveDomains } from '../../scim.ts'
import { press } from '../visit.ts'
import { findAccessibilityProblems, openDashboard } from './dashboard.ts'

let app: HttpService
beforeAll(async () => {
  app = await startHttpService()
})
afterAll(() => app.close())

test('an admin gives a group a role, rotates the token, and sees what was refused', async () => {
  const token = await app.tokenFor('admin@demo.test', 'demo')
  const directory = await connectDirectory(app)
  await proveDomains(app, await app.organization('demo'), 'acme.example')
  const ada = await directory.addUser('ada@acme.example', { displayName: '<b>Ada</b>' })
  await directory.addUser('bo@acme.example', { active: false })
  await directory.addGroup('Staff', [ada])
  await directory.send('GET', '/Users?filter=shoeSize%20eq%20%227%22')
  await app.service.activity.flush()
  const page = await openDashboard(app, `/o/demo/directory/${directory.directoryId}`)
  const sheet = page.getByRole('dialog', { name: 'Okta' })
  await sheet.getByRole('row', { name: /<b>Ada<\/b>.*Active.*None/ }).waitFor()
  await sheet.getByRole('row', { name: /bo@acme.example.*Inactive/ }).waitFor()
  await sheet.getByRole('region', { name: 'Refused requests' }).getByText('shoeSize').waitFor()
  await sheet.getByText('Groups').click()
  await sheet.getByLabel('Role for Staff').selectOption('Member')
  await page.getByText('Users in Staff get the role member').waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  const { body: members } = await app.request('GET', '/organizations/current/members', { token })
  expect(members.map(({ user }: { user: { email: string } }) => user.email)).toContain('ada@acme.example')
  await sheet.getByText('Users').first().click()
  await sheet.getByRole('row', { name: /Ada.*Member/ }).waitFor()

  await sheet.getByRole('button', { name: 'Rotate token' }).click()
  const dialog = page.getByRole('dialog', { name: 'Rotate token' })
  await dialog.getByLabel('Previous tokens work for').selectOption('None, stop at once')
  await dialog.getByRole('button', { name: 'Create new token' }).click()
  const bearer = await dialog.getByLabel('Bearer token').inputValue()
  expect(bearer).toMatch(/^scim_/)
  expect(await findAccessibilityProblems(page)).toEqual([])
  await press(page, 'Done')
  await sheet.getByText(`…${bearer.slice(-4)}`).waitFor()
  expect((await directory.send('GET', '/Users')).status, 'the previous token').toBe(401)
})

test('a member sees users, groups and roles, but no tokens', async () => {
  const directory = await connectDirectory(app)
  await directory.addGroup('Staff')
  const options = { user: 'member@demo.test' } as const
  const page = await openDashboard(app, `/o/demo/directory/${directory.directoryId}?view=groups`, options)
  const sheet = page.getByRole('dialog', { name: 'Okta' })
  await sheet.getByRole('row', { name: /Staff.*0.*None/ }).waitFor()
  expect(await sheet.getByRole('combobox').count()).toBe(0)
  expect(await sheet.getByText('Bearer tokens').count()).toBe(0)
})
