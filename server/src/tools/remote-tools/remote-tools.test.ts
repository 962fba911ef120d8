import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { McpServer } from '@modelcontextprotocol/server'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { z } from 'zod'
import { Browser } from '../../../test/browser.ts'
import { type Delegation, hub, hubAtIdp, memberClaims, startDelegation } from '../../../test/delegation.ts'
import { answerWith, startInterceptor } from '../../../test/interceptor.ts'
import { offer, openPage } from '../../../test/page.ts'
import { startThirdParty } from '../../../test/third-party.ts'
import { findUserByEmail } from '../../accounts/users/local-accounts.ts'
import { connectRedis } from '../../kernel/stores/redis.ts'
import { timeToLive } from './connector-tokens.ts'

let world: Delegation
let me: Awaited<ReturnType<Delegation['caller']>>
beforeAll(async () => {
  world = await startDelegation()
  me = await world.caller()
})
afterAll(() => world.close())
afterEach(() => world.reset())

const fromCrm = () => {
  const { url, resource } = world.tools
  return { 'inlay/source': { kind: 'connector', tabId: '', origin: url, url: resource, title: 'crm' } }
}
const bothScopes = ['mcp:tools:read', 'mcp:tools:call']
const asPerson = (subject: string, polite = false) => ({
  content: [{ type: 'text', text: JSON.stringify({ subject, scopes: bothScopes, polite }) }],
  isError: false,
  _meta: fromCrm(),
})
const asMember = (polite = false) => asPerson('mem', polite)
const failure = (step: string, message: unknown = expect.any(String)) =>
  expect.objectContaining({
    envelope: {
      defined: false,
      code: 'DELEGATION_FAILED',
      status: 502,
      message,
      data: { connector: 'crm', step },
    },
  })

/** Reads a user's cached token. */
const cached = async (connector: { id: string }, userId: string) =>
  world.service.kv.get<Record<string, unknown>>(`token:${await world.organization('demo')}:${connector.id}:${userId}`)

const calls = () => world.tools.asked.filter(({ path }) => path === '/mcp')

describe('the list', () => {
  test('contains the title and hints of a server’s tool', async () => {
    await world.addConnector()
    await world.connect()
    const facts = { title: 'Delete a customer', annotations: { readOnlyHint: false, destructiveHint: true } }
    world.tools.more = (server) => server.registerTool('delete', facts, () => ({ content: [] }))
    expect(await me.tools({ search: 'crm.delete' })).toMatchObject([{ name: 'crm.delete', ...facts }])
  })
})

