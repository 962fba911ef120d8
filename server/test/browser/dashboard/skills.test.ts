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

const skillText = (name: string, body: string, description = 'Refunds an order.') =>
  `---\nname: ${name}\ndescription: ${description}\n---\n\n${body}\n`
const editor = (page: Page) => page.getByRole('textbox', { name: 'SKILL.md' })
/** As a user would: `fill` would bypass the editor's own handling of input. */
async function write(page: Page, text: string): Promise<void> {
  await editor(page).press('ControlOrMeta+a')
  await page.keyboard.insertText(text)
}
const createSkill = async (name: string, body: string) =>
  (await app.request('POST', '/organization-skills', { token, body: { content: skillText(name, body) } })).body
const readSkill = async (id: string) => (await app.request('GET', `/organization-skills/${id}`, { token })).body

test('a member writes a skill: problems are shown while typing, and the agent’s view beside it', async () => {
  const page = await openDashboard(app, '/o/demo/skills?create=yes', { user: 'member@demo.test' })
  await write(page, 'Just text')
  await page.getByText('Frontmatter is missing.').waitFor()
  await write(page, skillText('Refund Order', 'Check the order.'))
  await page.getByText('The name must be lowercase.').waitFor()
  await write(page, skillText('skill-creator-webmcp', '<b>Check</b> the order.'))
  await page.getByText('Ready to save').waitFor()
  await press(page, 'Create skill')
  await page.getByRole('alert').getByText('Resource already exists').waitFor()

  // Letters typed in the editor are no shortcuts.
  await editor(page).press('ControlOrMeta+a')
  await editor(page).pressSequentially('g?')
  expect(await page.getByRole('dialog').count()).toBe(0)
  await write(page, skillText('refund-order', '<b>Check</b> the order.'))
  await page.getByText('- refund-order: Refunds an order.').waitFor()
  await page.getByLabel('When it activates the skill').getByText('<b>Check</b> the order.').waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await press(page, 'Create skill')
  await page.getByText('refund-order created').waitFor()
  await seeHeading(page, 'refund-order')
})

test('skills are found by their description', async () => {
  await createSkill('return-order', 'Take it back.')
  const page = await openDashboard(app, '/o/demo/skills')
  await page.getByLabel('Search skills').fill('nothing like it')
  await page.getByText('Nothing matches these filters.').waitFor()
  await page.getByLabel('Search skills').fill('refunds an')
  await expect.poll(() => page.url()).toContain('q=refunds')
  expect(await findAccessibilityProblems(page)).toEqual([])
  await page.getByRole('row', { name: /return-order/ }).click()
  await seeHeading(page, 'return-order')
})

test('versions are compared and restored, and archiving can be undone', async () => {
  const { id } = await createSkill('ship-order', 'First way.')
  const page = await openDashboard(app, `/o/demo/skills/${id}`)
  await write(page, skillText('ship-order', 'Second way.'))
  await page.getByLabel('Hostnames').fill('app.example.com')
  await press(page, 'Save as a new version')
  await page.getByText('ship-order saved as version 2').waitFor()
  expect(await readSkill(id)).toMatchObject({ version: 2, domains: ['app.example.com'], body: '\nSecond way.\n' })

  await page.getByRole('button', { name: 'Compare: Version 1' }).click()
  const dialog = page.getByRole('dialog', { name: 'Version 1 and your text' })
  await dialog.getByText('First way.').waitFor()
  await dialog.getByText('Second way.').waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await press(page, 'Restore this version')
  await page.getByText('Version 1 restored').waitFor()
  expect(await readSkill(id)).toMatchObject({ version: 3, domains: ['*'], body: '\nFirst way.\n' })

  await press(page, 'Archive')
  await page.getByText('ship-order archived').waitFor()
  expect(await readSkill(id)).toMatchObject({ archived_at: expect.any(String) })
  await press(page, 'Undo')
  await expect.poll(async () => (await readSkill(id)).archived_at).toBeNull()
})

test('a skill that was changed meanwhile keeps what the user typed', async () => {
  const { id, content } = await createSkill('count-stock', 'Old.')
  const page = await openDashboard(app, `/o/demo/skills/${id}`)
  await write(page, skillText('count-stock', 'Mine.'))
  const operations = [{ type: 'replace', before: content, after: skillText('count-stock', 'Theirs.') }]
  await app.request('PATCH', `/organization-skills/${id}`, { token, body: { patch: { version: 1, operations } } })
  await press(page, 'Save as a new version')
  await page.getByText('Someone saved version 2').waitFor()
  await editor(page).getByText('Mine.').waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await press(page, 'Replace version 2 with my text')
  await page.getByText('count-stock saved as version 3').waitFor()
  expect(await readSkill(id)).toMatchObject({ version: 3, body: '\nMine.\n' })
})

test('a SKILL.md is imported, and leaving before it is saved asks first', async () => {
  const page = await openDashboard(app, '/o/demo/skills')
  const file = {
    name: 'SKILL.md',
    mimeType: 'text/markdown',
    buffer: Buffer.from(skillText('imported', 'From a file.')),
  }
  await page.locator('input[type=file]').setInputFiles(file)
  await editor(page).getByText('From a file.').waitFor()
  await page.getByRole('link', { name: 'All skills' }).click()
  await page.getByRole('dialog', { name: 'Leave without saving?' }).waitFor()
  await press(page, 'Keep editing')
  await press(page, 'Create skill')
  await page.getByText('imported created').waitFor()

  await page.getByRole('link', { name: 'All skills' }).click()
  await page.getByRole('row', { name: /skill-creator-webmcp/ }).click()
  await page.getByText('Built-in skills come with Inlay').waitFor()
  expect(await page.getByRole('button', { name: 'Archive' }).count()).toBe(0)
})
