import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import {
  auth as authV2,
  Client as ClientV2,
  StreamableHTTPClientTransport as TransportV2,
} from '@modelcontextprotocol/client'
import { auth as authV1 } from '@modelcontextprotocol/sdk/client/auth.js'
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { Browser } from '../../../test/browser.ts'
import { type HttpService, startHttpService } from '../../../test/http-server.ts'
import { useClientDocument, useHttps } from '../../../test/https-server.ts'
import { allow, claimsOf } from '../../../test/oauth-client.ts'

/** Describes a program on the user's computer and its redirect URI. */
interface Assistant {
  name: string
  /** The redirect URI, with the port that the system picked for this login. */
  redirectUri(port: number): string
  /** The fields of its metadata document besides `client_id`. */
  document: Record<string, unknown>
}

const grants = { grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'] }

const assistants: Assistant[] = [
  {
    // Its document names no port and no application_type.
    name: 'Claude Code',
    redirectUri: (port) => `http://localhost:${port}/callback`,
    document: {
      client_name: 'Claude Code',
      redirect_uris: ['http://localhost/callback', 'http://127.0.0.1/callback'],
      token_endpoint_auth_method: 'none',
      ...grants,
    },
  },
  {
    // Its path has an ID that depends on the MCP server's URL.
    name: 'Codex',
    redirectUri: (port) => `http://127.0.0.1:${port}/callback/abc123ABC_-x`,
    document: {
      client_name: 'Codex',
      application_type: 'native',
      redirect_uris: ['http://127.0.0.1/callback/abc123ABC_-x', 'http://localhost/callback/abc123ABC_-x'],
      token_endpoint_auth_method: 'none',
      ...grants,
    },
  },
]

// biome-ignore lint/suspicious/noExplicitAny: the two SDKs have different types for the same provider
type Provider = any

type Kept = Record<'client' | 'tokens' | 'discovered', Record<string, unknown> | undefined> & { verifier: string }

/** One login: both assistants start each with empty storage and a new discovery. */
function beginLogin(redirectUrl: string, name: string, clientMetadataUrl: string) {
  const kept: Kept = { client: undefined, tokens: undefined, discovered: undefined, verifier: '' }
  const sentTo: URL[] = []
  return { kept, sentTo, provider: makeProvider(kept, sentTo, { redirectUrl, name, clientMetadataUrl }) }
}

function makeProvider(
  kept: Kept,
  sentTo: URL[],
  client: Record<'redirectUrl' | 'name' | 'clientMetadataUrl', string>,
): Provider {
  const { redirectUrl, name, clientMetadataUrl } = client
  return {
    redirectUrl,
    clientMetadataUrl,
    clientMetadata: { client_name: name, redirect_uris: [redirectUrl], token_endpoint_auth_method: 'none', ...grants },
    state: () => 'state',
    clientInformation: () => kept.client,
    saveClientInformation: (information: Kept['client']) => void Object.assign(kept, { client: information }),
    discoveryState: () => kept.discovered,
    saveDiscoveryState: (discovered: Kept['discovered']) => void Object.assign(kept, { discovered }),
    tokens: () => kept.tokens,
    saveTokens: (tokens: Kept['tokens']) => void Object.assign(kept, { tokens }),
    saveCodeVerifier: (verifier: string) => void Object.assign(kept, { verifier }),
    codeVerifier: () => kept.verifier,
    redirectToAuthorization: (address: URL) => void sentTo.push(address),
  }
}

interface Sdk {
  version: string
  /** Opens the browser, or refreshes the token if there is one. */
  authorize(provider: Provider, serverUrl: string): Promise<string>
  finish(provider: Provider, serverUrl: string, answer: URL): Promise<void>
  countTools(provider: Provider, serverUrl: string): Promise<number>
}

const sdks: Sdk[] = [
  {
    version: '1.32',
    authorize: (provider, serverUrl) => authV1(provider, { serverUrl }),
    finish: (provider, serverUrl, { searchParams }) =>
      new TransportV1(new URL(serverUrl), { authProvider: provider }).finishAuth(searchParams.get('code') ?? ''),
    async countTools(authProvider, serverUrl) {
      const client = new ClientV1({ name: 'assistant', version: '1' })
      await client.connect(new TransportV1(new URL(serverUrl), { authProvider }))
      const { tools } = await client.listTools()
      await client.close()
      return tools.length
    },
  },
  {
    version: '2.4',
    authorize: (provider, serverUrl) => authV2(provider, { serverUrl }),
    finish: (provider, serverUrl, { searchParams }) =>
      new TransportV2(new URL(serverUrl), { authProvider: provider }).finishAuth(searchParams),
    async countTools(authProvider, serverUrl) {
      const client = new ClientV2({ name: 'assistant', version: '1' }, { versionNegotiation: { mode: 'auto' } })
      await client.connect(new TransportV2(new URL(serverUrl), { authProvider }))
      const { tools } = await client.listTools()
      await client.close()
      return tools.length
    },
  },
]

/** One with egress, and one whose operator has turned documents off. */
let open: HttpService
let closed: HttpService
beforeAll(async () => {
  open = await startHttpService()
  closed = await startHttpService({ INLAY_CLIENT_METADATA_DOCUMENTS: 'off' })
})
afterAll(() => Promise.all([open.close(), closed.close()]))

async function useService(): Promise<HttpService> {
  const app = await startHttpService()
  onTestFinished(() => app.close())
  return app
}

/** Listens on a port that the system picks, and receives the redirect of the browser. */
async function useCallback({ redirectUri }: Assistant) {
  const server = createServer((_, response) => void response.end('You can close this page.'))
  await once(server.listen(0), 'listening')
  onTestFinished(() => void server.close().closeAllConnections())
  const redirectUrl = redirectUri((server.address() as AddressInfo).port)
  const answer = once(server, 'request').then(([request]) => new URL(request.url, redirectUrl))
  return { redirectUrl, answer }
}

async function signIn(app: HttpService, sdk: Sdk, assistant: Assistant, documentUrl: string) {
  const serverUrl = `${app.url}/mcp`
  const { redirectUrl, answer } = await useCallback(assistant)
  const login = beginLogin(redirectUrl, assistant.name, documentUrl)
  expect(await sdk.authorize(login.provider, serverUrl)).toBe('REDIRECT')
  const [url] = login.sentTo
  if (!url) throw new Error('No browser was opened')
  const browser = new Browser(app.url)
  const page = await browser.open(url)
  const finish = async () => {
    expect((await fetch(await allow({ browser, url, verifier: '' }, 'admin@demo.test'))).status).toBe(200)
    await sdk.finish(login.provider, serverUrl, await answer)
    return String(login.kept.tokens?.access_token)
  }
  return { ...login, url, page, finish, serverUrl, redirectUrl }
}

const useDocument = ({ document }: Assistant) => useClientDocument((client_id) => ({ client_id, ...document }))
/** Every connection fails, as on a network without egress. */
const useUnreachable = async () => `${await useHttps((request) => request.socket.destroy())}/client.json`

const cases = assistants.flatMap((assistant) => sdks.map((sdk) => ({ assistant, sdk })))

describe.each(cases)('$assistant.name with the MCP SDK $sdk.version', ({ assistant, sdk }) => {
  test('signs in with its metadata document, on a port of its choice, and refreshes', async () => {
    const documentUrl = await useDocument(assistant)
    const login = await signIn(open, sdk, assistant, documentUrl)
    expect(Object.fromEntries(login.url.searchParams)).toMatchObject({
      client_id: documentUrl,
      redirect_uri: login.redirectUrl,
      resource: login.serverUrl,
      code_challenge_method: 'S256',
    })
    const first = await login.finish()
    expect(claimsOf(first)).toMatchObject({ aud: login.serverUrl, client_id: documentUrl })
    expect(await sdk.countTools(login.provider, login.serverUrl)).toBeGreaterThan(10)

    expect(await sdk.authorize(login.provider, login.serverUrl), 'a refresh').toBe('AUTHORIZED')
    expect(claimsOf(String(login.kept.tokens?.access_token)).jti).not.toBe(claimsOf(first).jti)
    expect(await sdk.countTools(login.provider, login.serverUrl)).toBeGreaterThan(10)
    expect(login.sentTo).toHaveLength(1)
  })

  test('registers if documents are not offered, and nothing is fetched', async () => {
    let fetches = 0
    const documentUrl = `${await useHttps((request) => {
      fetches += 1
      request.socket.destroy()
    })}/client.json`
    const login = await signIn(closed, sdk, assistant, documentUrl)
    const token = await login.finish()
    expect(claimsOf(token)).toMatchObject({ aud: login.serverUrl, client_id: login.kept.client?.client_id })
    expect(login.kept.client?.client_id).not.toContain('https:')
    expect(fetches).toBe(0)
    expect(await sdk.authorize(login.provider, login.serverUrl), 'a refresh').toBe('AUTHORIZED')
    expect(await sdk.countTools(login.provider, login.serverUrl)).toBeGreaterThan(10)
  })

  test('registers at the second login on a server without egress', async () => {
    const app = await useService()
    const documentUrl = await useUnreachable()
    const first = await signIn(app, sdk, assistant, documentUrl)
    expect(first.page.page?.status).toBe(400)
    expect(first.page.text).toContain('invalid_client')
    const second = await signIn(app, sdk, assistant, documentUrl)
    await second.finish()
    expect(second.kept.client?.client_id).not.toBe(documentUrl)
    expect(await sdk.countTools(second.provider, second.serverUrl)).toBeGreaterThan(10)
  })

  test('refreshes concurrently in two processes that share credentials, and both keep working', async () => {
    const login = await signIn(open, sdk, assistant, await useDocument(assistant))
    await login.finish()
    const processes = [0, 1].map(() => {
      const kept: Kept = structuredClone(login.kept)
      const { redirectUrl, clientMetadataUrl } = login.provider
      return {
        kept,
        provider: makeProvider(kept, login.sentTo, { redirectUrl, clientMetadataUrl, name: assistant.name }),
      }
    })
    const outcomes = processes.map(({ provider }) => sdk.authorize(provider, login.serverUrl))
    expect(await Promise.all(outcomes)).toEqual(['AUTHORIZED', 'AUTHORIZED'])
    const [one, two] = processes.map(({ kept }) => kept.tokens?.refresh_token)
    expect(one).toBe(two)
    expect(one).not.toBe(login.kept.tokens?.refresh_token)
    for (const { provider } of processes) {
      expect(await sdk.countTools(provider, login.serverUrl)).toBeGreaterThan(10)
    }
    expect(await sdk.authorize(processes[0]?.provider, login.serverUrl), 'a later refresh').toBe('AUTHORIZED')
    expect(login.sentTo, 'the user was not asked again').toHaveLength(1)
  })
})

test('the discovery document has everything that both assistants check', async () => {
  const { url } = open
  const discovery = await (await fetch(`${url}/.well-known/oauth-authorization-server`)).json()
  // Codex only uses its document if public clients are offered, and both refuse a server that doesn't offer S256.
  expect(discovery).toMatchObject({
    client_id_metadata_document_supported: true,
    token_endpoint_auth_methods_supported: expect.arrayContaining(['none']),
    code_challenge_methods_supported: ['S256'],
    registration_endpoint: `${url}/oauth/register`,
    authorization_response_iss_parameter_supported: true,
  })
})
