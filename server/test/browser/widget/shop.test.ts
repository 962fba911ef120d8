import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  frameOf,
  openActivity,
  type ShopService,
  startShop,
  useAssistant,
  visitShop,
  waitForQuestion,
  waitUntilConnected,
} from './shop.ts'
import { cart, choose, describeTools, question } from './shop-tools.ts'

let app: ShopService
beforeAll(async () => {
  app = await startShop()
})
afterAll(() => app.close())

async function allowWhereAsked(pages: Page[]): Promise<void> {
  const asked = () => Promise.all(pages.map((page) => question(page).isVisible()))
  await expect.poll(asked).toContain(true)
  await choose(pages[(await asked()).indexOf(true)] as Page, 'Allow once')
}

describeTools('native', () => app)

test('two tabs with the same tools require the source to be named', async () => {
  const first = await visitShop(app.shopUrl, 'Demo Member')
  const second = await first.context().newPage()
  await second.goto(app.shopUrl)
  const mine = await useAssistant(app, 'member@demo.test')
  await expect.poll(mine.toolCounts).toEqual([3, 3])
  const [one, two] = await mine.sources()
  const unnamed = await mine.use('search_products')
  expect(unnamed.isError).toBe(true)
  for (const source of [one, two]) expect(JSON.stringify(unnamed.content)).toContain(source?.sourceId)

  const frame = first.frames().find((each) => each.url().includes('/embed/'))
  await frame?.evaluate(`Object.defineProperty(document, 'hidden', { configurable: true, value: true })
    document.dispatchEvent(new Event('visibilitychange'))`)
  const places = async () =>
    JSON.stringify((await mine.use('search_products')).content).match(/in (front|the back\w+), \w+/g)
  await expect.poll(places).toEqual(['in the background, last', 'in front, opened'])

  for (const { sourceId } of await mine.sources()) {
    const adding = mine.use('add_to_cart', { product_id: 'pencils' }, sourceId)
    await allowWhereAsked([first, second])
    await adding
  }
  expect([await cart(first), await cart(second)]).toEqual([
    ['1 × Pencils, box of twelve'],
    ['1 × Pencils, box of twelve'],
  ])
})

describe('a user', () => {
  test.each([
    ['with the button', (page: Page) => choose(page, 'Decline')],
    [
      'with the keyboard',
      async (page: Page) => {
        await waitForQuestion(page)
        await question(page).getByRole('button', { name: 'Allow once' }).press('Escape')
      },
    ],
  ])('who declines %s keeps the page unchanged, and the assistant is told', async (_, decline) => {
    const page = await visitShop(app.shopUrl, 'Demo Member')
    const mine = await useAssistant(app, 'member@demo.test')
    await expect.poll(async () => (await mine.sources()).length).toBe(1)
    const adding = mine.use('add_to_cart', { product_id: 'notebook' })
    await decline(page)
    const { isError, content } = await adding
    expect([isError, JSON.stringify(content)]).toEqual([true, expect.stringContaining('declined')])
    expect(await cart(page)).toEqual([])
  })

  test('who always allows a tool is asked again once the page has changed it', async () => {
    const page = await visitShop(app.shopUrl, 'Demo Member')
    const mine = await useAssistant(app, 'member@demo.test')
    const register = (description: string) =>
      page.evaluate(`(() => {
        window.registration?.abort()
        window.registration = new AbortController()
        const tool = { name: 'paint', description: '${description}', execute: () => '${description}' }
        return document.modelContext.registerTool(tool, { signal: window.registration.signal })
      })()`)
    await register('Paints it blue')
    await expect.poll(mine.toolCounts).toEqual([4])
    const first = mine.use('paint')
    await waitForQuestion(page)
    await question(page).getByText('More options').click()
    await choose(page, 'Always allow here')
    await first
    expect((await mine.use('paint')).content, 'not asked').toEqual([{ type: 'text', text: 'Paints it blue' }])

    await openActivity(page)
    await register('Paints it red')
    await frameOf(page).getByText('Paints it red').waitFor({ state: 'attached' })
    const changed = mine.use('paint')
    await question(page).getByText('Paints it red').waitFor()
    await choose(page, 'Allow once')
    expect((await changed).content).toEqual([{ type: 'text', text: 'Paints it red' }])
  })

  test('who signs in again is identified again', async () => {
    const page = await visitShop(app.shopUrl, 'Demo Member')
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByRole('link', { name: 'Sign in' }).click()
    await page.getByRole('button', { name: 'Casey Customer' }).click()
    await page.getByText('Hello, Casey Customer').waitFor()
  })

  test('who is not signed in has a page that no assistant sees', async () => {
    const page = await visitShop(app.shopUrl, 'Demo Member')
    const mine = await useAssistant(app, 'member@demo.test')
    await expect.poll(async () => (await mine.sources()).length).toBe(1)
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByRole('link', { name: 'Sign in' }).waitFor()
    await waitUntilConnected(page)
    await expect.poll(mine.sources).toEqual([])
  })
})

test('a user sees their calls after a reload, with the newest in view', async () => {
  const page = await visitShop(app.shopUrl, 'Demo Admin')
  const mine = await useAssistant(app, 'admin@demo.test')
  await expect.poll(mine.toolCounts).toEqual([3])
  for (let n = 0; n < 12; n += 1) await mine.use('search_products', { query: `ink ${n}` })
  const declined = mine.use('add_to_cart', { product_id: 'ink-blue' })
  await question(page).getByText('"product_id"').waitFor()
  await choose(page, 'Decline')
  await declined
  const isNewestInView = (list: 'Calls' | 'Earlier') =>
    frameOf(page)
      .getByRole('list', { name: list, exact: true })
      .evaluate((calls) => {
        const main = calls.closest('main')?.getBoundingClientRect()
        const newest = calls.lastElementChild?.getBoundingClientRect()
        return main && newest && newest.height > 0 && newest.bottom <= main.bottom + 1 && newest.top >= main.top
      })
  await openActivity(page)
  await expect.poll(() => isNewestInView('Calls')).toBe(true)

  await page.reload()
  await waitUntilConnected(page)
  const earlier = frameOf(page).getByRole('list', { name: 'Earlier' }).getByRole('listitem')
  await page.getByRole('button', { name: /agent/i }).click()
  await openActivity(page)
  await expect.poll(() => earlier.count()).toBe(13)
  await expect.poll(() => earlier.last().innerText()).toMatch(/^Add to the cart\s+Declined/)
  expect(await earlier.first().innerText()).toContain('Done')
  await expect.poll(() => isNewestInView('Earlier')).toBe(true)

  // A user who reads an older call isn't scrolled away from it.
  const main = frameOf(page).getByRole('main')
  await main.hover()
  await page.mouse.wheel(0, -10_000)
  await expect.poll(() => main.evaluate(({ scrollTop }) => scrollTop)).toBe(0)
  await mine.use('search_products', { query: 'pen' })
  await frameOf(page).getByRole('list', { name: 'Calls', exact: true }).getByText('Done').waitFor()
  expect(await main.evaluate(({ scrollTop }) => scrollTop)).toBe(0)
})
