import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { useSite } from '../chromium.ts'
import { write } from './chat-page.ts'
import {
  clickChoice,
  confirmBrowser,
  frameOf,
  type ShopService,
  startShop,
  useAssistant,
  visitShop,
  waitUntilConnected,
} from './shop.ts'

let app: ShopService
beforeAll(async () => {
  app = await startShop()
})
afterAll(() => app.close())

const cancelOrder = ['orders.cancel_order', { order: 'none' }] as const
const confirmButton = (page: Page) => frameOf(page).getByRole('button', { name: 'Confirm this browser' })
const input = (page: Page) => frameOf(page).getByLabel('Input of the call')
const decline = (page: Page) => clickChoice(frameOf(page).getByRole('button', { name: 'Decline' }))

/** Another site with the shop's agent, where the same user is signed in. */
async function openOtherSite(page: Page): Promise<Page> {
  const publishableKey = (await page.locator('inlay-agent').getAttribute('data-key')) ?? ''
  const { idToken } = await page.evaluate<{ idToken: string }>(`fetch('/session').then((response) => response.json())`)
  const connect = JSON.stringify({ publishableKey, idToken })
  const site = await useSite(`<!doctype html><title>Other</title><script src="${app.url}/widget.js"></script>
    <inlay-agent></inlay-agent><script>document.querySelector('inlay-agent').connect(${connect})</script>`)
  const token = await app.tokenFor('admin@demo.test', 'demo')
  const { keys } = (await app.request('GET', '/publishable-keys', { token })).body
  const allowed_origins = [app.shopUrl, site]
  const patched = await app.request('PATCH', `/publishable-keys/${keys[0].id}`, { token, body: { allowed_origins } })
  expect(patched.status).toBe(200)
  const other = await page.context().newPage()
  await other.goto(site)
  await waitUntilConnected(other)
  return other
}

test('a user who has confirmed their browser at one site needs no provider at the next, and nothing after a reload', async () => {
  const page = await visitShop(app.shopUrl, 'Demo Member', { feature: 'storage per site' })
  const assistant = await useAssistant(app, 'member@demo.test')
  await expect.poll(assistant.toolCounts).toEqual([3])
  const first = assistant.use(...cancelOrder)
  await confirmBrowser(page)
  await input(page).getByText('none').waitFor()
  await decline(page)
  await first

  const other = await openOtherSite(page)
  // A page that is left says goodbye to the server. One that is closed often can't.
  await page.goto('about:blank')
  await expect.poll(assistant.toolCounts).toEqual([0])
  await other.context().route(/\/auth\?/, (route) => route.abort())
  const second = assistant.use(...cancelOrder)
  await confirmBrowser(other)
  await input(other).getByText('none').waitFor()
  await decline(other)
  await second

  await other.reload()
  await waitUntilConnected(other)
  const third = assistant.use(...cancelOrder)
  await input(other).getByText('none').waitFor()
  expect(await confirmButton(other).count()).toBe(0)
  await decline(other)
  await third
})

/** Of documents in frames. First-party pages keep theirs, as in browsers that refuse storage to other sites. */
const refuseStorage = `if (window !== top) for (const name of ['indexedDB', 'localStorage', 'sessionStorage'])
  Object.defineProperty(window, name, { get() { throw new DOMException('Refused', 'SecurityError') } })`

test('a user whose browser keeps nothing in frames chats, and confirms it again, with a click, after a reload', async () => {
  const page = await visitShop(app.shopUrl, 'Demo Member', { initScript: refuseStorage })
  await page.locator('inlay-agent').evaluate((element) => element.setAttribute('open', ''))
  await write(page, 'hello')
  await frameOf(page).getByText('demo model').first().waitFor()

  const assistant = await useAssistant(app, 'member@demo.test')
  await expect.poll(assistant.toolCounts).toEqual([3])
  const first = assistant.use(...cancelOrder)
  await frameOf(page)
    .getByText('First confirm once that this browser is yours, so that only you can allow this.')
    .waitFor()
  await confirmBrowser(page)
  await input(page).getByText('none').waitFor()
  await decline(page)
  await first

  await page.reload()
  await waitUntilConnected(page)
  await page.context().route(/\/auth\?/, (route) => route.abort())
  const second = assistant.use(...cancelOrder)
  await confirmBrowser(page)
  await input(page).getByText('none').waitFor()
  await decline(page)
  await second
})

test('the window takes no request from a page of another site that opens it', async () => {
  const page = await visitShop(app.shopUrl, 'Demo Member')
  const opened = page.waitForEvent('popup')
  await page.evaluate(`window.opened = window.open('${app.url}/embed/confirm')`)
  const popup = await opened
  await popup.getByText('One moment').waitFor()
  const sent: string[] = []
  popup.on('request', (request) => sent.push(request.method()))
  const told = popup.evaluate(`new Promise((resolve) => addEventListener('message', ({ data }) => resolve(data)))`)
  await page.evaluate(`setInterval(() => opened.postMessage({ request: 'x' }, '*'), 50)`)
  expect(await told).toEqual({ request: 'x' })
  // Requests are sent in order.
  await popup.evaluate(`fetch('/embed/confirm.js').then(() => undefined)`)
  expect(sent).toEqual(['GET'])
})

test('a user whose browser opens no windows is told so, and uses the rest', async () => {
  const page = await visitShop(app.shopUrl, 'Demo Member', { initScript: 'window.open = () => null' })
  const assistant = await useAssistant(app, 'member@demo.test')
  await expect.poll(assistant.toolCounts).toEqual([3])
  const asking = assistant.use(...cancelOrder)
  const told = frameOf(page).getByText('The window was blocked.')
  const tryToConfirm = async () => {
    await clickChoice(confirmButton(page))
    return told.isVisible()
  }
  // As users do if a click comes while the panel is still opening.
  await expect.poll(tryToConfirm).toBe(true)
  await decline(page)
  expect(await asking).toMatchObject({ isError: true })
  const found = await assistant.use('search_products', { query: 'ink' })
  expect(found.isError ?? false).toBe(false)
})
