import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { compileScript, parse } from '@vue/compiler-sfc'
import { compile } from 'svelte/compiler'
import { describe, expect, onTestFinished, test } from 'vitest'
import { startExamples } from '../../../examples/examples.ts'
import { Browser } from '../browser.ts'
import { startTestProvider } from '../oidc-provider.ts'
import { offer, openPage, pageOrigin } from '../page.ts'
import { type Installation, type ServerProcess, useUsedInstallation } from '../processes.ts'
import { documents, readSnippets, runInShell, type Sent, type Snippet } from '../snippets.ts'

const repository = join(import.meta.dirname, '../../..')
const all = documents.flatMap(readSnippets)
const nameOf = ({ file, text }: Snippet) => `${file}: ${text.split('\n')[0]}`
const of = (...languages: string[]) => all.filter(({ language }) => languages.includes(language))

/** Snippets that this file doesn't run, with the reason. All others must work. */
const elsewhere: Record<string, string> = {
  'README.md: npm start': 'the snippets below run against the server that it starts',
  'README.md: npm test': 'it runs this test',
  'docs/agent.md: npm start': 'the snippets below run against the server that it starts',
  'docs/agent.md: OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 npm start':
    'it needs a receiver: telemetry.test.ts',
  'docs/agent.md: MODEL_URL=http://127.0.0.1:11434/v1 MODEL_NAME=llama3.2 npm start':
    'it needs a model server: commands.test.ts',
  'docs/let-an-assistant-use-your-page.md: npm install @mcp-b/webmcp-polyfill': 'it needs the npm registry',
  'docs/migrations.md: npx inlay convert': 'it needs a database from before 0.1.0: convert.test.ts',
  'docs/sign-in.md: npx inlay login --url https://inlay.example.com': 'it needs a browser: login.test.ts',
}
/** Guides whose commands and pages browser/new-user.test.ts runs, as a new user would. */
const guides = ['docs/let-an-assistant-use-your-page.md', 'docs/trust-your-identity-provider.md']

test('every snippet is of a kind that is run, type-checked or parsed, and every exception exists', () => {
  const known = ['sh', 'json', 'html', 'js', 'ts', 'tsx']
  // Diagrams, which GitHub renders.
  expect(all.filter(({ language }) => ![...known, 'mermaid'].includes(language)).map(nameOf)).toEqual([])
  const names = all.map(nameOf)
  expect(Object.keys(elsewhere).filter((name) => !names.includes(name))).toEqual([])
  expect(Object.keys(surroundings).filter((name) => !names.includes(name))).toEqual([])
  expect(guides.filter((file) => !documents.includes(file))).toEqual([])
})

describe('JSON', () => {
  test.each(of('json').map((snippet) => [`${snippet.file}:${snippet.line}`, snippet] as const))(
    '%s can be parsed',
    (_, { text }) => void JSON.parse(text),
  )
})

describe('HTML', () => {
  test.each(of('html').map((snippet) => [`${snippet.file}:${snippet.line}`, snippet] as const))(
    '%s closes its elements',
    (_, { text }) => {
      const open: string[] = []
      for (const [, slash, name = ''] of text.replace(/<!--.*?-->/gs, '').matchAll(/<(\/?)([a-z][\w-]*)[^>]*>/g)) {
        if (slash) expect(open.pop()).toBe(name)
        else open.push(name)
      }
      expect(open).toEqual([])
    },
  )
})

