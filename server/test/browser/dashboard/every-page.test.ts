import type { Page, Route } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type HttpService, startHttpService } from '../../http-server.ts'
import { faultsOf, findAccessibilityProblems, openDashboard } from './dashboard.ts'

let app: HttpService
beforeAll(async () => {
  app = await startHttpService()
  await fillWithMarkup()
})
afterAll(() => app.close())

/** Text that would run as a script, or look like an element, if any page took it for HTML. */
const markup = '<img src=x onerror="window.pwned=1"><b>bold</b>'

async function fillWithMarkup(): Promise<void> {
  const token = await app.tokenFor('admin@demo.test', 'demo')
  const send = async (method: string, path: string, body: object) => {
    const response = await app.request(method, path, { token, body })
    expect(response.status, `${method} ${path}: ${JSON.stringify(response.body)}`).toBe(200)
  }
  await send('POST', '/publishable-keys', { name: markup, allowed_origins: ['https://shop.example'] })
  await send('PATCH', '/agent/config', {
    name: 'Ada',
    greeting: markup,
    starter_prompts: [markup],
    instructions: markup,
  })
  await send('POST', '/organization-skills', {
    content: `---\nname: refunds\ndescription: '${markup}'\n---\n${markup}\n`,
  })
}

/** Every page that the navigation offers. */
async function listPages(page: Page): Promise<{ name: string; path: string }[]> {
  const links = page.getByRole('navigation', { name: 'Navigation' }).getByRole('link')
  await links.first().waitFor()
  return links.evaluateAll((all) =>
    (all as { textContent: string; pathname: string }[]).map(({ textContent, pathname }) => ({
      name: textContent.trim(),
      path: pathname,
    })),
  )
}

async function open(page: Page, { name, path }: { name: string; path: string }): Promise<void> {
  await page.getByRole('navigation', { name: 'Navigation' }).locator(`a[href="${path}"]`).click()
  await page.getByRole('main').getByRole('heading', { level: 1, name, exact: true }).waitFor()
  await page.waitForLoadState('networkidle')
}

const overflow = (page: Page) => page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')

test.each(['admin@demo.test', 'member@demo.test'])('every page works for %s', async (user) => {
  const page = await openDashboard(app, '/o/demo', { user })
  const problems: Record<string, unknown> = {}
  for (const one of await listPages(page)) {
    await page.setViewportSize({ width: 1440, height: 900 })
    await open(page, one)
    // Members see less of the same.
    const found = user.startsWith('admin') ? await findAccessibilityProblems(page) : []
    const failed = await page.getByText('Couldn’t load this').count()
    const injected = await page.evaluate(
      'window.pwned !== undefined || document.querySelector("main img[src=x]") !== null',
    )
    await page.setViewportSize({ width: 390, height: 844 })
    const wider = await overflow(page)
    const faults = faultsOf(page).splice(0)
    if (found.length > 0 || failed > 0 || injected || wider > 0 || faults.length > 0)
      problems[one.path] = { found, failed, injected, wider, faults }
  }
  expect(problems).toEqual({})
})

const answer = (status: number, code: string, message: string) => (route: Route) =>
  route.fulfill({
    status,
    contentType: 'application/json',
    headers: { 'x-request-id': 'request-7' },
    body: JSON.stringify({ defined: true, code, status, message, data: { code } }),
  })

describe('every page says what is wrong', () => {
  test.each<[string, (route: Route) => Promise<void>, RegExp]>([
    ['if the server fails', answer(500, 'INTERNAL_ERROR', 'An Inlay error occurred'), /An Inlay error occurred/],
    ['if the user may not see it', answer(403, 'ACCESS_DENIED', 'Access denied'), /Access denied|Only admins/],
    ['if the server can’t be reached', (route) => route.abort(), /The server can’t be reached/],
  ])('%s', async (_, handle, expected) => {
    let asked = 0
    const isData = (url: URL) => url.pathname.startsWith('/api/') && url.pathname !== '/api/users/me'
    const page = await openDashboard(app, '/o/demo', {
      async prepare(fresh) {
        await fresh.route(isData, (route) => {
          asked++
          return handle(route)
        })
      },
    })
    const silent: string[] = []
    for (const one of await listPages(page)) {
      const before = asked
      await open(page, one)
      const message = page.getByText(expected).first()
      // Some pages only explain something, and ask for nothing.
      if (asked > before || one.path === '/o/demo') await message.waitFor().catch(() => silent.push(one.path))
    }
    expect(silent).toEqual([])
    expect(faultsOf(page)).toEqual([])
  })
})
