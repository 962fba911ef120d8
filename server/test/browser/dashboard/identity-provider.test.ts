import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type HttpService, startHttpService } from '../../http-server.ts'
import { startTestProvider, type TestProvider } from '../../oidc-provider.ts'
import { press, seeHeading } from '../visit.ts'
import { findAccessibilityProblems, openDashboard } from './dashboard.ts'

let app: HttpService
let provider: TestProvider
let token: string
beforeAll(async () => {
  app = await startHttpService()
  provider = await startTestProvider()
  token = await app.tokenFor('admin@demo.test', 'demo')
})
afterAll(async () => {
  await provider.stop()
  await app.close()
})

const region = (page: Page, name: string) => page.getByRole('region', { name })
const readSteps = (page: Page) =>
  region(page, 'Result of the test').getByRole('listitem').locator('p:first-child').allInnerTexts()
const readConfig = async () => (await app.request('GET', '/identity-providers/config', { token })).body

test('an admin is guided to the vendor’s fields, tests the provider, trusts it and stops trusting it', async () => {
  const page = await openDashboard(app, '/o/demo/identity-provider')
  await page.getByRole('heading', { name: 'No identity provider is trusted' }).waitFor()
  await page.getByRole('radio', { name: 'Entra ID' }).check()
  await region(page, 'At Entra ID').getByText('Token configuration').waitFor()
  expect(page.url()).toContain('vendor=azure')
  await page.getByLabel('Directory (tenant) ID').fill('common')
  await press(page, 'Test')
  await page.getByText('means every Microsoft tenant').waitFor()

  await page.getByRole('radio', { name: 'Okta' }).check()
  await page.getByLabel('Okta domain').fill('https://acme.okta.com/')
  expect(await page.getByLabel('Okta domain').inputValue()).toBe('acme.okta.com')
  await page.getByText('Your tokens must have the issuer https://acme.okta.com').waitFor()

  await page.getByRole('radio', { name: 'Any OpenID provider' }).check()
  await page.getByLabel('Issuer URL').fill(`${provider.issuer}/other`)
  await press(page, 'Test')
  await region(page, 'Result of the test').getByText('The provider can’t be used').waitFor()
  expect(await readSteps(page)).toEqual([
    'Fetch the discovery document · Failed',
    'Compare the issuer · Skipped',
    'Check the addresses in it · Skipped',
    'Fetch the signing keys · Skipped',
  ])
  expect(await findAccessibilityProblems(page)).toEqual([])
  await page.getByLabel('Issuer URL').fill(provider.issuer)
  await page.getByLabel('Client ID').fill('shop\nstore')
  await press(page, 'Test')
  await region(page, 'Result of the test').getByText('The provider can be used').waitFor()
  expect(await readSteps(page)).toEqual([
    'Fetch the discovery document · OK',
    'Compare the issuer · OK',
    'Check the addresses in it · OK',
    'Fetch the signing keys · OK',
  ])
  expect(await readConfig(), 'a test saves nothing').toMatchObject({ idp_type: null })
  expect(await findAccessibilityProblems(page)).toEqual([])
  await press(page, 'Save and trust')
  await page.getByText('Any OpenID provider is trusted').waitFor()
  expect(await readConfig()).toMatchObject({
    idp_type: 'custom_oidc',
    idp_issuer: provider.issuer,
    allowed_audiences: ['shop', 'store'],
  })

  await region(page, 'Current state').getByText('shop, store').waitFor()
  await press(page, 'Stop trusting')
  const question = page.getByRole('dialog', { name: 'Stop trusting Any OpenID provider?' })
  await question.waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await question.getByRole('button', { name: 'Stop trusting' }).click()
  // The message about the earlier change, which can be undone too, may still be there.
  const message = page.getByRole('dialog', { name: 'The identity provider is no longer trusted' })
  await message.waitFor()
  expect(await readConfig()).toMatchObject({ idp_type: null })
  await message.getByRole('button', { name: 'Undo' }).click()
  await region(page, 'Current state').getByText('shop, store').waitFor()
})

test('undoing a change brings the former settings back, even if the page shows the new ones before the message', async () => {
  const body = { idp_type: 'okta', idp_domain: 'acme.okta.com', idp_issuer: null, allowed_audiences: ['app'] }
  await app.request('PATCH', '/identity-providers/config', { token, body })
  const page = await openDashboard(app, '/o/demo/identity-provider')
  const shows = (text: string) => region(page, 'Current state').getByText(text).waitFor()
  await shows('https://acme.okta.com')
  await region(page, 'Browser confirmation').getByLabel('Client ID').waitFor()
  const { promise: isShown, resolve } = Promise.withResolvers<void>()
  // The message comes when everything about the provider was read again.
  await page.route('**/identity-providers/frame-sign-in', async (route) => {
    await isShown
    await route.continue()
  })
  await page.getByLabel('Okta domain').fill('other.okta.com')
  await press(page, 'Save and trust')
  await shows('https://other.okta.com')
  resolve()
  const message = page.getByRole('dialog', { name: 'Okta is trusted' })
  await message.getByRole('button', { name: 'Undo' }).click()
  await shows('https://acme.okta.com')
  expect(await readConfig()).toMatchObject(body)
})

