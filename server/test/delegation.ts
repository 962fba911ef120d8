import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pipeline } from 'node:stream/promises'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { expect } from 'vitest'
import { z } from 'zod'
import { scopesFor } from '../../tool-server/src/scopes.ts'
import { type Caller, createToolServer, type ToolServer, toResponse } from '../../tool-server/src/tool-server.ts'
import { forgetIdentity } from '../src/visitors/end-users/held-identities.ts'
import { confirmFrame, createFrameKey } from './frames.ts'
import type { Email } from './harness.ts'
import { type HttpService, startHttpService } from './http-server.ts'
import { openPage, type Page, type PageOptions, pageOrigin } from './page.ts'
import { callerFor } from './shop.ts'

/** A provider or a tool server that records its requests, and whose responses tests can replace. */
interface Peer {
  url: string
  asked: { method: string; path: string; headers: Headers; form: Record<string, string> }[]
  /** If set, replaces the responses for which it returns one. */
  instead: ((request: Request) => Response | undefined | Promise<Response | undefined>) | undefined
  /** The requests to its token endpoint. */
  tokenRequests(): { headers: Headers; form: Record<string, string> }[]
  stop(): Promise<void>
}

export interface TestIdp extends Peer {
  idToken(claims?: Record<string, unknown>): Promise<string>
  /** Overrides parts of the assertions that it issues. */
  assertion: { claims?: Record<string, unknown>; header?: Record<string, unknown> }
  answer: Record<string, unknown>
}

export interface TestToolServer extends Peer {
  resource: string
  /** Overrides fields of its token endpoint's response. */
  answer: Record<string, unknown>
  /** Registers tools in addition to `whoami`. */
  more: ((server: McpServer) => void) | undefined
}

/** An organization, its identity provider, and a remote tool server that trusts it. All of them use the same clock. */
export interface Delegation extends HttpService {
  idp: TestIdp
  tools: TestToolServer
  /** Signs an end user in at the provider and connects a page. */
  connect(claims?: Record<string, unknown>): Promise<{ userId: string; idToken: string }>
  /** Like `connect`, with an open socket. Its origin is the widget's frame by default. */
  page(options?: PageOptions & { claims?: Record<string, unknown> }): Promise<Page>
  /** A program with the member's ID token and a key of its own, which acts as the widget's frame. */
  relay(hello?: PageOptions['hello']): Promise<Page>
  addConnector(changes?: Record<string, unknown>): Promise<{ id: string; name: string; server_url: string }>
  caller(email?: Email): ReturnType<typeof callerFor>
  asAdmin(method: string, path: string, body?: unknown): ReturnType<HttpService['request']>
  refusals(): Promise<Record<string, unknown>[]>
  /** Restores the initial state. */
  reset(): Promise<void>
}

export const hub = { client_id: 'hub', client_secret: 'secret-of-the-hub-at-the-server' }
export const hubAtIdp = { idp_client_id: 'hub', idp_client_secret: 'secret:of+the/hub%at=the-provider' }
/** Tools that most tests call without asking the user. */
const unasked = ['whoami', 'work', 'any', 'fail', 'nothing', 'shout', 'route', 'more']
export const memberClaims = { sub: 'mem', email: 'Member@demo.test', email_verified: true }

