import type { Page, Route } from 'playwright-core'
import { expect } from 'vitest'
import { type HttpService, startHttpService } from '../../http-server.ts'
import { faultsOf, openDashboard } from './dashboard.ts'
import { addThread, addUser, rate, recordCall } from './observed.ts'

/** Text that can't be broken into lines. */
const long = 'a'.repeat(60)
/** Text that would run as a script, or look like an element, if any page took it for HTML. */
const markup = '<img src=x onerror="window.pwned=1"><b>bold</b>'

/** A server whose organization has texts that could break its pages. */
export async function startWithMarkup(): Promise<HttpService> {
  const app = await startHttpService()
  const token = await app.tokenFor('admin@demo.test', 'demo')
  const send = async (method: string, path: string, body: object) => {
    const response = await app.request(method, path, { token, body })
    expect(response.status, `${method} ${path}: ${JSON.stringify(response.body)}`).toBe(200)
  }
  await send('POST', '/publishable-keys', { name: markup, allowed_origins: ['https://shop.example'] })
  await send('POST', '/publishable-keys', { name: 'A key '.repeat(16), allowed_origins: [`https://${long}.example`] })
  await send('POST', '/organizations/current/invitations', { email: `${long}@${long}.example`, role: 'member' })
  await send('PATCH', '/agent/config', {
    name: 'Ada',
    greeting: markup,
    starter_prompts: [markup],
    instructions: markup,
  })
  await send('POST', '/organization-skills', {
    content: `---\nname: refunds\ndescription: '${markup}'\n---\n${markup}\n`,
  })
  await send('PATCH', '/organizations/current', { name: markup })
  await send('POST', '/service-accounts', { name: markup, role: 'member' })
  await send('POST', '/connectors', { name: 'crm', kind: 'oauth', server_url: `https://${long}.example/${long}` })
  const address = `${markup.replaceAll(/[ "]/g, '')}@${long}.example`
  const endUserId = await addUser(app, address, markup)
  const { runId } = await addThread(app, endUserId, `${markup}${long}${long}`)
  await rate(app, { runId, endUserId }, 'down', `${markup} ${long}${long}`)
  for (const tool of [markup, long + long])
    await recordCall(app, { endUserId, email: address, tool, args: { [markup]: markup }, outcome: 'failed' })
  return app
}

/** Every page that the navigation offers. */
export async function listPages(page: Page): Promise<{ name: string; path: string }[]> {
  const links = page.getByRole('navigation', { name: 'Navigation' }).getByRole('link')
  await links.first().waitFor()
  return links.evaluateAll((all) =>
    (all as { textContent: string; pathname: string }[]).map(({ textContent, pathname }) => ({
      name: textContent.trim(),
      path: pathname,
    })),
  )
}

export async function open(page: Page, { name, path }: { name: string; path: string }): Promise<void> {
  await page.getByRole('navigation', { name: 'Navigation' }).locator(`a[href="${path}"]`).click()
  await page.getByRole('main').getByRole('heading', { level: 1, name, exact: true }).waitFor()
}

const answer = (status: number, code: string, message: string) => (route: Route) =>
  route.fulfill({
    status,
    contentType: 'application/json',
    headers: { 'x-request-id': 'request-7' },
    body: JSON.stringify({ defined: true, code, status, message, data: { code } }),
  })

/** Pages that only explain something, and ask for nothing. */
export const explanations = ['/o/demo/mcp']

/** What pages show, besides who the user is. */
export const isData = (url: URL) => url.pathname.startsWith('/api/') && url.pathname !== '/api/users/me'

/** Failed requests are repeated after pauses, which a test needn't wait for. */
const withoutPauses = `{
  const { setTimeout } = window
  window.setTimeout = (callback, ms, ...rest) => setTimeout(callback, Math.min(ms ?? 0, 20), ...rest)
}`

export const faults = {
  'the server fails': [answer(500, 'INTERNAL_ERROR', 'An Inlay error occurred'), /An Inlay error occurred/],
  'the user may not see it': [answer(403, 'ACCESS_DENIED', 'Access denied'), /Access denied|Only admins/],
  'there is a conflict': [answer(409, 'CONFLICT', 'It was changed meanwhile'), /It was changed meanwhile/],
  'the server can’t be reached': [(route) => route.abort(), /The server can’t be reached/],
} satisfies Record<string, [(route: Route) => Promise<void>, RegExp]>

/** Every page says what is wrong. */
export async function expectTold(app: HttpService, names: (keyof typeof faults)[]): Promise<void> {
  let handle = (route: Route) => route.abort()
  const page = await openDashboard(app, '/o/demo/mcp', {
    initScript: withoutPauses,
    async prepare(fresh) {
      await fresh.route(isData, (route) => handle(route))
    },
  })
  const asking = (await listPages(page)).filter(({ path }) => !explanations.includes(path))
  const silent: string[] = []
  for (const name of names) {
    const [fault, expected] = faults[name]
    handle = fault
    for (const one of asking) {
      await open(page, one)
      const isTold = page.getByRole('main').getByText(expected).first().waitFor({ timeout: 15_000 })
      await isTold.catch(() => silent.push(`${one.path}: ${name}`))
    }
  }
  expect(silent).toEqual([])
  expect(faultsOf(page)).toEqual([])
}
