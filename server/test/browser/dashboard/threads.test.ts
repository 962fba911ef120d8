import { readFileSync } from 'node:fs'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type HttpService, startHttpService } from '../../http-server.ts'
import { press } from '../visit.ts'
import { findAccessibilityProblems, openDashboard } from './dashboard.ts'
import { addThread, addUser, hostile, showContents } from './observed.ts'

let app: HttpService
let thread: string
beforeAll(async () => {
  app = await startHttpService()
  const user = await addUser(app, 'ada@example.com')
  thread = (await addThread(app, user, 'Where is my order?')).id
  await addThread(app, null, hostile)
})
afterAll(() => app.close())

const row = (page: Page, name: string) => page.getByRole('row').filter({ hasText: name })
const auditActions = async () => {
  const { body } = await app.request('GET', `/audit-events?target=${thread}`, {
    token: await app.tokenFor('admin@demo.test', 'demo'),
  })
  return body.events.map(({ action }: { action: string }) => action)
}

test('an admin finds a thread, reads how its answers came about, and archives it', async () => {
  const page = await openDashboard(app, '/o/demo/threads')
  await row(page, hostile).waitFor()
  expect(await row(page, hostile).textContent()).toContain('Anonymous visitor')
  expect(await findAccessibilityProblems(page)).toEqual([])

  await page.getByLabel('Search threads').fill('ORDER')
  await page.waitForURL(/search=ORDER/)
  await row(page, hostile).waitFor({ state: 'detached' })
  await page.getByLabel('Search threads').fill('nothing like it')
  await page.getByText('Nothing matches these filters.').waitFor()
  await press(page, 'Clear filters')
  await page.getByRole('link', { name: 'Where is my order?' }).click()

  const sheet = page.getByRole('dialog', { name: 'Where is my order?' })
  await sheet.getByText('Your organization hides what conversations say.').waitFor()
  await sheet.getByText('Trace').first().click()
  const trace = sheet.getByRole('list').filter({ hasText: 'demo-large' }).last()
  for (const fact of ['1,240 in, 80 out', '$0.0047', 'Estimated', '2 s']) {
    expect(await trace.textContent(), fact).toContain(fact)
  }
  for (const fact of [
    'crm.find_order',
    'No approval needed',
    'Allowed by the user',
    'Arguments edited by the user',
    'This tool may change something.',
    'The model didn’t answer.',
    'Not allowed',
  ]) {
    await sheet.getByText(fact).first().waitFor()
  }
  expect(await sheet.textContent(), 'contents are hidden').not.toMatch(/4711|ink-black|Friday/)
  expect(await sheet.getByRole('button', { name: 'Export' }).count()).toBe(0)
  expect(await findAccessibilityProblems(page)).toEqual([])
  expect(await auditActions()).not.toContain('thread.contents_read')

  await press(page, 'Archive')
  await page.getByText('Thread archived').waitFor()
  await sheet.getByRole('button', { name: 'Restore' }).waitFor()
  await press(page, 'Undo')
  await sheet.getByRole('button', { name: 'Archive' }).waitFor()
  await press(page, 'Delete')
  await row(page, 'Where is my order?').waitFor({ state: 'detached' })
  await press(page, 'Undo')
  await row(page, 'Where is my order?').waitFor()
})

test('where contents are visible, a member reads and exports them', async () => {
  await showContents(app, true)
  const page = await openDashboard(app, `/o/demo/threads/${thread}`, { user: 'member@demo.test' })
  const sheet = page.getByRole('dialog', { name: 'Where is my order?' })
  await sheet.getByText('Your order 4711 arrives on Friday.').waitFor()
  await sheet.getByText(`Where is my order? ${hostile}`).waitFor()
  await sheet.getByText('Trace').first().click()
  await sheet.getByText('Arguments and result').nth(1).click()
  await sheet.getByText('ink-black').waitFor()
  expect(await page.title(), 'text stays text').not.toBe('1')
  expect(await sheet.getByText('Estimated').count(), 'only admins see model calls').toBe(0)

  for (const [format, expected] of [
    ['JSON', '"text":"Cancel it"'],
    ['Markdown', '# Where is my order?'],
  ] as const) {
    await sheet.getByRole('button', { name: 'Export' }).click()
    const saving = page.waitForEvent('download')
    await page.getByRole('menuitem', { name: format }).click()
    expect(readFileSync(await (await saving).path(), 'utf8')).toContain(expected)
  }
  expect(await auditActions()).toContain('thread.contents_read')
})

test('without threads, the page says how the first one starts', async () => {
  const page = await openDashboard(app, '/o/other/threads', { user: 'admin@other.test' })
  await page.getByRole('heading', { name: 'No threads yet' }).waitFor()
  await page.getByRole('link', { name: 'Get the snippet' }).waitFor()
})
