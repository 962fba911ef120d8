import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import {
  Client,
  CrossAppAccessProvider,
  discoverAndRequestJwtAuthGrant,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client'
import { decodeJwt, decodeProtectedHeader } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Examples, startExamples } from '../examples.ts'
import { hub } from '../hub.ts'

let examples: Examples
/** Says where browsers are confirmed, which the identity provider asks Inlay. Nothing else of Inlay is used here. */
const inlay = createServer((_, response) => {
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify({ redirect_uri: 'http://localhost/embed/confirm/callback' }))
})
let resource: string
let idToken: string
beforeAll(async () => {
  await once(inlay.listen(0, '127.0.0.1'), 'listening')
  const { port } = inlay.address() as AddressInfo
  examples = await startExamples({ inlayUrl: `http://127.0.0.1:${port}`, token: async () => 'token' })
  resource = `${examples.toolServerUrl}/mcp`
  idToken = await signIn('casey')
})
afterAll(async () => {
  await examples.stop()
  inlay.closeAllConnections()
  inlay.close()
})

/** Signs in like a browser at the shop: the code flow with PKCE, for a user chosen on the provider's page. */
async function signIn(person: string): Promise<string> {
  const { identityProviderUrl, shopUrl } = examples
  const cookies = new Map<string, string>()
  const verifier = randomBytes(32).toString('base64url')
  const redirect_uri = `${shopUrl}/callback`

  async function visit(address: string, method = 'GET'): Promise<URL> {
    const cookie = [...cookies].map((pair) => pair.join('=')).join('; ')
    const response = await fetch(address, { method, headers: { cookie }, redirect: 'manual' })
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
      cookies.set(name, value)
    }
    return new URL(response.headers.get('location') ?? '', address)
  }

  const query = new URLSearchParams({
    client_id: 'shop',
    response_type: 'code',
    scope: 'openid',
    redirect_uri,
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
  })
  const page = await visit(`${identityProviderUrl}/auth?${query}`)
  const resumed = await visit(`${page.href}?as=${person}`, 'POST')
  const returned = await visit(resumed.href)
  const response = await fetch(`${identityProviderUrl}/oauth/token`, {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'authorization_code',
      code: returned.searchParams.get('code') ?? '',
      client_id: 'shop',
      redirect_uri,
      code_verifier: verifier,
    }),
  })
  return ((await response.json()) as { id_token: string }).id_token
}

const basic = (secret: string) => ({ authorization: `Basic ${btoa(`${hub.clientId}:${secret}`)}` })

async function post(address: string, fields: Record<string, string>, headers: Record<string, string> = {}) {
  const response = await fetch(address, { method: 'POST', headers, body: new URLSearchParams(fields) })
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}

/** Exactly the form that the API contract specifies. */
const exchangeForm = () => ({
  grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
  subject_token: idToken,
  subject_token_type: 'urn:ietf:params:oauth:token-type:id_token',
  requested_token_type: 'urn:ietf:params:oauth:token-type:id-jag',
  audience: resource,
  resource,
  scope: 'mcp:tools:read mcp:tools:call',
})

const exchange = (changes: Record<string, string> = {}, secret = hub.secretAtIdentityProvider) =>
  post(`${examples.identityProviderUrl}/oauth/token`, { ...exchangeForm(), ...changes }, basic(secret))

const redeem = async (assertion: unknown) =>
  post(`${examples.toolServerUrl}/oauth/token`, {
    grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
    assertion: String(assertion),
    client_id: hub.clientId,
    client_secret: hub.secretAtToolServer,
  })

async function earnToken(changes?: Record<string, string>): Promise<string> {
  const assertion = (await exchange(changes)).body.access_token
  return String((await redeem(assertion)).body.access_token)
}

describe('the identity provider', () => {
  test('declares in its metadata that it issues assertions', async () => {
    const response = await fetch(`${examples.identityProviderUrl}/.well-known/openid-configuration`)
    expect(await response.json()).toMatchObject({
      issuer: examples.identityProviderUrl,
      token_endpoint: `${examples.identityProviderUrl}/oauth/token`,
      identity_chaining_requested_token_types_supported: ['urn:ietf:params:oauth:token-type:id-jag'],
    })
  })

  test('issues an assertion for an ID token', async () => {
    const { status, body } = await exchange()
    expect(status).toBe(200)
    expect(body).toEqual({
      access_token: expect.any(String),
      issued_token_type: 'urn:ietf:params:oauth:token-type:id-jag',
      token_type: 'N_A',
      expires_in: 300,
      scope: 'mcp:tools:read mcp:tools:call',
    })
    const assertion = String(body.access_token)
    const { iat = 0, ...claims } = decodeJwt(assertion)
    expect(decodeProtectedHeader(assertion)).toEqual({
      typ: 'oauth-id-jag+jwt',
      alg: 'ES256',
      kid: expect.any(String),
    })
    expect(claims).toEqual({
      iss: examples.identityProviderUrl,
      sub: 'casey',
      aud: resource,
      client_id: hub.clientId,
      resource,
      scope: 'mcp:tools:read mcp:tools:call',
      email: 'casey@example.test',
      exp: iat + 300,
      jti: expect.any(String),
    })
  })

  test('only grants scopes that the administrator allows', async () => {
    const { body } = await exchange({ scope: 'mcp:tools:call admin' })
    expect(decodeJwt(String(body.access_token)).scope).toBe('mcp:tools:call')
    expect(body.scope).toBe('mcp:tools:call')
  })

  test.each<[string, () => Record<string, string>, string]>([
    ['a server that is not on the list', () => ({ audience: 'https://other.example.com' }), 'invalid_target'],
    ['a resource of another server', () => ({ resource: 'https://other.example.com' }), 'invalid_target'],
    ['scopes that are not on the list', () => ({ scope: 'admin' }), 'invalid_scope'],
    ['no scopes', () => ({ scope: '' }), 'invalid_scope'],
    ['text that is not a token', () => ({ subject_token: 'x' }), 'invalid_grant'],
    ['a changed ID token', () => ({ subject_token: idToken.replace(/.{8}$/, 'AAAAAAAA') }), 'invalid_grant'],
    [
      'another subject_token_type',
      () => ({ subject_token_type: 'urn:ietf:params:oauth:token-type:jwt' }),
      'invalid_request',
    ],
    [
      'another requested_token_type',
      () => ({ requested_token_type: 'urn:ietf:params:oauth:token-type:jwt' }),
      'invalid_request',
    ],
  ])('refuses %s', async (_, changes, error) => {
    expect(await exchange(changes())).toMatchObject({ status: 400, body: { error } })
  })

  test('doesn’t accept its own assertion as an ID token', async () => {
    const assertion = (await exchange()).body.access_token
    expect(await exchange({ subject_token: String(assertion) })).toMatchObject({ body: { error: 'invalid_grant' } })
  })

  test('refuses a client with a wrong secret', async () => {
    expect(await exchange({}, 'wrong')).toMatchObject({ status: 401, body: { error: 'invalid_client' } })
  })

  test('refuses the shop, which is not on the list', async () => {
    const form = { ...exchangeForm(), client_id: 'shop' }
    expect((await post(`${examples.identityProviderUrl}/oauth/token`, form)).status).toBe(400)
  })
})

