import { afterAll, beforeAll, expect, test } from 'vitest'
import { type HttpService, startHttpService } from '../../http-server.ts'
import { answerWith, startInterceptor } from '../../interceptor.ts'
import { press } from '../visit.ts'
import { findAccessibilityProblems, openDashboard, visit } from './dashboard.ts'

let app: HttpService
let token: string
beforeAll(async () => {
  app = await startHttpService()
  token = await app.tokenFor('admin@demo.test', 'demo')
})
afterAll(() => app.close())

const read = async (path: string) => (await app.request('GET', path, { token })).body

test('an admin adds a connector and tests it', async () => {
  const page = await openDashboard(app, '/o/demo/connectors')
  await page.getByText('No connectors yet').waitFor()
  await page.getByRole('button', { name: 'Add connector' }).first().click()
  const dialog = page.getByRole('dialog', { name: 'Add connector' })
  await dialog.getByLabel('Name').fill('My CRM')
  await dialog.getByText('Use 1 to 32 lowercase letters').waitFor()
  await dialog.getByLabel('Name').fill('crm')
  await dialog.getByLabel('Server URL').fill('https://tools.invalid/mcp')
  await dialog.getByLabel('Client ID').fill('inlay')
  await dialog.getByLabel('Client secret').fill('a-long-secret-7777')
  expect(await findAccessibilityProblems(page)).toEqual([])
  await dialog.getByRole('button', { name: 'Add connector' }).click()

  const sheet = page.getByRole('dialog', { name: 'crm' })
  await sheet.getByText('Users who sign in on a page with the widget').waitFor()
  const [connector] = (await read('/connectors')).connectors
  expect(connector).toMatchObject({ name: 'crm', kind: 'id_jag', client_secret_last4: '7777', status: 'active' })
  expect(page.url()).toContain(`/connectors/${connector.id}`)
  await sheet.getByRole('button', { name: 'Test as yourself' }).click()
  await sheet.getByText('A step failed').waitFor()
  await sheet.getByText('List the tools').waitFor()
})

test('an admin changes a connector, and deletes it', async () => {
  const body = { name: 'wiki', kind: 'oauth', server_url: 'https://wiki.invalid/mcp' }
  const { id } = (await app.request('POST', '/connectors', { token, body })).body
  const page = await openDashboard(app, `/o/demo/connectors/${id}`)
  const sheet = page.getByRole('dialog', { name: 'wiki', exact: true })
  await sheet.getByLabel('Read-only tools').fill('search\nread')
  await sheet.getByLabel('Tools can be called').uncheck()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await sheet.getByRole('button', { name: 'Save changes' }).click()
  await page.getByText('wiki saved').waitFor()
  expect(await read(`/connectors/${id}`)).toMatchObject({
    read_only_tools: ['search', 'read'],
    status: 'disabled',
  })

  await sheet.getByLabel('Read-only tools').fill('unsaved')
  await sheet.getByRole('button', { name: 'Close' }).click()
  const leaving = page.getByRole('dialog', { name: 'Leave without saving?' })
  await leaving.waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await leaving.getByRole('button', { name: 'Keep editing' }).click()
  expect(await sheet.getByLabel('Read-only tools').inputValue()).toBe('unsaved')

  await sheet.getByRole('button', { name: 'Delete connector' }).click()
  await page.getByLabel('Type “wiki” to confirm').fill('wiki')
  await press(page, 'Delete')
  await page.getByText('wiki deleted').waitFor()
  expect((await read('/connectors')).connectors).not.toContainEqual(expect.objectContaining({ id }))
})

test('a member sees connectors, and the link that connects an account', async () => {
  const body = { name: 'tickets', kind: 'oauth', server_url: 'https://tickets.invalid/mcp' }
  const { id } = (await app.request('POST', '/connectors', { token, body })).body
  const page = await openDashboard(app, `/o/demo/connectors/${id}`, { user: 'member@demo.test' })
  const sheet = page.getByRole('dialog', { name: 'tickets' })
  await sheet.getByText('Each member opens this link once').waitFor()
  expect(await sheet.getByRole('link', { name: 'Connect my account' }).getAttribute('href')).toBe(
    `${app.url}/connect/${id}`,
  )
  expect(await sheet.getByRole('button', { name: 'Delete connector' }).count()).toBe(0)
  await sheet.getByRole('button', { name: 'Close' }).click()
  await page.getByText('Only admins can change this.').waitFor()
  expect(await page.getByRole('button', { name: 'Add connector' }).count()).toBe(0)
  await visit(page, 'Governance')
  await page.getByRole('heading', { name: 'Tool calls aren’t checked' }).waitFor()
  expect(await page.getByLabel('API key').count()).toBe(0)
})

test('an admin connects an interceptor, tests it, turns it on and removes it', async () => {
  const violations = [{ policy_id: 'no-delete', status: 'notify', details: '<i>Deletes</i> something' }]
  const interceptor = await startInterceptor(answerWith({ status: 'notify', violations }))
  const page = await openDashboard(app, '/o/demo/governance')
  await page.getByLabel('Name').fill('Acme policies')
  await page.getByLabel('URL').fill(interceptor.url)
  await page.getByLabel('API key').fill('a-governance-key-4242')
  await press(page, 'Save changes')
  await page.getByText('Governance saved').waitFor()
  await press(page, 'Test')
  await page.getByText('<i>Deletes</i> something').waitFor()
  await page.getByLabel('Check every tool call').check()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await press(page, 'Save changes')
  await page.getByRole('heading', { name: 'Every tool call is checked' }).waitFor()
  expect(await read('/governance/providers/config')).toMatchObject({
    effective_status: 'active',
    config: { interceptor_name: 'Acme policies', api_key_last4: '4242', is_enabled: true, last_test_status: 'notify' },
  })

  await press(page, 'Remove interceptor')
  await page.getByLabel('Type “Acme policies” to confirm').fill('Acme policies')
  expect(await findAccessibilityProblems(page)).toEqual([])
  await press(page, 'Remove')
  await page.getByRole('heading', { name: 'Tool calls aren’t checked' }).waitFor()
  expect(await page.getByLabel('Name').inputValue()).toBe('')
})

test('an admin is told that users can’t approve calls of a server until they can confirm their browser', async () => {
  const body = {
    name: 'told',
    kind: 'id_jag',
    server_url: 'https://told.invalid/mcp',
    client_id: 'inlay',
    client_secret: 'a-long-secret-7777',
  }
  expect(await app.request('POST', '/connectors', { token, body })).toMatchObject({ status: 200 })
  const page = await openDashboard(app, '/o/demo/connectors')
  const link = page.getByRole('link', { name: 'Set up browser confirmation' })
  await link.waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await link.click()
  await page.waitForURL('**/o/demo/identity-provider')
})