describe('a call', () => {
  test('acts at the tool server as the caller, who never signed in there', async () => {
    await world.addConnector()
    const { idToken } = await world.connect()
    expect(await me.call('crm.whoami', { polite: true })).toEqual(asMember(true))

    await world.service.toolCalls.flush()
    const token = await world.tokenFor('admin@demo.test', 'demo')
    expect((await world.request('GET', '/tool-calls?limit=1', { token })).body.tool_calls).toMatchObject([
      { tool: 'crm.whoami', source_type: 'connector', source: 'crm', definition_hash: null, outcome: 'succeeded' },
    ])

    const [exchange] = world.idp.tokenRequests()
    expect(exchange?.form).toEqual({
      grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
      subject_token: idToken,
      subject_token_type: 'urn:ietf:params:oauth:token-type:id_token',
      requested_token_type: 'urn:ietf:params:oauth:token-type:id-jag',
      audience: world.tools.resource,
      resource: world.tools.resource,
      scope: 'mcp:tools:read mcp:tools:call',
    })
    // RFC 6749, section 2.3.1: form-encoded, then joined.
    const basic = btoa('hub:secret%3Aof%2Bthe%2Fhub%25at%3Dthe-provider')
    expect(exchange?.headers.get('authorization')).toBe(`Basic ${basic}`)

    const [redemption] = world.tools.tokenRequests()
    expect(redemption?.form).toEqual({
      grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
      assertion: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/),
      ...hub,
    })
    expect(redemption?.headers.has('authorization')).toBe(false)
  })

  test('uses the same client at the identity provider if no other is configured', async () => {
    await world.addConnector({ idp_client_id: undefined, idp_client_secret: undefined })
    await world.connect()
    expect(await me.call('crm.whoami')).toEqual(asMember())
    const [exchange] = world.idp.tokenRequests()
    expect(exchange?.headers.get('authorization')).toBe(`Basic ${btoa(`hub:${hub.client_secret}`)}`)
  })

  test.each<[string, string[], 'form' | 'header']>([
    ['in the form only', ['client_secret_post', 'private_key_jwt'], 'form'],
    ['in the form or with HTTP Basic', ['client_secret_post', 'client_secret_basic'], 'header'],
    ['in no supported way', ['private_key_jwt'], 'header'],
  ])('authenticates at an identity provider that accepts secrets %s', async (_, methods, place) => {
    await world.addConnector()
    await world.connect()
    const { url } = world.idp
    world.idp.instead = (request) =>
      request.url.endsWith('/openid-configuration')
        ? Response.json({
            issuer: url,
            jwks_uri: `${url}/jwks`,
            token_endpoint: `${url}/token`,
            token_endpoint_auth_methods_supported: methods,
          })
        : undefined
    expect(await me.call('crm.whoami')).toEqual(asMember())
    const [exchange] = world.idp.tokenRequests()
    const { client_id, client_secret } = exchange?.form ?? {}
    const inForm = { client_id: hubAtIdp.idp_client_id, client_secret: hubAtIdp.idp_client_secret }
    expect({ client_id, client_secret }).toEqual(place === 'form' ? inForm : {})
    expect(exchange?.headers.has('authorization')).toBe(place === 'header')
  })

  test('needs one request once a token and a connection are cached', async () => {
    await world.addConnector()
    await world.connect()
    await me.call('crm.whoami')
    world.tools.asked.length = 0
    world.idp.asked.length = 0
    await me.call('crm.whoami')
    expect(world.tools.asked.map(({ method, path }) => `${method} ${path}`)).toEqual(['POST /mcp'])
    expect(world.idp.asked).toEqual([])
  })

  test('requests the connector’s scopes from the server if the assertion has none', async () => {
    await world.addConnector({ scopes: ['mcp:tools:call'] })
    await world.connect()
    world.idp.assertion = { claims: { scope: undefined } }
    const { content } = await me.call('crm.whoami')
    const text = JSON.stringify({ subject: 'mem', scopes: ['mcp:tools:call'], polite: false })
    expect(content).toEqual([{ type: 'text', text }])
  })

  test('authenticates with HTTP Basic if the server’s metadata requires it', async () => {
    await world.addConnector()
    await world.connect()
    world.tools.instead = async (request) => {
      if (!request.url.includes('oauth-authorization-server')) return undefined
      const { url, resource } = world.tools
      return Response.json({
        issuer: resource,
        token_endpoint: `${url}/oauth/token`,
        token_endpoint_auth_methods_supported: ['client_secret_basic', 'private_key_jwt'],
      })
    }
    expect(await me.call('crm.whoami')).toEqual(asMember())
    const [redemption] = world.tools.tokenRequests()
    expect(Object.keys(redemption?.form ?? {})).toEqual(['grant_type', 'assertion'])
    expect(redemption?.headers.get('authorization')).toBe(`Basic ${btoa(`hub:${hub.client_secret}`)}`)
  })

  test.each([
    ['no metadata at all', /well-known/],
    ['no metadata of the authorization server', /oauth-authorization-server|openid-configuration/],
  ])('finds the token endpoint of a server that has %s', async (_, missing) => {
    await world.addConnector()
    await world.connect()
    world.tools.instead = (request) => (missing.test(request.url) ? new Response(null, { status: 404 }) : undefined)
    expect(await me.call('crm.whoami')).toEqual(asMember())
    expect(world.tools.tokenRequests()).toHaveLength(1)
  })

  test('requests an assertion for the issuer if the connector is configured for it', async () => {
    await world.addConnector({ audience_mode: 'issuer' })
    await world.connect()
    const issuer = `${world.tools.url}/issuer`
    world.tools.instead = (request) => {
      const { pathname } = new URL(request.url)
      if (pathname.startsWith('/.well-known/oauth-protected-resource'))
        return Response.json({ resource: world.tools.resource, authorization_servers: [issuer] })
      if (pathname === '/.well-known/oauth-authorization-server/issuer')
        return Response.json({ issuer, token_endpoint: `${world.tools.url}/oauth/token` })
      return undefined
    }
    // The test server accepts only its resource ID as the audience.
    await expect(me.call('crm.whoami')).rejects.toEqual(failure('redemption'))
    const [exchange] = world.idp.tokenRequests()
    expect(exchange?.form).toMatchObject({ audience: issuer, resource: world.tools.resource })
  })

  test('returns a tool error as a result', async () => {
    await world.addConnector()
    await world.connect()
    world.tools.more = (server) =>
      server.registerTool('fail', {}, () => ({ content: [{ type: 'text', text: 'No such customer' }], isError: true }))
    expect(await me.call('crm.fail')).toEqual({
      content: [{ type: 'text', text: 'No such customer' }],
      isError: true,
      _meta: fromCrm(),
    })
  })

  test('returns the server’s error for an unknown tool as a result', async () => {
    await world.addConnector()
    await world.connect()
    const { isError, content } = await me.call('crm.nothing')
    expect({ isError, content }).toEqual({
      isError: true,
      content: [{ type: 'text', text: expect.stringMatching(/^The tool server returned an error: .*nothing/) }],
    })
  })

  test('returns the server’s content unchanged and names the server in _meta', async () => {
    await world.addConnector()
    await world.connect()
    const content = [
      { type: 'text' as const, text: 'a\u202Eb\u0007c' },
      { type: 'resource_link' as const, uri: 'crm://customers/7', name: 'Ann' },
      { type: 'resource' as const, resource: { uri: 'crm://customers/7', mimeType: 'text/plain', text: 'Ann' } },
    ]
    world.tools.more = (server) => server.registerTool('shout', {}, () => ({ content }))
    expect(await me.call('crm.shout')).toEqual({ content, isError: false, _meta: fromCrm() })
  })

  describe('of a tool that declares headers for its arguments', () => {
    beforeEach(async () => {
      await world.addConnector()
      await world.connect()
      const place = z.object({ region: z.string().meta({ 'x-mcp-header': 'Region' }), city: z.string() })
      world.tools.more = (server) =>
        server.registerTool(
          'route',
          { inputSchema: z.object({ place, note: z.string() }) },
          ({ place: { region } }) => ({
            content: [{ type: 'text', text: region }],
          }),
        )
    })
    const route = async (region: string) =>
      (await me.call('crm.route', { place: { region, city: 'Oslo' }, note: 'x' })).content
    const mirrored = () => calls().map(({ headers }) => [...headers].filter(([name]) => name.startsWith('mcp-param-')))

    test('sends these headers and sends the call once', async () => {
      await me.tools()
      world.tools.asked.length = 0
      expect(await route('eu north')).toEqual([{ type: 'text', text: 'eu north' }])
      expect(mirrored()).toEqual([[['mcp-param-region', 'eu north']]])
    })

    test('also works without listing the tools first', async () => {
      expect(await route('eu')).toEqual([{ type: 'text', text: 'eu' }])
      expect(mirrored().at(-1)).toEqual([['mcp-param-region', 'eu']])
    })
  })

  test('ends when the caller cancels', async () => {
    await world.addConnector()
    await world.connect()
    await me.call('crm.whoami')
    const giveUp = new AbortController()
    world.tools.instead = async (request) => {
      if (!request.url.endsWith('/mcp')) return undefined
      giveUp.abort()
      return new Promise<Response>(() => undefined)
    }
    await expect(me.call('crm.whoami', {}, { signal: giveUp.signal })).rejects.toMatchObject({
      envelope: { code: 'CALL_CANCELLED', status: 499 },
    })
  })

  test.each<[string, 'failure' | 'success', 'request' | 'response' | undefined]>([
    ['blocks it before it runs', 'failure', 'request'],
    ['blocks its result', 'failure', 'response'],
    ['allows it', 'success', undefined],
  ])('respects a governance provider that %s', async (_, status, refusedIn) => {
    await world.addConnector()
    await world.connect()
    const { url, asked } = await startInterceptor((request, response) => {
      const isRefused = request.params.phase === refusedIn
      return answerWith({ status: isRefused ? status : 'success', message: 'Policy 7', violations: [] })(
        request,
        response,
      )
    })
    await world.asAdmin('PATCH', '/governance/providers/config', {
      interceptor_url: url,
      interceptor_name: 'policies',
      api_key: 'key-of-the-interceptor',
      is_enabled: true,
    })
    try {
      if (refusedIn) {
        await expect(me.call('crm.whoami')).rejects.toMatchObject({ envelope: { code: 'CALL_REFUSED', status: 403 } })
      } else {
        expect(await me.call('crm.whoami')).toEqual(asMember())
      }
      expect(calls().length > 0).toBe(refusedIn !== 'request')
      expect(asked[0]?.body.params).toMatchObject({
        phase: 'request',
        context: {
          tool: 'crm.whoami',
          caller_identity: 'member@demo.test',
          source: { tabId: '', origin: world.tools.url, url: world.tools.resource, title: 'crm' },
          arguments: {},
        },
      })
    } finally {
      await world.asAdmin('DELETE', '/governance/providers/config')
    }
  })

  test('starts a new session if the server lost the session of the older protocol', async () => {
    await world.addConnector()
    await world.connect()
    const sessions = new Set<string>()
    world.tools.instead = async (request) => {
      if (!request.url.endsWith('/mcp') || request.method !== 'POST') return undefined
      const { id, method } = (await request.json()) as { id?: number; method: string }
      const answer = (result: unknown, headers = {}) => Response.json({ jsonrpc: '2.0', id, result }, { headers })
      if (method === 'initialize') {
        const session = `session-${sessions.size}`
        sessions.add(session)
        const result = {
          protocolVersion: '2025-11-25',
          capabilities: { tools: {} },
          serverInfo: { name: 'old', version: '1' },
        }
        return answer(result, { 'mcp-session-id': session })
      }
      if (id === undefined) return new Response(null, { status: 202 })
      const session = request.headers.get('mcp-session-id') ?? ''
      if (method === 'server/discover') return new Response(null, { status: 400 })
      return sessions.has(session)
        ? answer({ content: [{ type: 'text', text: session }] })
        : new Response(null, { status: 404 })
    }
    expect((await me.call('crm.any')).content[0]).toMatchObject({ text: 'session-0' })
    sessions.delete('session-0')
    sessions.add('another')
    expect((await me.call('crm.any')).content[0]).toMatchObject({ text: 'session-1' })
    expect(world.tools.asked.filter(({ method, path }) => method === 'GET' && path === '/mcp')).toEqual([])
  })
})

