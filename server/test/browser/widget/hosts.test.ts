import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { bundleReactPage } from '../../../../widget/test/react-page.ts'
import { usePage, useSite } from '../chromium.ts'
import {
  frameOf,
  openActivity,
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

async function createKey(): Promise<string> {
  const token = await app.tokenFor('admin@demo.test', 'demo')
  return (await app.request('POST', '/publishable-keys', { token, body: { name: 'Page' } })).body.key
}

const scheme = (page: Page) =>
  frameOf(page)
    .locator('html')
    .evaluate((element) => element.style.colorScheme)

test('works as a component in a React application', async () => {
  const page = await usePage()
  await page.goto(await useSite(await bundleReactPage({ publishableKey: await createKey(), apiBase: app.url })))
  await waitUntilConnected(page)
  await expect.poll(() => page.evaluate('window.initialized.length')).toBeGreaterThan(0)
  await page.evaluate(`window.show({ theme: 'dark', displayMode: 'pip' })`)
  await expect.poll(() => scheme(page)).toBe('dark')
  await page.getByRole('button', { name: 'Open the agent' }).waitFor()
  await page.evaluate(`window.show({ displayMode: 'pip', open: true, style: { '--inlay-accent': 'rgb(1, 2, 3)' } })`)
  await frameOf(page).getByText('Connected', { exact: true }).waitFor()
  expect(await page.evaluate(`window.reference.current === document.querySelector('inlay-agent')`)).toBe(true)
  const accent = `getComputedStyle(window.reference.current).getPropertyValue('--inlay-accent')`
  expect(await page.evaluate(accent)).toBe('rgb(1, 2, 3)')
  await page.evaluate(`window.show({ displayMode: 'pip', open: false })`)
  await page.evaluate(`window.show({ displayMode: 'pip', agentTitle: 'Ask Pen', strings: { openAgent: 'Ask us' } })`)
  await page.getByRole('button', { name: 'Ask us' }).waitFor()
  await page.evaluate(`window.reference.current.send('Hello')`)
  await page.getByRole('region', { name: 'Ask Pen' }).waitFor()
  await page.evaluate('window.reference.current.close()')
  await page.evaluate(`window.show({ displayMode: 'pip' })`)
  await page.getByRole('button', { name: 'Open the agent' }).click()
  expect(await page.evaluate('window.reference.current.isOpen'), 'the user opened it').toBe(true)
  await page.evaluate('window.show(null)')
  await expect.poll(() => page.evaluate('window.reference.current')).toBeNull()
  expect(await page.locator('inlay-agent').count()).toBe(0)
})

test('finds the tools of a page that loads the polyfill long after the widget', async () => {
  const tag = `<inlay-agent publishable-key="${await createKey()}" display-mode="inline"></inlay-agent>`
  const page = await usePage()
  await page.goto(await useSite(`<!doctype html><script src="${app.url}/widget.js"></script>${tag}`))
  await waitUntilConnected(page)
  await openActivity(page)
  await frameOf(page).getByText('0 tools on this page').waitFor()
  await page.addScriptTag({ url: `${app.shopUrl}/webmcp-polyfill.js` })
  await page.evaluate(
    `document.modelContext.registerTool({ name: 'late', description: 'Came late', execute: () => 1 })`,
  )
  await frameOf(page).getByText('1 tool on this page').waitFor()
})

describe("the page's WebMCP implementation", () => {
  const open = async (script: string) => {
    const tag = `<inlay-agent publishable-key="${await createKey()}" display-mode="inline"></inlay-agent>`
    const page = await usePage()
    const warnings: string[] = []
    page.on('console', (message) => warnings.push(message.text()))
    const head = `<!doctype html><script>${script}</script><script src="${app.url}/widget.js"></script>`
    await page.goto(await useSite(`${head}${tag}`))
    await waitUntilConnected(page)
    return { page, warnings }
  }
  const offer = (tools: string) => `document.modelContext = Object.assign(new EventTarget(), {
    getTools: async () => [${tools}].map((tool) => ({ description: 'Does it', origin, window, ...tool })),
  })`

  test('can be replaced, and the tools of the new one are followed', async () => {
    const { page } = await open(offer(`{ name: 'old' }`))
    await frameOf(page).getByText('1 tool on this page').waitFor()
    await page.evaluate(offer(`{ name: 'new' }, { name: 'newer' }`))
    await frameOf(page).getByText('2 tools on this page').waitFor()
  })

  test('can contain an unreadable tool: the others are offered, and the console shows the reason', async () => {
    const { page, warnings } = await open(offer(`{ name: 'good' }, { name: 'odd', inputSchema: 'type: object' }`))
    await frameOf(page).getByText('1 tool on this page').waitFor()
    await expect.poll(() => warnings.join()).toContain('the tool odd was skipped: its inputSchema isn’t a JSON object')
  })

  test('can be unreadable, which the console reports', async () => {
    const refuse = `document.modelContext = Object.assign(new EventTarget(), {
      getTools: async () => { throw new DOMException('Origin isolation is needed', 'SecurityError') },
    })`
    const { page, warnings } = await open(refuse)
    await openActivity(page)
    await frameOf(page).getByText('0 tools on this page').waitFor()
    await expect.poll(() => warnings.join()).toContain('SecurityError: Origin isolation is needed')
  })
})

test('a page that leaves while a tool runs causes one error, and the next page is a new source', async () => {
  const page = await visitShop(app.shopUrl, 'Demo Member')
  const mine = await useAssistant(app, 'member@demo.test')
  await page.evaluate(`document.modelContext.registerTool({
    name: 'wait', description: 'Never ends', annotations: { readOnlyHint: true },
    execute: () => new Promise(() => { sessionStorage.runs = Number(sessionStorage.runs ?? 0) + 1 }),
  })`)
  await expect.poll(mine.toolCounts).toEqual([4])
  const [before] = await mine.sources()
  const waiting = mine.use('wait')
  await expect.poll(() => page.evaluate('sessionStorage.runs')).toBe('1')
  await page.reload()
  expect(await waiting).toMatchObject({ isError: true })
  await waitUntilConnected(page)
  await expect.poll(mine.toolCounts).toEqual([3])
  const [after] = await mine.sources()
  expect(after?.sourceId).not.toBe(before?.sourceId)
  expect(await page.evaluate('sessionStorage.runs'), 'not tried again').toBe('1')
})

test('a caller that cancels stops the tool in the page', async () => {
  const page = await visitShop(app.shopUrl, 'Demo Member')
  const mine = await useAssistant(app, 'member@demo.test')
  await expect.poll(mine.toolCounts).toEqual([3])
  const patience = new AbortController()
  const adding = mine.use('add_to_cart', { product_id: 'notebook' }, undefined, patience.signal)
  const question = frameOf(page).getByRole('alertdialog')
  await question.waitFor()
  patience.abort()
  await expect(adding).rejects.toThrow()
  await question.waitFor({ state: 'hidden' })
  await openActivity(page)
  await frameOf(page).getByText('Cancelled: ').waitFor()
})
