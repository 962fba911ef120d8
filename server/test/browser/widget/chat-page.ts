import type { Page } from 'playwright-core'
import { type HttpService, startHttpService } from '../../http-server.ts'
import { type Script, type ScriptedModel, startScriptedModel } from '../../scripted-model.ts'
import { type PageOptions, usePage, useSite } from '../chromium.ts'
import { frameOf, waitUntilConnected } from './shop.ts'
import { webMcpForms } from './web-mcp.ts'

/** A server whose agent says what a test wants, also to visitors who aren't signed in. */
export interface ChatService extends HttpService {
  model: ScriptedModel
  key: string
  configure(changes: object): Promise<void>
}

export async function startChatService(script: Script = () => ({ text: ['Hello'] })): Promise<ChatService> {
  const model = await startScriptedModel(script)
  const app = await startHttpService({ MODEL_URL: model.url, MODEL_NAME: 'scripted' })
  const token = () => app.tokenFor('admin@demo.test', 'demo')
  const configure = async (body: object) => {
    const { status } = await app.request('PATCH', '/agent/config', { token: await token(), body })
    if (status !== 200) throw new Error(`The agent’s settings were refused: ${status}`)
  }
  await configure({ anonymous: { is_enabled: true, runs_per_minute: 60 } })
  const body = { name: 'Chat', allowed_origins: [] }
  const { body: created } = await app.request('POST', '/publishable-keys', { token: await token(), body })
  return {
    ...app,
    model,
    key: created.key,
    configure,
    async close() {
      await app.close()
      model.close()
    },
  }
}

/** A tool of the page. `result` is what it returns; its calls are counted in `window.ran`. */
export interface SiteTool {
  name: string
  title?: string
  description: string
  inputSchema?: object
  annotations?: object
  result?: unknown
}

export interface ChatPageOptions extends PageOptions {
  tools?: SiteTool[]
  attributes?: string
  /** HTML before the widget's script. */
  head?: string
}

/** A value for a script that no text can end. */
export const quote = (value: unknown) => JSON.stringify(value).replaceAll('<', '\\u003c')

/** A page of another site than the server's, with the panel open. */
export async function visitChat(app: ChatService, options: ChatPageOptions = {}): Promise<Page> {
  // Each visitor comes from the same address, whose messages per minute are limited.
  app.clock.now += 61_000
  const { tools = [], attributes = 'open', head = '', initScript = '', ...more } = options
  const page = await usePage({ ...more, initScript: `${webMcpForms.object.initScript};${initScript}` })
  await page.goto(
    await useSite(`<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Page</title>
      <meta name="viewport" content="width=device-width, initial-scale=1">${head}
      <script>
        window.ran = []
        for (const { result = 'done', ...tool } of ${quote(tools)})
          document.modelContext.registerTool({
            ...tool,
            execute(input) {
              ran.push({ name: tool.name, input })
              return result
            },
          })
      </script>
      <script src="${app.url}/widget.js"></script></head>
      <body><main><h1>Page</h1></main><inlay-agent publishable-key="${app.key}" ${attributes}></inlay-agent></body></html>`),
  )
  await waitUntilConnected(page)
  return page
}

export async function write(page: Page, text: string): Promise<void> {
  const field = frameOf(page).getByRole('textbox', { name: 'Message to the agent' })
  await field.fill(text)
  await field.press('Enter')
}
