import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, test } from 'vitest'
import { seedDemoUsage } from '../../../src/plans/usage/demo-usage.ts'
import { frameOf, type ShopService, startShop, visitShop } from '../widget/shop.ts'
import { openDashboard, visit } from './dashboard.ts'

const images = join(import.meta.dirname, '../../../../docs/images')

/** Retakes the screenshots of README.md and docs/dashboard.md. Only on demand, because they differ on every machine. */
describe.runIf(process.env.TAKE_PICTURES)('screenshots of the dashboard', () => {
  let app: ShopService
  beforeAll(async () => {
    app = await startShop()
    await seedDemoUsage(app.service, await app.organization('demo'))
    const token = await app.tokenFor('admin@demo.test', 'demo')
    await app.request('PATCH', '/agent/config', { token, body: { are_contents_visible: true } })
    // The shop registers its key at the first request.
    await fetch(app.shopUrl)
  })
  afterAll(() => app.close())

  /** A conversation in the shop, so that there is something to see. */
  async function talk(): Promise<void> {
    const page = await visitShop(app.shopUrl, 'Demo Member')
    await page.getByRole('button', { name: /^Open the/ }).click()
    const field = frameOf(page).getByRole('textbox', { name: /message/i })
    await field.fill('Do you have blue ink?')
    await field.press('Enter')
    await frameOf(page).getByRole('cell', { name: 'Ink, blue' }).waitFor()
  }

  async function shoot(page: Page, name: string): Promise<void> {
    await page.waitForLoadState('networkidle')
    await page.screenshot({ path: join(images, `dashboard-${name}.png`) })
  }
  const options = { viewport: { width: 1280, height: 800 }, reducedMotion: 'reduce' } as const

  test('on a desktop', async () => {
    await talk()
    const page = await openDashboard(app, '/o/demo', options)
    await shoot(page, 'overview')
    await visit(page, 'Usage')
    await shoot(page, 'usage')
    await visit(page, 'Threads')
    await page.getByRole('row').nth(1).click()
    await page.getByRole('dialog').waitFor()
    await shoot(page, 'thread')
    await page.keyboard.press('Escape')
    await visit(page, 'Agent')
    await shoot(page, 'agent')
    await visit(page, 'Keys and sites')
    await shoot(page, 'keys')
    await page.keyboard.press('Control+k')
    await page.getByRole('combobox').waitFor()
    await shoot(page, 'palette')
  })

  test('of a preview', async () => {
    const page = await openDashboard(app, '/o/demo/try-it', options)
    const preview = page.frameLocator('iframe[title="Preview of your agent"]')
    const chat = preview.frameLocator('inlay-agent iframe')
    await page.getByRole('button', { name: 'Read the page' }).click()
    await page.getByRole('region', { name: 'Trace' }).getByText('read_page').first().waitFor()
    const field = chat.getByRole('textbox', { name: /message/i })
    await field.fill('Change the page color to blue')
    await field.press('Enter')
    await chat.getByRole('button', { name: 'Allow once' }).waitFor()
    await page.getByRole('region', { name: 'Trace' }).getByText('Waiting for approval').waitFor()
    await shoot(page, 'try-it')
  })

  test('in dark colors, and on a phone', async () => {
    const page = await openDashboard(app, '/o/demo', { ...options, colorScheme: 'dark' })
    await shoot(page, 'overview-dark')
    await page.setViewportSize({ width: 390, height: 844 })
    await page.goto(`${app.url}/o/demo/budgets`)
    await page.getByRole('heading', { name: 'Budgets' }).waitFor()
    await shoot(page, 'phone-dark')
  })
})