export async function startDelegation(env: Record<string, string> = {}): Promise<Delegation> {
  const app = await startHttpService(env)
  const seconds = () => Math.floor(app.clock.now / 1000)
  const idp = await startIdp(seconds)
  const tools = await startToolServer(idp.url, () => app.clock.now)
  const asAdmin: Delegation['asAdmin'] = async (method, path, body) =>
    app.request(method, path, { token: await app.tokenFor('admin@demo.test', 'demo'), body })
  await asAdmin('PATCH', '/identity-providers/config', {
    idp_type: 'custom_oidc',
    idp_issuer: idp.url,
    allowed_audiences: ['shop'],
  })
  const { body: key } = await asAdmin('POST', '/publishable-keys', { name: 'Shop' })
  const connected = new Set<string>()
  const frame = await createFrameKey(app.url, () => app.clock.now)
  async function exchange(claims: Record<string, unknown>, embedding_origin?: string) {
    const idToken = await idp.idToken(claims)
    const { status, body } = await app.request('POST', '/auth/pk-ticket', {
      headers: embedding_origin === undefined ? {} : await frame.headers(idToken),
      body: { publishable_key: key.key, id_token: idToken, ...(embedding_origin && { embedding_origin }) },
    })
    expect(status, JSON.stringify(body)).toBe(200)
    connected.add(body.userId)
    return { userId: body.userId as string, ticket: body.ticket as string, idToken }
  }

  return {
    ...app,
    idp,
    tools,
    asAdmin,
    caller: (email = 'member@demo.test') => callerFor(app, email, 'demo'),
    async connect(claims = memberClaims) {
      const { userId, idToken } = await exchange(claims)
      return { userId, idToken }
    },
    async page({ claims = memberClaims, hello, ...options } = {}) {
      const { url = `${pageOrigin}/` } = hello ?? {}
      const { ticket, userId } = await exchange(claims, new URL(url).origin)
      await confirmFrame(app, frame, userId, { issuer: idp.url, browser: 'browser' })
      return openPage(app.local, ticket, { origin: app.url, ...options, hello: { ...hello, url } })
    },
    async relay(hello = {}) {
      const idToken = await idp.idToken(memberClaims)
      const own = await createFrameKey(app.url, () => app.clock.now)
      const { body } = await app.request('POST', '/auth/pk-ticket', {
        headers: await own.headers(idToken),
        body: { publishable_key: key.key, id_token: idToken, embedding_origin: pageOrigin },
      })
      connected.add(body.userId)
      return openPage(app.local, body.ticket, {
        origin: app.url,
        hello: { tab_id: 'relay', url: `${pageOrigin}/`, ...hello },
      })
    },
    async addConnector(changes = {}) {
      const { status, body } = await asAdmin('POST', '/connectors', {
        name: 'crm',
        kind: 'id_jag',
        server_url: tools.resource,
        ...hub,
        ...hubAtIdp,
        read_only_tools: unasked,
        ...changes,
      })
      expect(status, JSON.stringify(body)).toBe(200)
      return body
    },
    refusals: async () =>
      (await asAdmin('GET', '/diagnostics/refusals')).body.refusals.filter(
        ({ surface }: { surface: string }) => surface === 'delegated_identity',
      ),
    async reset() {
      Object.assign(idp, { asked: [], instead: undefined, assertion: {}, answer: {} })
      Object.assign(tools, { asked: [], instead: undefined, answer: {}, more: undefined })
      const { connectors } = (await asAdmin('GET', '/connectors')).body
      for (const { id } of connectors) await asAdmin('DELETE', `/connectors/${id}`)
      await app.service.activity.flush()
      const organizationId = await app.organization('demo')
      await app.service.database.asOrg(organizationId, (sql) => sql`delete from refusals`)
      for (const userId of connected) await forgetIdentity(app.service, organizationId, userId)
    },
    async close() {
      await app.close()
      await Promise.all([idp.stop(), tools.stop()])
    },
  }
}

/** An OpenID provider that exchanges its ID tokens for assertions. */
export async function startIdp(now: () => number): Promise<TestIdp> {
  const { privateKey, publicKey } = await generateKeyPair('ES256')
  const kid = randomUUID()
  const sign = (claims: Record<string, unknown>, header: Record<string, unknown>) =>
    new SignJWT({ iss: peer.url, iat: now(), jti: randomUUID(), ...claims })
      .setProtectedHeader({ alg: 'ES256', kid, ...header })
      .sign(privateKey)
  const peer = (await startPeer('/token', async (request, form) => {
    const { pathname } = new URL(request.url)
    if (pathname === '/.well-known/openid-configuration')
      return Response.json({ issuer: peer.url, jwks_uri: `${peer.url}/jwks`, token_endpoint: `${peer.url}/token` })
    if (pathname === '/jwks') return Response.json({ keys: [{ ...(await exportJWK(publicKey)), kid, use: 'sig' }] })
    if (pathname !== '/token') return undefined
    const { audience, resource, scope, subject_token = '' } = form
    const [, payload = ''] = subject_token.split('.')
    const { sub } = JSON.parse(Buffer.from(payload, 'base64url').toString())
    const claims = { sub, aud: audience, client_id: hub.client_id, resource, scope, exp: now() + 300 }
    return Response.json({
      access_token: await sign(
        { ...claims, ...peer.assertion.claims },
        { typ: 'oauth-id-jag+jwt', ...peer.assertion.header },
      ),
      issued_token_type: 'urn:ietf:params:oauth:token-type:id-jag',
      token_type: 'N_A',
      expires_in: 300,
      ...peer.answer,
    })
  })) as TestIdp
  return Object.assign(peer, {
    assertion: {},
    answer: {},
    idToken: (claims = {}) => sign({ sub: 'mem', aud: 'shop', exp: now() + 3600, ...claims }, { typ: 'JWT' }),
  })
}