describe('the tool server', () => {
  const callTool = async (token: string | undefined, name: string, args: object = {}, headers: object = {}) => {
    const response = await fetch(resource, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...(token && { authorization: `Bearer ${token}` }),
        ...headers,
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } }),
    })
    return { status: response.status, text: await response.text() }
  }

  test('requires a token, and says where the metadata is', async () => {
    const response = await fetch(resource, { method: 'POST', body: '{}' })
    const metadata = `${examples.toolServerUrl}/.well-known/oauth-protected-resource/mcp`
    expect(response.status).toBe(401)
    expect(response.headers.get('www-authenticate')).toContain(`resource_metadata="${metadata}"`)
  })

  test('requires the scope for calls', async () => {
    const token = await earnToken({ scope: 'mcp:tools:read' })
    expect(await callTool(token, 'list_orders')).toEqual({ status: 403, text: '{"error":"insufficient_scope"}' })
  })

  test('refuses requests from browsers', async () => {
    expect(await callTool(await earnToken(), 'list_orders', {}, { origin: 'https://evil.example' })).toMatchObject({
      status: 403,
    })
  })

  test('returns the orders of the user, whom the service identifies by the transaction token', async () => {
    const token = await earnToken()
    expect((await callTool(token, 'cancel_order', { order: '1042' })).text).toContain('{\\"cancelled\\":true}')
    expect((await callTool(token, 'list_orders')).text).toContain(
      '\\"1042\\",\\"item\\":\\"Wool blanket\\",\\"status\\":\\"cancelled\\"',
    )
    const tokenOfAnother = await earnToken({ subject_token: await signIn('demo-member') })
    expect((await callTool(tokenOfAnother, 'list_orders')).text).toContain('\\"status\\":\\"open\\"')
  })
})

describe('the service behind it', () => {
  test.each<[string, (token: string) => Record<string, string>]>([
    ['without a token', () => ({})],
    ['with an access token', (token) => ({ authorization: `Bearer ${token}` })],
    ['with an access token as transaction token', (token) => ({ 'txn-token': token })],
  ])('refuses requests %s', async (_, headersFor) => {
    const response = await fetch(`${examples.ordersUrl}/orders`, { headers: headersFor(await earnToken()) })
    expect([response.status, await response.text()]).toEqual([401, '{"error":"invalid_token"}'])
  })
})

test.each(['auto', 'legacy'] as const)(
  'the MCP SDK’s client for this flow lists and calls tools (%s)',
  async (mode) => {
    const { identityProviderUrl, toolServerUrl } = examples
    const authProvider = new CrossAppAccessProvider({
      assertion: async ({ authorizationServerUrl, resourceUrl, scope = '', fetchFn }) => {
        const { jwtAuthGrant } = await discoverAndRequestJwtAuthGrant({
          idpUrl: identityProviderUrl,
          audience: authorizationServerUrl,
          resource: resourceUrl,
          idToken,
          clientId: hub.clientId,
          clientSecret: hub.secretAtIdentityProvider,
          scope,
          fetchFn,
        })
        return jwtAuthGrant
      },
      clientId: hub.clientId,
      clientSecret: hub.secretAtToolServer,
      expectedIssuer: `${toolServerUrl}/mcp`,
    })
    const client = new Client(
      { name: 'test', version: '1.0.0' },
      mode === 'auto' ? { versionNegotiation: { mode } } : {},
    )
    await client.connect(new StreamableHTTPClientTransport(new URL(resource), { authProvider }))
    const { tools } = await client.listTools()
    expect(tools.map(({ name, title, annotations }) => [name, title, annotations?.readOnlyHint])).toEqual([
      ['list_orders', 'List orders', true],
      ['cancel_order', 'Cancel an order', false],
    ])
    const { content, isError } = await client.callTool({ name: 'list_orders', arguments: {} })
    expect(isError).toBeFalsy()
    expect(content).toEqual([{ type: 'text', text: expect.stringContaining('Enamel mug') }])
    await client.close()
  },
)
