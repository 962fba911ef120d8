import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Page as WidgetPage } from '../../page.ts'
import { type Shop, startShop } from '../../shop.ts'
import { press } from '../visit.ts'
import { findAccessibilityProblems, openDashboard } from './dashboard.ts'

let shop: Shop
beforeAll(async () => {
  shop = await startShop()
})
afterAll(() => shop.close())

const admin = { sub: 'adm', email: 'admin@demo.test', email_verified: true }

async function offerTools(page: WidgetPage): Promise<void> {
  page.send({
    type: 'tools/list',
    tools: [
      {
        name: 'add_to_cart',
        title: 'Add <b>',
        description: 'Adds a product to the cart',
        inputSchema: {
          type: 'object',
          properties: {
            product_id: { type: 'string', title: 'Product', description: 'From the search' },
            amount: { type: 'integer' },
            gift: { type: 'boolean' },
            size: { enum: ['small', 'large'] },
            options: { type: 'object' },
          },
          required: ['product_id', 'amount'],
        },
      },
      { name: 'read_cart', description: 'Reads the cart', annotations: { readOnlyHint: true } },
    ],
  })
  await page.next('tools/accepted')
}

/** The service's clock stands still, but the identity provider's doesn't. */
async function openPage(person: typeof admin): Promise<WidgetPage> {
  shop.clock.now = Date.now()
  const page = await shop.page(person)
  await offerTools(page)
  return page
}

test('a user sees their own open pages and tools live, and nobody else’s', async () => {
  await openPage({ sub: 'casey', email: 'casey@example.test', email_verified: true })
  const page = await openDashboard(shop, '/o/demo/hub')
  await page.getByRole('heading', { name: 'No page of yours is open' }).waitFor()
  const widget = await openPage(admin)
  await page.getByRole('list', { name: 'Open pages' }).getByText('Cart', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Call read_cart' }).waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])
  await page.getByLabel('Search tools').fill('adds')
  await page.getByRole('button', { name: 'Call read_cart' }).waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'Call add_to_cart' }).waitFor()
  expect(page.url()).toContain('search=adds')
  widget.socket.close(1000)
  await page.getByRole('heading', { name: 'No page of yours is open' }).waitFor()
})

test('a user calls a tool through a form made from its schema', async () => {
  const widget = await openPage(admin)
  const page = await openDashboard(shop, '/o/demo/hub')
  await press(page, 'Call add_to_cart')
  const sheet = page.getByRole('dialog', { name: 'Add <b>' })
  await sheet.getByLabel('Product').fill('ink')
  await sheet.getByLabel('amount').fill('two')
  await sheet.getByRole('button', { name: 'Call' }).click()
  await sheet.getByText('Enter a number.').waitFor()
  await sheet.getByLabel('amount').fill('2')
  await sheet.getByLabel('gift').selectOption('Yes')
  await sheet.getByLabel('size').selectOption('large')
  await sheet.getByRole('radio', { name: 'JSON' }).check()
  expect(JSON.parse(await sheet.getByLabel('Arguments').inputValue())).toEqual({
    product_id: 'ink',
    amount: 2,
    gift: true,
    size: 'large',
  })
  await sheet.getByRole('radio', { name: 'Form' }).check()
  expect(await sheet.getByLabel('Product').inputValue()).toBe('ink')
  await sheet.getByRole('button', { name: 'Call' }).click()
  await sheet.getByText('Waiting for your approval').waitFor()
  const call = await widget.next('tool/call')
  expect(call).toMatchObject({ name: 'add_to_cart', args: { product_id: 'ink', amount: 2, gift: true } })
  const text = 'Added <img src=x onerror=alert(1)>'
  widget.send({ type: 'tool/result', call_id: call.call_id, result: { content: [{ type: 'text', text }] } })
  await sheet.getByText(text).waitFor()
  expect(await findAccessibilityProblems(page)).toEqual([])

  await sheet.getByRole('button', { name: 'Call' }).click()
  await widget.next('tool/call')
  await sheet.getByRole('button', { name: 'Cancel' }).click()
  await sheet.getByText('You cancelled the call.').waitFor()
  await widget.next('tool/cancel')

  await sheet.getByRole('button', { name: 'Call' }).click()
  await widget.next('tool/call')
  widget.socket.close(1000)
  await sheet.getByText('SOURCE_GONE').waitFor()
})
