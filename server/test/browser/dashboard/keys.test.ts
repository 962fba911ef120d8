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
const addKey = async (name: string, allowed_origins: string[] = []) =>
  (await app.request('POST', '/publishable-keys', { token, body: { name, allowed_origins } })).body
const listKeys = async (): Promise<{ name: string; allowed_origins: string[]; revoked_at: string | null }[]> =>
  (await app.request('GET', '/publishable-keys', { token })).body.keys
/** What the widget does with a key. */
const useKey = (publishable_key: string, origin: string) =>
  app.request('POST', '/auth/pk-ticket', { body: { publishable_key }, headers: { origin } })

test('an admin creates a key, gets the snippet, changes the origins and revokes the key', async () => {
  const page = await openDashboard(app, '/o/demo')
  await seeHeading(page, 'Overview')
  await page.keyboard.press('ControlOrMeta+K')
  await dialog(page, 'Commands').getByRole('combobox').fill('create publishable')
  await page.keyboard.press('Enter')
  await page.waitForURL('**/keys?create=yes')
  const form = dialog(page, 'Create a publishable key')
  await form.getByText('Without origins, the key works on any website.').waitFor()
  await form.getByLabel('Name').fill('Shop <b>')
  const origins = form.getByRole('textbox', { name: 'Allowed origins' })
  await origins.fill('https://shop.example/cart')
  await form.getByText('An origin ends after the host and port').waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await press(page, 'Use https://shop.example')
  await origins.fill('http://plain.example')
  await form.getByRole('button', { name: 'Create key' }).click()
  await form.getByText('Only localhost can use http://').waitFor()
  await origins.fill('https://*.preview.example.com')
  await form.getByRole('button', { name: 'Create key' }).click()

  const ready = dialog(page, '“Shop <b>” is ready')
  const key = (await ready.locator('code').textContent()) ?? ''
  expect((await useKey(key, 'https://a.preview.example.com')).status).toBe(200)
  await ready.getByText(`<inlay-agent publishable-key="${key}">`).waitFor()
  await ready.getByText(`src="${app.url}/widget.js"`).waitFor()
  await ready.getByRole('radio', { name: 'Next.js' }).check()
  await ready.getByRole('switch', { name: 'My users are signed in' }).check()
  await ready.getByText(`<InlayAgent publishableKey="${key}" idToken={getIdToken} apiBase="${app.url}" />`).waitFor()
  expect(page.url()).toContain('snippet=next')
  expect(await findAccessibilityProblems(page)).toEqual([])
  await press(page, 'Done')

  await page.getByRole('link', { name: 'Shop <b>' }).click()
  const details = dialog(page, 'Shop <b>')
  await details.getByRole('button', { name: 'Show full key' }).click()
  await details.locator('code', { hasText: key }).waitFor()
  await details.getByRole('button', { name: 'Edit' }).click()
  const edit = dialog(page, 'Edit the key')
  await edit.getByLabel('Name').fill('Store')
  expect(await findAccessibilityProblems(page)).toEqual([])
  await edit.getByRole('button', { name: 'Remove https://*.preview.example.com' }).click()
  await press(page, 'Save changes')
  await dialog(page, 'Store').waitFor()
  expect(await listKeys()).toMatchObject([{ name: 'Store', allowed_origins: ['https://shop.example'] }])
  await press(page, 'Undo')
  await dialog(page, 'Shop <b>').waitFor()

  await dialog(page, 'Shop <b>').getByRole('button', { name: 'Revoke' }).click()
  const question = dialog(page, 'Revoke “Shop <b>”?')
  await question.getByLabel('Type “Shop <b>” to confirm').fill('Shop <b>')
  expect(await findAccessibilityProblems(page)).toEqual([])
  await question.getByRole('button', { name: 'Revoke' }).click()
  await page.getByText('“Shop <b>” was revoked').waitFor()
  expect((await useKey(key, 'https://shop.example')).status).toBe(401)
  await page.getByLabel('State').selectOption('Revoked')
  await page.getByRole('row', { name: /Shop <b>.*Revoked/ }).waitFor()
})

