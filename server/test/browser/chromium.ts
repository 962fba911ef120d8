import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { onTestFinished } from 'vitest'

const repository = join(import.meta.dirname, '../../..')

/** Started once per test worker, with its first page. They end with the worker. */
const browsers = new Map<string, Promise<Browser>>()

export interface PageOptions extends BrowserContextOptions {
  /** A browser beyond the defaults. */
  feature?: keyof typeof featureOptions
  /** Runs in every document before the document's own scripts. */
  initScript?: string
}

const featureOptions = {
  WebMCP: '--enable-features=WebMCP',
  /**
   * Keeps what frames store once per site, as browsers do for everybody. Playwright turns it off with this option, of
   * which the last one counts.
   */
  'storage per site': '--disable-features=HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,MediaRouter,OptimizationHints',
}

/** A page with a fresh profile: no cookies, no storage. */
export async function usePage({ feature, initScript, ...options }: PageOptions = {}): Promise<Page> {
  const browser = browsers.get(feature ?? '') ?? launch(feature ? [featureOptions[feature]] : [])
  browsers.set(feature ?? '', browser)
  const context = await (await browser).newContext(options)
  // The machine may be busy.
  context.setDefaultTimeout(60_000)
  if (initScript) await context.addInitScript(initScript)
  const page = await context.newPage()
  onTestFinished(async ({ task }) => {
    const path = join(repository, 'test-results/browser', `${task.name.replace(/\W+/g, '-')}.png`)
    if (task.result?.state === 'fail') await page.screenshot({ path, fullPage: true })
    // A page that is left says goodbye to the server. One that is closed often can't, and the server waits for it.
    // A page that couldn't be loaded may still be on its way to an error page.
    for (const open of context.pages()) await open.goto('about:blank').catch(() => undefined)
    await context.close()
  })
  return page
}

function launch(more: string[]): Promise<Browser> {
  const parts = JSON.parse(readFileSync(join(repository, 'node_modules/.inlay-test-parts.json'), 'utf8'))
  return chromium.launch({
    executablePath: parts.chromium,
    // Containers don't support the sandbox. Only this computer's name is resolved, so no request leaves it.
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

/** A site on its own port that serves one page for every path. */
export async function useSite(html: string | (() => string)): Promise<string> {
  const server = createServer((_, response) =>
    response.setHeader('content-type', 'text/html').end(typeof html === 'string' ? html : html()),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