describe('the list', () => {
  const names = async () => (await me.tools()).map(({ name }) => name)

  test('contains the connector’s tools under its name', async () => {
    await world.addConnector()
    await world.connect()
    expect(await me.tools({ include_sources: true })).toEqual([
      {
        name: 'crm.whoami',
        description: 'Who asks',
        inputSchema: expect.objectContaining({ type: 'object' }),
        sources: [],
      },
    ])
    expect(await me.tools({ search: 'WHO' })).toHaveLength(1)
    expect(await me.tools({ search: 'elsewhere' })).toEqual([])
  })

  test.each<[string, () => Promise<unknown>]>([
    ['no end user has connected', async () => undefined],
    [
      'only another end user has connected',
      () => world.connect({ sub: 'ann', email: 'ann@example.com', email_verified: true }),
    ],
    ['the email address isn’t verified', () => world.connect({ sub: 'eve', email: 'member@demo.test' })],
    [
      'the connector is disabled',
      async () => {
        await world.connect()
        const { connectors } = (await world.asAdmin('GET', '/connectors')).body
        await world.asAdmin('PATCH', `/connectors/${connectors[0].id}`, { status: 'disabled' })
      },
    ],
  ])('is empty without a request to the server while %s', async (_, prepare) => {
    await world.addConnector()
    await prepare()
    expect(await names()).toEqual([])
    expect(world.tools.asked).toEqual([])
  })

  test('skips an unreachable server and keeps the others', async () => {
    await world.addConnector()
    await world.addConnector({ name: 'down', server_url: 'http://127.0.0.1:9/mcp' })
    await world.connect()
    expect(await names()).toEqual(['crm.whoami'])
    expect(await world.refusals()).toMatchObject([
      { step: 'metadata', code: 'DELEGATION_FAILED', message: expect.stringMatching(/^down: /), count: 1 },
    ])
  })

  test('doesn’t wait for a server that hangs', async () => {
    await world.addConnector()
    await world.connect()
    await me.call('crm.whoami')
    world.tools.instead = (request) =>
      request.url.endsWith('/mcp') ? new Promise<Response>(() => undefined) : undefined
    expect(await names()).toEqual([])
    expect(await world.refusals()).toMatchObject([{ step: 'tools_list', message: expect.stringContaining('in time') }])
  })

  test('leaves out names that are too long, and servers with too many tools', async () => {
    await world.addConnector()
    await world.connect()
    const long = 'x'.repeat(125)
    world.tools.more = (server) => server.registerTool(long, {}, () => ({ content: [] }))
    expect(await names()).toEqual(['crm.whoami'])
    world.tools.more = (server: McpServer) => {
      for (let n = 0; n < 512; n += 1) server.registerTool(`t${n}`, {}, () => ({ content: [] }))
    }
    expect(await names()).toEqual([])
    expect(await world.refusals()).toMatchObject([
      { step: 'tools_list', message: expect.stringContaining('512 tools') },
    ])
  })

  test('pages can’t shadow a connector’s tools', async () => {
    await world.addConnector()
    await world.connect()
    const { ticket } = await ticketOf(memberClaims)
    const page = await openPage(world.local, ticket, { origin: undefined })
    await offer(page, 'crm.whoami', 'crm.more', 'crmx.other')
    page.answer(() => 'from the page')
    expect((await names()).sort()).toEqual(['crm.whoami', 'crmx.other'])
    expect(await me.call('crm.whoami')).toEqual(asMember())
    expect((await me.call('crm.more')).isError).toBe(true)
    const { content } = await me.call('crm.more', {}, { source_id: page.ready.session })
    expect(content[0]).toEqual({ type: 'text', text: 'from the page' })
    page.socket.close(1000)
    await vi.waitFor(async () => expect(await me.sources()).toEqual([]))
  })
})

