import type { Page, Route } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { HttpService } from '../../http-server.ts'
import { faultsOf, openDashboard, watchRequests } from './dashboard.ts'
import { expectTold, explanations, isData, listPages, open, startWithMarkup } from './pages.ts'

let app: HttpService
beforeAll(async () => {
  app = await startWithMarkup()
})
afterAll(() => app.close())

const overflow = (page: Page) => page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')

test.each(['admin@demo.test', 'member@demo.test'])('every page works for %s', async (user) => {
  const page = await openDashboard(app, '/o/demo', { user })
  const settled = watchRequests(page)
  const problems: Record<string, unknown> = {}
  for (const one of await listPages(page)) {
    await page.setViewportSize({ width: 1440, height: 900 })
    await open(page, one)
    await settled()
    const failed = await page.getByText('Couldn’t load this').count()
    const injected = await page.evaluate(
      'window.pwned !== undefined || document.querySelector("main img[src=x]") !== null',
    )
    // Text with U+202E turns around what comes after it in the same element.
    const turned = await page.evaluate(
      '[...document.querySelectorAll("main a, main span")].filter((one) => getComputedStyle(one).unicodeBidi !== "isolate").length',
    )
    await page.setViewportSize({ width: 390, height: 844 })
    const wider = await overflow(page)
    const faults = faultsOf(page).splice(0)
    if (failed > 0 || injected || turned || wider > 0 || faults.length > 0)
      problems[one.path] = { failed, injected, turned, wider, faults }
  }
  expect(problems).toEqual({})
})

test('every page says what is wrong if the server fails', () => expectTold(app, ['the server fails']))

test('every page shows that it is loading while the server is slow, and then its contents', async () => {
  const held = new Set<Route>()
  let isSlow = true
  const page = await openDashboard(app, '/o/demo/mcp', {
    async prepare(fresh) {
      await fresh.route(isData, (route) => (isSlow ? void held.add(route) : route.continue()))
    },
  })
  const progress = page.getByRole('main').getByLabel('Loading…')
  const asking = (await listPages(page)).filter(({ path }) => !explanations.includes(path))
  const silent: string[] = []
  for (const one of asking) {
    await open(page, one)
    await progress
      .first()
      .waitFor({ timeout: 15_000 })
      .catch(() => silent.push(one.path))
  }
  isSlow = false
  // Those of pages that were left are cancelled.
  await Promise.all([...held].map((route) => route.continue().catch(() => undefined)))
  for (const one of asking) {
    await open(page, one)
    await expect.poll(() => progress.count(), { message: one.path }).toBe(0)
  }
  expect(silent).toEqual([])
  expect(faultsOf(page)).toEqual([])
})
