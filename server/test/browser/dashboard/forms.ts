import type { Locator, Page, Route } from 'playwright-core'
import { afterAll, beforeAll, expect } from 'vitest'
import { githubApp, noGithubApp } from '../../../src/content/code-host/samples.ts'
import { type Shop, startShop } from '../../shop.ts'
import { press } from '../visit.ts'
import { openDashboard } from './dashboard.ts'
import { addUser } from './observed.ts'

export interface Form {
  /** The file with the form, below the dashboard's sources. */
  file: string
  path: () => string
  /** What is typed or chosen, by label. */
  fields: Record<string, string>
  submit: string
  /** Where the fields are, if not in the page. */
  within?: (page: Page) => Locator
  /** Before the page is loaded. */
  prepare?: () => Promise<unknown>
  open?: (page: Page) => Promise<void>
  /** Something that stays in view besides the fields. */
  alsoKept?: (page: Page) => Locator
}

const dialog = (name: string) => (page: Page) => page.getByRole('dialog', { name, exact: true })

const refuse = (status: number, code: string, message: string) => (route: Route) =>
  route.fulfill({
    status,
    contentType: 'application/json',
    body: JSON.stringify({ defined: true, code, status, message, data: { code } }),
  })

const faults: [name: string, fault: (route: Route) => Promise<void>, message: RegExp][] = [
  ['a conflict', refuse(409, 'CONFLICT', 'It conflicts with another one'), /It conflicts with another one/],
  ['an error', refuse(500, 'INTERNAL_ERROR', 'An Inlay error occurred'), /An Inlay error occurred/],
  ['no connection', (route) => route.abort(), /The server can’t be reached/],
]

async function enter(field: Locator, value: string): Promise<void> {
  const isChoice = await field.evaluate(({ tagName }) => tagName === 'SELECT')
  if (isChoice) await field.selectOption(value)
  else await field.fill(value)
}

