import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { clickChoice, frameOf, type ShopService, useAssistant, visitShop } from './shop.ts'
import { formOf, webMcpForms } from './web-mcp.ts'

export const cart = (page: Page) => page.getByRole('region', { name: 'Cart' }).getByRole('listitem').allInnerTexts()
export const question = (page: Page) => frameOf(page).getByRole('alertdialog')
export const choose = (page: Page, answer: string) => clickChoice(question(page).getByRole('button', { name: answer }))

/** The tests of a shop's page in browsers with a form of WebMCP. */
export function describeTools(form: keyof typeof webMcpForms, app: () => ShopService): void {
  const options = webMcpForms[form]
  describe(`with WebMCP in the form "${form}"`, () => {
    test('a user’s page is a source for their assistant, and for no one else’s', async () => {
      const page = await visitShop(app().shopUrl, 'Demo Member', options)
      expect(await formOf(page)).toBe(form)
      const mine = await useAssistant(app(), 'member@demo.test')
      const others = await useAssistant(app(), 'admin@demo.test')

      await expect
        .poll(mine.sources)
        .toMatchObject([{ title: 'Paper & Pen', url: `${app().shopUrl}/`, origin: app().shopUrl, toolCount: 3 }])
      expect(await others.sources()).toEqual([])
      expect(await others.use('search_products')).toMatchObject({ isError: true })

      const found = await mine.use('search_products', { query: 'ink' })
      const inks = [
        { id: 'ink-blue', name: 'Ink, blue', price: '€ 9.00' },
        { id: 'ink-green', name: 'Ink, green', price: '€ 9.00' },
      ]
      expect(found.structuredContent, 'read-only tools do not ask').toEqual({ products: inks })

      const adding = mine.use('add_to_cart', { product_id: 'ink-blue', quantity: 2 })
      await question(page).getByText('"quantity": 2').waitFor()
      expect(await cart(page), 'nothing runs without approval').toEqual([])
      await choose(page, 'Allow once')
      expect((await adding).structuredContent).toEqual({ items: { 'ink-blue': 2 }, total: '€ 18.00' })
      expect(await cart(page)).toEqual(['2 × Ink, blue'])

      await page.close()
      await expect.poll(mine.sources, { timeout: 60_000 }).toEqual([])
    })

    test('follows tools that the page registers and unregisters', async () => {
      const page = await visitShop(app().shopUrl, 'Demo Member', options)
      const mine = await useAssistant(app(), 'member@demo.test')
      await expect.poll(mine.toolCounts).toEqual([3])
      await page.evaluate(`(() => {
        window.registration = new AbortController()
        const tool = { name: 'wave', description: 'Waves', annotations: { readOnlyHint: true }, execute: ({ to }) => 'hello ' + to }
        return document.modelContext.registerTool(tool, { signal: window.registration.signal })
      })()`)
      await expect.poll(mine.toolCounts).toEqual([4])
      expect((await mine.use('wave', { to: 'Ann' })).content, 'a tool without a schema gets its input too').toEqual([
        { type: 'text', text: 'hello Ann' },
      ])
      await page.evaluate('window.registration.abort()')
      await expect.poll(mine.toolCounts).toEqual([3])
      expect(await mine.use('wave')).toMatchObject({ isError: true })
    })

    test('a page that changes its URL without a reload stays the same source', async () => {
      const page = await visitShop(app().shopUrl, 'Demo Member', options)
      const mine = await useAssistant(app(), 'member@demo.test')
      await expect.poll(mine.toolCounts).toEqual([3])
      const [before] = await mine.sources()
      await page.evaluate(`history.pushState(null, '', '/pens'); document.title = 'Pens'`)
      await expect
        .poll(mine.sources)
        .toMatchObject([{ sourceId: before?.sourceId, title: 'Pens', url: `${app().shopUrl}/pens` }])
    })

    test('a tool that throws fails, and is not retried', async () => {
      const page = await visitShop(app().shopUrl, 'Demo Member', options)
      const mine = await useAssistant(app(), 'member@demo.test')
      await page.evaluate(`document.modelContext.registerTool({
        name: 'stumble', description: 'Fails', annotations: { readOnlyHint: true },
        execute() { window.stumbles = (window.stumbles ?? 0) + 1; throw new Error('Ouch') },
      })`)
      await expect.poll(mine.toolCounts).toEqual([4])
      expect(await mine.use('stumble')).toMatchObject({ isError: true })
      expect(await page.evaluate('window.stumbles')).toBe(1)
    })
  })
}
