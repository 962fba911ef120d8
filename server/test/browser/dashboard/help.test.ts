import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type HttpService, startHttpService } from '../../http-server.ts'
import { follow, seeHeading } from '../visit.ts'
import { findAccessibilityProblems, openDashboard, visit } from './dashboard.ts'

let app: HttpService
let token: string
let key: { id: string; key: string }
beforeAll(async () => {
  app = await startHttpService()
  token = await app.tokenFor('admin@demo.test', 'demo')
  const body = { name: 'Shop', allowed_origins: ['https://shop.example'] }
  key = (await app.request('POST', '/publishable-keys', { token, body })).body
})
afterAll(() => app.close())

const exchange = (origin: string, id_token?: string) =>
  app.request('POST', '/auth/pk-ticket', {
    body: { publishable_key: key.key, ...(id_token && { id_token }) },
    headers: { origin },
  })
const refusals = (page: Page) => page.getByRole('list', { name: 'Refused requests' }).getByRole('listitem')

test('an admin finds out why a page was refused, and which setting to change', async () => {
  await exchange('https://evil.example')
  await exchange('https://evil.example')
  await exchange('https://shop.example', 'not a token')
  await app.request('POST', '/publishable-keys', { token, body: { name: 'Open' } })
  const page = await openDashboard(app, '/o/demo/diagnostics')
  await refusals(page).nth(1).waitFor()
  await page.getByRole('region', { name: 'Needs attention' }).getByText('The key “Open”').waitFor()

  await page.getByLabel('Kind').selectOption('ID token')
  await expect.poll(() => refusals(page).count()).toBe(1)
  await refusals(page).getByText('IDP_NOT_CONFIGURED').waitFor()
  await refusals(page).getByRole('link', { name: 'Open the identity provider' }).waitFor()
  await page.getByLabel('Kind').selectOption('Everything')

  await page.getByLabel('Origin of the page').fill('https://evil.example')
  await page.getByLabel('Publishable key').selectOption({ value: key.id })
  const verdict = page.getByRole('region', { name: 'What the settings say' })
  await verdict.getByText('The key doesn’t allow this origin. It allows https://shop.example.').waitFor()
  const refusal = refusals(page)
  await refusal.getByText('2 times').waitFor()
  expect(await refusal.getByRole('definition').allTextContents()).toEqual([
    'https://shop.example',
    'https://evil.example',
  ])
  expect(await findAccessibilityProblems(page)).toEqual([])
  expect(page.url(), 'can be sent to a colleague').toContain(`key=${key.id}`)

  await exchange('https://new.example')
  await page.getByLabel('Origin of the page').fill('https://new.example')
  await refusals(page).getByText('https://new.example').first().waitFor()
  await verdict.getByRole('link', { name: 'Open the key' }).click()
  await page.getByRole('dialog', { name: 'Shop' }).waitFor()
})

test('a member gets commands for MCP clients and the list of their tools, but no refusals', async () => {
  const page = await openDashboard(app, '/o/demo/diagnostics', { user: 'member@demo.test' })
  await page.getByRole('heading', { name: 'Only admins can see what was refused' }).waitFor()
  await visit(page, 'MCP')
  const url = `${app.url}/mcp`
  const commands: [string, string][] = [
    ['Claude Code', `claude mcp add --transport http inlay ${url}`],
    ['Codex', `codex mcp add inlay --url ${url}`],
    ['Cursor', `"url": "${url}"`],
    ['VS Code', `code --add-mcp '{"name":"inlay","type":"http","url":"${url}"}'`],
    ['Inspector', `--server-url ${url}`],
    ['Any client', '"mcpServers"'],
  ]
  for (const [client, command] of commands) {
    await page.getByRole('radio', { name: client }).check()
    await page.locator('pre', { hasText: command }).first().waitFor()
  }
  expect(page.url()).toContain('client=other')
  const tools = page.getByRole('region', { name: 'What a client can do' })
  await tools.getByText('hub_call_tool').waitFor()
  expect(await tools.getByText('manage_idp_config', { exact: true }).count(), 'is for admins').toBe(0)
  expect(await findAccessibilityProblems(page)).toEqual([])
  await follow(page, 'Tools of your open pages')
  await seeHeading(page, 'Hub')
})
