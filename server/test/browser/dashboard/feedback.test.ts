import { afterAll, beforeAll, expect, test } from 'vitest'
import { type HttpService, startHttpService } from '../../http-server.ts'
import { press } from '../visit.ts'
import { findAccessibilityProblems, openDashboard, visit } from './dashboard.ts'
import { addThread, addUser, hostile, rate, showContents } from './observed.ts'

let app: HttpService
beforeAll(async () => {
  app = await startHttpService()
  const endUserId = await addUser(app, 'ada@example.com')
  const good = await addThread(app, endUserId, 'A good answer')
  const bad = await addThread(app, endUserId, 'A bad answer')
  await rate(app, { runId: good.runId, endUserId }, 'up', 'Just right')
  await rate(app, { runId: bad.runId, endUserId }, 'down', `Wrong order ${hostile}`)
})
afterAll(() => app.close())

test('an admin reviews what didn’t help, and opens the thread', async () => {
  const page = await openDashboard(app, '/o/demo/feedback')
  const entries = page.getByRole('list', { name: 'Feedback' }).getByRole('listitem')
  await entries.filter({ hasText: 'Comment hidden' }).first().waitFor()
  expect(await entries.count()).toBe(2)

  await showContents(app, true)
  await page.reload()
  await entries.filter({ hasText: `Wrong order ${hostile}` }).waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await page.getByLabel('Rating').selectOption('Not helpful')
  await page.waitForURL(/rating=down/)
  await entries.filter({ hasText: 'Just right' }).waitFor({ state: 'detached' })
  await entries.getByRole('link', { name: 'Open thread' }).click()
  await page.getByRole('dialog', { name: 'A bad answer' }).getByText('Not helpful').waitFor()
  await press(page, 'Close')
  await visit(page, 'Feedback')
  await entries.filter({ hasText: 'Just right' }).waitFor()
})

test('an admin marks feedback as reviewed, takes it back, and marks several with the keyboard', async () => {
  const page = await openDashboard(app, '/o/demo/feedback')
  const entries = page.getByRole('list', { name: 'Feedback' }).getByRole('listitem')
  await entries.first().waitFor()
  await expect.poll(() => entries.count()).toBe(2)
  await entries.first().getByRole('button', { name: 'Mark as reviewed' }).click()
  await expect.poll(() => entries.count()).toBe(1)
  await page.getByRole('button', { name: 'Undo' }).click()
  await expect.poll(() => entries.count()).toBe(2)

  await entries.first().getByRole('checkbox').focus()
  for (const key of ['Space', 'ArrowDown', 'Space']) await page.keyboard.press(key)
  await page.getByText('2 selected').waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await page.getByRole('button', { name: 'Mark as reviewed' }).first().click()
  await page.getByRole('heading', { name: 'Nothing to review' }).waitFor()
  await page.getByRole('radio', { name: 'Reviewed', exact: true }).check()
  await page.waitForURL(/state=reviewed/)
  await entries.filter({ hasText: 'Reviewed by admin@demo.test' }).first().waitFor()
  expect(await entries.count()).toBe(2)

  await page.route('**/api/feedback/*', (route) => route.abort())
  await entries.first().getByRole('button', { name: 'Mark as unreviewed' }).click()
  await page.getByText('Not everything could be marked').first().waitFor()
  expect(await entries.count()).toBe(2)
})

test('members and organizations without feedback get an explanation', async () => {
  const page = await openDashboard(app, '/o/demo/feedback', { user: 'member@demo.test' })
  await page.getByRole('heading', { name: 'Only admins can see this' }).waitFor()
  await page.goto(`${app.url}/o/other/feedback`)
  await page.getByRole('heading', { name: 'Nothing to review' }).waitFor()
})
