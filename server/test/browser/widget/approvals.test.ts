import { Client as OlderClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as OlderTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { obtain, register } from '../../oauth-client.ts'
import {
  clickChoice,
  frameOf,
  openActivity,
  type ShopService,
  startShop,
  useAssistant,
  visitShop,
  waitForQuestion,
  waitUntilConnected,
} from './shop.ts'

let app: ShopService
beforeAll(async () => {
  app = await startShop()
})
afterAll(() => app.close())

const cart = (page: Page) => page.getByRole('region', { name: 'Cart' }).getByRole('listitem').allInnerTexts()
const question = (page: Page) => frameOf(page).getByRole('alertdialog')
const button = (page: Page, name: string) => question(page).getByRole('button', { name })
const search = (page: Page) => page.getByRole('searchbox', { name: 'Search' })
const isFocused = (field: Locator) => field.evaluate((element) => element === element.ownerDocument.activeElement)
const launcher = (page: Page, name: string) => page.getByRole('button', { name, exact: true })
const closePanel = (page: Page) => frameOf(page).getByRole('button', { name: 'Close' }).click()

/** A member's page, and an assistant of the member that sees its tools. */
async function visit() {
  const page = await visitShop(app.shopUrl, 'Demo Member')
  const mine = await useAssistant(app, 'member@demo.test')
  await expect.poll(mine.toolCounts).toEqual([3])
  return { page, mine }
}

async function alwaysAllow(page: Page): Promise<void> {
  await waitForQuestion(page)
  await question(page).getByText('More options').click()
  await clickChoice(button(page, 'Always allow here'))
}

describe('a question', () => {
  test('does not take the keyboard focus from the page', async () => {
    const { page, mine } = await visit()
    await search(page).click()
    await page.keyboard.type('blue')
    const adding = mine.use('add_to_cart', { product_id: 'pencils' })
    await button(page, 'Allow once').click({ trial: true })
    await page.keyboard.type(' ink')
    await page.keyboard.press('Enter')
    expect(await search(page).inputValue()).toBe('blue ink')
    expect([await question(page).isVisible(), await cart(page)], 'not answered').toEqual([true, []])
    await clickChoice(button(page, 'Decline'))
    await adding
  })

  test('returns the focus once it is answered', async () => {
    const { page, mine } = await visit()
    await search(page).click()
    const adding = mine.use('add_to_cart', { product_id: 'pencils' })
    await clickChoice(button(page, 'Allow once'))
    await adding
    await expect.poll(() => isFocused(search(page))).toBe(true)
    await page.keyboard.type('ink')
    expect(await search(page).inputValue()).toBe('ink')
  })

  test('is answered by the first click of a double click, and the second click does not answer the next one', async () => {
    const { page, mine } = await visit()
    const first = mine.use('add_to_cart', { product_id: 'pencils' })
    await question(page).getByText('"pencils"').waitFor()
    const second = mine.use('add_to_cart', { product_id: 'notebook' })
    await question(page).getByText('1 of 2', { exact: true }).waitFor()
    await button(page, 'Allow once').hover()
    await button(page, 'Allow once').dblclick()
    expect((await first).structuredContent).toMatchObject({ items: { pencils: 1 } })
    await question(page).getByText('"notebook"').waitFor()
    expect(await cart(page)).toEqual(['1 × Pencils, box of twelve'])
    await clickChoice(button(page, 'Decline'))
    expect((await second).isError).toBe(true)
    expect(await cart(page)).toEqual(['1 × Pencils, box of twelve'])
  })

  test('is not answered by a key that is still held down', async () => {
    const { page, mine } = await visit()
    await launcher(page, 'Open the agent').click()
    await frameOf(page).getByRole('textbox', { name: 'Message to the agent' }).click()
    const first = mine.use('add_to_cart', { product_id: 'pencils' })
    await question(page).getByText('"pencils"').waitFor()
    const second = mine.use('add_to_cart', { product_id: 'notebook' })
    await question(page).getByText('1 of 2', { exact: true }).waitFor()
    await button(page, 'Allow once').click({ trial: true })
    await button(page, 'Allow once').focus()
    await page.keyboard.down('Enter')
    await first
    await button(page, 'Allow once').click({ trial: true })
    await page.keyboard.down('Enter')
    await page.keyboard.up('Enter')
    expect([await question(page).isVisible(), await cart(page)]).toEqual([true, ['1 × Pencils, box of twelve']])
    await clickChoice(button(page, 'Decline'))
    await second
  })

  test('names the client that asks, and so does the list of calls', async () => {
    const page = await visitShop(app.shopUrl, 'Demo Member')
    const client = await register(app.url)
    const { access_token } = await obtain(client, 'member@demo.test', { resource: `${app.url}/mcp` })
    const tool = await useAssistant(app, 'member@demo.test', access_token)
    await expect.poll(tool.toolCounts).toEqual([3])
    const adding = tool.use('add_to_cart', { product_id: 'pencils' })
    await question(page).getByText('Tool wants to use a tool on this page').waitFor()
    await clickChoice(button(page, 'Allow once'))
    await adding
    await openActivity(page)
    expect(await frameOf(page).getByRole('list', { name: 'Calls' }).innerText()).toContain('Tool')
  })

  test('shows the exact input, with escapes for invisible characters', async () => {
    const { page, mine } = await visit()
    const adding = mine.use('add_to_cart', { product_id: 'a\u202Eb\u200B' })
    await question(page).waitFor()
    const input = question(page).getByLabel('Input of the call')
    expect(await input.innerText()).toBe('{\n  "product_id": "a\\u202eb\\u200b"\n}')
    await clickChoice(button(page, 'Decline'))
    await adding
  })

  test('collapses long input, and shows all of it on request', async () => {
    const { page, mine } = await visit()
    const args = { note: `${'x'.repeat(5_000)}\u202Eend`, product_id: 'pencils' }
    const adding = mine.use('add_to_cart', args)
    const input = question(page).getByLabel('Input of the call')
    await waitForQuestion(page)
    expect((await input.innerText()).length).toBeLessThan(1_000)
    await button(page, 'Show all').click()
    await button(page, 'Show all').waitFor({ state: 'detached' })
    expect(JSON.parse(await input.innerText())).toEqual(args)
    await clickChoice(button(page, 'Decline'))
    await adding
  })

  test.each([
    [
      'something invisible that lets clicks through',
      `document.body.append(Object.assign(document.createElement('div'), { id: 'cover' }))
      document.querySelector('#cover').style =
        'position: fixed; inset: 0; z-index: 2147483647; pointer-events: none; background: rgb(0 0 0 / .01)'`,
      `document.querySelector('#cover').remove()`,
    ],
    [
      'a style that makes it transparent',
      `document.querySelector('inlay-agent').style.opacity = .05`,
      `document.querySelector('inlay-agent').style.opacity = ''`,
    ],
  ])('cannot be answered while the page covers it with %s', async (_, cover, uncover) => {
    const { page, mine } = await visit()
    await page.evaluate(cover)
    const adding = mine.use('add_to_cart', { product_id: 'pencils' })
    await question(page).getByRole('alert').filter({ hasText: 'The page covers this question.' }).waitFor()
    await button(page, 'Allow once').click({ force: true })
    await button(page, 'Allow once').press('Enter')
    await button(page, 'Allow once').press('Escape')
    expect([await question(page).isVisible(), await cart(page)]).toEqual([true, []])
    await page.evaluate(uncover)
    await clickChoice(button(page, 'Allow once'))
    await adding
    expect(await cart(page)).toEqual(['1 × Pencils, box of twelve'])
  })

  test('is withdrawn with a notice when its caller disconnects, and the next one follows', async () => {
    const { page, mine } = await visit()
    const patience = new AbortController()
    const first = mine.use('add_to_cart', { product_id: 'pencils' }, undefined, patience.signal)
    await question(page).getByText('"pencils"').waitFor()
    const second = mine.use('add_to_cart', { product_id: 'notebook' })
    await question(page).getByText('1 of 2', { exact: true }).waitFor()
    patience.abort()
    await expect(first).rejects.toThrow()
    await frameOf(page).getByText('Your assistant is no longer waiting for “Add to the cart”').waitFor()
    await question(page).getByText('"notebook"').waitFor()
    await clickChoice(button(page, 'Allow once'))
    await second
    expect(await cart(page)).toEqual(['1 × Notebook, dotted'])
  })

  test('of a 2025-11-25 client is withdrawn when the client times out, and the retry runs once', async () => {
    const { page } = await visit()
    const client = new OlderClient({ name: 'older', version: '1.0.0' })
    const headers = { authorization: `Bearer ${await app.tokenFor('member@demo.test', 'demo')}` }
    await client.connect(new OlderTransport(new URL(`${app.url}/mcp`), { requestInit: { headers } }))
    onTestFinished(() => client.close())
    const params = { name: 'hub_call_tool', arguments: { tool_name: 'add_to_cart', args: { product_id: 'pencils' } } }
    const first = client.callTool(params, undefined, { timeout: 5_000 })
    const gaveUp = expect(first).rejects.toThrow('timed out')
    await question(page).getByText('"pencils"').waitFor()
    await gaveUp
    await frameOf(page).getByText('is no longer waiting for “Add to the cart”: The client cancelled the call').waitFor()
    await question(page).waitFor({ state: 'hidden' })
    const second = client.callTool(params)
    await clickChoice(button(page, 'Allow once'))
    await second
    expect(await cart(page)).toEqual(['1 × Pencils, box of twelve'])
  })

  test('times out, and the caller is told what to do', async () => {
    const { page, mine } = await visit()
    const adding = mine.use('add_to_cart', { product_id: 'pencils' })
    await question(page).getByText('"pencils"').waitFor()
    onTestFinished(() => app.setAhead(0))
    // A page that is silent for 25 s is dropped, so it gets time to answer the server's pings.
    for (const ahead of [20_000, 40_000]) {
      app.setAhead(ahead)
      const isSeen = async () =>
        (await mine.sources()).every(({ lastSeenAt }) => Date.parse(lastSeenAt) > Date.now() + ahead - 5_000)
      await expect.poll(isSeen).toBe(true)
    }
    app.setAhead(55_000)
    const { content, isError } = await adding
    expect([isError, JSON.stringify(content)]).toEqual([
      true,
      expect.stringContaining('Ask the user to look at the open page'),
    ])
    await frameOf(page).getByText('The question was not answered within 50 seconds. Nothing was done.').waitFor()
    await question(page).waitFor({ state: 'hidden' })
    expect(await cart(page)).toEqual([])
  })

  test('is replaced when the call is repeated, so that it runs once', async () => {
    const { page, mine } = await visit()
    const first = mine.use('add_to_cart', { product_id: 'pencils' })
    await question(page).getByText('"pencils"').waitFor()
    const second = mine.use('add_to_cart', { product_id: 'pencils' })
    expect((await first).isError).toBe(true)
    await frameOf(page).getByText('It repeated the call').first().waitFor()
    await clickChoice(button(page, 'Allow once'))
    await second
    expect(await cart(page)).toEqual(['1 × Pencils, box of twelve'])
    const third = mine.use('add_to_cart', { product_id: 'pencils' })
    await question(page).getByText('You have already allowed this call with the same input.').waitFor()
    await clickChoice(button(page, 'Decline'))
    await third
  })

  test('ends with an error when the page is reloaded, and does not come back', async () => {
    const { page, mine } = await visit()
    const adding = mine.use('add_to_cart', { product_id: 'pencils' })
    await question(page).getByText('"pencils"').waitFor()
    await page.reload()
    const { content, isError } = await adding
    expect([isError, JSON.stringify(content)]).toEqual([true, expect.stringContaining('SOURCE_GONE')])
    await waitUntilConnected(page)
    expect(await question(page).count()).toBe(0)
    expect(await cart(page)).toEqual([])
  })

  test('runs nothing if it is allowed while the page is offline and the caller gives up', async () => {
    const { page, mine } = await visit()
    const patience = new AbortController()
    const adding = mine.use('add_to_cart', { product_id: 'pencils' }, undefined, patience.signal)
    const gaveUp = expect(adding).rejects.toThrow()
    await button(page, 'Allow once').click({ trial: true })
    await page.context().setOffline(true)
    patience.abort()
    await gaveUp
    await mine.sources()
    expect(await question(page).isVisible(), 'the page has not been told yet').toBe(true)
    await clickChoice(button(page, 'Allow once'))
    await page.context().setOffline(false)
    await frameOf(page).getByText('is no longer waiting for “Add to the cart”').waitFor()
    expect(await cart(page)).toEqual([])
  })

  test('marks button and title while the panel is closed, and the title in the background', async () => {
    const { page, mine } = await visit()
    const adding = mine.use('add_to_cart', { product_id: 'pencils' })
    await waitForQuestion(page)
    expect(await page.title()).toBe('Paper & Pen')
    await closePanel(page)
    await launcher(page, 'Open the agent: 1 waiting for approval').waitFor()
    await expect.poll(() => page.title()).toBe('● (1) Paper & Pen')
    await page.evaluate(`document.title = 'Pens'`)
    await expect.poll(() => page.title()).toBe('● (1) Pens')
    await expect.poll(async () => (await mine.sources()).map(({ title }) => title)).toEqual(['Pens'])

    await launcher(page, 'Open the agent: 1 waiting for approval').click()
    await expect.poll(() => page.title()).toBe('Pens')
    const frame = page.frames().find((each) => each.url().includes('/embed/'))
    await frame?.evaluate(`Object.defineProperty(document, 'hidden', { configurable: true, value: true })
      document.dispatchEvent(new Event('visibilitychange'))`)
    await expect.poll(() => page.title()).toBe('● (1) Pens')
    await clickChoice(button(page, 'Decline'))
    await adding
    await expect.poll(() => page.title()).toBe('Pens')
  })
})

describe('a standing permission', () => {
  test('is listed, and once revoked the tool asks again', async () => {
    const { page, mine } = await visit()
    const first = mine.use('add_to_cart', { product_id: 'pencils' })
    await alwaysAllow(page)
    await first
    await mine.use('add_to_cart', { product_id: 'pencils' })
    expect(await cart(page), 'the second call did not ask').toEqual(['2 × Pencils, box of twelve'])

    const frame = frameOf(page)
    await openActivity(page)
    await frame.getByText('3 tools on this page').click()
    await frame.getByRole('list', { name: 'Tools on this page' }).getByText('Always allowed').waitFor()
    await frame.getByText('1 standing permission').click()
    await frame.getByRole('button', { name: 'Revoke “Add to the cart”' }).click()
    await frame.getByText('1 standing permission').waitFor({ state: 'hidden' })
    expect(await frame.getByText('Always allowed').count()).toBe(0)

    const third = mine.use('add_to_cart', { product_id: 'pencils' })
    await clickChoice(button(page, 'Decline'))
    expect((await third).isError).toBe(true)
    expect(await cart(page)).toEqual(['2 × Pencils, box of twelve'])
  })

  test('shows an indicator when a tool runs while the panel is closed', async () => {
    const { page, mine } = await visit()
    const first = mine.use('add_to_cart', { product_id: 'pencils' })
    await alwaysAllow(page)
    await first
    await closePanel(page)
    await launcher(page, 'Open the agent').waitFor()
    await mine.use('add_to_cart', { product_id: 'pencils' })
    await launcher(page, 'Open the agent: new activity').click()
    await launcher(page, 'Close the agent').click()
    await launcher(page, 'Open the agent').waitFor()
  })
})

test('the list of calls keeps the newest call in view', async () => {
  const { page, mine } = await visit()
  await launcher(page, 'Open the agent').click()
  await openActivity(page)
  for (let count = 0; count < 12; count++) await mine.use('search_products', { query: String(count) })
  const rows = frameOf(page).getByRole('list', { name: 'Calls' }).locator('> li')
  await expect.poll(() => rows.count()).toBe(12)
  const isInView = () =>
    rows.last().evaluate((row) => {
      const { bottom } = row.getBoundingClientRect()
      return bottom <= row.closest('main').getBoundingClientRect().bottom
    })
  await expect.poll(isInView).toBe(true)
})
