import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { calculateJwkThumbprint, type JWK } from 'jose'
import type { Locator, Page } from 'playwright-core'
import { vi } from 'vitest'
import { type Delegation, startDelegation } from '../../delegation.ts'
import { confirmFrame } from '../../frames.ts'
import { type ScriptedModel, type ScriptedReply, startScriptedModel } from '../../scripted-model.ts'
import { type PageOptions, usePage } from '../chromium.ts'
import { clickChoice, frameOf, waitUntilConnected } from './shop.ts'

/** A site with the widget, which tells users apart by its URL. */
export interface Site {
  /** Opens the site in a page, and waits until the widget is connected. */
  enter(page: Page, visitor?: Visitor): Promise<Page>
  /** How often pages were asked for the ID token of this user. */
  timesAsked(sub: string): number
  stop(): void
}

export interface Visitor {
  /** Subject of the ID token, or null for a visitor who isn't signed in. */
  sub?: string | null
  mode?: 'pip' | 'inline' | 'fullscreen'
  key?: string
}

/** A site whose users talk to an agent with a model that says what a test wants. */
export interface ChatSite extends Delegation, Pick<Site, 'enter' | 'timesAsked'> {
  model: ScriptedModel
  /** The model's next replies. */
  expect(...replies: ScriptedReply[]): void
  visit(visitor?: Visitor, options?: PageOptions): Promise<Page>
  /** Confirms the browser in which the user is talking to the agent, as a sign-in at their provider does. */
  confirm(sub: string): Promise<void>
  /** How far the server's clock is ahead of the real time, in milliseconds. */
  setAhead(ms: number): void
}

export const agentName = 'Desk'

export async function startChatSite(): Promise<ChatSite> {
  let replies: ScriptedReply[] = []
  const model = await startScriptedModel(() => replies.shift() ?? { text: ['I have nothing to say.'] })
  const app = await startDelegation({ MODEL_URL: model.url, MODEL_NAME: 'scripted' })
  // The browser uses the real time.
  let ahead = 0
  const clockwork = setInterval(() => {
    app.clock.now = Date.now() + ahead
  }, 100)
  const { body: key } = await app.asAdmin('POST', '/publishable-keys', { name: 'Site' })
  await app.asAdmin('PATCH', '/agent/config', { name: agentName, greeting: 'What can I do for you?' })
  const { stop, ...site } = await startSite(app.url, key.key, app.idp.idToken)
  return {
    ...app,
    ...site,
    model,
    expect(...next) {
      replies = next
    },
    visit: async (visitor, options) => site.enter(await usePage(options), visitor),
    async confirm(sub) {
      const demo = await app.organization('demo')
      // The page shows a message before the server has it, and a run that has ended no longer names its frame.
      const frame = await vi.waitUntil(async () => {
        const [found] = await app.service.database.asOrg(
          demo,
          (sql) => sql<{ id: string; thumbprint: string }>`
            select users.id, runs.holder ->> 'frame_key' as thumbprint
            from end_users users join threads on end_user_id = users.id join runs on thread_id = threads.id
            where external_id = ${sub} and runs.holder ? 'frame_key' order by runs.id desc limit 1`,
        )
        return found
      })
      await confirmFrame(app, frame, frame.id, { issuer: app.idp.url })
    },
    setAhead(ms) {
      ahead = ms
      app.clock.now = Date.now() + ahead
    },
    async close() {
      clearInterval(clockwork)
      stop()
      await app.close()
      model.close()
    },
  }
}

/** The thumbprint of the frame's key, which the conversations that begin in it have. */
export const frameKeyOf = async (page: Page): Promise<string> =>
  calculateJwkThumbprint(
    (await page.frames()[1]?.evaluate(`new Promise((resolve) => {
      indexedDB.open('inlay').onsuccess = ({ target: { result } }) => {
        result.transaction('inlay').objectStore('inlay').get('inlay').onsuccess = ({ target }) =>
          resolve(crypto.subtle.exportKey('jwk', target.result.publicKey))
      }
    })`)) as JWK,
  )

