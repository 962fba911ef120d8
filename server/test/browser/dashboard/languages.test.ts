import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type HttpService, startHttpService } from '../../http-server.ts'
import { openDashboard } from './dashboard.ts'

let app: HttpService
beforeAll(async () => {
  app = await startHttpService()
})
afterAll(() => app.close())

const seeOverview = async (page: Page, name: string, language: string) => {
  await page.getByRole('heading', { level: 1, name, exact: true }).waitFor()
  expect(await page.locator('html').getAttribute('lang')).toBe(language)
}

test('a user changes the language, and only readers of German load its texts', async () => {
  const german: string[] = []
  const page = await openDashboard(app, '/o/demo', {
    prepare: async (next) => {
      next.on('request', (request) => {
        if (request.url().includes('/assets/de-')) german.push(request.url())
      })
    },
  })
  await seeOverview(page, 'Overview', 'en')
  await page.getByRole('button', { name: 'Account: admin@demo.test' }).click()
  expect(german).toEqual([])
  await page.getByRole('menuitemradio', { name: 'Deutsch' }).click()
  await seeOverview(page, 'Übersicht', 'de')
  expect(german).not.toEqual([])

  await page.getByRole('link', { name: 'Tool-Aufrufe', exact: true }).click()
  await page.getByRole('heading', { level: 1, name: 'Tool-Aufrufe', exact: true }).waitFor()
  await page.getByRole('button', { name: 'Konto: admin@demo.test' }).click()
  await page.getByRole('menuitemradio', { name: 'English' }).click()
  await page.getByRole('heading', { level: 1, name: 'Tool calls', exact: true }).waitFor()
})

test('the dashboard starts in the browser’s language', async () => {
  const page = await openDashboard(app, '/o/demo', { locale: 'de-AT' })
  await seeOverview(page, 'Übersicht', 'de')
})