test('an admin rotates a key: both work until the old one is revoked', async () => {
  const old = await addKey('Old', ['https://rotated.example'])
  const page = await openDashboard(app, `/o/demo/keys/${old.id}?rotate=yes`)
  const sheet = dialog(page, 'Rotate “Old”')
  await sheet.getByRole('button', { name: 'Create successor' }).click()
  await sheet.getByRole('button', { name: 'Show the new key and its snippets' }).click()
  const key = (await sheet.locator('code').textContent()) ?? ''
  expect((await useKey(old.key, 'https://rotated.example')).status).toBe(200)
  expect((await useKey(key, 'https://rotated.example')).status).toBe(200)
  await sheet.getByText('The new key is in use.').waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await sheet.getByRole('button', { name: 'Revoke the old key' }).click()
  await page.getByLabel('Type “Old” to confirm').fill('Old')
  await press(page, 'Revoke')
  await page.getByText('“Old” was revoked').waitFor()
  expect((await useKey(key, 'https://rotated.example')).status).toBe(200)
  expect((await useKey(old.key, 'https://rotated.example')).status).toBe(401)
})

test('an admin deletes a site that is no longer allowed, and replaces the allowed domains', async () => {
  const key = await addKey('Site', ['https://gone.example', 'https://stays.example'])
  const [site] = (await app.request('GET', '/sites', { token })).body.filter(
    ({ origin }: { origin: string }) => origin === 'https://gone.example',
  )
  // A site that was used stays in the list when it's no longer allowed.
  await app.service.database.asOrg(
    await app.organization('demo'),
    (sql) => sql`update sites set is_allowed = false where id = ${site.id}`,
  )
  await app.service.database.asOrg(
    await app.organization('demo'),
    (sql) => sql`update publishable_keys set allowed_origins = '{https://stays.example}' where id = ${key.id}`,
  )
  const page = await openDashboard(app, '/o/demo/keys?view=sites')
  await page.getByRole('row', { name: /stays\.example.*Site/ }).waitFor()
  await page.getByRole('row', { name: /gone\.example.*No longer allowed/ }).waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await press(page, 'Delete https://gone.example')
  const question = dialog(page, 'Delete the site https://gone.example?')
  await question.waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await question.getByRole('button', { name: 'Delete' }).click()
  await page.getByText('https://gone.example was deleted').waitFor()
  await page.getByRole('row', { name: /gone\.example/ }).waitFor({ state: 'detached' })

  await page.getByRole('radio', { name: 'Allowed domains' }).check()
  const field = page.getByRole('textbox', { name: 'Origins' })
  await field.fill('https://*.com')
  await press(page, 'Save changes')
  await page.getByRole('alert').getByText('anyone can register').waitFor()
  expect(await field.inputValue(), 'is kept after an error').toBe('https://*.com')
  await field.fill('https://all.example')
  await field.press('Enter')
  expect(await findAccessibilityProblems(page)).toEqual([])
  await press(page, 'Save changes')
  await page.getByText('The allowed domains were saved').waitFor()
  const saved = await app.request('GET', '/organizations/current/allowed-domains', { token })
  expect(saved.body.allowed_domains).toEqual(['https://all.example'])
  await page.getByRole('button', { name: 'Undo' }).last().click()
  await page.getByText('No domains are allowed.').waitFor()
  await page.getByRole('button', { name: 'Remove https://all.example' }).waitFor({ state: 'detached' })
})

test('a member sees keys without being able to change them', async () => {
  const key = await addKey('Seen', ['https://seen.example'])
  const page = await openDashboard(app, `/o/demo/keys/${key.id}`, { user: 'member@demo.test' })
  const details = dialog(page, 'Seen')
  await details.getByText('Only admins can change this.').waitFor()
  await details.getByText(`publishable-key="${key.key_prefix}…"`).waitFor()
  for (const name of ['Show full key', 'Edit', 'Rotate', 'Revoke']) {
    expect(await details.getByRole('button', { name }).count(), name).toBe(0)
  }
  await details.getByRole('button', { name: 'Close' }).click()
  await seeHeading(page, 'Keys and sites')
  expect(await page.getByRole('button', { name: 'Create key' }).count()).toBe(0)
  await page.getByRole('radio', { name: 'Allowed domains' }).check()
  await page.getByText('Only admins can change this.').waitFor()
})