export async function startSite(
  inlayUrl: string,
  publishableKey: string,
  idToken = async (_: Record<string, unknown>) => '',
): Promise<Site> {
  const asked = new Map<string, number>()
  const server = createServer(async ({ url = '/' }, response) => {
    const { pathname, searchParams } = new URL(url, 'http://localhost')
    const sub = searchParams.get('sub') ?? ''
    if (pathname === '/id-token') {
      asked.set(sub, (asked.get(sub) ?? 0) + 1)
      response.end(await idToken({ sub, email: `${sub}@demo.test`, email_verified: true }))
      return
    }
    response.setHeader('content-type', 'text/html').end(describePage(inlayUrl))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  // The frame only has storage if the page is on the same site, which is any port of the same host.
  const siteUrl = `http://localhost:${(server.address() as AddressInfo).port}`
  return {
    async enter(page, { sub = 'ann', mode = 'pip', key = publishableKey } = {}) {
      await page.goto(`${siteUrl}/?${new URLSearchParams({ mode, key, ...(sub !== null && { sub }) })}`)
      await waitUntilConnected(page)
      return page
    },
    timesAsked: (sub) => asked.get(sub) ?? 0,
    stop() {
      server.closeAllConnections()
      server.close()
    },
  }
}

/** Two tools of the page: `refund` asks the user, and shows in the page what it did. */
const describePage = (inlayUrl: string) => `<!doctype html><html lang="en"><head><title>Orders</title>
  <script>
    window.heard = []
    for (const name of ['message', 'tool-call', 'error'])
      addEventListener('inlay-' + name, ({ type, detail }) => heard.push({ type, detail }))
    const integers = (...names) => ({
      type: 'object', properties: Object.fromEntries(names.map((name) => [name, { type: 'integer' }])), required: names,
    })
    const run = {
      refund({ order, amount }) {
        const done = 'Refunded ' + amount + ' for order ' + order
        document.querySelector('ul').append(Object.assign(document.createElement('li'), { textContent: done }))
        return done
      },
      delete_account: () => 'Deleted',
    }
    const tools = [
      { name: 'refund', title: 'Refund an order', description: 'Refunds it', inputSchema: integers('order', 'amount') },
      { name: 'delete_account', description: 'Deletes the account' },
    ].map((tool) => ({ origin, window, ...tool }))
    Object.defineProperty(document, 'modelContext', {
      value: Object.assign(new EventTarget(), {
        getTools: async () => tools,
        executeTool: async ({ name }, input) => run[name](JSON.parse(String(input))),
      }),
    })
  </script>
  <script src="${inlayUrl}/widget.js"></script></head>
  <body><main><h1>Orders</h1><label>Note <input></label><ul aria-label="Done"></ul>
  <inlay-agent></inlay-agent></main>
  <script>
    let { mode, key, sub } = Object.fromEntries(new URLSearchParams(location.search))
    const agent = document.querySelector('inlay-agent')
    agent.displayMode = mode
    const idToken = async () => (await fetch('/id-token?sub=' + sub)).text()
    agent.connect({ publishableKey: key, ...(sub && { idToken }) })
  </script></body></html>`

export const launcher = (page: Page, name: string): Locator => page.getByRole('button', { name, exact: true })

/** What the page's tools have done. */
export const done = (page: Page): Promise<string[]> =>
  page.getByRole('list', { name: 'Done' }).getByRole('listitem').allInnerTexts()

export const press = (page: Page, name: string): Promise<void> =>
  frameOf(page).getByRole('button', { name, exact: true }).click()

export const field = (page: Page): Locator => frameOf(page).getByRole('textbox', { name: 'Message to the agent' })

/** Types a message and sends it. */
export async function write(page: Page, text: string): Promise<void> {
  await field(page).click()
  await page.keyboard.type(text)
  await page.keyboard.press('Enter')
}

export const answers = (page: Page): Locator => frameOf(page).getByRole('article', { name: agentName })

export const messages = (page: Page): Locator => frameOf(page).getByRole('article', { name: 'You' })

export const question = (page: Page): Locator => frameOf(page).getByRole('region', { name: /^Allow / })

export const see = (page: Page, text: string | RegExp): Promise<void> => frameOf(page).getByText(text).first().waitFor()

/** Waits for the end of an answer too. A tab that is reloaded before it has heard of the end takes the answer for news. */
export async function seeAnswer(page: Page, text: string): Promise<void> {
  await answers(page).getByText(text).first().waitFor()
  await frameOf(page).getByRole('button', { name: 'Stop', exact: true }).waitFor({ state: 'hidden' })
}

/** Answers the only question. Chromium ignores clicks on a frame that has just changed its size, so people repeat them. */
export async function choose(page: Page, name: string): Promise<void> {
  const asking = question(page)
  const isGone = () =>
    asking.waitFor({ state: 'hidden', timeout: 1_000 }).then(
      () => true,
      () => false,
    )
  do await Promise.race([clickChoice(asking.getByRole('button', { name })), asking.waitFor({ state: 'hidden' })])
  while (!(await isGone()))
}