test('a member sees the provider without being able to change it', async () => {
  const body = { idp_type: 'okta', idp_domain: 'acme.okta.com', allowed_audiences: ['app'] }
  await app.request('PATCH', '/identity-providers/config', { token, body })
  const page = await openDashboard(app, '/o/demo/identity-provider', { user: 'member@demo.test' })
  await seeHeading(page, 'Identity provider')
  await region(page, 'Current state').getByText('https://acme.okta.com').waitFor()
  await page.getByText('Only admins can change this.').waitFor()
  expect(await page.getByRole('radio').count()).toBe(0)
  expect(await region(page, 'Browser confirmation').count()).toBe(0)
  expect(await page.getByRole('button', { name: 'Stop trusting' }).count()).toBe(0)
})

test('after a change of the provider, an admin sees a preview and carries end users over by a list', async () => {
  const body = { idp_type: 'custom_oidc', idp_issuer: provider.issuer, allowed_audiences: ['shop'] }
  await app.request('PATCH', '/identity-providers/config', { token, body })
  const demo = await app.organization('demo')
  await app.service.database.asOrg(
    demo,
    (sql) => sql`
      insert into end_users (organization_id, id, issuer, external_id)
      values (${demo}, gen_random_uuid(), 'https://former.example', 'ann-1')`,
  )
  const page = await openDashboard(app, '/o/demo/identity-provider')
  const former = region(page, 'End users of a former provider')
  await former.getByText('https://former.example').waitFor()
  await former.getByRole('button', { name: 'Carry over' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Who is who').selectOption('list')
  await dialog.getByLabel('Subjects').fill('ann-1, ann\nnobody, x')
  await dialog.getByRole('button', { name: 'Preview' }).click()
  await dialog.getByText('1 end user will be carried over').waitFor()
  await dialog.getByText('nobody: no such end user').waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await dialog.getByRole('button', { name: 'Carry over' }).click()
  await page.getByText('1 end user was carried over').waitFor()
  await former.waitFor({ state: 'detached' })
  const { users } = (await app.request('GET', '/end-users?search=ann', { token })).body
  expect(users).toMatchObject([{ external_id: 'ann' }])
})

test('an admin sees that users can’t confirm their browser, sets the client for it, and removes it', async () => {
  const body = { idp_type: 'custom_oidc', idp_issuer: provider.issuer, allowed_audiences: ['shop'] }
  await app.request('PATCH', '/identity-providers/config', { token, body })
  const readClient = async () => (await app.request('GET', '/identity-providers/frame-sign-in', { token })).body
  const { redirect_uri } = await readClient()
  const page = await openDashboard(app, '/o/demo/identity-provider')
  const confirmation = region(page, 'Browser confirmation')
  await confirmation.getByText('Users can’t confirm their browser yet').waitFor()
  await confirmation.getByText(redirect_uri).waitFor()
  await confirmation.getByLabel('Client ID').fill('inlay panel')
  await confirmation.getByLabel('Client secret').fill('a-panel-secret-4242')
  await confirmation.getByRole('button', { name: 'Save client' }).click()
  await confirmation.getByText('Must consist of ASCII characters without spaces', { exact: true }).waitFor()
  expect(await readClient()).toMatchObject({ client: null })
  await confirmation.getByLabel('Client ID').fill('inlay-panel')
  await confirmation.getByRole('button', { name: 'Save client' }).click()
  await confirmation.getByText('Users can confirm their browser.').waitFor()
  await confirmation.getByText('Stored, ends with 4242.').waitFor()
  expect(await confirmation.getByLabel('Client secret').inputValue()).toBe('')
  expect(await readClient()).toMatchObject({ is_active: true, client: { client_id: 'inlay-panel' } })
  expect(await findAccessibilityProblems(page)).toEqual([])

  await confirmation.getByRole('button', { name: 'Remove client' }).click()
  await page.getByRole('dialog', { name: 'Remove the client?' }).getByRole('button', { name: 'Remove client' }).click()
  await confirmation.getByText('Users can’t confirm their browser yet').waitFor()
  expect(await confirmation.getByLabel('Client ID').inputValue()).toBe('')
  expect(await readClient()).toMatchObject({ is_active: false, client: null })
})
