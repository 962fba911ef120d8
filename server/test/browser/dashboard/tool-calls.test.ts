import { readFileSync } from 'node:fs'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type HttpService, startHttpService } from '../../http-server.ts'
import { press } from '../visit.ts'
import { findAccessibilityProblems, openDashboard } from './dashboard.ts'
import { addUser, hostile, recordCall } from './observed.ts'

let app: HttpService
let endUserId: string
beforeAll(async () => {
  app = await startHttpService()
  const email = 'ada@example.com'
  endUserId = await addUser(app, email)
  const token = await app.tokenFor('admin@demo.test', 'demo')
  await app.request('PATCH', '/tool-calls/settings', { token, body: { contents_days: 7 } })
  const caller = { endUserId, email }
  await recordCall(app, { ...caller, tool: 'add_to_cart', args: { note: hostile }, approval: 'allowed' })
  await recordCall(app, { ...caller, tool: 'find_orders', governance: 'refused', outcome: 'refused' })
  await recordCall(app, { endUserId: await addUser(app, 'bob@example.com'), email: 'bob@example.com', tool: 'pay' })
})
afterAll(() => app.close())

const row = (page: Page, name: string) => page.getByRole('row').filter({ hasText: name })

async function save(page: Page, format: string): Promise<string> {
  await press(page, 'Export')
  const saving = page.waitForEvent('download')
  await page.getByRole('menuitem', { name: format }).click()
  return readFileSync(await (await saving).path(), 'utf8')
}

test('an admin filters calls, reads one with its contents, exports them, and changes the retention', async () => {
  const page = await openDashboard(app, '/o/demo/tool-calls')
  await row(page, 'pay').waitFor()
  await page.getByLabel('Outcome').selectOption('Refused')
  await row(page, 'pay').waitFor({ state: 'detached' })
  await row(page, 'find_orders').waitFor()
  expect(
    (await save(page, 'JSON Lines'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).tool),
  ).toEqual(['find_orders'])

  await page.goto(`${app.url}/o/demo/tool-calls?user=${endUserId}`)
  await row(page, 'add_to_cart').waitFor()
  expect(await row(page, 'pay').count()).toBe(0)
  await expect.poll(() => page.getByLabel('User').locator('option:checked').textContent()).toBe('ada@example.com')
  expect(await findAccessibilityProblems(page)).toEqual([])
  const [head, ...lines] = (await save(page, 'CSV')).trim().split('\r\n')
  expect(head).toMatch(/^id,at,/)
  expect(lines).toHaveLength(2)

  await row(page, 'add_to_cart').click()
  await page.getByRole('dialog', { name: 'add_to_cart' }).getByText('Allowed by the user').waitFor()
  await page.reload()
  const sheet = page.getByRole('dialog', { name: 'add_to_cart' })
  await sheet.getByText(JSON.stringify(hostile)).waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await press(page, 'Close')
  await sheet.waitFor({ state: 'detached' })

  await page.getByText('Arguments and results are kept for 7 days.').waitFor()
  await press(page, 'Change')
  await page.getByLabel('Days').fill('366')
  await page.getByText('Enter a whole number from 0 to 365.').waitFor()
  await page.getByLabel('Days').fill('0')
  expect(await findAccessibilityProblems(page)).toEqual([])
  await press(page, 'Save')
  await page.getByText('Arguments and results aren’t kept.').waitFor()
  await row(page, 'add_to_cart').click()
  await page.getByText('The contents of this call weren’t kept, or have been deleted.').waitFor()
})

test('a member learns that only admins see tool calls', async () => {
  const page = await openDashboard(app, '/o/demo/tool-calls', { user: 'member@demo.test' })
  await page.getByRole('heading', { name: 'Only admins can see this' }).waitFor()
  expect(await page.getByRole('button', { name: 'Export' }).count()).toBe(0)
})
