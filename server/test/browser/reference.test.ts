import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type HttpService, startHttpService } from '../http-server.ts'
import { type PageOptions, usePage } from './chromium.ts'
import { findAccessibilityProblems } from './dashboard/dashboard.ts'
import { press } from './visit.ts'

let app: HttpService
beforeAll(async () => {
  app = await startHttpService()
})
afterAll(() => app.close())

/** Opens the reference. A request to another host, a violated policy or an error in the page fails the test. */
async function openReference(
  hash = '',
  { user, prepare, ...options }: PageOptions & { user?: string; prepare?: (page: Page) => Promise<void> } = {},
) {
  const page = await usePage({ viewport: { width: 1440, height: 900 }, reducedMotion: 'reduce', ...options })
  const faults: string[] = []
  page.on('pageerror', (error) => faults.push(error.message))
  page.on('console', (message) => {
    const isRefusal = message.text().startsWith('Failed to load resource')
    if (message.type() === 'error' && !isRefusal) faults.push(message.text())
  })
  page.on('request', (request) => {
    if (!request.url().startsWith(app.url) && !request.url().startsWith('data:')) faults.push(request.url())
  })
  onTestFinished(({ task }) => {
    if (task.result?.state !== 'fail') expect(faults).toEqual([])
  })
  // Showing all operations takes seconds, so a test of one of them has those of its tag.
  const tag = decodeURIComponent(hash.split('/')[1] ?? '')
  if (tag) await page.route('**/api/spec.json', async (route) => route.fulfill({ json: await readTag(tag) }))
  await prepare?.(page)
  if (user) {
    await page.goto(app.url)
    await press(page, user)
    await page.waitForURL('**/o/**')
  }
  await page.goto(`${app.url}/api/docs${hash}`)
  await page.locator('.opblock').first().waitFor()
  return page
}

interface Specification {
  paths: Record<string, Record<string, { tags: string[] }>>
}

const readSpecification = async () => (await (await app.fetch('/api/spec.json')).json()) as Specification

async function readTag(tag: string): Promise<Specification> {
  const { paths, ...rest } = await readSpecification()
  const isWanted = ([, methods]: [string, Specification['paths'][string]]) =>
    Object.values(methods).some(({ tags }) => tags.includes(tag))
  return { ...rest, paths: Object.fromEntries(Object.entries(paths).filter(isWanted)) }
}

const operation = (page: Page, id: string) => page.locator(`[id$="-${id}"].opblock`)

/** Sends an operation's example, and returns the status that the page then shows. */
async function execute(page: Page, id: string): Promise<string> {
  const one = operation(page, id)
  await one.getByRole('button', { name: 'Try it out' }).click()
  await one.getByRole('button', { name: 'Execute' }).click()
  const answer = one.locator('.live-responses-table .response-col_status')
  await answer.last().waitFor()
  return (await answer.last().innerText()).split('\n')[0] ?? ''
}

describe('a stranger', () => {
  test('reads about every operation', async () => {
    const page = await openReference()
    await page.getByRole('button', { name: 'Sign in' }).waitFor()
    const { paths } = await readSpecification()
    const count = Object.values(paths).flatMap((methods) => Object.keys(methods)).length
    const links = page.getByRole('navigation', { name: 'Operations' }).getByRole('link')
    await expect.poll(() => links.count()).toBe(count)
    // Swagger UI renders many operations when they come into view.
    await page.evaluate('scrollTo(0, document.documentElement.scrollHeight)')
    await operation(page, 'listAuditEvents').waitFor()
    await page.getByRole('searchbox', { name: 'Search operations' }).fill('revoke key')
    await links.filter({ hasText: 'Revoke a key' }).click()
    await operation(page, 'revokePublishableKey').getByRole('button', { name: 'Try it out' }).waitFor()
    expect(page.url()).toContain('revokePublishableKey')
  })

  test('is told to sign in where an operation needs it, signs in in a window, and then calls operations', async () => {
    const page = await openReference('#/Users/getCurrentUser')
    const asked = page.waitForRequest('**/api/users/me')
    expect(await execute(page, 'getCurrentUser')).toBe('401')
    expect((await asked).headers()).not.toHaveProperty('authorization')
    await operation(page, 'getCurrentUser').getByText('AUTH_REQUIRED').first().waitFor()

    const opened = page.waitForEvent('popup')
    await page.getByRole('button', { name: 'Sign in' }).click()
    await press(await opened, 'admin@demo.test')
    await page.getByText('admin@demo.test').waitFor()
    const one = operation(page, 'getCurrentUser')
    await one.getByRole('button', { name: 'Execute' }).click()
    await one.locator('.live-responses-table').getByText('admin@demo.test').first().waitFor()
  })
})

