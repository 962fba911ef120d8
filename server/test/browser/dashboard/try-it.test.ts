import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { FrameLocator, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type HttpService, startHttpService } from '../../http-server.ts'
import { startThirdParty } from '../../third-party.ts'
import { usePage } from '../chromium.ts'
import { follow, press, seeHeading } from '../visit.ts'
import { clickChoice } from '../widget/shop.ts'
import { findAccessibilityProblems, openDashboard, visit } from './dashboard.ts'

let app: HttpService
let token: string
let clockwork: ReturnType<typeof setInterval>
beforeAll(async () => {
  app = await startHttpService()
  // The browser uses the real time.
  clockwork = setInterval(() => {
    app.clock.now = Date.now()
  }, 100)
  token = await app.tokenFor('admin@demo.test', 'demo')
})
afterAll(async () => {
  clearInterval(clockwork)
  await app.close()
})

const addKey = async (name: string) =>
  (await app.request('POST', '/publishable-keys', { token, body: { name, allowed_origins: ['https://shop.example'] } }))
    .body
const preview = (page: Page): FrameLocator => page.frameLocator('iframe[title="Preview of your agent"]')
const chat = (page: Page): FrameLocator => preview(page).frameLocator('inlay-agent iframe')
const trace = (page: Page) => page.getByRole('region', { name: 'Trace' })
const color = (page: Page) => preview(page).locator('html').getAttribute('data-color')

async function write(page: Page, text: string): Promise<void> {
  await chat(page).getByRole('textbox', { name: 'Message to the agent' }).click()
  await page.keyboard.type(text)
  await page.keyboard.press('Enter')
}

/** Answers the question. Chromium ignores clicks on a frame that has just changed, so people repeat them. */
async function allow(page: Page): Promise<void> {
  const choice = chat(page).getByRole('button', { name: 'Allow once' })
  const isGone = () =>
    choice.waitFor({ state: 'hidden', timeout: 1_000 }).then(
      () => true,
      () => false,
    )
  do await Promise.race([clickChoice(choice), choice.waitFor({ state: 'hidden' })])
  while (!(await isGone()))
}

test('without a key, the page leads to the form that creates one', async () => {
  const page = await openDashboard(app, '/o/demo/try-it')
  await page.getByRole('heading', { name: 'Create a publishable key first' }).waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await follow(page, 'Create a key')
  await page.getByRole('dialog', { name: 'Create a publishable key' }).waitFor()
})

test('a member talks to the agent, approves a change of the example page, and follows the trace', async () => {
  await addKey('Shop')
  const page = await openDashboard(app, '/o/demo', { user: 'member@demo.test' })
  await visit(page, 'Try it')
  await page.getByText('This is the demo model').waitFor()
  await chat(page).getByText('3 tools on this page').waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])

  await press(page, 'Change the page color to blue')
  await trace(page).getByText('Waiting for approval').waitFor()
  expect(await color(page), 'nothing runs without approval').toBe('green')
  await allow(page)
  await expect.poll(() => color(page)).toBe('blue')
  await trace(page).getByText('Allowed by the user').waitFor()
  await trace(page).getByText('Change the page color to blue').waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])

  await write(page, 'Read the page')
  await trace(page).getByText('read_page').first().waitFor()
  await expect.poll(() => trace(page).getByText('Succeeded').count()).toBeGreaterThan(2)

  await chat(page).getByRole('button', { name: 'Good answer' }).last().click()

  await press(page, 'New conversation')
  await trace(page).getByText('Write to your agent').waitFor()
  await chat(page).getByText('Change the page color to blue').waitFor({ state: 'detached' })
  await press(page, 'Reset')
  await expect.poll(() => color(page)).toBe('green')
  await chat(page).getByText('3 tools on this page').waitFor()

  const storage = await page.evaluate<string>(
    'JSON.stringify([{ ...localStorage }, { ...sessionStorage }, location.href])',
  )
  expect(storage, 'no token in storage or in an address').not.toMatch(/inlay_preview_|eyJ/)
})

test('an admin sees whose preview a conversation is, without its contents', async () => {
  const page = await openDashboard(app, '/o/demo/threads')
  await page.getByRole('link', { name: 'Preview by member@demo.test' }).first().waitFor()
  await page.getByRole('row').nth(1).getByRole('link').first().click()
  const details = page.getByRole('dialog')
  await details.getByText('Your organization hides what conversations say').waitFor()
  await details.getByRole('link', { name: 'Preview by member@demo.test' }).click()
  await page.getByRole('dialog', { name: 'Preview by member@demo.test' }).waitFor()
  await page.keyboard.press('Escape')

  await visit(page, 'Feedback')
  await page.getByRole('link', { name: 'Preview by member@demo.test' }).waitFor()
  await visit(page, 'Usage')
  await page.getByRole('radio', { name: 'By end user' }).check()
  await page.getByRole('row', { name: /Preview by member@demo\.test/ }).waitFor()
})