/** Gets a ticket for a separate page. */
async function ticketOf(claims: Record<string, unknown>) {
  const { body: key } = await world.asAdmin('POST', '/publishable-keys', { name: 'Page' })
  const { body } = await world.request('POST', '/auth/pk-ticket', {
    headers: { origin: 'https://shop.example' },
    body: { publishable_key: key.key, id_token: await world.idp.idToken(claims) },
  })
  return body as { ticket: string }
}

describe('a step that fails', () => {
  const json = (status: number, body: unknown) => () => Response.json(body, { status })
  const at = (path: RegExp, answer: () => Response) => (request: Request) =>
    path.test(new URL(request.url).pathname) ? answer() : undefined

  interface Broken {
    idp?: Parameters<typeof at>
    tools?: Parameters<typeof at>
    says?: { idp?: Partial<Delegation['idp']>; tools?: Partial<Delegation['tools']> }
  }

  // Includes another issued_token_type and a wider scope.
  test.each<[string, string, Broken, RegExp]>([
    [
      'metadata of another resource',
      'metadata',
      {
        tools: [
          /protected-resource/,
          json(200, { resource: 'https://other.example/mcp', authorization_servers: ['https://other.example'] }),
        ],
      },
      /another resource/,
    ],
    [
      'resource metadata without an authorization server',
      'metadata',
      { tools: [/protected-resource/, () => Response.json({ resource: world.tools.resource })] },
      /no authorization server/,
    ],
    [
      'metadata of another issuer',
      'metadata',
      {
        tools: [
          /oauth-authorization-server/,
          json(200, { issuer: 'https://other.example', token_endpoint: 'https://other.example/token' }),
        ],
      },
      /another issuer/,
    ],
    [
      'metadata without a token endpoint',
      'metadata',
      { tools: [/oauth-authorization-server/, () => Response.json({ issuer: world.tools.resource })] },
      /no token_endpoint/,
    ],
    [
      'metadata that is not JSON',
      'metadata',
      { tools: [/protected-resource/, () => new Response('<html>')] },
      /not with a JSON object/,
    ],
    ['a server that fails', 'metadata', { tools: [/protected-resource/, json(503, {})] }, /status 503/],
    [
      'a redirect',
      'metadata',
      {
        tools: [
          /protected-resource/,
          () => new Response(null, { status: 302, headers: { location: 'http://127.0.0.1:9/' } }),
        ],
      },
      /status 302/,
    ],
    [
      'a provider without discovery',
      'provider_exchange',
      { idp: [/openid-configuration/, json(404, {})] },
      /status 404/,
    ],
    [
      'a refusal',
      'provider_exchange',
      { idp: [/token/, json(400, { error: 'invalid_target', error_description: 'Not\u202E allowed' })] },
      /status 400: invalid_target, Not allowed/,
    ],
    [
      'a response that is not JSON',
      'provider_exchange',
      { idp: [/token/, () => new Response('no')] },
      /not with a JSON object/,
    ],
    [
      'another type of token',
      'provider_exchange',
      { says: { idp: { answer: { issued_token_type: 'urn:ietf:params:oauth:token-type:access_token' } } } },
      /wrong type of token/,
    ],
    [
      'no type of token',
      'provider_exchange',
      { says: { idp: { answer: { issued_token_type: undefined } } } },
      /wrong type of token/,
    ],
    ['no token', 'provider_exchange', { says: { idp: { answer: { access_token: 7 } } } }, /no access_token/],
    [
      'a token that is not a JWT',
      'provider_exchange',
      { says: { idp: { answer: { access_token: 'opaque' } } } },
      /not a JSON Web Token/,
    ],
    [
      'a wider scope in the response',
      'provider_exchange',
      { says: { idp: { answer: { scope: 'mcp:tools:read mcp:admin' } } } },
      /More scopes were granted/,
    ],
    [
      'a wider scope in the assertion',
      'provider_exchange',
      { says: { idp: { assertion: { claims: { scope: 'mcp:tools:read mcp:admin' } } } } },
      /wrong scope/,
    ],
    ['another typ', 'provider_exchange', { says: { idp: { assertion: { header: { typ: 'JWT' } } } } }, /wrong type/],
    [
      'another issuer',
      'provider_exchange',
      { says: { idp: { assertion: { claims: { iss: 'https://other.example' } } } } },
      /wrong issuer/,
    ],
    [
      'another audience',
      'provider_exchange',
      { says: { idp: { assertion: { claims: { aud: 'https://other.example' } } } } },
      /wrong audience/,
    ],
    [
      'two audiences',
      'provider_exchange',
      { says: { idp: { assertion: { claims: { aud: ['https://other.example', 'x'] } } } } },
      /wrong audience/,
    ],
    [
      'another client',
      'provider_exchange',
      { says: { idp: { assertion: { claims: { client_id: 'somebody' } } } } },
      /wrong client/,
    ],
    [
      'another resource',
      'provider_exchange',
      { says: { idp: { assertion: { claims: { resource: 'https://other.example' } } } } },
      /wrong resource/,
    ],
    [
      'an expired assertion',
      'provider_exchange',
      { says: { idp: { assertion: { claims: { exp: 1 } } } } },
      /wrong expiry/,
    ],
    [
      'a refusal',
      'redemption',
      { tools: [/oauth\/token/, json(400, { error: 'invalid_grant' })] },
      /status 400: invalid_grant/,
    ],
    [
      'another type of token',
      'redemption',
      { says: { tools: { answer: { token_type: 'DPoP' } } } },
      /wrong type of token/,
    ],
    ['no token', 'redemption', { says: { tools: { answer: { access_token: null } } } }, /no access_token/],
    [
      'a token that is not a valid header value',
      'redemption',
      { says: { tools: { answer: { access_token: 'a\r\nb' } } } },
      /no access_token/,
    ],
    [
      'a wider scope',
      'redemption',
      { says: { tools: { answer: { scope: 'mcp:tools:read mcp:admin' } } } },
      /More scopes were granted/,
    ],
    ['a server that fails', 'tools_call', { tools: [/^\/mcp$/, json(500, {})] }, /status 500/],
    [
      'a token that is rejected twice',
      'tools_call',
      { tools: [/\/mcp$/, () => new Response(null, { status: 401 })] },
      /rejected a new access token/,
    ],
  ])(
    '%s: reports the step (%s) to the caller and the administrator, and caches nothing',
    async (_, step, broken, why) => {
      const connector = await world.addConnector()
      const { userId } = await world.connect()
      if (broken.idp) world.idp.instead = at(...broken.idp)
      if (broken.tools) world.tools.instead = at(...broken.tools)
      Object.assign(world.idp, broken.says?.idp)
      Object.assign(world.tools, broken.says?.tools)
      await expect(me.call('crm.whoami')).rejects.toEqual(failure(step, expect.stringMatching(why)))
      expect(await world.refusals()).toMatchObject([
        { step, code: 'DELEGATION_FAILED', message: expect.stringMatching(why) },
      ])
      if (step !== 'tools_call') expect(await cached(connector, userId)).toBeUndefined()

      Object.assign(world.idp, { instead: undefined, assertion: {}, answer: {} })
      Object.assign(world.tools, { instead: undefined, answer: {} })
      expect(await me.call('crm.whoami')).toEqual(asMember())
    },
  )

  test('reports the expected and the actual value', async () => {
    await world.addConnector()
    await world.connect()
    world.idp.assertion = { claims: { client_id: 'somebody' } }
    await expect(me.call('crm.whoami')).rejects.toThrow()
    expect(await world.refusals()).toMatchObject([{ expected: 'hub', seen: 'somebody' }])
  })

  test('removes secrets that the other side quotes', async () => {
    await world.addConnector()
    const { idToken } = await world.connect()
    world.idp.instead = async (request) =>
      request.url.endsWith('/token')
        ? Response.json(
            {
              error: 'invalid_request',
              error_description: `${await request.text()} ${idToken} ${hubAtIdp.idp_client_secret}`,
            },
            { status: 400 },
          )
        : undefined
    await expect(me.call('crm.whoami')).rejects.toThrow()
    const shown = JSON.stringify(await world.refusals()) + world.logged()
    expect(shown).not.toContain(idToken.slice(-40))
    expect(shown).not.toContain(hubAtIdp.idp_client_secret)
  })

  test('tells a caller without an identity how to get one', async () => {
    await world.addConnector()
    const admin = await world.caller('admin@demo.test')
    await expect(admin.call('crm.whoami')).rejects.toEqual(
      failure('identity', 'crm: Open a page with the widget, sign in there with the same email address, and try again'),
    )
  })
})

