import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import type { FrameLocator, Locator, Page } from 'playwright-core'
import { onTestFinished } from 'vitest'
import { type Examples, startExamples } from '../../../../examples/examples.ts'
import type { Email } from '../../harness.ts'
import { type HttpService, startHttpService } from '../../http-server.ts'
import { type PageOptions, usePage } from '../chromium.ts'

export interface ShopService extends HttpService {
  shopUrl: string
  /** How far the server's clock is ahead of the real time, in milliseconds. */
  setAhead(ms: number): void
}

/** A server, and the example shop with the widget. */
export async function startShop(): Promise<ShopService> {
  const app = await startHttpService()
  // The identity provider uses the real time.
  let ahead = 0
  const clockwork = setInterval(() => {
    app.clock.now = Date.now() + ahead
  }, 100)
  const token = () => app.tokenFor('admin@demo.test', 'demo')
  const examples: Examples = await startExamples({ inlayUrl: app.url, token })
  return {
    ...app,
    shopUrl: examples.shopUrl,
    setAhead(ms) {
      ahead = ms
    },
    async close() {
      clearInterval(clockwork)
      examples.stop()
      await app.close()
    },
  }
}

/** The shop in a browser, as a user of its identity provider, with the widget connected. */
export async function visitShop(shopUrl: string, person: string, options?: PageOptions): Promise<Page> {
  const page = await usePage(options)
  await page.goto(shopUrl)
  await page.getByRole('link', { name: 'Sign in' }).click()
  await page.getByRole('button', { name: person }).click()
  await page.getByText(`Hello, ${person}`).waitFor()
  await waitUntilConnected(page)
  return page
}

export const frameOf = (page: Page): FrameLocator => page.frameLocator('inlay-agent iframe')

/** Shows the calls of this page's tools, and the tools. */
export const openActivity = (page: Page): Promise<void> =>
  frameOf(page).getByRole('button', { name: 'Activity', exact: true }).click()

export const waitUntilConnected = (page: Page): Promise<void> =>
  frameOf(page).locator('html[data-state="connected"]').waitFor({ state: 'attached' })

/** Waits until the panel has stopped moving: until then, browsers ignore clicks in it, and questions take no answer. */
export async function waitForQuestion(page: Page): Promise<void> {
  const choice = frameOf(page).getByRole('button', { name: 'Allow once' })
  await choice.hover()
  await choice.click({ trial: true })
}

/** Clicks a choice of a question. It only counts once the mouse has been in the frame for a moment. */
export async function clickChoice(choice: Locator): Promise<void> {
  await choice.hover()
  await choice.click()
}

/** Confirms the browser as a user does. They're still signed in at the identity provider, which asks for nothing. */
export async function confirmBrowser(page: Page): Promise<void> {
  const button = frameOf(page).getByRole('button', { name: 'Confirm this browser' })
  await button.hover()
  const opened = page.waitForEvent('popup')
  await button.click()
  const popup = await opened
  if (!popup.isClosed()) await popup.waitForEvent('close')
  await button.waitFor({ state: 'detached' })
}

export type Assistant = Awaited<ReturnType<typeof useAssistant>>

/** An MCP client that acts for a member of the demo organization. */
export async function useAssistant(app: HttpService, email: Email, clientToken?: string) {
  const token = clientToken ?? (await app.tokenFor(email, 'demo'))
  const client = new Client({ name: 'assistant', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } })
  const requestInit = { headers: { authorization: `Bearer ${token}` } }
  await client.connect(new StreamableHTTPClientTransport(new URL(`${app.url}/mcp`), { requestInit }))
  onTestFinished(() => client.close())
  const call = (name: string, args: Record<string, unknown> = {}, signal?: AbortSignal) =>
    client.callTool({ name, arguments: args }, { ...(signal && { signal }) })
  async function sources(): Promise<
    { sourceId: string; title: string; url: string; origin: string; toolCount: number; lastSeenAt: string }[]
  > {
    return ((await call('hub_list_sources')).structuredContent as { sources: [] }).sources
  }
  return {
    sources,
    /** Sources of all open pages of the user. Waits until a page that an earlier test left is dropped. */
    toolCounts: async () => (await sources()).map(({ toolCount }) => toolCount),
    /** Calls a tool of an open page. */
    use: (tool_name: string, args: Record<string, unknown> = {}, source_id?: string, signal?: AbortSignal) =>
      call('hub_call_tool', { tool_name, args, ...(source_id && { source_id }) }, signal),
  }
}