test('a member who connects an account is told so in a new tab, and continues in the first one', async () => {
  const third = await startThirdParty()
  onTestFinished(() => third.stop())
  const provider = { idp_type: 'okta', idp_domain: 'acme.okta.com', allowed_audiences: ['shop'] }
  await app.request('PATCH', '/identity-providers/config', { token, body: provider })
  const connector = { name: 'third', kind: 'oauth', server_url: third.serverUrl }
  await app.request('POST', '/connectors', { token, body: connector })
  const page = await openDashboard(app, '/o/demo/try-it', { user: 'member@demo.test' })
  await chat(page).getByText('3 tools on this page').waitFor()
  await write(page, 'Use connect_third')
  const link = chat(page).getByRole('link', { name: 'Connect third' })
  const [tab] = await Promise.all([page.context().waitForEvent('page'), link.click()])
  await press(tab, 'Connect')
  await tab.getByRole('link', { name: /^Continue to / }).click()

  await seeHeading(tab, 'Try it')
  await chat(tab).getByRole('status').filter({ hasText: 'third is connected.' }).waitFor()
  expect(tab.url(), 'the code isn’t left in the URL').not.toContain('inlay_connect')
  await tab.close()
  await chat(page).getByRole('button', { name: 'Continue' }).click()
  await chat(page).getByText('I’ve connected third.').waitFor()
})

test('on a phone, chat and trace are two views with a URL, and several keys can be chosen', async () => {
  const other = await addKey('Other')
  const page = await openDashboard(app, '/o/demo/try-it', { viewport: { width: 390, height: 844 } })
  await chat(page).getByText('3 tools on this page').waitFor()
  expect(await trace(page).count()).toBe(0)
  await page.getByRole('radio', { name: 'Trace' }).check()
  expect(page.url()).toContain('view=trace')
  expect(await findAccessibilityProblems(page)).toEqual([])
  await press(page, 'Read the page')
  await chat(page).getByText('Willow Books').first().waitFor()
  await page.getByRole('radio', { name: 'Trace' }).check()
  await trace(page).getByText('read_page').first().waitFor()
  expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBe(0)
  await page.getByLabel('Publishable key').selectOption('Shop')
  await expect.poll(() => page.url()).not.toContain(other.id)
  await page.getByRole('radio', { name: 'Chat' }).check()
  await chat(page).getByText('3 tools on this page').waitFor()
})

test('a preview ends when its key is revoked', async () => {
  const key = await addKey('Ends')
  const page = await openDashboard(app, `/o/demo/try-it?key=${key.id}`)
  await chat(page).getByText('3 tools on this page').waitFor()
  await app.request('DELETE', `/publishable-keys/${key.id}`, { token })
  await page.getByRole('alert').getByText('The preview stopped').waitFor()
})

test('another site can’t embed the preview page, and it ignores messages that aren’t from the dashboard', async () => {
  const evil = createServer((_, response) => {
    const script = `addEventListener('message', ({ data }) => { window.heard = [...(window.heard ?? []), data] })`
    response
      .setHeader('content-type', 'text/html')
      .end(`<!doctype html><script>${script}</script><iframe src="${app.url}/preview"></iframe>`)
  })
  await new Promise<void>((resolve) => evil.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void evil.close())
  const page = await usePage()
  const blocked = page.waitForEvent('console', (message) => message.text().includes('frame-ancestors'))
  await page.goto(`http://127.0.0.1:${(evil.address() as AddressInfo).port}`)
  await blocked
  expect(await page.evaluate('window.heard')).toBeUndefined()

  // Opened as a window, its opener isn't its parent.
  const alone = await usePage()
  await alone.goto(`${app.url}/preview`)
  await alone.getByText('Open “Try it” in the dashboard').waitFor()
  await alone.evaluate(`new Promise((resolve) => {
    addEventListener('message', resolve)
    postMessage({ type: 'inlay-preview-connect', publishableKey: 'pk_x', language: 'en', theme: 'dark' }, '*')
  })`)
  expect(await alone.locator('inlay-agent').count()).toBe(0)
})

test('if the server can’t start a preview, the page says why, and tries again', async () => {
  let isBroken = true
  const page = await openDashboard(app, '/o/demo/try-it', {
    async prepare(fresh) {
      await fresh.route('**/api/publishable-keys/*/preview', (route) => (isBroken ? route.abort() : route.continue()))
    },
  })
  await page.getByRole('alert').getByText('The server can’t be reached').waitFor()
  isBroken = false
  await press(page, 'Try again')
  await chat(page).getByText('3 tools on this page').waitFor()
  await seeHeading(page, 'Try it')
})
