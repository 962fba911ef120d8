import axe from 'axe-core'
import type { BrowserContextOptions, Page, Request } from 'playwright-core'
import { expect, onTestFinished } from 'vitest'
import type { HttpService } from '../../http-server.ts'
import { type PageOptions, usePage } from '../chromium.ts'
import { press } from '../visit.ts'

/** What a page must never do: violate the content security policy, throw, or log an error. */
const faults = new WeakMap<Page, string[]>()
export const faultsOf = (page: Page): string[] => faults.get(page) ?? []

/** What a browser keeps of each demo user who has just signed in, so that the other tests of a file begin signed in. */
const signedIn = new WeakMap<HttpService, Map<string, BrowserContextOptions['storageState']>>()

/** A demo user signs in to the dashboard and opens one of its pages. Any fault of the page fails the test. */
export async function openDashboard(
  app: HttpService,
  path = '/o/demo',
  {
    user = 'admin@demo.test',
    prepare,
    ...options
  }: PageOptions & { user?: string; prepare?: (page: Page) => Promise<void> } = {},
): Promise<Page> {
  const states = signedIn.get(app) ?? new Map()
  signedIn.set(app, states)
  const page = await usePage({
    viewport: { width: 1440, height: 900 },
    locale: 'en-US',
    // What is still fading in has too little contrast.
    reducedMotion: 'reduce',
    storageState: states.get(user),
    ...options,
  })
  const found: string[] = []
  faults.set(page, found)
  page.on('pageerror', (error) => found.push(error.message))
  page.on('console', (message) => {
    // The browser logs every refused request, which tests of refusals cause on purpose.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) found.push(message.text())
  })
  onTestFinished(({ task }) => {
    if (task.result?.state !== 'fail' && found.length > 0) throw new Error(found.join('\n'))
  })
  await prepare?.(page)
  const redeemed = page.waitForRequest('**/oauth/token')
  await page.goto(app.url + path)
  // Asks if the user hasn't signed in yet, or if an earlier test has ended the session.
  const asked = await Promise.race([redeemed.then(() => false), page.waitForURL('**/interaction/*').then(() => true)])
  if (asked) await press(page, user)
  await redeemed
  await page.waitForURL((url) => url.pathname.startsWith('/o/') || url.pathname.startsWith('/organizations'))
  if (asked) states.set(user, await page.context().storageState())
  return page
}

/** Returns a function that waits until the page has the answers to all of its requests, and shows them. */
export function watchRequests(page: Page): () => Promise<void> {
  const open = new Set<Request>()
  page.on('request', (request) => open.add(request))
  page.on('requestfinished', (request) => open.delete(request))
  page.on('requestfailed', (request) => open.delete(request))
  const shown = () =>
    page.evaluate('new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))')
  return async () => {
    await shown()
    await expect
      .poll(
        async () => {
          if (open.size === 0) await shown()
          return [...open].map((request) => request.url())
        },
        { interval: 20 },
      )
      .toEqual([])
  }
}

/** Goes to another page of the organization without loading the dashboard again. */
export async function visit(page: Page, name: string): Promise<void> {
  await page.getByRole('navigation', { name: 'Navigation' }).getByRole('link', { name, exact: true }).click()
  await page.getByRole('heading', { level: 1, name, exact: true }).waitFor()
}

/** The rules that depend on colors. */
const colorRules = ['color-contrast', 'link-in-text-block']

/** Violations that axe finds, in both themes. Only the rules about colors can find something else in the second one. */
export async function findAccessibilityProblems(page: Page): Promise<string[]> {
  if (!(await page.evaluate('typeof axe === "object"'))) await page.evaluate(axe.source)
  const problems: string[] = []
  for (const theme of ['light', 'dark']) {
    await page.evaluate(`document.documentElement.dataset.theme = '${theme}'`)
    const options = { resultTypes: ['violations'], ...(theme === 'dark' && { runOnly: colorRules }) }
    const found = await page.evaluate<string[]>(`(async () => {
      await Promise.all(document.getAnimations().map((animation) => animation.finished.catch(() => undefined)))
      const { violations } = await axe.run(document, ${JSON.stringify(options)})
      return violations.flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => [id, html.slice(0, 160), failureSummary].join(' | ')))
    })()`)
    problems.push(...found.map((problem) => `${theme}: ${problem}`))
  }
  return problems
}