/** Every form of the dashboard with what is filled in, and a server for them. */
export function useForms() {
  let app: Shop
  const ids = { skill: '', connector: '', key: '', directory: '', serviceAccount: '', endUser: '' }
  beforeAll(async () => {
    app = await startShop()
    const token = await app.tokenFor('admin@demo.test', 'demo')
    const create = async (path: string, body: object) => (await app.request('POST', path, { token, body })).body.id
    ids.skill = await create('/organization-skills', {
      content: '---\nname: refunds\ndescription: How to refund\n---\nAsk first.\n',
    })
    ids.connector = await create('/connectors', { name: 'wiki', kind: 'oauth', server_url: 'https://wiki.invalid/mcp' })
    ids.key = await create('/publishable-keys', { name: 'Blog', allowed_origins: ['https://blog.example'] })
    ids.directory = await create('/directories', { name: 'People', type: 'okta', domain: 'people.example' })
    ids.serviceAccount = await create('/service-accounts', { name: 'CI', role: 'member', expires_at: null })
    ids.endUser = await addUser(app, 'ada@example.com')
  })
  afterAll(() => app.close())

  const forms: Record<string, Form> = {
    Agent: {
      file: 'pages/agent/agent.tsx',
      path: () => '/o/demo/agent',
      fields: { Name: 'Ada', Greeting: 'Hello there' },
      submit: 'Save changes',
    },
    Budgets: {
      file: 'pages/budgets/budgets.tsx',
      path: () => '/o/demo/budgets',
      within: (page) => page.getByRole('region', { name: 'Whole organization' }),
      fields: { 'Tokens per day': '500,000' },
      submit: 'Save changes',
    },
    'An end user’s budget': {
      file: 'pages/end-users/budget.tsx',
      path: () => `/o/demo/end-users/${ids.endUser}`,
      open: (page) => press(page, 'Change budget'),
      within: dialog('Budget for ada@example.com'),
      fields: { 'Tokens per day': '5000', 'US dollars per month': '2.50' },
      submit: 'Save changes',
    },
    Governance: {
      file: 'pages/governance/governance.tsx',
      path: () => '/o/demo/governance',
      fields: { Name: 'Acme policies', URL: 'https://policies.invalid/check', 'API key': 'a-governance-key-4242' },
      submit: 'Save changes',
    },
    'Identity provider': {
      file: 'pages/identity-provider/provider-form.tsx',
      path: () => '/o/demo/identity-provider',
      open: (page) => page.getByRole('radio', { name: /Any OpenID provider/ }).check(),
      fields: { 'Issuer URL': 'https://login.invalid', 'Client ID': 'shop' },
      submit: 'Save and trust',
    },
    'The client with which users confirm their browser': {
      file: 'pages/identity-provider/browser-confirmation.tsx',
      path: () => '/o/demo/identity-provider',
      within: (page) => page.getByRole('form', { name: 'Browser confirmation' }),
      fields: { 'Client ID': 'inlay-panel', 'Client secret': 'a-panel-secret' },
      submit: 'Save client',
    },
    'End users of a former provider': {
      file: 'pages/identity-provider/carry-over.tsx',
      path: () => '/o/demo/identity-provider',
      open: (page) => press(page, 'Carry over'),
      within: dialog('Carry over'),
      fields: { 'Who is who': 'list', Subjects: 'ann-1, ann' },
      submit: 'Preview',
    },
    'A new key': {
      file: 'pages/keys/create-key.tsx',
      path: () => '/o/demo/keys?create=yes',
      within: dialog('Create a publishable key'),
      async open(page) {
        await page.getByRole('textbox', { name: 'Allowed origins' }).fill('https://shop.example')
        await page.keyboard.press('Enter')
      },
      fields: { Name: 'Shop' },
      alsoKept: (page) => page.getByRole('button', { name: 'Remove https://shop.example' }),
      submit: 'Create key',
    },
    'A key': {
      file: 'pages/keys/key-sheet.tsx',
      path: () => `/o/demo/keys/${ids.key}`,
      open: (page) => press(page, 'Edit'),
      within: dialog('Edit the key'),
      fields: { Name: 'Journal', 'Allowed origins': 'https://journal.example' },
      alsoKept: (page) => page.getByRole('button', { name: 'Remove https://blog.example' }),
      submit: 'Save changes',
    },
    'A key’s successor': {
      file: 'pages/keys/rotate.tsx',
      path: () => `/o/demo/keys/${ids.key}?rotate=yes`,
      within: dialog('Rotate “Blog”'),
      fields: { Name: 'Blog of next year' },
      submit: 'Create successor',
    },
    'Allowed domains': {
      file: 'pages/keys/allowed-domains.tsx',
      path: () => '/o/demo/keys?view=domains',
      async open(page) {
        await page.getByRole('textbox', { name: 'Origins' }).fill('https://one.example')
        await page.keyboard.press('Enter')
      },
      fields: { Origins: 'https://two.example' },
      alsoKept: (page) => page.getByRole('button', { name: 'Remove https://one.example' }),
      submit: 'Save changes',
    },
    'A new connector': {
      file: 'pages/connectors/create-connector.tsx',
      path: () => '/o/demo/connectors?create=yes',
      within: dialog('Add connector'),
      fields: {
        Name: 'crm',
        'Server URL': 'https://tools.invalid/mcp',
        'Client ID': 'inlay',
        'Client secret': 'a-long-secret-7777',
      },
      submit: 'Add connector',
    },
    'A connector': {
      file: 'pages/connectors/details.tsx',
      path: () => `/o/demo/connectors/${ids.connector}`,
      within: dialog('wiki'),
      fields: { Name: 'handbook', 'Read-only tools': 'search\nread' },
      submit: 'Save changes',
    },
    'A new service account': {
      file: 'pages/service-accounts/account-form.tsx',
      path: () => '/o/demo/service-accounts?create=yes',
      within: dialog('Create a service account'),
      open: (page) => page.getByRole('radio', { name: 'Admin' }).check(),
      fields: { Name: 'Deployment', Expires: '2099-01-31' },
      alsoKept: (page) => page.getByRole('radio', { name: 'Admin', checked: true }),
      submit: 'Create service account',
    },
    'A service account': {
      file: 'pages/service-accounts/account-sheet.tsx',
      path: () => `/o/demo/service-accounts/${ids.serviceAccount}`,
      open: (page) => press(page, 'Edit'),
      within: dialog('Edit the service account'),
      fields: { Name: 'Deployment' },
      submit: 'Save changes',
    },
    'A service account’s next key': {
      file: 'pages/service-accounts/rotate-key.tsx',
      path: () => `/o/demo/service-accounts/${ids.serviceAccount}`,
      open: (page) => press(page, 'Rotate key'),
      within: dialog('Rotate the key of “CI”'),
      fields: { 'The current key works for another': '1' },
      submit: 'Rotate key',
    },
    'An invitation': {
      file: 'pages/members/members.tsx',
      path: () => '/o/demo/members',
      open: (page) => press(page, 'Invite a member'),
      within: dialog('Invite a member'),
      fields: { Email: 'new@example.com', Role: 'admin' },
      submit: 'Create invitation',
    },
    'A directory': {
      file: 'pages/directory/connect-directory.tsx',
      path: () => '/o/demo/directory?create=yes',
      within: dialog('Connect directory'),
      fields: { Name: 'Staff', Domain: 'acme.example' },
      submit: 'Connect directory',
    },
    'A directory’s next token': {
      file: 'pages/directory/tokens.tsx',
      path: () => `/o/demo/directory/${ids.directory}`,
      open: (page) => press(page, 'Rotate token'),
      within: dialog('Rotate token'),
      fields: { 'Previous tokens work for': '168' },
      submit: 'Create new token',
    },
    'A GitHub app': {
      file: 'pages/code-host/registration.tsx',
      path: () => '/o/demo/code-host',
      prepare: () => noGithubApp(app, 'demo'),
      fields: { 'GitHub organization': 'acme' },
      submit: 'Continue to GitHub',
    },
    'A repository': {
      file: 'pages/code-host/repository.tsx',
      path: () => '/o/demo/code-host',
      prepare: () => githubApp(app, 'demo'),
      fields: { 'Repository with your skills': 'sample/skills' },
      submit: 'Connect',
    },
    'A new skill': {
      file: 'pages/skills/skill.tsx',
      path: () => '/o/demo/skills?create=yes',
      async open(page) {
        await page.getByRole('textbox', { name: 'SKILL.md' }).click()
        await page.keyboard.press('ControlOrMeta+A')
        await page.keyboard.insertText('---\nname: returns\ndescription: How to return\n---\nTake it back.\n')
      },
      fields: {},
      alsoKept: (page) => page.getByRole('textbox', { name: 'SKILL.md' }).getByText('Take it back.'),
      submit: 'Create skill',
    },
    'A skill': {
      file: 'pages/skills/skill.tsx',
      path: () => `/o/demo/skills/${ids.skill}`,
      fields: { Hostnames: 'app.example.com' },
      submit: 'Save as a new version',
    },
    'How long contents are kept': {
      file: 'pages/tool-calls/retention.tsx',
      path: () => '/o/demo/tool-calls',
      open: (page) => press(page, 'Change'),
      within: dialog('Keep arguments and results'),
      fields: { Days: '7' },
      submit: 'Save',
    },
    'A call of a tool': {
      file: 'pages/hub/call-sheet.tsx',
      path: () => '/o/demo/hub',
      async open(page) {
        const widget = await app.page({ sub: 'adm', email: 'admin@demo.test', email_verified: true })
        const inputSchema = { type: 'object', properties: { product: { type: 'string' }, amount: { type: 'integer' } } }
        widget.send({
          type: 'tools/list',
          tools: [{ name: 'add_to_cart', description: 'Adds a product', inputSchema }],
        })
        await widget.next('tools/accepted')
        await press(page, 'Call add_to_cart')
      },
      within: dialog('add_to_cart'),
      fields: { product: 'ink', amount: '2' },
      submit: 'Call',
    },
    'An organization’s name': {
      file: 'pages/organization/organization.tsx',
      path: () => '/o/demo/organization',
      fields: { Name: 'Demo and Daughters' },
      submit: 'Save',
    },
    'Single sign-on': {
      file: 'pages/organization/single-sign-on.tsx',
      path: () => '/o/demo/organization',
      within: (page) => page.getByRole('form', { name: 'Single sign-on' }),
      fields: { Issuer: 'https://sso.invalid', 'Client ID': 'inlay', 'Client secret': 'a-client-secret' },
      submit: 'Save provider',
    },
    'A domain for single sign-on': {
      file: 'pages/organization/single-sign-on.tsx',
      path: () => '/o/demo/organization',
      within: (page) => page.getByRole('form', { name: 'Add domain' }),
      fields: { Domain: 'people.example' },
      submit: 'Add domain',
    },
    'A new organization': {
      file: 'pages/new-organization/new-organization.tsx',
      path: () => '/organizations/new',
      fields: { Name: 'Acme' },
      submit: 'Create organization',
    },
    'A confirmation': {
      file: 'ui/overlays/overlays.tsx',
      path: () => `/o/demo/end-users/${ids.endUser}`,
      open: (page) => press(page, 'Erase end user'),
      within: dialog('Erase ada@example.com?'),
      fields: { Type: 'ada@example.com' },
      submit: 'Erase end user',
    },
  }

  /** What was typed is kept if saving fails, and a slow server shows progress. */
  async function expectKept({
    path,
    fields,
    submit,
    prepare,
    open,
    alsoKept,
    within = (page) => page.locator('body'),
  }: Form): Promise<void> {
    await prepare?.()
    const page = await openDashboard(app, path())
    await open?.(page)
    const place = within(page)
    const field = (label: string) => place.getByLabel(label, { exact: label === 'Name' }).first()
    for (const [label, value] of Object.entries(fields)) await enter(field(label), value)
    const isKept = async () => {
      for (const [label, value] of Object.entries(fields)) expect(await field(label).inputValue(), label).toBe(value)
      await alsoKept?.(page).waitFor()
    }
    // The dialog's comes after that of the page behind it.
    const button = page.getByRole('button', { name: submit, exact: true }).last()

    let answer: (route: Route) => Promise<void>
    const isWrite = (route: Route) => route.request().method() !== 'GET'
    await page.route(/\/(api|mcp)\b/, (route) => (isWrite(route) ? answer(route) : route.fallback()))
    for (const [, fault, message] of faults) {
      answer = fault
      await button.click()
      await page.getByText(message).first().waitFor()
      await isKept()
    }

    const held = Promise.withResolvers<Route>()
    answer = async (route) => held.resolve(route)
    await button.click()
    const late = await held.promise
    await expect.poll(() => button.getAttribute('aria-disabled')).toBe('true')
    await isKept()
    await refuse(500, 'INTERNAL_ERROR', 'It took too long')(late)
    await page.getByText('It took too long').first().waitFor()
    await isKept()
  }

  return { forms, expectKept }
}
