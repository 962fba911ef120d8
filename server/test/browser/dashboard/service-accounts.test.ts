import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type HttpService, startHttpService } from '../../http-server.ts'
import { press, seeHeading } from '../visit.ts'
import { findAccessibilityProblems, openDashboard } from './dashboard.ts'

let app: HttpService
let token: string
beforeAll(async () => {
  app = await startHttpService()
  token = await app.tokenFor('admin@demo.test', 'demo')
})
afterAll(() => app.close())

const dialog = (page: Page, name: string | RegExp) => page.getByRole('dialog', { name })
const listAccounts = async () => (await app.request('GET', '/service-accounts', { token })).body.service_accounts
/** The status of a request with the key. */
const use = async (key: string) => (await app.request('GET', '/sites', { token: key })).status
const overflow = (page: Page) => page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')

test('an admin creates a service account, uses its key, rotates it, edits the account and deletes it', async () => {
  const page = await openDashboard(app, '/o/demo')
  await seeHeading(page, 'Overview')
  await page.keyboard.press('ControlOrMeta+K')
  await dialog(page, 'Commands').getByRole('combobox').fill('create service account')
  await page.keyboard.press('Enter')
  await page.waitForURL('**/service-accounts?create=yes')
  const form = dialog(page, 'Create a service account')
  await form.getByLabel('Name').fill('CI <b>')
  await form.getByRole('radio', { name: 'Admin' }).check()
  await form.getByLabel('Expires').fill('2099-01-31')
  expect(await findAccessibilityProblems(page)).toEqual([])
  await form.getByRole('button', { name: 'Create service account' }).click()

  const ready = dialog(page, '“CI <b>” is ready')
  const key = (await ready.locator('code').textContent()) ?? ''
  expect(await use(key)).toBe(200)
  await ready.getByText('Copy it now: it can’t be shown again.').waitFor()
  await ready.getByText(`curl -s ${app.url}/api/organizations`).waitFor()
  await ready.getByRole('radio', { name: 'Other MCP clients' }).check()
  await ready.getByText(`"Authorization": "Bearer ${key}"`).waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await press(page, 'Done')
  // The end of the day in the browser's time zone.
  const expires_at = expect.stringMatching(/^2099-(01-31|02-01)T/)
  expect(await listAccounts()).toMatchObject([{ name: 'CI <b>', role: 'admin', expires_at }])

  await app.service.activity.flush()
  await page.reload()
  const row = page.getByRole('row', { name: /CI <b>.*Admin/ })
  await row.getByText(key.slice(-4)).waitFor()
  await page.getByRole('link', { name: 'CI <b>' }).click()
  const details = dialog(page, 'CI <b>')
  await details.getByText('service-account:CI <b>').waitFor()
  expect(await page.getByText(key).count(), 'the key is never shown again').toBe(0)

  await details.getByRole('button', { name: 'Rotate key' }).click()
  const rotation = dialog(page, 'Rotate the key of “CI <b>”')
  await rotation.getByLabel('The current key works for another').selectOption('7 days')
  await rotation.getByRole('button', { name: 'Rotate key' }).click()
  const renewed = dialog(page, '“CI <b>” has a new key')
  const next = (await renewed.locator('code').textContent()) ?? ''
  expect(await findAccessibilityProblems(page)).toEqual([])
  await renewed.getByRole('button', { name: 'Done' }).click()
  expect([await use(key), await use(next)]).toEqual([200, 200])
  await details.getByText(`The previous key …${key.slice(-4)} also works, until`).waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await details.getByRole('button', { name: 'End the previous key now' }).click()
  await dialog(page, 'End the previous key?').getByRole('button', { name: 'End key' }).click()
  await page.getByText('The previous key no longer works').waitFor()
  expect([await use(key), await use(next)]).toEqual([401, 200])

  await details.getByRole('button', { name: 'Edit' }).click()
  const edit = dialog(page, 'Edit the service account')
  await edit.getByLabel('Name').fill('Nightly')
  await edit.getByRole('radio', { name: 'Member' }).check()
  await edit.getByLabel('Expires').fill('')
  await edit.getByRole('button', { name: 'Save changes' }).click()
  await page.getByText('The service account was saved').waitFor()
  expect(await listAccounts()).toMatchObject([{ name: 'Nightly', role: 'member', expires_at: null }])

  await dialog(page, 'Nightly').getByRole('button', { name: 'Delete' }).click()
  const question = dialog(page, 'Delete “Nightly”?')
  await question.getByLabel('Type “Nightly” to confirm').fill('Nightly')
  expect(await findAccessibilityProblems(page)).toEqual([])
  await question.getByRole('button', { name: 'Delete' }).click()
  await page.getByText('“Nightly” was deleted').waitFor()
  await page.getByRole('heading', { name: 'No service accounts yet' }).waitFor()
  expect(await use(next)).toBe(401)
})

test('a name that is taken is said beside the field, and nothing is wider than a phone', async () => {
  const body = { name: 'Taken', role: 'member' }
  const { key_last4 } = (await app.request('POST', '/service-accounts', { token, body })).body
  const page = await openDashboard(app, '/o/demo/service-accounts?create=yes', {
    viewport: { width: 390, height: 844 },
    locale: 'de-DE',
  })
  const form = dialog(page, 'Dienstkonto erstellen')
  await form.getByLabel('Name').fill('taken')
  await form.getByRole('button', { name: 'Dienstkonto erstellen' }).click()
  await form.getByText('Ein anderes Dienstkonto hat diesen Namen schon.').waitFor()
  expect([await findAccessibilityProblems(page), await overflow(page)]).toEqual([[], 0])
  await form.getByRole('button', { name: 'Abbrechen' }).click()
  await page.getByRole('link', { name: 'Taken' }).click()
  await dialog(page, 'Taken').getByText(`…${key_last4}`, { exact: true }).waitFor()
  expect([await findAccessibilityProblems(page), await overflow(page)]).toEqual([[], 0])
})

test('a member is told that only admins see service accounts', async () => {
  const page = await openDashboard(app, '/o/demo/service-accounts', { user: 'member@demo.test' })
  await page.getByRole('heading', { name: 'Only admins can see this' }).waitFor()
  expect(await page.getByRole('button', { name: 'Create service account' }).count()).toBe(0)
})
