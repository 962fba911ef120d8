import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { obtain, register } from '../../oauth-client.ts'
import { frameOf, openActivity, type ShopService, startShop, useAssistant, visitShop } from './shop.ts'

const images = join(import.meta.dirname, '../../../../docs/images')

/** Retakes the screenshots of docs/widget.md. Only on demand, because they differ slightly on every machine. */
describe.runIf(process.env.TAKE_PICTURES)('screenshots of the widget', () => {
  let app: ShopService
  beforeAll(async () => {
    app = await startShop()
  })
  afterAll(() => app.close())

  const choose = (page: Page, name: string) =>
    frameOf(page).getByRole('alertdialog').getByRole('button', { name }).click()
  const setMode = (page: Page, mode: string) =>
    page.evaluate(`document.querySelector('inlay-agent').setAttribute('display-mode', '${mode}')`)

  test.each(['light', 'dark'] as const)('in %s', async (colorScheme) => {
    const options = { colorScheme, viewport: { width: 900, height: 600 }, reducedMotion: 'reduce' } as const
    const page = await visitShop(app.shopUrl, 'Demo Member', options)
    const client = await register(app.url, { client_name: 'Desk Assistant' })
    const { access_token } = await obtain(client, 'member@demo.test', { resource: `${app.url}/mcp` })
    const assistant = await useAssistant(app, 'member@demo.test', access_token)
    await expect.poll(assistant.toolCounts).toEqual([3])
    const shoot = (mode: string) => page.screenshot({ path: join(images, `widget-${mode}-${colorScheme}.png`) })

    await assistant.use('search_products', { query: 'pen' })
    const adding = assistant.use('add_to_cart', { product_id: 'fountain-pen', quantity: 1 })
    await frameOf(page).getByRole('button', { name: 'Allow once' }).click({ trial: true })
    await shoot('pip')
    await choose(page, 'Allow once')
    await adding

    await setMode(page, 'inline')
    const agent = page.locator('inlay-agent')
    await expect.poll(async () => (await agent.boundingBox())?.height).toBeGreaterThan(200)
    await page.evaluate('scrollTo(0, document.body.scrollHeight)')
    await shoot('inline')

    await setMode(page, 'fullscreen')
    await openActivity(page)
    await frameOf(page).getByText('3 tools on this page').click()
    await frameOf(page).getByText('Removes everything from the cart.').waitFor()
    await page.mouse.move(450, 300)
    await shoot('fullscreen')
  })
})