describe('the token cache', () => {
  test('stores the token under the documented key and with the documented fields', async () => {
    const connector = await world.addConnector()
    const { userId } = await world.connect()
    await me.call('crm.whoami')
    expect(await cached(connector, userId)).toEqual({
      access_token: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/),
      expires_at: world.clock.now + 1800_000,
      scopes: bothScopes,
      provider: expect.any(String),
    })
  })

  test.each([
    [300, 0],
    [301, 1],
    [299, 0],
    [0, 0],
    [-1, 0],
    [Number.NaN, 0],
    [Number.POSITIVE_INFINITY, 0],
    [undefined, 0],
    [null, 0],
    ['3600', 3300],
    ['300', 0],
    ['', 0],
    ['1e9', 0],
    [' 3600', 0],
    ['-3600', 0],
    [1800, 1500],
    [3900, 3600],
    [3901, 3600],
    [1e12, 3600],
  ])('keeps a token with expires_in %s for %s seconds', (expiresIn, seconds) => {
    expect(timeToLive(expiresIn)).toBe(seconds)
  })

  test('keeps a token whose lifetime is a numeric string', async () => {
    const connector = await world.addConnector()
    const { userId } = await world.connect()
    world.tools.answer = { expires_in: '1800' }
    await me.call('crm.whoami')
    expect(await cached(connector, userId)).toMatchObject({ expires_at: world.clock.now + 1800_000 })
  })

  test.each([300, 0, -1, null, undefined, 'soon'])('doesn’t keep a token with expires_in %s', async (expires_in) => {
    const connector = await world.addConnector()
    const { userId } = await world.connect()
    world.tools.answer = { expires_in }
    expect(await me.call('crm.whoami')).toEqual(asMember())
    expect(await cached(connector, userId)).toBeUndefined()
    const before = world.idp.tokenRequests().length
    await me.call('crm.whoami')
    expect(world.idp.tokenRequests()).toHaveLength(before + 1)
  })

  test('ignores an expired token', async () => {
    await world.addConnector()
    await world.connect()
    await me.call('crm.whoami')
    world.clock.now += 1800_000
    try {
      expect(await me.call('crm.whoami')).toEqual(asMember())
      expect(world.idp.tokenRequests()).toHaveLength(2)
    } finally {
      world.clock.now -= 1800_000
    }
  })

  test('lets a hundred concurrent calls share one exchange', async () => {
    await world.addConnector()
    await world.connect()
    const answers = await Promise.all(Array.from({ length: 100 }, () => me.call('crm.whoami')))
    expect(answers).toEqual(Array.from({ length: 100 }, () => asMember()))
    expect(world.idp.tokenRequests()).toHaveLength(1)
    expect(world.tools.tokenRequests()).toHaveLength(1)
  })

  test('ignores a ciphertext that was moved to another user’s key', async () => {
    const connector = await world.addConnector()
    const ann = await world.connect({ sub: 'ann', email: 'admin@demo.test', email_verified: true })
    await (await world.caller('admin@demo.test')).call('crm.whoami')
    const { userId } = await world.connect()
    const organization = await world.organization('demo')
    const [from, to] = [ann.userId, userId].map((id) => `token:${organization}:${connector.id}:${id}`) as [
      string,
      string,
    ]
    await moveCiphertext(world.config, from, to)
    await expect(world.service.kv.get(to)).rejects.toThrow(/belongs to another place/)
    expect(await me.call('crm.whoami')).toEqual(asMember())
  })

  test('drops a token that the server rejects and retries the call', async () => {
    const connector = await world.addConnector()
    const { userId } = await world.connect()
    await me.call('crm.whoami')
    const before = await cached(connector, userId)
    let refusals = 0
    world.tools.instead = (request) => {
      if (!request.url.endsWith('/mcp') || request.headers.get('authorization') !== `Bearer ${before?.access_token}`)
        return undefined
      refusals += 1
      return new Response(null, { status: 401 })
    }
    world.clock.now += 1_000
    const answers = await Promise.all([me.call('crm.whoami'), me.call('crm.whoami'), me.call('crm.whoami')])
    expect(answers).toEqual([asMember(), asMember(), asMember()])
    expect(refusals).toBe(3)
    expect(world.idp.tokenRequests()).toHaveLength(2)
    expect((await cached(connector, userId))?.access_token).not.toBe(before?.access_token)
  })

  test('drops a token that lacks the scope of a call', async () => {
    const connector = await world.addConnector({ scopes: ['mcp:tools:read'] })
    await world.connect()
    await expect(me.call('crm.whoami')).rejects.toEqual(failure('tools_call', expect.stringContaining('a scope')))
    await world.asAdmin('PATCH', `/connectors/${connector.id}`, { scopes: bothScopes })
    expect(await me.call('crm.whoami')).toEqual(asMember())
  })

  describe('ignores tokens', () => {
    test('of a deleted connector, even if another takes its name', async () => {
      const connector = await world.addConnector()
      await world.connect()
      await me.call('crm.whoami')
      await world.asAdmin('DELETE', `/connectors/${connector.id}`)
      await expect(me.call('crm.whoami')).rejects.toMatchObject({
        envelope: { data: { code: 'RESOURCE_NOT_FOUND', resource: 'hub_tool', resourceId: 'crm.whoami' } },
      })
      await world.addConnector()
      await me.call('crm.whoami')
      expect(world.idp.tokenRequests()).toHaveLength(2)
    })

    test('of a deleted end user, and deletes them', async () => {
      const connector = await world.addConnector()
      const { userId } = await world.connect()
      await me.call('crm.whoami')
      world.tools.asked.length = 0
      expect(await cached(connector, userId)).toBeDefined()
      await world.asAdmin('DELETE', `/end-users/${userId}`)
      expect(await cached(connector, userId)).toBeUndefined()
      await expect(me.call('crm.whoami')).rejects.toEqual(failure('identity'))
      expect(world.tools.asked).toEqual([])
    })

    test('with more scopes than are still allowed', async () => {
      const connector = await world.addConnector({ scopes: [...bothScopes, 'mcp:tools:extra'] })
      await world.connect()
      world.tools.answer = { scope: 'mcp:tools:read mcp:tools:call mcp:tools:extra' }
      await me.call('crm.whoami')
      await world.asAdmin('PATCH', `/connectors/${connector.id}`, { scopes: bothScopes })
      world.tools.answer = {}
      await me.call('crm.whoami')
      expect(world.idp.tokenRequests().map(({ form }) => form.scope)).toEqual([
        'mcp:tools:read mcp:tools:call mcp:tools:extra',
        'mcp:tools:read mcp:tools:call',
      ])
    })

    test('of a previous provider, even if the new one has a user with the same sub', async () => {
      await world.addConnector()
      await world.connect()
      await me.call('crm.whoami')
      await world.asAdmin('PATCH', '/identity-providers/config', { allowed_audiences: ['shop', 'another'] })
      try {
        await world.connect()
        await me.call('crm.whoami')
        expect(world.idp.tokenRequests()).toHaveLength(2)
      } finally {
        await world.asAdmin('PATCH', '/identity-providers/config', { allowed_audiences: ['shop'] })
      }
    })

    test('when the organization changes its identity provider', async () => {
      await world.addConnector()
      await world.connect()
      await me.call('crm.whoami')
      await world.asAdmin('PATCH', '/identity-providers/config', { allowed_audiences: ['another'] })
      try {
        await expect(me.call('crm.whoami')).rejects.toEqual(failure('identity'))
      } finally {
        await world.asAdmin('PATCH', '/identity-providers/config', { allowed_audiences: ['shop'] })
      }
    })
  })
})