/** Code around a snippet in its reader's program. `SNIPPET` marks its place; snippets without an entry stand alone. */
const surroundings: Record<string, string> = {
  'docs/adding-a-capability.md: return database.asOrg(caller.organization.id, async (sql) => {': `
    import { type OrgCaller, trailOf } from '../../server/src/kernel/foundation/caller.ts'
    import { recordAudit } from '../../server/src/kernel/stores/audit/audit.ts'
    import type { Database, Sql } from '../../server/src/kernel/stores/database.ts'
    declare function selectKey(sql: Sql, id: string): Promise<object>
    export async function create(
      { database }: { database: Database }, caller: OrgCaller, id: string, name: string, allowed_origins: string[], key: string,
    ) { SNIPPET }`,
  "docs/adding-a-capability.md: const keysQuery = read(['keys'], (signal) => api.GET('/publishable-keys', { signal }))": `
    import { useMutation, useQuery } from '@tanstack/react-query'
    import type { ReactNode } from 'react'
    import { t } from '../../dashboard/src/pages/keys/texts.ts'
    import { api, queryClient, read, unwrap } from '../../dashboard/src/session/api.ts'
    import { useOrganization } from '../../dashboard/src/session/me.ts'
    import { PageHeader } from '../../dashboard/src/ui/display/layout.tsx'
    import { EmptyState } from '../../dashboard/src/ui/display/states.tsx'
    import { notify } from '../../dashboard/src/ui/overlays/toasts.tsx'
    import { DataTable } from '../../dashboard/src/ui/tables/data-table.tsx'
    declare function KeyForm(form: {
      onSubmit: (name: string) => void; isPending: boolean; error: Error | null
    }): ReactNode
    SNIPPET`,
  "docs/agent.md: import { HttpAgent } from '@ag-ui/client'": `
    declare const token: string
    declare function show(text: string): void
    SNIPPET`,
  'docs/agent.md: const url = new URL(location.href)': `
    declare const token: string
    declare function post(path: string, body: object, token: string): Promise<Response>
    SNIPPET
    export {}`,
  'docs/let-an-assistant-use-your-page.md: await document.modelContext.registerTool({': `
    import '@mcp-b/webmcp-types'
    declare function searchProducts(query: unknown): Promise<string>
    declare function addToCart(id: unknown): Promise<string>
    SNIPPET`,
  'docs/widget.md: await document.modelContext.registerTool({': `
    import '@mcp-b/webmcp-types'
    declare function addToCart(id: unknown): Promise<string>
    SNIPPET`,
  "docs/widget.md: const agent = document.querySelector('inlay-agent')": `
    import '@inlay/widget/define'
    declare const helpButton: HTMLButtonElement
    declare const orderButton: HTMLButtonElement
    SNIPPET`,
  "docs/widget.md: document.querySelector('inlay-agent')?.setHostContext({": "import '@inlay/widget/define'\nSNIPPET",
  "docs/sign-in.md: import * as client from 'openid-client'": 'declare const back: URL\nSNIPPET',
  "docs/widget.md: import { InlayAgent } from '@inlay/widget/react'": `
    import * as React from 'react'
    declare function getIdToken(): Promise<string>
    SNIPPET`,
  "tool-server/README.md: import { Hono } from 'hono'": `
    declare function handle(request: Request, caller: Caller): Promise<Response>
    declare const process: { env: { HUB_SECRET: string; TOKEN_SECRET: string } }
    SNIPPET`,
  "tool-server/README.md: { subject: '00u1a2b3', issuer: 'https://acme.okta.com', clientId: 'acme-hub', scopes: ['mcp:tools:call'], email: 'ann@acme.com' }": `
    import type { Caller } from '@inlay/tool-server'
    export const caller: Caller = SNIPPET`,
  "tool-server/README.md: import { authorize, serve } from '@inlay/tool-server/node'": `
    import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
    import type { Caller, ToolServer } from '@inlay/tool-server'
    declare const toolServer: ToolServer
    declare function handle(request: IncomingMessage, response: ServerResponse, caller: Caller): void
    SNIPPET`,
  'tool-server/README.md: const replays = {': `
    import type { Redis } from 'ioredis'
    import type { ReplayStore } from '@inlay/tool-server'
    declare const redis: Redis
    SNIPPET
    export const store: ReplayStore = replays`,
  "tool-server/README.md: import { createTransactionTokens, transactionHeader } from '@inlay/tool-server/transaction-tokens'": `
    import type { JWK } from 'jose'
    import type { Caller } from '@inlay/tool-server'
    declare const privateJwk: JWK
    declare const caller: Caller
    SNIPPET`,
  "tool-server/README.md: import { createTransactionVerifier } from '@inlay/tool-server/transaction-tokens'": `
    import type { JSONWebKeySet } from 'jose'
    import { toResponse } from '@inlay/tool-server'
    declare const jwks: JSONWebKeySet
    export async function answer(request: Request) { SNIPPET }`,
}

test('TypeScript compiles against the packages that it imports', () => {
  expect(checkTypes(of('ts', 'tsx'), {})).toBe('')
})

test('JavaScript does too, as far as types can tell', () => {
  expect(checkTypes(of('js'), { strict: false })).toBe('')
})

