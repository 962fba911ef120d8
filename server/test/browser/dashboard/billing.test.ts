import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type HttpService, startHttpService } from '../../http-server.ts'
import { writePolarSettings } from '../../polar/installation.ts'
import { startPolar } from '../../polar/stand-in.ts'
import { press, seeHeading } from '../visit.ts'
import { findAccessibilityProblems, openDashboard, visit } from './dashboard.ts'

let app: HttpService
beforeAll(async () => {
  app = await startHttpService()
})
afterAll(() => app.close())

test('an admin sees the plan’s usage, buys another plan, and manages the subscription', async () => {
  const page = await openDashboard(app, '/o/other/billing', { user: 'admin@other.test' })
  const usage = page.getByRole('region', { name: 'Usage of your plan' })
  await usage.getByText('2 of 3').waitFor()
  expect(await usage.getByRole('meter', { name: 'Seats' }).getAttribute('aria-valuetext')).toBe('2 of 3')
  await page.getByText('No subscription').waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await press(page, 'Change to Team')
  await seeHeading(page, 'Team')
  await press(page, 'Subscribe')
  await seeHeading(page, 'Subscribed to Team')

  await page.goto(`${app.url}/o/other/billing`)
  await page.getByRole('article', { name: 'Team' }).getByText('Your plan').waitFor()
  await page.getByRole('region', { name: 'Subscription' }).getByText('Renews').waitFor()
  await press(page, 'Sync')
  await page.getByText('Synced 1 subscription').waitFor()

  await visit(page, 'Directory')
  await page.getByText('Your plan doesn’t include directories.').waitFor()
  expect(await page.getByRole('button', { name: 'Connect directory' }).count()).toBe(0)
  await visit(page, 'Plan and billing')
  await press(page, 'Manage subscription')
  await page.waitForURL(/\/billing\/portal/)
})

test('an admin returns from Polar’s checkout, sees seats and overdue payments, and changes the plan in the portal', async () => {
  const polar = await startPolar()
  const settings = writePolarSettings(polar)
  const app = await startHttpService(settings.env)
  onTestFinished(async () => {
    await app.close()
    await polar.close()
    settings.remove()
  })
  const id = await app.organization('other')
  const notify = () => fetch(`${app.local}/billing/webhooks`, { method: 'POST', ...polar.webhook(id) })

  const page = await openDashboard(app, '/o/other/billing?checkout=done', { user: 'admin@other.test' })
  await page.getByText('Your payment is being confirmed.').waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  const subscription = polar.subscribe(id, { product_id: polar.products.bySeat, seats: 2 })
  expect((await notify()).status).toBe(202)
  await page.getByText('Your new plan is active').waitFor()
  await page.getByRole('article', { name: 'By seat' }).getByText('Your plan').waitFor()
  await page.getByRole('region', { name: 'Subscription' }).getByText('Seats paid for').waitFor()
  expect(page.url()).not.toContain('checkout')

  await page.route('https://polar.sh/**', (route) =>
    route.fulfill({ contentType: 'text/html', body: '<h1>Portal</h1>' }),
  )
  await press(page, 'Change to Team')
  await seeHeading(page, 'Portal')
  expect(page.url()).toContain('customer_session_token')

  polar.change(subscription.id, { status: 'past_due' })
  await page.goto(`${app.url}/o/other/billing`)
  await press(page, 'Sync')
  await page.getByText('Your last payment failed. You keep your plan until').waitFor()
  await page.getByText('Plan kept until').waitFor()
  await page.getByText('Payment overdue').waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
})

test('an admin connects a directory, sees its users, deactivates it, and disconnects it', async () => {
  const token = await app.tokenFor('admin@demo.test', 'demo')
  const page = await openDashboard(app, '/o/demo/directory?create=yes')
  const dialog = page.getByRole('dialog', { name: 'Connect directory' })
  await dialog.getByLabel('Name').fill('Staff')
  await dialog.getByLabel('Domain').fill('not a domain')
  await dialog.getByRole('button', { name: 'Connect directory' }).click()
  await dialog.getByText('Must be a domain such as acme.example').first().waitFor()
  await dialog.getByLabel('Domain').fill('acme.example')
  await dialog.getByRole('button', { name: 'Connect directory' }).click()
  await dialog.getByText('It won’t be shown again.').waitFor()
  expect(await dialog.getByLabel('Bearer token').inputValue()).not.toBe('')
  expect(await findAccessibilityProblems(page)).toEqual([])
  await press(page, 'Done')

  const { directories } = (await app.request('GET', '/directories', { token })).body
  const [{ id }] = directories
  await app.service.database.asOrg(
    await app.organization('demo'),
    (sql) => sql`
      insert into directory_users (organization_id, directory_id, id, user_name, email, name, active)
      values (current_organization(), ${id}, gen_random_uuid(), 'ada', 'ada@acme.example', '<b>Ada</b>', true)`,
  )
  await page.getByRole('row', { name: /Staff/ }).click()
  const sheet = page.getByRole('dialog', { name: 'Staff' })
  await sheet.getByText('<b>Ada</b>').waitFor()
  await sheet.getByText('Groups').click()
  await sheet.getByText('No groups yet').waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await sheet.getByLabel('Accept changes from this directory').click()
  await page.getByText('Staff deactivated').waitFor()
  expect((await app.request('GET', `/directories/${id}`, { token })).body.status).toBe('inactive')
  await press(page, 'Undo')
  await page.getByText('Staff activated').waitFor()
  await sheet.getByRole('button', { name: 'Disconnect directory' }).click()
  await page.getByLabel('Type “Staff” to confirm').fill('Staff')
  await press(page, 'Delete')
  await page.getByText('Staff disconnected').waitFor()
  await page.getByText('No directory connected').waitFor()
})

test('a member sees the plan and the directory, but changes nothing', async () => {
  const page = await openDashboard(app, '/o/demo/billing', { user: 'member@demo.test' })
  await page.getByText('Only admins can change this.').waitFor()
  expect(await page.getByRole('button', { name: /^Change to/ }).count()).toBe(0)
  await visit(page, 'Directory')
  await page.getByText('Only admins can change this.').waitFor()
  await visit(page, 'Code host')
  await page.getByText('Only admins can see this').waitFor()
})
