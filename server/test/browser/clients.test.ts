import {
  Client,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  type StoredOAuthClientInformation,
  type StoredOAuthTokens,
  StreamableHTTPClientTransport,
  UnauthorizedError,
} from '@modelcontextprotocol/client'
import * as oauth from 'openid-client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { tools } from '../../src/api.ts'
import { type HttpService, startHttpService } from '../http-server.ts'
import { useClientDocument } from '../https-server.ts'
import { claimsOf, exchange, introduce, prepare, register } from '../oauth-client.ts'
import { callEveryTool } from '../samples.ts'
import { allowInBrowser, comeBack, useCallback } from './visit.ts'

let app: HttpService
beforeAll(async () => {
  app = await startHttpService()
})
afterAll(() => app.close())

/** How long a node may use what it has verified. */
const rememberedMs = 30_001

const useDocument = (callback: string) =>
  useClientDocument((client_id) => ({
    client_id,
    client_name: 'Tool',
    redirect_uris: [callback],
    token_endpoint_auth_method: 'none',
  }))

describe('openid-client', () => {
  const me = async (token: string) =>
    (await fetch(`${app.url}/api/users/me`, { headers: { authorization: `Bearer ${token}` } })).status

  test.each<[string, (callback: string) => Promise<oauth.Configuration>]>([
    ['registers', (callback) => register(app.url, { redirect_uris: [callback] })],
    ['has a metadata document', async (callback) => introduce(app.url, await useDocument(callback))],
  ])('as a client that %s gets tokens for the API, refreshes and revokes them', async (_, configure) => {
    const callback = await useCallback()
    const config = await configure(callback)
    const attempt = await prepare(config, { redirect_uri: callback, resource: `${app.url}/api` })
    const page = await allowInBrowser(attempt.url)
    const tokens = await exchange(config, attempt, await comeBack(page, callback))
    expect(claimsOf(tokens.access_token).aud).toBe(`${app.url}/api`)
    expect(await me(tokens.access_token)).toBe(200)

    const fresh = await oauth.refreshTokenGrant(config, String(tokens.refresh_token))
    expect(fresh.refresh_token).not.toBe(tokens.refresh_token)
    expect(await me(fresh.access_token)).toBe(200)

    await oauth.tokenRevocation(config, String(fresh.refresh_token))
    app.clock.now += rememberedMs
    expect(await me(fresh.access_token)).toBe(401)
    const again = oauth.refreshTokenGrant(config, String(fresh.refresh_token))
    await expect(again).rejects.toMatchObject({ error: 'invalid_grant' })
  })
})

describe('the MCP client SDK', () => {
  /** State that a program with the SDK keeps. */
  interface Kept {
    client?: StoredOAuthClientInformation
    discovered?: OAuthDiscoveryState
    tokens?: StoredOAuthTokens
    verifier?: string
  }

  function makeProvider(redirectUrl: string, clientMetadataUrl: string | undefined) {
    const kept: Kept = {}
    const sentTo: URL[] = []
    const provider: OAuthClientProvider = {
      redirectUrl,
      clientMetadata: { client_name: 'Tool', redirect_uris: [redirectUrl] },
      ...(clientMetadataUrl && { clientMetadataUrl }),
      clientInformation: () => kept.client,
      saveClientInformation: (client) => void Object.assign(kept, { client }),
      discoveryState: () => kept.discovered,
      saveDiscoveryState: (discovered) => void Object.assign(kept, { discovered }),
      tokens: () => kept.tokens,
      saveTokens: (tokens) => void Object.assign(kept, { tokens }),
      saveCodeVerifier: (verifier) => void Object.assign(kept, { verifier }),
      codeVerifier: () => kept.verifier ?? '',
      redirectToAuthorization: (address) => void sentTo.push(address),
      invalidateCredentials: () => void delete kept.tokens,
    }
    return { provider, kept, sentTo }
  }

  function connect(authProvider: OAuthClientProvider) {
    const client = new Client({ name: 'tool', version: '1.0.0' })
    const transport = new StreamableHTTPClientTransport(new URL(`${app.url}/mcp`), { authProvider })
    return { client, transport, connected: client.connect(transport) }
  }

  /** The SDK leaves revocation to the program (RFC 7009). */
  async function revoke(kept: Kept): Promise<number> {
    const { client_id = '', client_secret } = kept.client ?? {}
    const token = kept.tokens?.refresh_token ?? ''
    const body = new URLSearchParams({ token, client_id, ...(client_secret && { client_secret }) })
    const metadata = kept.discovered?.authorizationServerMetadata as { revocation_endpoint?: string }
    return (await fetch(String(metadata.revocation_endpoint), { method: 'POST', body })).status
  }

  test.each<[string, (callback: string) => Promise<string | undefined>]>([
    ['registers', async () => undefined],
    ['has a metadata document', useDocument],
  ])('as a client that %s lists and calls every tool, refreshes and revokes its tokens', async (_, serve) => {
    const callback = await useCallback()
    const documentUrl = await serve(callback)
    const { provider, kept, sentTo } = makeProvider(callback, documentUrl)

    const stranger = connect(provider)
    await expect(stranger.connected).rejects.toThrow(UnauthorizedError)
    const page = await allowInBrowser(String(sentTo[0]))
    await stranger.transport.finishAuth((await comeBack(page, callback)).searchParams)
    const first = String(kept.tokens?.access_token)
    expect(claimsOf(first)).toMatchObject({ aud: `${app.url}/mcp`, ...(documentUrl && { client_id: documentUrl }) })
    const { client, connected } = connect(provider)
    await connected
    const listNames = async () => (await client.listTools()).tools.map(({ name }) => name)
    expect(await listNames()).toEqual(tools.map(({ name }) => name))
    expect(await callEveryTool(client), 'unexpected results').toEqual([])

    Object.assign(kept, { tokens: { ...kept.tokens, access_token: 'expired' } })
    expect(await listNames()).toContain('get_profile')
    const fresh = kept.tokens as StoredOAuthTokens
    expect(claimsOf(fresh.access_token).jti).not.toBe(claimsOf(first).jti)
    expect(sentTo.length, 'the user was not asked').toBe(1)

    expect(await revoke(kept)).toBe(200)
    app.clock.now += rememberedMs
    await expect(listNames(), 'it would have to ask the user again').rejects.toThrow(UnauthorizedError)
    expect(sentTo.length).toBe(2)
  })
})
