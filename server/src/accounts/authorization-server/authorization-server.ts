import { type Context, Hono } from 'hono'
import { cors } from 'hono/cors'
import type { Provider } from 'oidc-provider'
import type { Service } from '../../kernel/foundation/service.ts'
import type { BrowserSession, NodeEnv } from '../../kernel/http/browser-session.ts'
import { alreadySent } from '../../kernel/http/connections.ts'
import { ownPagesOnly, refuseForeign } from '../../kernel/http/forms.ts'
import { protectedResources, publicDocument, scope } from '../../kernel/http/protected-resources.ts'
import { createSigningKeys } from '../access/signing-keys.ts'
import { limitRegistrations, limitVisits } from '../sign-in/visit-limits.ts'
import { createBrowserSession } from './browser-session.ts'
import { isLoopback } from './clients/redirect-uris.ts'
import { serveInteractions } from './interactions.ts'
import { createOidcServer } from './oidc-server.ts'

const endpoints = [
  'authorize',
  'authorize/:uid',
  'token',
  'revoke',
  'register',
  'logout',
  'logout/confirm',
  'logout/success',
]
/** Requests for these pages can store something without authentication. */
const anonymousPages = ['/oauth/authorize', '/oauth/authorize/:uid', '/oauth/logout', '/oauth/interaction/*']
const discovery = ['oauth-authorization-server', 'openid-configuration']

/** `/oauth/*`, the discovery documents for it, and the browser session. */
export function createAuthorizationServer(service: Service): { pages: Hono<NodeEnv>; session: BrowserSession } {
  const { publicUrl } = service.config
  const app = new Hono<NodeEnv>()
  const keys = createSigningKeys(service)
  let latest: { kid: string; provider: Provider; handle: ReturnType<Provider['callback']> } | undefined

  /** A provider has a fixed signing key, so a rotation replaces it; requests in flight keep the old one. */
  async function current() {
    const key = await keys.current()
    if (latest?.kid !== key.kid) {
      const provider = createOidcServer(service, key)
      latest = { kid: key.kid, provider, handle: provider.callback() }
    }
    return latest
  }
  const currentOidcServer = async () => (await current()).provider

  const pass = (name: string, rewrite: (url: URL) => void = () => undefined) => {
    return async (c: Context<NodeEnv>): Promise<Response> => {
      c.set('operation' as never, `oauth ${name}` as never)
      const { incoming, outgoing } = c.env
      const url = new URL(incoming.url ?? '/', publicUrl)
      rewrite(url)
      incoming.url = url.pathname + url.search
      // The library builds URLs from these headers; only the configured public URL counts, never the request's.
      Object.assign(incoming.headers, originHeaders)
      for (const [header, value] of c.res.headers) outgoing.setHeader(header, value)
      const { handle } = await current()
      await handle(incoming, outgoing)
      return alreadySent(outgoing.statusCode)
    }
  }
  const { host, protocol } = new URL(publicUrl)
  const originHeaders = { host, 'x-forwarded-host': host, 'x-forwarded-proto': protocol.slice(0, -1) }

  // Prevents DNS rebinding: a foreign page could point its own name at this machine and pass for our origin. With
  // https, TLS prevents that, and a proxy may send any host.
  app.use('/oauth/*', async (c, next) => {
    const named = URL.parse(`http://${c.req.header('host')}`)
    const isForeign = named && named.host !== host && !isLoopback(named)
    if (protocol === 'http:' && isForeign) return refuseForeign(c)
    await next()
  })
  for (const path of anonymousPages) app.use(path, limitVisits(service))
  app.post('/oauth/logout/confirm', ownPagesOnly(publicUrl))
  // Browser-based clients register too; the request carries no credentials of the user.
  app.use('/oauth/register', cors())
  app.post('/oauth/register', limitRegistrations(service))
  app.route('/oauth/interaction', serveInteractions(service, currentOidcServer))
  for (const endpoint of endpoints) {
    app.all(
      `/oauth/${endpoint}`,
      pass(endpoint, (url) => {
        // Default scope (RFC 6749, section 3.3).
        if (endpoint === 'authorize' && !url.searchParams.has('scope')) url.searchParams.set('scope', scope)
      }),
    )
  }
  for (const name of discovery) {
    const path = `/.well-known/${name}`
    const toRoot = pass(name, (url) => {
      url.pathname = path
    })
    // Clients that mistake a resource or an endpoint for the issuer request the document below its path.
    for (const below of ['', '/oauth', '/api', '/mcp']) app.all(path + below, toRoot)
  }
  for (const [path, metadata] of protectedResources(publicUrl)) {
    // Clients send custom headers, so browsers send a preflight request.
    app.use(path, cors({ origin: '*', allowMethods: ['GET'] }))
    app.get(path, (c) => c.json(metadata, 200, publicDocument))
  }
  return { pages: app, session: createBrowserSession(service, currentOidcServer) }
}
