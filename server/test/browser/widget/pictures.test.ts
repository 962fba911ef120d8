import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { obtain, register } from '../../oauth-client.ts'
import { frameOf, type ShopService, startShop, useAssistant, visitShop, waitForQuestion } from './shop.ts'

const images = join(import.meta.dirname, '../../../../docs/images')

/** Retakes the screenshots of README.md and docs/widget.md. Only on demand, because they differ on every machine. */
describe.runIf(process.env.TAKE_PICTURES)('screenshots of the widget', () => {
  let app: ShopService
  beforeAll(async () => {
    app = await startShop()
  })
  afterAll(() => app.close())

  const person = 'Demo Member'
  const options = { viewport: { width: 900, height: 720 }, reducedMotion: 'reduce' } as const
  const shoot = (page: Page, name: string) => page.screenshot({ path: join(images, `${name}.png`) })
  const inside = (page: Page) => frameOf(page)
  const open = (page: Page) => page.getByRole('button', { name: /^Open the/ }).click()
  const press = (page: Page, name: string | RegExp) => inside(page).getByRole('button', { name }).first().click()
  const setMode = (page: Page, mode: string) =>
    page.evaluate(`document.querySelector('inlay-agent').setAttribute('display-mode', '${mode}')`)

  async function say(page: Page, text: string): Promise<void> {
    const field = inside(page).getByRole('textbox', { name: /message/i })
    await field.fill(text)
    await field.press('Enter')
  }

  async function findInk(page: Page): Promise<void> {
    await say(page, 'Do you have blue ink?')
    await inside(page).getByRole('cell', { name: 'Ink, blue' }).waitFor()
  }

  async function addInk(page: Page): Promise<void> {
    await say(page, 'Add two bottles of blue ink to my cart')
    await waitForQuestion(page)
  }

  test.each(['light', 'dark'] as const)('of the modes, in %s', async (colorScheme) => {
    const page = await visitShop(app.shopUrl, person, { ...options, colorScheme })
    await open(page)
    await press(page, 'New conversation')
    await findInk(page)
    await addInk(page)
    await shoot(page, `widget-pip-${colorScheme}`)
    await press(page, 'Allow once')
    await inside(page).getByText('€ 18.00').first().waitFor()
    await setMode(page, 'fullscreen')
    await inside(page).getByText('Add to the cart', { exact: true }).click()
    await shoot(page, `widget-fullscreen-${colorScheme}`)
    await setMode(page, 'inline')
    await expect.poll(async () => (await page.locator('inlay-agent').boundingBox())?.height).toBeGreaterThan(200)
    await page.evaluate('scrollTo(0, document.body.scrollHeight)')
    await shoot(page, `widget-inline-${colorScheme}`)
  })

  test('of the panel', async () => {
    const page = await visitShop(app.shopUrl, person, options)
    await open(page)
    await press(page, 'New conversation')
    await inside(page).getByText('Hello!').waitFor()
    await shoot(page, 'chat-empty')
    await say(page, 'Where is my order 1041?')
    await inside(page).getByText('shipped').first().waitFor()
    await press(page, 'Conversations')
    await inside(page).getByText('Where is my order 1041?').waitFor()
    await shoot(page, 'chat-conversations')
    await press(page, 'Back to the chat')
    await page.context().setOffline(true)
    await inside(page)
      .getByText(/offline/i)
      .first()
      .waitFor()
    await say(page, 'And my other order?')
    await inside(page).getByText('Sent when you’re back online').waitFor()
    await shoot(page, 'chat-offline')
    await page.context().setOffline(false)
  })

  test('of a question of another assistant', async () => {
    const page = await visitShop(app.shopUrl, person, options)
    const client = await register(app.url, { client_name: 'Desk Assistant' })
    const { access_token } = await obtain(client, 'member@demo.test', { resource: `${app.url}/mcp` })
    const assistant = await useAssistant(app, 'member@demo.test', access_token)
    await expect.poll(assistant.toolCounts).toEqual([3])
    await assistant.use('search_products', { query: 'pen' })
    const adding = assistant.use('add_to_cart', { product_id: 'fountain-pen', quantity: 1 })
    await waitForQuestion(page)
    await press(page, 'Activity')
    await waitForQuestion(page)
    await expect.poll(() => inside(page).locator('.choice.once[aria-disabled="false"]').count()).toBe(1)
    await shoot(page, 'chat-assistant')
    await press(page, 'Allow once')
    await adding
  })

  test.each(['light', 'dark'] as const)('of a phone, in %s', async (colorScheme) => {
    const phone = { viewport: { width: 390, height: 780 }, reducedMotion: 'reduce', colorScheme } as const
    const page = await visitShop(app.shopUrl, person, phone)
    await open(page)
    await press(page, 'New conversation')
    await findInk(page)
    await addInk(page)
    await shoot(page, `chat-phone-${colorScheme}`)
  })
})
