import { afterAll, beforeAll, expect, test } from 'vitest'
import { type DnsServer, startDnsServer } from '../../dns-server.ts'
import { type HttpService, startHttpService } from '../../http-server.ts'
import { press } from '../visit.ts'
import { findAccessibilityProblems, openDashboard } from './dashboard.ts'

let app: HttpService
let dns: DnsServer
beforeAll(async () => {
  dns = await startDnsServer()
  app = await startHttpService({ INLAY_DNS_SERVERS: dns.address })
})
afterAll(async () => {
  await app.close()
  await dns.stop()
})

test('an admin sets up single sign-on, proves a domain, and deletes the provider', async () => {
  const page = await openDashboard(app, '/o/demo/organization')
  await page.getByText('No provider is set.').waitFor()
  await page.getByLabel('Issuer').fill('https://sso.example.com')
  await page.getByLabel('Client ID').fill('inlay')
  await page.getByLabel('Client secret').fill('a-client-secret')
  await press(page, 'Save provider')
  // The button of the message that says so.
  await page.getByRole('button', { name: 'Close' }).waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await page.getByText('Stored, ends with cret.').waitFor()
  await page.getByText('No domain is verified.').waitFor()

  await page.getByRole('textbox', { name: 'Domain' }).fill('acme.example')
  await press(page, 'Add domain')
  const value = (await page.getByText(/^inlay-verification=/).textContent()) ?? ''
  await press(page, 'Verify acme.example')
  await page.getByText('Neither _inlay.acme.example nor acme.example has the TXT record').waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  dns.records.set('_inlay.acme.example', [value])
  await press(page, 'Verify acme.example')
  await page.getByText('Users can sign in at your provider.').waitFor()

  await press(page, 'Delete provider')
  const question = page.getByRole('dialog', { name: 'Delete the sign-in provider?' })
  expect(await findAccessibilityProblems(page)).toEqual([])
  const changes: string[] = []
  page.on('request', (request) => request.method() !== 'GET' && changes.push(request.method()))
  await question.getByRole('button', { name: 'Delete provider' }).click()
  await page.getByText('No provider is set.').waitFor()
  expect(changes).toEqual(['DELETE'])
})

test('a member doesn’t see the settings of single sign-on', async () => {
  const page = await openDashboard(app, '/o/demo/organization', { user: 'member@demo.test' })
  await page.getByText('Only admins can change this.').waitFor()
  expect(await page.getByRole('heading', { name: 'Single sign-on' }).count()).toBe(0)
})
