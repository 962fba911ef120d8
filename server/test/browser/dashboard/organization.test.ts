import { afterAll, beforeAll, expect, test } from 'vitest'
import { type HttpService, startHttpService } from '../../http-server.ts'
import { press } from '../visit.ts'
import { findAccessibilityProblems, openDashboard } from './dashboard.ts'

let app: HttpService
beforeAll(async () => {
  app = await startHttpService()
})
afterAll(() => app.close())

test('an admin renames the organization', async () => {
  const page = await openDashboard(app, '/o/demo/organization')
  await page.getByRole('textbox', { name: 'Name' }).fill('Acme & Söhne')
  await press(page, 'Save')
  await page.getByText('The organization was renamed').waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  const { body } = await app.request('GET', '/organizations/by-slug/demo', {
    token: await app.tokenFor('member@demo.test', 'demo'),
  })
  expect(body.name).toBe('Acme & Söhne')
})

test('a member sees the slug, and can’t change or delete anything', async () => {
  const page = await openDashboard(app, '/o/demo/organization', { user: 'member@demo.test' })
  await page.getByText('Only admins can change this.').waitFor()
  expect(await page.getByRole('button', { name: 'Delete the organization' }).count()).toBe(0)
  expect(await page.getByRole('textbox', { name: 'Name' }).count()).toBe(0)
})

test('an admin deletes the organization after typing its slug, and gets a receipt', async () => {
  const page = await openDashboard(app, '/o/demo/organization')
  await press(page, 'Delete the organization')
  const question = page.getByRole('dialog', { name: /^Delete / })
  const confirm = question.getByRole('button', { name: 'Delete the organization' })
  expect(await confirm.isDisabled()).toBe(true)
  await question.getByLabel('Type “demo” to confirm').fill('dem')
  expect(await confirm.isDisabled()).toBe(true)
  await question.getByLabel('Type “demo” to confirm').fill('demo')
  expect(await findAccessibilityProblems(page)).toEqual([])
  await confirm.click()
  const receipt = page.getByRole('dialog', { name: 'The organization was deleted' })
  await receipt.getByText('Nothing of it is left.').waitFor()
  await receipt.getByText('audit_events').waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await receipt.getByRole('button', { name: 'Continue' }).click()
  await page.getByRole('heading', { name: 'Create an organization' }).waitFor()
})
