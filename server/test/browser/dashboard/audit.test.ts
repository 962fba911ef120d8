import { readFileSync } from 'node:fs'
import pg from 'pg'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type HttpService, startHttpService } from '../../http-server.ts'
import { post } from '../../sample-helpers.ts'
import { press } from '../visit.ts'
import { findAccessibilityProblems, openDashboard } from './dashboard.ts'
import { hostile, showContents } from './observed.ts'

let app: HttpService
let keyId: string
beforeAll(async () => {
  app = await startHttpService()
  keyId = (await post(app, 'demo', '/publishable-keys', { name: hostile })).id
  await showContents(app, true)
})
afterAll(() => app.close())

const row = (page: Page, name: string) => page.getByRole('row').filter({ hasText: name })

test('an admin finds a change, reads its data, and exports the trail', async () => {
  const page = await openDashboard(app, '/o/demo/audit')
  await page.getByText('The trail is intact').waitFor()
  await page.getByRole('button', { name: 'Copy the head' }).waitFor()
  await row(page, 'agent.config_updated').waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])

  await page.getByLabel('Action, such as member.removed').fill('publishable_key.created')
  await row(page, 'agent.config_updated').waitFor({ state: 'detached' })
  await row(page, 'publishable_key.created').click()
  await page.reload()
  const sheet = page.getByRole('dialog', { name: 'publishable_key.created' })
  await sheet.getByText(JSON.stringify(hostile)).waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await press(page, 'Everything by this actor')
  await sheet.waitFor({ state: 'detached' })
  await row(page, 'agent.config_updated').waitFor()
  expect(await page.getByLabel('Actor’s email').inputValue()).toBe('admin@demo.test')

  const saving = page.waitForEvent('download')
  await press(page, 'Export as JSON Lines')
  const lines = readFileSync(await (await saving).path(), 'utf8')
    .trim()
    .split('\n')
  expect(lines.map((line) => JSON.parse(line)).filter(({ target }) => target === keyId)).toMatchObject([
    { action: 'publishable_key.created', head: expect.any(String) },
  ])
})

test('a trail that was tampered with is reported, with the first event that doesn’t fit', async () => {
  const app = await startHttpService()
  onTestFinished(() => app.close())
  await showContents(app, true)
  const owner = new pg.Client(app.stores.owner)
  await owner.connect()
  await owner.query('alter table audit_events no force row level security')
  await owner.query(`update audit_events set actor = 'eve@example.com' where action = 'agent.config_updated'`)
  const { rows } = await owner.query(`select sequence from audit_events where action = 'agent.config_updated'`)
  await owner.end()
  const page = await openDashboard(app, '/o/demo/audit')
  await page.getByRole('heading', { name: 'The trail is broken' }).waitFor()
  await page.getByText(`Event ${rows[0].sequence} doesn’t fit the chain`).waitFor()
})

test('without the audit log in the plan, or as a member, the page says so', async () => {
  const page = await openDashboard(app, '/o/demo/audit', { user: 'member@demo.test' })
  await page.getByRole('heading', { name: 'Only admins can see this' }).waitFor()
  await page.goto(`${app.url}/o/other/audit`)
  await page.getByRole('heading', { name: 'Your plan doesn’t include the audit log' }).waitFor()
  await page.getByRole('link', { name: 'See plans' }).waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
})