describe('with access tokens of five minutes', () => {
  /** Excludes the tool server's own requests for the provider's keys. */
  const byTheHub = (peer: Delegation['idp'] | Delegation['tools'], name: string) =>
    peer.asked.flatMap(({ method, path, headers }) =>
      headers.get('user-agent') === 'inlay' || path === '/mcp' ? [`${method} ${name}${path}`] : [],
    )
  const everything = () => [...byTheHub(world.idp, 'provider'), ...byTheHub(world.tools, 'server')]
  const exchangeRedeemCall = ['POST provider/token', 'POST server/oauth/token', 'POST server/mcp']
  const forget = () => {
    world.idp.asked.length = 0
    world.tools.asked.length = 0
  }
  /** Registers a tool whose calls run until the test ends them. */
  function holdCalls(count: number) {
    const { promise: end, resolve: letGo } = Promise.withResolvers<void>()
    const { promise: begun, resolve: begin } = Promise.withResolvers<void>()
    let started = 0
    world.tools.more = (server) =>
      server.registerTool('wait', { annotations: { readOnlyHint: true } }, async () => {
        started += 1
        if (started === count) begin()
        await end
        return { content: [] }
      })
    return { begun, letGo }
  }
  let connector: { id: string }
  beforeEach(async () => {
    connector = await world.addConnector()
    await world.connect()
    world.tools.answer = { expires_in: 300 }
    forget()
  })

  test('the first call reads the documents, exchanges and redeems once, and connects', async () => {
    expect(await me.call('crm.whoami')).toEqual(asMember())
    expect(everything()).toEqual([
      'GET provider/.well-known/openid-configuration',
      'POST provider/token',
      'GET server/.well-known/oauth-protected-resource/mcp',
      'GET server/.well-known/oauth-authorization-server/mcp',
      'POST server/oauth/token',
      'POST server/mcp',
      'POST server/mcp',
    ])
  })

  test('every further call needs an exchange, a redemption and the call', async () => {
    await me.call('crm.whoami')
    for (const minutes of [0, 1, 3]) {
      forget()
      world.clock.now += minutes * 60_000
      expect(await me.call('crm.whoami')).toEqual(asMember())
      expect(everything()).toEqual(exchangeRedeemCall)
    }
  })

  test('overlapping calls share one token, even if they start one after the other', async () => {
    await me.call('crm.whoami')
    forget()
    const { begun, letGo } = holdCalls(1)
    const waiting = me.call('crm.wait')
    await begun
    await me.call('crm.whoami')
    await Promise.all(Array.from({ length: 20 }, () => me.call('crm.whoami')))
    letGo()
    await waiting
    expect(world.idp.tokenRequests()).toHaveLength(1)
    expect(world.tools.tokenRequests()).toHaveLength(1)
    await me.call('crm.whoami')
    expect(world.idp.tokenRequests(), 'after the last call ends').toHaveLength(2)
  })

  test('twenty concurrent first calls share the documents and the exchange', async () => {
    await Promise.all(Array.from({ length: 20 }, () => me.call('crm.whoami')))
    expect(everything().filter((line) => !line.endsWith('/mcp') || line.includes('well-known'))).toEqual([
      'GET provider/.well-known/openid-configuration',
      'POST provider/token',
      'GET server/.well-known/oauth-protected-resource/mcp',
      'GET server/.well-known/oauth-authorization-server/mcp',
      'POST server/oauth/token',
    ])
  })

  test('a shared token is not used after it has expired', async () => {
    const { begun, letGo } = holdCalls(1)
    const waiting = me.call('crm.wait')
    await begun
    world.clock.now += 300_000
    await me.call('crm.whoami')
    letGo()
    await waiting
    expect(world.idp.tokenRequests()).toHaveLength(2)
  })

  test('a shared token that the server rejects is replaced once for all calls', async () => {
    const { begun, letGo } = holdCalls(1)
    const waiting = me.call('crm.wait')
    await begun
    const refused = world.tools.asked.findLast(({ path }) => path === '/mcp')?.headers.get('authorization')
    world.tools.instead = (request) =>
      request.headers.get('authorization') === refused ? new Response(null, { status: 401 }) : undefined
    world.clock.now += 1_000
    await Promise.all([me.call('crm.whoami'), me.call('crm.whoami'), me.call('crm.whoami')])
    letGo()
    await waiting
    expect(world.idp.tokenRequests()).toHaveLength(2)
  })

  describe('while a call runs, its token is not used', () => {
    test.each<[string, () => Promise<unknown>, () => Promise<unknown>]>([
      [
        'for another user',
        () => world.connect({ sub: 'ann', email: 'admin@demo.test', email_verified: true }),
        async () => {
          const admin = await world.caller('admin@demo.test')
          expect(await admin.call('crm.whoami')).toEqual(asPerson('ann'))
          expect(world.idp.tokenRequests()).toHaveLength(2)
        },
      ],
      [
        'after the connector was disabled',
        () => world.asAdmin('PATCH', `/connectors/${connector.id}`, { status: 'disabled' }),
        () => expect(me.call('crm.whoami')).rejects.toMatchObject({ envelope: { data: { resource: 'hub_tool' } } }),
      ],
      [
        'after the connector lost a scope',
        () => world.asAdmin('PATCH', `/connectors/${connector.id}`, { scopes: ['mcp:tools:call'] }),
        async () => {
          await me.call('crm.whoami')
          expect(world.idp.tokenRequests().map(({ form }) => form.scope)).toEqual([
            'mcp:tools:read mcp:tools:call',
            'mcp:tools:call',
          ])
        },
      ],
      [
        'after the end user was deleted',
        async () => world.asAdmin('DELETE', `/end-users/${(await world.connect()).userId}`),
        () => expect(me.call('crm.whoami')).rejects.toEqual(failure('identity')),
      ],
      [
        'after the organization changed its identity provider',
        () => world.asAdmin('PATCH', '/identity-providers/config', { allowed_audiences: ['another'] }),
        async () => {
          await expect(me.call('crm.whoami')).rejects.toEqual(failure('identity'))
          await world.asAdmin('PATCH', '/identity-providers/config', { allowed_audiences: ['shop'] })
        },
      ],
    ])('%s', async (_, change, check) => {
      const { begun, letGo } = holdCalls(1)
      const waiting = me.call('crm.wait')
      await begun
      await change()
      await check()
      letGo()
      await waiting
    })
  })

  describe('the documents are read again', () => {
    const documents = () => everything().filter((line) => line.includes('well-known'))

    test('for every call if they are too long to cache', async () => {
      const { url, resource } = world.tools
      world.tools.instead = (request) =>
        request.url.includes('oauth-authorization-server')
          ? Response.json({ issuer: resource, token_endpoint: `${url}/oauth/token?${'x'.repeat(8 * 1024)}` })
          : undefined
      await me.call('crm.whoami')
      forget()
      expect(await me.call('crm.whoami')).toEqual(asMember())
      expect(documents()).toHaveLength(3)
    })

    test('after five minutes', async () => {
      await me.call('crm.whoami')
      forget()
      world.clock.now += 5 * 60_000
      await me.call('crm.whoami')
      expect(documents()).toHaveLength(3)
    })

    test.each<[string, () => Promise<unknown>]>([
      ['the connector', () => world.asAdmin('PATCH', `/connectors/${connector.id}`, { name: 'crm' })],
      [
        'the provider',
        async () => {
          await world.asAdmin('PATCH', '/identity-providers/config', { allowed_audiences: ['shop', 'other'] })
          await world.connect()
        },
      ],
    ])('after a change of %s', async (_, change) => {
      await me.call('crm.whoami')
      await change()
      forget()
      await me.call('crm.whoami')
      expect(documents()).toHaveLength(3)
      await world.asAdmin('PATCH', '/identity-providers/config', { allowed_audiences: ['shop'] })
    })

    test('when an exchange fails, because the server may have moved its token endpoint', async () => {
      await me.call('crm.whoami')
      world.clock.now += 30_000
      forget()
      const { url, resource } = world.tools
      world.tools.instead = async (request) => {
        const { pathname } = new URL(request.url)
        if (pathname.includes('oauth-authorization-server'))
          return Response.json({ issuer: resource, token_endpoint: `${url}/moved` })
        if (pathname === '/oauth/token') return new Response(null, { status: 404 })
        if (pathname !== '/moved') return undefined
        world.tools.instead = undefined
        const headers = { 'content-type': 'application/x-www-form-urlencoded' }
        return fetch(`${url}/oauth/token`, { method: 'POST', headers, body: await request.text() })
      }
      expect(await me.call('crm.whoami')).toEqual(asMember())
    })

    test('at most once in thirty seconds while exchanges fail', async () => {
      await me.call('crm.whoami')
      world.idp.instead = (request) =>
        request.url.endsWith('/token') ? Response.json({ error: 'invalid_target' }, { status: 400 }) : undefined
      forget()
      await expect(me.call('crm.whoami')).rejects.toEqual(failure('provider_exchange'))
      expect(documents()).toEqual([])
      world.clock.now += 30_000
      for (let count = 0; count < 3; count += 1) {
        await expect(me.call('crm.whoami')).rejects.toEqual(failure('provider_exchange'))
      }
      expect(documents()).toHaveLength(3)
    })
  })
})

