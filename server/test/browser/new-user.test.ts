import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { expect, onTestFinished, test } from 'vitest'
import { startTestProvider } from '../oidc-provider.ts'
import { useInstallation } from '../processes.ts'
import { readSnippets, runInShell, type Snippet } from '../snippets.ts'
import { usePage } from './chromium.ts'
import { clickChoice, frameOf, waitUntilConnected } from './widget/shop.ts'

const repository = join(import.meta.dirname, '../../..')

/** A guide's snippets by language. */
function readGuide(file: string) {
  const snippets = readSnippets(file)
  const of = (language: string) => snippets.filter((one) => one.language === language)
  return { sh: of('sh'), html: of('html'), js: of('js'), json: of('json') }
}
const trust = readGuide('docs/trust-your-identity-provider.md')
const assistant = readGuide('docs/let-an-assistant-use-your-page.md')
const widget = readGuide('docs/widget.md')

const textOf = (snippet: Snippet | undefined) => snippet?.text ?? ''
/** The arguments of the guide's `call`. */
const callIn = (snippet: Snippet | undefined) => JSON.parse(textOf(snippet).match(/^call '(.*)'$/m)?.[1] ?? '')

/** The reader's own application, on its own port, with a page for every path. */
async function startApplication(idToken: () => Promise<string>) {
  const pages = new Map<string, string>()
  const polyfill = textOf(assistant.html[1]).match(/node_modules\/\S+\.js/)?.[0] ?? ''
  const server = createServer(async (request, response) => {
    const page = pages.get(request.url ?? '')
    if (request.url === '/session') response.end(JSON.stringify({ idToken: await idToken() }))
    else if (request.url === '/webmcp-polyfill.js') response.end(readFileSync(join(repository, polyfill)))
    else response.setHeader('content-type', 'text/html; charset=utf-8').end(page ?? '')
  })
  await new Promise<void>((resolve) => server.listen(0, 'localhost', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://localhost:${(server.address() as AddressInfo).port}`
  return {
    url,
    /** A page of these parts, with the functions that the guides expect of the page. */
    show(path: string, parts: string[]): string {
      const own = `<script>
        const cart = []
        const addToCart = (product) => ({ cart: cart.push(product) && cart })
        const searchProducts = (query) => ({ found: [query] })
      </script>`
      pages.set(path, ['<!doctype html><title>Shop</title>', own, ...parts].join('\n'))
      return url + path
    },
  }
}

const module = (text: string) => `<script type="module">${text}</script>`

test('a new user who follows the guides gets an assistant that uses their own page', async () => {
  const inlay = useInstallation()
  const server = await inlay.start()
  const provider = await startTestProvider()
  onTestFinished(() => provider.stop())
  for (const command of [
    'user add --email you@example.com',
    'org add --name Yours --slug your-organization --admin you@example.com',
    'user add --email user@example.com --org your-organization',
  ])
    expect(await inlay.run(command)).toMatchObject({ code: 0 })
  const idToken = () => provider.idToken({ sub: 'u1', email: 'user@example.com', email_verified: true })
  const application = await startApplication(idToken)

  const vendorBody = trust.json.find(({ text }) => text.includes('"custom_oidc"'))
  const body = textOf(vendorBody)
    .replace('https://login.example.com/realms/acme', provider.issuer)
    .replace('my-web-app', 'shop')
  expect(JSON.parse(body)).toEqual({
    idp_type: 'custom_oidc',
    idp_issuer: provider.issuer,
    allowed_audiences: ['shop'],
  })
  const fill = (text: string) =>
    text
      .replaceAll('https://inlay.example.com', server.url)
      .replace(/https:\/\/(shop|app)\.example\.com/g, application.url)
      // The reader uses the request body for their own vendor.
      .replace(/-d '\{[^']*"allowed_audiences"[^']*\}'/, `-d '${body}'`)
      .replace('"client_secret": "…"', '"client_secret": "a-panel-secret"')
      .replace(
        /-d '\{[^']*"idp_type": "okta"[^']*\}'/,
        `-d '{"idp_type": "custom_oidc", "idp_issuer": "${provider.issuer}"}'`,
      )
  // A reader's shell keeps INLAY after the first snippet.
  const env = { INLAY_DATA_DIR: inlay.dataDir, INLAY: server.url }
  const run = async (snippets: Snippet[], variables = {}) => {
    const sent = await runInShell(snippets, { fill, env: { ...env, ...variables } })
    for (const { at, status, body } of sent) expect({ at, status, body }).toMatchObject({ at, status: 200 })
    return sent.map(({ body }) => JSON.parse(body))
  }

  const [createKey, install, ...calls] = assistant.sh
  expect(textOf(install)).toContain('npm install')
  const [key] = await run(createKey ? [createKey] : [])
  expect(key).toMatchObject({ allowed_origins: [application.url] })
  const [config, panel, tested, ticket, refusals] = await run(trust.sh, { KEY: key.key, ID_TOKEN: await idToken() })
  expect(config).toMatchObject({ idp_type: 'custom_oidc', idp_issuer: provider.issuer })
  expect(panel).toMatchObject({ is_active: true, client: { client_id: 'inlay-panel' } })
  // The documented response has the fields of a real one.
  const example = JSON.parse(textOf(trust.json[0]))
  const steps = example.steps.map((step: object) => ({ ...step, message: expect.any(String) }))
  expect(tested).toEqual({ ...example, issuer: provider.issuer, jwks_uri: `${provider.issuer}/jwks`, steps })
  expect(ticket).toMatchObject({ ticket: expect.any(String), userId: expect.any(String) })
  expect(refusals.refusals).toEqual([])

  const withKey = (text: string) => fill(text).replace('pk_live_…', key.key)
  const [tag, polyfill] = assistant.html.map(({ text }) => withKey(text))
  const tools = textOf(assistant.js.find(({ text }) => text.includes('registerTool')))
  const page = await usePage()
  await page.goto(application.show('/', [polyfill ?? '', tag ?? '', module(tools)]))
  await waitUntilConnected(page)

  const client = new Client({ name: 'assistant', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } })
  const address = fill(JSON.parse(textOf(assistant.json[0])).mcpServers.inlay.url)
  const token = await inlay.token('user@example.com', 'your-organization')
  const requestInit = { headers: { authorization: `Bearer ${token}` } }
  await client.connect(new StreamableHTTPClientTransport(new URL(address), { requestInit }))
  onTestFinished(() => client.close())

  const [define, list, callOnce, callSource, records] = calls
  expect(calls).toHaveLength(5)
  const listed = async () => {
    const { structuredContent } = await client.callTool(callIn(list))
    return structuredContent as { count: number; tools: { name: string; sources: { sourceId: string }[] }[] }
  }
  await expect.poll(async () => (await listed()).tools.map(({ name }) => name)).toEqual(['add_to_cart'])
  const source = (await listed()).tools[0]?.sources[0]?.sourceId ?? ''
  const [inShell] = await run([define, list] as Snippet[])
  const shown = inShell.result.structuredContent as Awaited<ReturnType<typeof listed>>
  expect(shown.tools.map(({ name, sources }) => [name, sources[0]?.sourceId])).toEqual([['add_to_cart', source]])

  const question = frameOf(page).getByRole('alertdialog')
  const called = client.callTool(callIn(callOnce))
  await question.getByText('"ink-blue"').waitFor()
  await clickChoice(question.getByRole('button', { name: 'Allow once' }))
  expect((await called).structuredContent).toEqual({ cart: ['ink-blue'] })

  const named = { ...callSource, text: textOf(callSource).replace('"source_id": "…"', `"source_id": "${source}"`) }
  const again = run([define, named] as Snippet[])
  await question.getByText('"ink-blue"').waitFor()
  await clickChoice(question.getByRole('button', { name: 'Allow once' }))
  const [{ result }] = await again
  expect(result.structuredContent).toEqual({ cart: ['ink-blue', 'ink-blue'] })

  const [{ tool_calls }] = await run(records ? [records] : [])
  const call = { user_email: 'user@example.com', tool: 'add_to_cart', source: application.url, outcome: 'succeeded' }
  expect(tool_calls).toMatchObject([
    { ...call, approval: 'allowed' },
    { ...call, approval: 'allowed' },
  ])

  // The page from docs/widget.md, for a user and for a visitor.
  const [visitorTag, userTag, ...more] = widget.html.map(({ text }) => withKey(text))
  const widgetPolyfill = more.find((text) => text.includes('webmcp-polyfill.js'))
  const other = await usePage()
  const widgetTools = textOf(widget.js.find(({ text }) => text.includes('registerTool')))
  await other.goto(application.show('/widget', [widgetPolyfill ?? '', userTag ?? '', module(widgetTools)]))
  await waitUntilConnected(other)
  // The tool's description changed, so it is a different tool.
  await expect.poll(async () => (await listed()).tools.map(({ name }) => name)).toEqual(['add_to_cart', 'add_to_cart'])
  const visitor = await usePage()
  await visitor.goto(application.show('/visitor', [visitorTag ?? '']))
  await waitUntilConnected(visitor)
})
