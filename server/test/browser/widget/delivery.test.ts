import { readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import type { Locator, Page } from 'playwright-core'
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

const launcher = (page: Page) => page.getByRole('button', { name: 'Open the agent' })

/** Counts the bytes that the server sends to a page: headers and bodies on the wire, and socket messages. */
function countTransfer(page: Page) {
  const requests: { path: string; bytes: Promise<number> }[] = []
  let socketBytes = 0
  page.on('requestfinished', (request) => {
    if (!request.url().startsWith(app.url)) return
    const bytes = request
      .sizes()
      .then(({ responseHeadersSize, responseBodySize }) => responseHeadersSize + responseBodySize)
    requests.push({ path: new URL(request.url()).pathname.replace(/-[\w-]+\.js$/, '-*.js'), bytes })
  })
  page.on('websocket', (socket) => {
    socket.on('framereceived', ({ payload }) => {
      socketBytes += Buffer.byteLength(payload)
    })
  })
  return {
    /** Sorted, because requests finish in any order. */
    paths: () => requests.map(({ path }) => path).sort(),
    async bytes() {
      const sizes = await Promise.all(requests.map(({ bytes }) => bytes))
      return sizes.reduce((sum, size) => sum + size, socketBytes)
    },
  }
}

describe('a panel that stays closed', () => {
  const closedPaths = ['/api/auth/pk-ticket', '/embed/', '/embed/frame-*.js', '/widget.js']

  test('costs a visitor less than 16 KB, while assistants use the page', async () => {
    const page = await visitShop(app.shopUrl, 'Demo Member')
    const mine = await useAssistant(app, 'member@demo.test')
    await expect.poll(mine.toolCounts).toEqual([3])
    // A first visit by a user who is already signed in.
    const first = await page.context().newPage()
    await page.close()
    await expect.poll(mine.toolCounts).toEqual([])
    const session = await first.context().newCDPSession(first)
    await session.send('Network.clearBrowserCache')
    const transfer = countTransfer(first)
    await first.goto(app.shopUrl)
    await first.getByText('Hello, Demo Member').waitFor()
    await waitUntilConnected(first)
    await expect.poll(mine.toolCounts).toEqual([3])
    expect((await mine.use('search_products', { query: 'ink' })).isError).not.toBe(true)
    await expect.poll(() => first.getByRole('button', { name: 'Open the agent: new activity' }).count()).toBe(1)
    await expect.poll(transfer.paths).toEqual(closedPaths)
    const bytes = await transfer.bytes()

    expect(bytes).toBeLessThan(16 * 1024)
    expect(bytes, 'it was measured at all').toBeGreaterThan(8 * 1024)
  })

  test('loads the rest when it is opened, and only once', async () => {
    const page = await usePage()
    const transfer = countTransfer(page)
    await page.goto(app.shopUrl)
    await waitUntilConnected(page)
    await expect.poll(transfer.paths).toEqual(closedPaths)
    for (let times = 0; times < 2; times++) {
      await launcher(page).click()
      await frameOf(page).getByText('Connected', { exact: true }).waitFor()
      await frameOf(page).getByRole('button', { name: 'Close' }).click()
    }
    await expect.poll(transfer.paths).toEqual([...closedPaths, '/embed/view-*.js'].sort())
    await page.evaluate(`document.documentElement.lang = 'de-AT'`)
    await page.getByRole('button', { name: 'Agent öffnen' }).click()
    await frameOf(page).getByRole('textbox', { name: 'Nachricht an den Agenten' }).waitFor()
    await expect.poll(transfer.paths).toEqual([...closedPaths, '/embed/texts-*.js', '/embed/view-*.js'].sort())
  })
})

test('the whole widget has less than 80 KB, and what the open panel adds at most 62 KB', async () => {
  const sizes = ['widget', 'frame', 'texts-de', 'view'].map((name) => {
    const file = new URL(`../../../../widget/dist/${name}.js`, import.meta.url)
    return gzipSync(readFileSync(file), { level: 9 }).length
  })
  expect(sizes.at(-1)).toBeLessThanOrEqual(62 * 1024)
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(80 * 1024)
})

test.each([
  ['en', 'Connecting…', 'Open the agent', 'Close the agent', 'Message to the agent'],
  ['de', 'Verbindung wird hergestellt …', 'Agent öffnen', 'Agent schließen', 'Nachricht an den Agenten'],
])(
  'a panel whose second part is still loading says so in “%s”, and can be left with the keyboard',
  async (...texts) => {
    const [language, loading, open, close, compose] = texts
    const page = await usePage({
      initScript: `addEventListener('DOMContentLoaded', () => {
    document.documentElement.lang = '${language}'
  })`,
    })
    const released = Promise.withResolvers<void>()
    await page.route(/\/embed\/view-/, async (route) => {
      await released.promise
      await route.continue()
    })
    await page.goto(app.shopUrl)
    await waitUntilConnected(page)
    const button = (name: string) => page.getByRole('button', { name, exact: true })
    const status = frameOf(page).getByRole('status').filter({ hasText: loading })
    await button(open).click()
    await status.waitFor()
    await page.keyboard.press('Tab')
    await expectFocus(status)
    await page.keyboard.press('Tab')
    await expectFocus(button(close))
    await page.keyboard.press('Shift+Tab')
    await expectFocus(status)
    await page.keyboard.press('Escape')
    await expectFocus(button(open))
    await page.keyboard.press('Enter')
    await status.focus()
    released.resolve()
    await expectFocus(frameOf(page).getByRole('textbox', { name: compose }))
    expect(await status.count()).toBe(0)
  },
)

const expectFocus = (element: Locator) =>
  expect.poll(() => element.evaluate((each) => each.ownerDocument.hasFocus() && each.matches(':focus'))).toBe(true)

describe('a page that was open when the server was upgraded', () => {
  const viewOfOldVersion = /\/embed\/view-/

  test('loads the current frame when the panel is opened', async () => {
    const page = await visitShop(app.shopUrl, 'Demo Member')
    const mine = await useAssistant(app, 'member@demo.test')
    await expect.poll(mine.toolCounts).toEqual([3])
    const [before] = await mine.sources()
    await page.route(viewOfOldVersion, (route) => route.fulfill({ status: 404, body: '{}' }), { times: 1 })
    await launcher(page).click()
    await frameOf(page).getByText('Connected', { exact: true }).waitFor()
    await expect.poll(mine.toolCounts).toEqual([3])
    const [after] = await mine.sources()
    expect(after?.sourceId, 'the frame was reloaded').not.toBe(before?.sourceId)
  })

  test('loads it for a question too: that call fails, nothing runs, and the next call asks the user', async () => {
    const page = await visitShop(app.shopUrl, 'Demo Member')
    const mine = await useAssistant(app, 'member@demo.test')
    await expect.poll(mine.toolCounts).toEqual([3])
    await page.route(viewOfOldVersion, (route) => route.fulfill({ status: 404, body: '{}' }), { times: 1 })
    const failed = await mine.use('add_to_cart', { product_id: 'notebook' })
    expect([failed.isError, JSON.stringify(failed.content)]).toEqual([true, expect.stringContaining('SOURCE_GONE')])
    await expect.poll(mine.toolCounts).toEqual([3])
    const adding = mine.use('add_to_cart', { product_id: 'notebook' })
    await clickChoice(frameOf(page).getByRole('button', { name: 'Allow once' }))
    expect((await adding).structuredContent).toMatchObject({ items: { notebook: 1 } })
  })

  test('loads it only once, and shows the problem', async () => {
    const page = await visitShop(app.shopUrl, 'Demo Member')
    await page.evaluate(`addEventListener('inlay-error', ({ detail }) => { window.problem = detail.code })`)
    let attempts = 0
    await page.route(viewOfOldVersion, (route) => {
      attempts += 1
      return route.fulfill({ status: 404, body: '{}' })
    })
    await launcher(page).click()
    await expect.poll(() => page.evaluate('window.problem')).toBe('FRAME_UNAVAILABLE')
    await page.getByText("The agent didn't load from").waitFor()
    expect(attempts).toBe(2)
  })
})