describe('components', () => {
  const scripts = { Vue: '<script setup lang="ts">', Svelte: '<script lang="ts">' }
  const find = (script: string) => {
    const [found, ...others] = of('html').filter(({ text }) => text.startsWith(script))
    if (!found || others.length > 0) throw new Error(`There must be one snippet with ${script}`)
    return found
  }

  test('the one for Vue compiles, and its template only uses names of its script', () => {
    const compilerOptions = { isCustomElement: (tag: string) => tag === 'inlay-agent' }
    const { descriptor, errors } = parse(find(scripts.Vue).text, { templateParseOptions: compilerOptions })
    expect(errors).toEqual([])
    const { content } = compileScript(descriptor, {
      id: 'docs',
      inlineTemplate: true,
      templateOptions: { compilerOptions },
    })
    expect(content).toContain('onInlayMessage: onMessage')
    expect(content, 'names that the script doesn’t define').not.toMatch(/_ctx\./)
  })

  test('the one for Svelte compiles without warnings', () => {
    expect(compile(find(scripts.Svelte).text, { runes: true }).warnings).toEqual([])
  })

  test.each(Object.entries(scripts))(
    'the script, the listeners and the calls of the one for %s have the right types',
    (_, script) => {
      const snippet = find(script)
      const [, code = ''] = snippet.text.match(/^<script[^>]*>\n(.*?)<\/script>/s) ?? []
      const listeners = [...snippet.text.matchAll(/(?:@|\bon)(inlay-[a-z-]+)=["{](\w+)/g)]
      const calls = [...snippet.text.matchAll(/(?:@click="|onclick=\{\(\) => )([^"}]+)/g)]
      expect([listeners.length, calls.length]).toEqual([1, 1])
      const text = [
        code.replace(/^ +/gm, ''),
        ...listeners.map(
          ([, name, handler]) =>
            `export const element = (agent: InlayAgent) => agent.addEventListener('${name}', ${handler})`,
        ),
        ...calls.map(([, call]) => `export const click = (agent: InlayAgent | undefined) => ${call}`),
      ].join('\n')
      const bundler = { module: 'esnext', moduleResolution: 'bundler' }
      expect(checkTypes([{ ...snippet, language: 'ts', text }], bundler, frameworkFiles)).toBe('')
    },
  )
})

/** What the components import, apart from the widget. Vue's own types would be 20 more packages. */
const frameworkFiles = {
  'session.ts': 'export const getIdToken = async () => ""',
  'frameworks.d.ts': `
    declare module 'vue' {
      export function onMounted(run: () => unknown): void
      export function useTemplateRef<Type>(name: string): { readonly value: Type | null }
    }
    declare module 'svelte' {
      export function onMount(run: () => unknown): void
    }
    declare function $state<Type>(): Type | undefined`,
}

/** Returns the compiler's errors. */
function checkTypes(snippets: Snippet[], options: object, files: Record<string, string> = {}): string {
  mkdirSync(join(repository, 'test-results'), { recursive: true })
  const folder = mkdtempSync(join(repository, 'test-results/snippets-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const source = (path: string) => [join(repository, path)]
  const paths = {
    '@inlay/tool-server': source('tool-server/src/tool-server.ts'),
    '@inlay/tool-server/*': source('tool-server/src/*.ts'),
    '@inlay/widget': source('widget/src/inlay-agent.ts'),
    '@inlay/widget/*': source('widget/src/*.ts'),
  }
  // A separate application may be less strict than this one.
  const lenient = { exactOptionalPropertyTypes: false, noImplicitAny: false }
  const compilerOptions = { lib: ['esnext', 'dom'], jsx: 'react-jsx', ...lenient, paths, ...options }
  const config = { extends: '../../tsconfig.json', compilerOptions, include: ['*'] }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config))
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  for (const [index, snippet] of snippets.entries()) {
    const around = surroundings[nameOf(snippet)] ?? 'SNIPPET'
    // Imports must be at the top, wherever the snippet goes.
    const imports = snippet.text.match(/^import .*$/gm) ?? []
    const rest = snippet.text.replace(/^import .*$/gm, '').trim()
    const filled = around.replace('SNIPPET', () => `${rest}\n`)
    const text = [`// ${snippet.file}:${snippet.line}`, ...imports, filled, 'export {}'].join('\n')
    writeFileSync(join(folder, `snippet-${index}.${snippet.language === 'tsx' ? 'tsx' : 'ts'}`), text)
  }
  const compiler = join(repository, 'node_modules/.bin/tsc')
  const { status, stdout, stderr } = spawnSync(compiler, ['-p', folder], { encoding: 'utf8' })
  return status === 0 ? '' : `${stdout}${stderr}`
}

test('shell commands of every document work in order', async () => {
  const inlay = useUsedInstallation()
  const server = await inlay.start()
  const examples = await startExamples({ inlayUrl: server.url, token: () => inlay.token('admin@demo.test', 'demo') })
  onTestFinished(() => examples.stop())
  const ports: Record<string, string> = {
    8787: server.url,
    8788: examples.shopUrl,
    8789: examples.identityProviderUrl,
    8790: examples.toolServerUrl,
    8791: examples.ordersUrl,
  }
  const fill = (text: string) =>
    text
      .replace(/\b(?:http:\/\/)?localhost:(87\d\d)\b/g, (_, port) => ports[port] ?? '')
      // A second server on this machine.
      .replace('INLAY_PUBLIC_URL=', `INLAY_DATA_DIR=${inlay.dataDir}-production INLAY_PUBLIC_URL=`)
      // A model that an organization brings. The test needs no network, and the guide explains failed tests.
      .replace('https://api.openai.com/v1', `${server.url}/v1`)
      .replace('--org acme', '--org demo')
      .replace('.inlay /backups/', `${inlay.dataDir} ${inlay.dataDir}-backup-`)

  /** Prerequisites of a document beyond a running server. Returns its reader's variables. */
  const preparations: Record<string, () => Promise<Record<string, string>>> = {
    'docs/mcp.md': () => openShop(inlay, server),
    'docs/sign-in.md': () => signInWith(readSnippets('docs/sign-in.md'), server.url),
  }
  /** Requests that are expected to fail, by document. */
  const failing: Record<string, Record<number, number>> = {
    // A request without a token, and one with the wrong kind of token.
    'docs/delegated-identity.md': { 4: 401, 9: 401 },
  }
  const last = 'docs/operations.md' // It stops the server.
  const files = new Set(of('sh').map(({ file }) => file)).difference(new Set([...guides, last]))
  for (const file of [...files, last]) {
    const snippets = readSnippets(file).filter((one) => one.language === 'sh' && !elsewhere[nameOf(one)])
    const variables = (await preparations[file]?.()) ?? {}
    const env = { INLAY_DATA_DIR: inlay.dataDir, PORT: '0', INLAY_DRAIN_SECONDS: '0', PID: String(server.pid) }
    const programs = readSnippets(file).filter(({ language }) => language === 'js')
    const sent = await runInShell(snippets, { fill, env: { ...env, ...variables }, programs })
    for (const [index, request] of sent.entries()) checkResponse(request, failing[file]?.[index] ?? 200)
    expect(sent, file).toHaveLength(snippets.flatMap(({ text }) => text.match(/\bcurl\b/g) ?? []).length)
  }
  expect((await server.finished).code).toBe(0)
})

function checkResponse({ at, status, body }: Sent, expected: number): void {
  const isCreated = expected === 200 && status === 201
  expect({ at, status: isCreated ? 200 : status, body }).toMatchObject({ at, status: expected })
  // An MCP response contains its error.
  if (expected === 200) expect(body, at).not.toMatch(/"isError":\s*true|"error":\s*\{/)
}

/** A page of the demo's administrator that offers the tools that the documentation calls. */
async function openShop(inlay: Installation, server: ServerProcess): Promise<Record<string, string>> {
  const provider = await startTestProvider()
  onTestFinished(() => provider.stop())
  const token = await inlay.token('admin@demo.test', 'demo')
  const trust = { idp_type: 'custom_oidc', idp_issuer: provider.issuer, allowed_audiences: ['shop'] }
  await server.call('PATCH', '/api/identity-providers/config', { token, body: trust })
  const { body: key } = await server.call('POST', '/api/publishable-keys', { token, body: { name: 'Shop' } })
  const id_token = await provider.idToken({ sub: 'ann', email: 'admin@demo.test', email_verified: true })
  const body = { publishable_key: key.key, id_token, embedding_origin: pageOrigin }
  const { ticket } = (await server.call('POST', '/api/auth/pk-ticket', { body })).body
  const page = await openPage(server.url, ticket)
  await offer(page, 'add_to_cart')
  page.answer(({ args }) => args)
  return {}
}

/** Runs the program that signs in with openid-client. A user allows it on the pages that it opens. */
async function signInWith(snippets: Snippet[], url: string): Promise<Record<string, string>> {
  const program = snippets.find(({ language }) => language === 'js')?.text ?? ''
  const folder = mkdtempSync(join(repository, 'test-results/sign-in-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const waiting = '// The browser opens `address`'
  expect(program).toContain(waiting)
  const text = program.replace('http://localhost:8787', url).replace(waiting, 'const back = await visit(address)\n//')
  writeFileSync(
    join(folder, 'sign-in.mjs'),
    `${text.replace(/^import .*$/m, '$&\nexport let visit; export default async (browser) => { visit = browser')}
    return { CLIENT_ID: config.clientMetadata().client_id, REFRESH_TOKEN: fresh.refresh_token } }`,
  )
  const { default: run } = await import(join(folder, 'sign-in.mjs'))
  return run(async (address: URL) => {
    const browser = await new Browser(url).open(address)
    await browser.press('admin@demo.test')
    await browser.press('Allow')
    return browser.left
  })
}
