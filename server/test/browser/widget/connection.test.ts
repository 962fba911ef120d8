import type { Page, WebSocketRoute } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { usePage } from '../chromium.ts'
import {
  clickChoice,
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

const hour = 60 * 60 * 1000
const addedOnce = ['1 × Notebook, dotted']
const cart = (page: Page) => page.getByRole('region', { name: 'Cart' }).getByRole('listitem').allInnerTexts()
const allow = (page: Page) => clickChoice(frameOf(page).getByRole('button', { name: 'Allow once' }))
const sourceIds = async (assistant: Awaited<ReturnType<typeof useAssistant>>) =>
  (await assistant.sources()).map(({ sourceId }) => sourceId)

/** A page's sockets to the runtime, which a test can cut. */
async function useNetwork(page: Page) {
  const sockets: { page: WebSocketRoute; server: WebSocketRoute }[] = []
  await page.routeWebSocket(/\/runtime$/, (socket) => {
    sockets.push({ page: socket, server: socket.connectToServer() })
  })
  return {
    sockets,
    async cut() {
      const newest = sockets.at(-1)
      // As when the network fails: neither side closes properly.
      await Promise.all([newest?.page.close({ code: 4999 }), newest?.server.close({ code: 4999 })])
    },
  }
}

async function visitWithNetwork() {
  const page = await usePage()
  const network = await useNetwork(page)
  await page.goto(app.shopUrl)
  await page.getByRole('link', { name: 'Sign in' }).click()
  await page.getByRole('button', { name: 'Demo Member' }).click()
  await page.getByText('Hello, Demo Member').waitFor()
  await waitUntilConnected(page)
  const mine = await useAssistant(app, 'member@demo.test')
  await expect.poll(mine.toolCounts).toEqual([3])
  return { page, network, mine }
}

const adminRequest = async (method: string, path: string, body?: object) =>
  app.request(method, path, { token: await app.tokenFor('admin@demo.test', 'demo'), ...(body && { body }) })

const shopKey = async (): Promise<{ id: string }> => {
  const { body } = await adminRequest('GET', '/publishable-keys')
  return body.keys.find(
    ({ name, revoked_at }: { name: string; revoked_at: string | null }) => name === 'Example shop' && !revoked_at,
  )
}

describe('a connection that drops', () => {
  test('resumes as the same source, and a call that waited for the user continues', async () => {
    const { page, network, mine } = await visitWithNetwork()
    const before = await sourceIds(mine)
    const adding = mine.use('add_to_cart', { product_id: 'notebook' })
    await frameOf(page).getByRole('alertdialog').waitFor()
    const opened = network.sockets.length
    await network.cut()
    await frameOf(page).getByText('Connection lost').waitFor({ state: 'attached' })
    await expect.poll(() => network.sockets.length).toBeGreaterThan(opened)
    await waitUntilConnected(page)
    await allow(page)
    expect((await adding).structuredContent).toMatchObject({ items: { notebook: 1 } })
    expect(await cart(page), 'once').toEqual(addedOnce)
    expect(await sourceIds(mine)).toEqual(before)
    for (const socket of network.sockets) expect(socket.page.url()).toBe(`${app.url.replace('http', 'ws')}/runtime`)
  })

  test('sends the result that could not be sent before', async () => {
    const { page, network, mine } = await visitWithNetwork()
    const adding = mine.use('add_to_cart', { product_id: 'notebook' })
    await frameOf(page).getByRole('alertdialog').waitFor()
    await network.cut()
    await frameOf(page).getByText('Connection lost').waitFor({ state: 'attached' })
    await allow(page)
    await expect.poll(() => cart(page)).toEqual(addedOnce)
    expect((await adding).structuredContent).toMatchObject({ items: { notebook: 1 } })
    expect(await cart(page), 'once').toEqual(addedOnce)
  })
})

describe('the identity of the page', () => {
  const connect = (page: Page, method: 'setAuth', idToken: string) =>
    page.evaluate(`(async () => {
      const agent = document.querySelector('inlay-agent')
      agent.${method}({ publishableKey: agent.dataset.key, idToken: ${idToken} })
    })()`)
  const ofSession = `() => fetch('/session').then((answer) => answer.json()).then(({ idToken }) => idToken)`

  test('can change without a reload, and end', async () => {
    const page = await visitShop(app.shopUrl, 'Demo Member')
    const mine = await useAssistant(app, 'member@demo.test')
    const count = async () => (await mine.sources()).length
    await expect.poll(count).toBe(1)
    await connect(page, 'setAuth', 'undefined')
    await expect.poll(count).toBe(0)
    await connect(page, 'setAuth', ofSession)
    await expect.poll(count).toBe(1)
    await page.evaluate(`document.querySelector('inlay-agent').disconnect()`)
    await expect.poll(count).toBe(0)
  })

  test('stays when the same user has a new token', async () => {
    const page = await visitShop(app.shopUrl, 'Demo Member')
    const mine = await useAssistant(app, 'member@demo.test')
    await expect.poll(async () => (await mine.sources()).length).toBe(1)
    const before = await sourceIds(mine)
    const renewed = page.waitForResponse((response) => response.url().endsWith('/pk-ticket'))
    await connect(page, 'setAuth', ofSession)
    await renewed
    await waitUntilConnected(page)
    expect(await sourceIds(mine)).toEqual(before)
  })

  test('is requested again when the token has expired, and the page is told', async () => {
    const page = await visitShop(app.shopUrl, 'Demo Member')
    await page.evaluate(`addEventListener('inlay-error', ({ detail }) => { window.problem = detail.code })`)
    await connect(page, 'setAuth', `await (${ofSession})()`)
    const mine = await useAssistant(app, 'member@demo.test')
    await expect.poll(async () => (await mine.sources()).length).toBe(1)
    app.setAhead(2 * hour)
    await expect.poll(() => page.evaluate('window.problem')).toBe('TOKEN_EXPIRED')
    await page.getByRole('button', { name: 'Open the agent' }).click()
    await frameOf(page).getByText('Signing in again').waitFor()
    app.setAhead(0)
    await connect(page, 'setAuth', ofSession)
    await waitUntilConnected(page)
    expect(await mine.sources()).toHaveLength(1)
  })
})

describe('the publishable key', () => {
  test('that is changed makes the page authenticate again, and it stays connected', async () => {
    const page = await visitShop(app.shopUrl, 'Demo Member')
    const mine = await useAssistant(app, 'member@demo.test')
    await expect.poll(async () => (await mine.sources()).length).toBe(1)
    const before = await sourceIds(mine)
    const renewed = page.waitForResponse((response) => response.url().endsWith('/pk-ticket'))
    await adminRequest('PATCH', `/publishable-keys/${(await shopKey()).id}`, { name: 'Example shop' })
    expect((await renewed).status()).toBe(200)
    await page.evaluate(`document.modelContext.registerTool({ name: 'more', description: 'More', execute: () => 1 })`)
    await expect.poll(mine.toolCounts).toEqual([4])
    expect(await sourceIds(mine)).toEqual(before)
  })

  test('that no longer allows the page’s origin says so, and the user can try again once it does', async () => {
    const page = await visitShop(app.shopUrl, 'Demo Member')
    const { id } = await shopKey()
    const allowOrigins = (...allowed_origins: string[]) =>
      adminRequest('PATCH', `/publishable-keys/${id}`, { allowed_origins })
    await allowOrigins('https://x.example.com')
    await frameOf(page).locator('html[data-state="refused"]').waitFor({ state: 'attached' })
    await page.getByRole('button', { name: 'Open the agent' }).click()
    expect(await frameOf(page).getByRole('alert').innerText()).toContain('ORIGIN_NOT_ALLOWED')
    await allowOrigins(app.shopUrl)
    await frameOf(page).getByRole('button', { name: 'Try again' }).click()
    await waitUntilConnected(page)
  })

  test('that is revoked ends the page’s connection within five seconds, with a message', async () => {
    const page = await visitShop(app.shopUrl, 'Demo Member')
    await adminRequest('DELETE', `/publishable-keys/${(await shopKey()).id}`)
    await frameOf(page).locator('html[data-state="refused"]').waitFor({ state: 'attached', timeout: 5_000 })
    await page.getByRole('button', { name: 'Open the agent' }).click()
    await frameOf(page).getByText('Not available').waitFor()
    expect(await frameOf(page).getByRole('alert').innerText()).toContain('revoked')
  })
})
