import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { afterAll, onTestFinished } from 'vitest'

const repository = join(import.meta.dirname, '../../..')

/** One of each kind for a test file, from its first page on. */
const browsers = new Map<string, Promise<Browser>>()
afterAll(async () => {
  for (const browser of browsers.values()) await (await browser).close()
})

export interface PageOptions extends BrowserContextOptions {
  /** What this browser can do beyond the usual. */
  feature?: 'WebMCP'
  /** Runs in every document before the document's own scripts. */
  initScript?: string
}

/** A page of somebody whom nothing knows yet: no cookies, nothing kept. */
export async function usePage({ feature, initScript, ...options }: PageOptions = {}): Promise<Page> {
  const browser = browsers.get(feature ?? '') ?? launch(feature ? [`--enable-features=${feature}`] : [])
  browsers.set(feature ?? '', browser)
  const context = await (await browser).newContext(options)
  if (initScript) await context.addInitScript(initScript)
  const page = await context.newPage()
  onTestFinished(async ({ task }) => {
    const path = join(repository, 'test-results/browser', `${task.name.replace(/\W+/g, '-')}.png`)
    if (task.result?.state === 'fail') await page.screenshot({ path, fullPage: true })
    // One after the other, so that each can say goodbye to its server; a context ends those beyond the first at once.
    for (const open of context.pages()) await open.close()
    await context.close()
  })
  return page
}

function launch(more: string[]): Promise<Browser> {
  const parts = JSON.parse(readFileSync(join(repository, 'node_modules/.inlay-test-parts.json'), 'utf8'))
  return chromium.launch({
    executablePath: parts.chromium,
    // Containers have no sandbox to give; no name but this computer's is looked up, so nothing leaves it.
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1',
      ...more,
    ],
  })
}

/** A site on a port of its own that shows one page, whatever is asked for. */
export async function useSite(html: string): Promise<string> {
  const server = createServer((_, response) => response.setHeader('content-type', 'text/html').end(html))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