describe('a signed-in user', () => {
  test('calls an operation as an admin, on a large and a small screen, and sees the response but no token', async () => {
    const page = await openReference('#/Publishable%20keys/createPublishableKey', { user: 'admin@demo.test' })
    await page.getByText('admin@demo.test').waitFor()
    expect(await execute(page, 'createPublishableKey')).toBe('200')
    const one = operation(page, 'createPublishableKey')
    await one.locator('.live-responses-table').getByText('"key_prefix"').first().waitFor()
    expect(await one.locator('.curl-command').innerText()).toContain('-H "Authorization: Bearer $TOKEN"')
    expect(await page.content()).not.toMatch(/eyJ[\w-]+\.eyJ/)
    expect(await page.evaluate('JSON.stringify([{ ...localStorage }, { ...sessionStorage }])')).not.toContain('eyJ')
    expect(page.url()).not.toMatch(/code=|eyJ/)

    for (const width of [1440, 390]) {
      await page.setViewportSize({ width, height: 900 })
      expect(await findAccessibilityProblems(page), `${width} pixels`).toEqual([])
      expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0)
    }
  })

  test('chooses the organization that requests are for, and signs in again in a window if the session has ended', async () => {
    const page = await openReference('#/Users/getCurrentUser', { user: 'member@demo.test' })
    const sent: string[] = []
    page.on('request', (request) => {
      const token = request.headers().authorization?.split('.')[1]
      if (token) sent.push(JSON.parse(Buffer.from(token, 'base64url').toString()).org_id)
    })
    const choice = page.getByRole('combobox', { name: 'Organization' })
    for (const [name, slug] of [
      ['Other', 'other'],
      ['Demo', 'demo'],
    ] as const) {
      await choice.selectOption({ label: name })
      await expect.poll(() => sent.at(-1)).toBe(await app.organization(slug))
    }

    await page.context().clearCookies()
    await page.route('**/oauth/token', (route) =>
      route.request().postData()?.includes('refresh_token')
        ? route.fulfill({ status: 400, json: { error: 'invalid_grant' } })
        : route.continue(),
    )
    let isRefused = false
    await page.route('**/api/users/me', (route) => {
      if (isRefused) return route.continue()
      isRefused = true
      return route.fulfill({ status: 401, json: { code: 'AUTH_REQUIRED' } })
    })
    const one = operation(page, 'getCurrentUser')
    await one.getByRole('button', { name: 'Try it out' }).click()
    await one.getByRole('button', { name: 'Execute' }).click()
    await page.getByText('Your session has ended.').waitFor()
    const opened = page.waitForEvent('popup')
    await page.getByRole('button', { name: 'Sign in' }).click()
    await press(await opened, 'member@demo.test')
    await one.locator('.live-responses-table').getByText('member@demo.test').first().waitFor()
  })
})

test('texts from the document stay text', async () => {
  const hostile = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>[link](javascript:window.pwned=1)'
  const page = await openReference('#/Users/getCurrentUser', {
    async prepare(fresh) {
      const harmless = JSON.stringify(await readTag('Users'))
      const json = JSON.parse(harmless, (key, value) => (['description', 'summary'].includes(key) ? hostile : value))
      await fresh.route('**/api/spec.json', (route) => route.fulfill({ json }))
    },
  })
  await operation(page, 'getCurrentUser').getByRole('button', { name: 'Try it out' }).waitFor()
  expect(await page.getByText('<img src=x', { exact: false }).count()).toBeGreaterThan(5)
  expect(await page.evaluate('window.pwned')).toBeUndefined()
  expect(await page.locator('img[src=x], a[href^="javascript:"]').count()).toBe(0)
})

test('the document can’t be loaded: the page says so', async () => {
  const page = await usePage()
  await page.route('**/api/spec.json', (route) => route.fulfill({ status: 503, json: {} }))
  await page.goto(`${app.url}/api/docs`)
  await page.getByRole('alert').getByText('The server responded with status 503').waitFor()
})

test('the policy allows scripts from this origin only, and the files are kept compressed', async () => {
  const response = await app.fetch('/api/docs')
  const policy = response.headers.get('content-security-policy') ?? ''
  expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'")
  expect(policy).not.toMatch(/unsafe|\*/)
  const [script = ''] = /\/assets\/reference-[\w-]+\.js/.exec(await response.text()) ?? []
  const file = await app.fetch(script, { headers: { 'accept-encoding': 'br' } })
  expect(file.headers.get('content-encoding')).toBe('br')
  expect(file.headers.get('cache-control')).toContain('immutable')
})