describe('an ID token', () => {
  const held = async (userId: string) => world.service.kv.get(`identity:${await world.organization('demo')}:${userId}`)

  test('is held only after the first connector is added', async () => {
    const { userId } = await world.connect()
    expect(await held(userId)).toBeUndefined()
    await world.addConnector()
    const { idToken } = await world.connect()
    expect(await held(userId)).toEqual({
      end_user_id: userId,
      id_token: idToken,
      verified_email: 'member@demo.test',
      provider: expect.any(String),
    })
  })

  test('never appears in the database or the logs', async () => {
    await world.addConnector()
    const { idToken } = await world.connect()
    await me.call('crm.whoami')
    await world.service.activity.flush()
    expect(await dump(world)).not.toContain(idToken.slice(-40))
    expect(world.logged()).not.toContain(idToken.slice(-40))
  })

  test('isn’t found under the account’s previous address', async () => {
    await world.addConnector()
    await world.connect({ sub: 'two', email: 'admin@demo.test', email_verified: true })
    const admin = await world.caller('admin@demo.test')
    expect((await admin.call('crm.whoami')).isError).toBe(false)
    await world.connect({ sub: 'two', email: 'moved@demo.test', email_verified: true })
    await expect(admin.call('crm.whoami')).rejects.toEqual(failure('identity'))
  })

  test('belongs to the account that last used the address', async () => {
    await world.addConnector()
    const admin = await world.caller('admin@demo.test')
    for (const sub of ['first', 'second', 'first']) {
      await world.connect({ sub, email: 'admin@demo.test', email_verified: true })
      expect(await admin.call('crm.whoami')).toEqual(asPerson(sub))
      expect(await admin.call('crm.whoami'), 'from the cache').toEqual(asPerson(sub))
    }
  })
})

