import { afterAll, beforeAll, expect, test } from 'vitest'
import { type HttpService, startHttpService } from '../../http-server.ts'
import { startModelServer } from '../../model-server.ts'
import { press } from '../visit.ts'
import { findAccessibilityProblems, openDashboard, visit } from './dashboard.ts'

let app: HttpService
let token: string
beforeAll(async () => {
  app = await startHttpService()
  token = await app.tokenFor('admin@demo.test', 'demo')
})
afterAll(() => app.close())

const config = async () => (await app.request('GET', '/agent/config', { token })).body
const hostile = '<img src=x onerror="alert(1)">'

test('an admin introduces the agent, brings a model, tests it, and sets what it may do', async () => {
  const model = await startModelServer()
  const page = await openDashboard(app, '/o/demo/agent')
  await page.getByLabel('Name', { exact: true }).fill('Ada')
  await page.getByLabel('Greeting').fill(hostile)
  for (const [place, prompt] of ['Second?', 'First?'].entries()) {
    await press(page, 'Add a prompt')
    await page.getByLabel(`Starter prompt ${place + 1}`, { exact: true }).fill(prompt)
  }
  await press(page, 'Move Starter prompt 2 up')
  await page.getByRole('textbox', { name: 'Instructions' }).fill('Be brief.')
  await page.getByLabel('Preview').getByText(hostile).first().waitFor()

  await page.getByLabel('Your own model').check()
  await page.getByLabel('Base URL').fill(`${model.url}`)
  await page.getByLabel('Model name').fill('large')
  await press(page, 'Save changes')
  await page.getByText('This host needs its own key.').waitFor()
  await page.getByLabel('API key').fill('sk-wrong-9999')
  await press(page, 'Test model')
  await page.getByText('The test failed').waitFor()
  await page.getByLabel('API key').fill(model.key)
  await press(page, 'Test model')
  await page.getByText('The model responded').waitFor()

  await page.getByLabel('Tool name').fill('crm.delete')
  await press(page, 'Add tool')
  await page.getByLabel('Policy for crm.delete').selectOption('Blocked')
  await press(page, 'Add a group')
  await page.getByLabel('Group 1', { exact: true }).fill('https://a.example.com\nhttps://b.example.com/path')
  await page.getByText('https://b.example.com/path isn’t an origin.').waitFor()
  await page.getByLabel('Group 1', { exact: true }).fill('https://a.example.com\nhttps://b.example.com')
  await page.getByLabel('Visitors can talk to the agent').check()
  await page.getByLabel('Messages per visitor').fill('9')
  await page.getByLabel('Members can read conversations').check()
  await page.getByText('For a number of days').click()
  await page.getByRole('textbox', { name: 'Days' }).fill('30')
  expect(await findAccessibilityProblems(page)).toEqual([])

  await press(page, 'Save changes')
  await page.getByText('Agent saved').waitFor()
  expect(await config()).toMatchObject({
    name: 'Ada',
    greeting: hostile,
    starter_prompts: ['First?', 'Second?'],
    instructions: 'Be brief.',
    model: { name: 'large', key_last4: model.key.slice(-4) },
    tool_policies: { 'crm.delete': 'never' },
    origin_groups: [['https://a.example.com', 'https://b.example.com']],
    anonymous: { is_enabled: true, runs_per_minute: 9 },
    are_contents_visible: true,
    retention_days: 30,
  })
  await page.getByText(`Saved key ending in ${model.key.slice(-4)}.`).waitFor()
  expect(await page.getByText('You have unsaved changes.').count()).toBe(0)

  // The server's refusal is shown beside the field, and nothing that was typed is lost.
  await page.getByLabel('Tool name').fill('http://* x')
  await press(page, 'Add tool')
  await press(page, 'Save changes')
  await page.getByRole('alert').first().waitFor()
  await page.getByLabel('Policy for http://* x').waitFor()

  // Leaving asks first.
  await page.getByRole('link', { name: 'Usage', exact: true }).click()
  await page.getByRole('dialog', { name: 'Leave without saving?' }).waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await press(page, 'Keep editing')
  await press(page, 'Discard')
  await visit(page, 'Usage')
  await visit(page, 'Agent')
  await page.getByLabel('This installation’s model').check()
  await press(page, 'Save changes')
  await page.getByText('The operator hasn’t configured a model').waitFor()
  expect(await config()).toMatchObject({ model: null, fallback_models: [] })
})

test('an admin sets budgets, and sees what is used', async () => {
  const { body: me } = await app.request('GET', '/users/me', { token })
  await app.service.database.asOrg(
    me.organizations[0].id,
    (sql) => sql`
      insert into budget_periods (organization_id, scope, subject, period, starts_on, tokens)
      values (current_organization(), 'organization', '00000000-0000-0000-0000-000000000000', 'day',
              (now() at time zone 'utc')::date, 450000)`,
  )
  const page = await openDashboard(app, '/o/demo/budgets')
  const organization = page.getByRole('region', { name: 'Whole organization' })
  await organization.getByLabel('Tokens per day').fill('lots')
  await organization.getByText('Enter a whole number').waitFor()
  await organization.getByLabel('Tokens per day').fill('500,000')
  await organization.getByLabel('Cost per month').fill('20,50')
  await page.getByRole('region', { name: 'Each end user' }).getByLabel('Cost per day').fill('0.5')
  const visitors = page.getByRole('region', { name: 'Anonymous visitors' })
  await expect.poll(() => visitors.getByLabel('One visitor, per day').inputValue()).toBe('100000')
  await visitors.getByLabel('One network address, per day').fill('30,000')
  expect(await findAccessibilityProblems(page)).toEqual([])
  await press(page, 'Save changes')
  await page.getByText('Budgets saved').waitFor()
  await organization.getByRole('meter', { name: 'Whole organization: Tokens per day' }).waitFor()
  await organization.getByText('450K of 500K used').waitFor()
  await page.getByText('A budget is more than 80 % used.').waitFor()
  const { body } = await app.request('GET', '/budgets', { token })
  expect(body).toMatchObject({
    organization: { day_tokens: 500_000, month_cost_micro_usd: 20_500_000, month_tokens: null },
    end_user_default: { day_cost_micro_usd: 500_000 },
    anonymous_shares: { day_tokens_per_address: 30_000, day_tokens_per_visitor: 100_000, day_tokens_per_key: null },
  })
})

test('a member learns that only admins see these pages', async () => {
  const page = await openDashboard(app, '/o/demo/agent', { user: 'member@demo.test' })
  await page.getByText('Only admins can see this').waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await visit(page, 'Budgets')
  await page.getByText('Only admins can see this').waitFor()
})
