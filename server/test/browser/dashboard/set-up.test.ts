import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Page } from 'playwright-core'
import { expect, onTestFinished, test } from 'vitest'
import { clientId } from '../../../../examples/client.ts'
import { createShop } from '../../../../examples/host-page/shop.ts'
import { createIdentityProvider } from '../../../../examples/identity-provider/identity-provider.ts'
import { startHttpService } from '../../http-server.ts'
import { startScriptedModel } from '../../scripted-model.ts'
import { press, seeHeading } from '../visit.ts'
import { frameOf, visitShop } from '../widget/shop.ts'
import { findAccessibilityProblems, openDashboard, visit } from './dashboard.ts'

/** One of the examples, on its own port. What it is can depend on its URL, or on what happens later. */
async function serveExample(create: (url: string) => RequestListener): Promise<string> {
  let listener: RequestListener | undefined
  const server = createServer((request, response) => {
    listener ??= create(url)
    listener(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://localhost:${(server.address() as AddressInfo).port}`
  return url
}

async function useService(env: Record<string, string>) {
  const app = await startHttpService(env)
  // The identity provider and the browser use the real time.
  const clockwork = setInterval(() => {
    app.clock.now = Date.now()
  }, 100)
  onTestFinished(async () => {
    clearInterval(clockwork)
    await app.close()
  })
  return app
}

const checklist = (page: Page) => page.getByRole('region', { name: 'Set-up' })

test('the checklist leads from an empty organization to a widget that answers on the example page', async () => {
  const model = await startScriptedModel(() => ({ text: ['Welcome to the shop.'] }))
  onTestFinished(() => model.close())
  const app = await useService({ MODEL_URL: model.url, MODEL_NAME: 'scripted' })
  let publishableKey = ''
  let issuer = ''
  const shopUrl = await serveExample((url) => createShop({ url, issuer, inlayUrl: app.url, publishableKey }))
  const client = { id: clientId, redirectUri: `${shopUrl}/callback` }
  const delegation = { hub: { id: 'hub', secret: 'secret-of-the-hub' }, allowed: [] }
  issuer = await serveExample((url) => createIdentityProvider(url, [client], delegation))

  const page = await openDashboard(app, '/', { user: 'nobody@demo.test' })
  await page.getByLabel('Name').fill('Acme')
  await press(page, 'Create organization')
  await seeHeading(page, 'Overview')
  const next = async (step: string, action: string) => {
    await checklist(page)
      .getByRole('listitem')
      .and(page.locator('[aria-current=step]'))
      .getByText(step)
      .first()
      .waitFor()
    await checklist(page).getByRole('link', { name: action, exact: true }).click()
  }

  await next('Create a publishable key', 'Create a key')
  const form = page.getByRole('dialog', { name: 'Create a publishable key' })
  await form.getByLabel('Name').fill('Shop')
  await form.getByRole('textbox', { name: 'Allowed origins' }).fill(shopUrl)
  await form.getByRole('button', { name: 'Create key' }).click()
  const ready = page.getByRole('dialog', { name: '“Shop” is ready' })
  publishableKey = (await ready.locator('code').textContent()) ?? ''
  await ready.getByRole('button', { name: 'Done' }).click()
  await visit(page, 'Overview')

  await next('Try your agent', 'Try it')
  await page.getByText('Model: scripted').waitFor()
  const chat = page.frameLocator('iframe[title="Preview of your agent"]').frameLocator('inlay-agent iframe')
  await chat.getByRole('textbox', { name: 'Message to the agent' }).click()
  await page.keyboard.type('Hello')
  await page.keyboard.press('Enter')
  await page.getByRole('region', { name: 'Trace' }).getByText('Welcome to the shop.').waitFor()
  await visit(page, 'Overview')

  await next('Trust your identity provider', 'Set it up')
  await page.getByRole('radio', { name: 'Any OpenID provider' }).check()
  await page.getByLabel('Issuer URL').fill(issuer)
  await page.getByLabel('Client ID').fill(clientId)
  await press(page, 'Save and trust')
  await page.getByText('Any OpenID provider is trusted').waitFor()
  await visit(page, 'Overview')

  await next('Add a skill', 'Write a skill')
  await page.getByRole('textbox', { name: 'SKILL.md' }).press('ControlOrMeta+a')
  await page.keyboard.insertText('---\nname: greet\ndescription: Greets customers.\n---\n\nSay hello.\n')
  await press(page, 'Create skill')
  await page.getByText('greet created').waitFor()
  await visit(page, 'Overview')

  await next('Set a budget', 'Set a budget')
  await page.getByRole('region', { name: 'Whole organization' }).getByLabel('Tokens per day').fill('500000')
  await press(page, 'Save changes')
  await page.getByText('Budgets saved').waitFor()
  await visit(page, 'Overview')
  await checklist(page).getByText('6 of 7').waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await next('Embed the widget', 'Get the snippet')
  await seeHeading(page, 'Keys and sites')

  const shop = await visitShop(shopUrl, 'Casey Customer')
  await shop.getByRole('button', { name: 'Open the agent' }).click()
  await frameOf(shop).getByRole('textbox', { name: 'Message to the agent' }).click()
  await shop.keyboard.type('Hello')
  await shop.keyboard.press('Enter')
  await frameOf(shop).getByText('Welcome to the shop.').waitFor()

  await app.service.activity.flush()
  await page.goto(`${app.url}/o/acme`)
  await seeHeading(page, 'Overview')
  await page.getByRole('region', { name: 'Tokens per day' }).waitFor()
  await page.waitForLoadState('networkidle')
  expect(await checklist(page).count(), 'hides itself').toBe(0)
})