/** A tool server built with our SDK. */
async function startToolServer(issuer: string, clock: () => number): Promise<TestToolServer> {
  let server: ToolServer | undefined
  const mcp = createMcpHandler(({ authInfo }) => describeTools(authInfo?.extra?.caller as Caller))
  const peer = (await startPeer('/oauth/token', async (request) => {
    const { pathname } = new URL(request.url)
    const answered = await server?.fetch(request.clone())
    if (answered && pathname === '/oauth/token' && answered.ok)
      return Response.json({ ...((await answered.json()) as object), ...peer.answer })
    if (answered) return answered
    if (pathname !== '/mcp' || !server) return undefined
    const parsedBody = await request.json()
    const verified = await server.verify(request, scopesFor(parsedBody))
    if (!verified.ok) return toResponse(verified.answer)
    const authInfo = { token: '', clientId: '', scopes: [], extra: { caller: verified.caller } }
    return mcp.fetch(request, { parsedBody, authInfo })
  })) as TestToolServer
  server = createToolServer({
    resource: `${peer.url}/mcp`,
    hubs: [{ clientId: hub.client_id, clientSecret: hub.client_secret, issuer }],
    secrets: ['a secret that only this test server has'],
    clock,
  })

  function describeTools({ subject, scopes }: Caller): McpServer {
    const described = new McpServer({ name: 'crm', version: '1.0.0' })
    described.registerTool(
      'whoami',
      { description: 'Who asks', inputSchema: z.object({ polite: z.boolean().optional() }) },
      ({ polite = false }) => ({ content: [{ type: 'text', text: JSON.stringify({ subject, scopes, polite }) }] }),
    )
    peer.more?.(described)
    return described
  }

  return Object.assign(peer, { resource: `${peer.url}/mcp`, answer: {}, more: undefined })
}

async function startPeer(
  tokenPath: string,
  answer: (request: Request, form: Record<string, string>) => Promise<Response | undefined>,
): Promise<Peer> {
  const server = createServer(async (incoming, outgoing) => {
    const { request, text } = await readRequest(peer.url, incoming)
    const { pathname } = new URL(request.url)
    const isForm = request.headers.get('content-type')?.startsWith('application/x-www-form-urlencoded')
    const form = isForm ? Object.fromEntries(new URLSearchParams(text)) : {}
    peer.asked.push({ method: request.method, path: pathname, headers: request.headers, form })
    const given = (await peer.instead?.(request.clone())) ?? (await answer(request, form))
    await sendResponse(outgoing, given ?? new Response(null, { status: 404 }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const peer: Peer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked: [],
    instead: undefined,
    tokenRequests: () => peer.asked.filter(({ path }) => path === tokenPath),
    async stop() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return peer
}

async function readRequest(url: string, incoming: IncomingMessage): Promise<{ request: Request; text: string }> {
  const { method = 'GET', headers } = incoming
  const text = Buffer.concat(await incoming.toArray()).toString()
  const request = new Request(new URL(incoming.url ?? '/', url), {
    method,
    headers: headers as Record<string, string>,
    ...(text && { body: text }),
  })
  return { request, text }
}

async function sendResponse(outgoing: ServerResponse, response: Response): Promise<void> {
  outgoing.writeHead(response.status, Object.fromEntries(response.headers))
  // The client may disconnect before the end.
  if (response.body) await pipeline(response.body, outgoing).catch(() => undefined)
  else outgoing.end()
}