test('the key-value store contains no ID, access or refresh token in plain text', async () => {
  const connector = await world.addConnector()
  const { userId, idToken } = await world.connect()
  await me.call('crm.whoami')
  const delegated = await cached(connector, userId)

  const third = await startThirdParty()
  onTestFinished(() => third.stop())
  const consenting = (
    await world.asAdmin('POST', '/connectors', { name: 'third', kind: 'oauth', server_url: third.serverUrl })
  ).body
  const browser = await new Browser(world.url).open(`/connect/${consenting.id}`)
  await browser.press('member@demo.test')
  await browser.press('Connect')
  await browser.follow(`Continue to ${new URL(third.url).host}`)
  await browser.open(third.decide(browser.left?.href ?? ''))
  const member = await findUserByEmail(world.service, 'member@demo.test')
  const consented = await cached(consenting, member?.id ?? '')

  const stored = await readRawStore(world.config)
  const organization = await world.organization('demo')
  for (const key of [
    `identity:${organization}:${userId}`,
    `token:${organization}:${connector.id}:${userId}`,
    `token:${organization}:${consenting.id}:${member?.id}`,
  ])
    expect(stored.includes(key), key).toBe(true)
  const tokens = {
    'ID token': idToken,
    'access token from a delegation': delegated?.access_token,
    'access token from a consent': consented?.access_token,
    'refresh token': consented?.refresh_token,
  }
  for (const [name, token] of Object.entries(tokens)) {
    expect(token, name).toEqual(expect.stringMatching(/.{30}/))
    expect(stored.includes(String(token).slice(-30)), name).toBe(false)
  }
})

/** Reads the keys and values as they are stored, without decrypting them, and the bytes that their Base64 stands for. */
async function readRawStore({ redisUrl, redisPrefix, dataDir }: Delegation['config']): Promise<string> {
  const stored: string[] = []
  if (redisUrl) {
    const redis = connectRedis(redisUrl)
    for (const key of await redis.keys(`${redisPrefix}:*`)) stored.push(key, (await redis.get(key)) ?? '')
    redis.disconnect()
  } else {
    const file = new DatabaseSync(join(dataDir, 'kv.db'))
    for (const { key, value } of file.prepare('select key, value from entries').all())
      stored.push(String(key), String(value))
    file.close()
    // The files may also contain values that were deleted or replaced.
    for (const name of ['kv.db', 'kv.db-wal']) stored.push(readFileSync(join(dataDir, name), 'latin1'))
  }
  const decoded = stored.flatMap((text) =>
    text.split('.').map((part) => Buffer.from(part, 'base64url').toString('latin1')),
  )
  return [...stored, ...decoded].join('\n')
}

/** Simulates an attacker who can write to the store but has no key. */
async function moveCiphertext({ redisUrl, redisPrefix, dataDir }: Delegation['config'], from: string, to: string) {
  if (redisUrl) {
    const redis = connectRedis(redisUrl)
    await redis.copy(`${redisPrefix}:${from}`, `${redisPrefix}:${to}`, 'REPLACE')
    redis.disconnect()
  } else {
    const file = new DatabaseSync(join(dataDir, 'kv.db'))
    file.prepare('insert or replace into entries select ?, value, expires_at from entries where key = ?').run(to, from)
    file.close()
  }
}

/** Dumps all related tables. */
async function dump({ service, organization }: Delegation): Promise<string> {
  return service.database.asOrg(await organization('demo'), async (sql) => {
    const rows = [
      await sql`select * from connectors`,
      await sql`select * from end_users`,
      await sql`select * from audit_events`,
      await sql`select * from refusals`,
    ]
    return JSON.stringify(rows)
  })
}
