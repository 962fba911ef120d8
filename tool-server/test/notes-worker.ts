import {
  insufficientScope,
  type OAuthHelpers,
  OAuthProvider,
  type OAuthResourceAuth,
} from '@cloudflare/workers-oauth-provider'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import { z } from 'zod'

interface Store {
  get(key: string): Promise<string | null>
  put(key: string, value: string): Promise<void>
}

interface Env {
  OAUTH_PROVIDER: OAuthHelpers
  NOTES: Store
  /** The `jwks_uri` of each trusted issuer. */
  JWKS: Store
}

const read = ['notes:read']
const write = ['notes:read', 'notes:write']

let provider: OAuthProvider<Env> | undefined

/** Creates the provider on the first request, because only that has the server's URL. */
export default {
  fetch(request: Request, env: Env, ctx: never): Promise<Response> {
    provider ??= createProvider(new URL(request.url).origin)
    return provider.fetch(request, env, ctx)
  },
}

/** With the library's features for unknown clients, and for identity providers that issue assertions. */
const createProvider = (origin: string) =>
  new OAuthProvider<Env>({
    apiRoute: '/mcp',
    apiHandler: { fetch: serveMcp } as never,
    defaultHandler: { fetch: serveConsent } as never,
    authorizeEndpoint: '/authorize',
    tokenEndpoint: '/token',
    clientRegistrationEndpoint: '/register',
    clientIdMetadataDocumentEnabled: true,
    scopesSupported: [...write, 'offline_access'],
    requiredScopes: read,
    resourceMetadata: { resource: `${origin}/mcp`, authorization_servers: [origin] },
    enterpriseManagedAuthorization: {
      async trustedIssuers({ iss, env }) {
        const jwksUri = await env.JWKS.get(iss)
        return jwksUri ? { issuer: iss, jwksUri, algorithms: ['ES256'] } : null
      },
      mapClaims: async ({ claims, requestedScope }) => ({
        userId: encodeURIComponent(claims.sub),
        scope: requestedScope,
        props: { user: claims.email },
      }),
    },
  })

async function serveMcp(
  request: Request,
  { NOTES }: Env,
  { auth, props }: { auth: OAuthResourceAuth; props: { user: string } },
): Promise<Response> {
  const { params } = (await request.clone().json()) as { params?: { name?: string } }
  const needed = params?.name === 'add_note' ? write : read
  if (!needed.every((scope) => auth.scope.includes(scope))) return insufficientScope(auth, needed)
  return createMcpHandler(() => describeTools(NOTES, props.user)).fetch(request)
}

function describeTools(notes: Store, user: string): McpServer {
  const server = new McpServer({ name: 'notes', version: '1.0.0' })
  const list = async () => JSON.parse((await notes.get(user)) ?? '[]') as string[]
  const show = async () => ({
    content: [{ type: 'text' as const, text: JSON.stringify({ user, notes: await list() }) }],
  })
  server.registerTool('list_notes', { description: 'Lists the notes of the caller' }, show)
  server.registerTool(
    'add_note',
    { description: 'Adds a note', inputSchema: z.object({ text: z.string() }) },
    async (note) => {
      await notes.put(user, JSON.stringify([...(await list()), note.text]))
      return show()
    },
  )
  return server
}

/** Users enter a name, without authentication. */
async function serveConsent(request: Request, { OAUTH_PROVIDER: oauth }: Env): Promise<Response> {
  if (new URL(request.url).pathname !== '/authorize') return new Response(null, { status: 404 })
  if (request.method === 'GET') {
    const asked = await oauth.parseAuthRequest(request)
    const { clientName, clientDomain = 'nobody', scope } = await oauth.describeConsent(asked)
    const { handle, headers } = await oauth.beginConsent(asked)
    headers.set('content-type', 'text/html; charset=utf-8')
    const form = `<form method="post" action="/authorize">
      <input type="hidden" name="handle" value="${handle}"><input name="user">
      <button name="decision" value="allow">Allow</button><button name="decision" value="deny">Deny</button></form>`
    return new Response(`<h1>${clientName}, vouched for by ${clientDomain}, asks for ${scope.join(' ')}</h1>${form}`, {
      headers,
    })
  }
  const { handle = '', decision, user = '' } = Object.fromEntries(new URLSearchParams(await request.clone().text()))
  if (decision !== 'allow') {
    const { headers } = await oauth.denyConsent(request, handle)
    return new Response(null, { status: 302, headers })
  }
  const { request: asked, headers } = await oauth.approveConsent(request, handle)
  const granted = { request: asked, scope: asked.scope, userId: user, metadata: {}, props: { user } }
  const { redirectTo } = await oauth.completeAuthorization(granted)
  headers.set('location', redirectTo)
  return new Response(null, { status: 302, headers })
}
