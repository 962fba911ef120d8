import { timingSafeEqual } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import { getRequestListener, type HttpBindings } from '@hono/node-server'
import { type Context, Hono, type Next } from 'hono'
import { createAccess } from './accounts/access/access.ts'
import { createSigningKeys } from './accounts/access/signing-keys.ts'
import { createAuthorizationServer } from './accounts/authorization-server/authorization-server.ts'
import { serveConfirmation } from './accounts/confirmed-browsers/pages.ts'
import { serveOrganizationSignIn } from './accounts/organization-sign-in/pages.ts'
import { servePasskeyScript } from './accounts/passkeys/passkey-pages.ts'
import { serveSetup } from './accounts/setup/setup.ts'
import { serveAccountPages } from './accounts/sign-in/account-pages.ts'
import { serveJoinPages } from './accounts/sign-in/join-pages.ts'
import { serveSignIn } from './accounts/sign-in/sign-in.ts'
import { api, tags, tools } from './api.ts'
import type { Capabilities } from './capabilities.ts'
import type { Runtime } from './channels/sockets/endpoint.ts'
import { serveDashboard } from './console/dashboard/dashboard.ts'
import { describeApi } from './console/reference/openapi.ts'
import { serveInstallations } from './content/code-host/installation-pages.ts'
import { serveGithubApp } from './content/code-host/pages.ts'
import { serveGithubWebhooks } from './content/code-host/webhooks.ts'
import type { Service } from './kernel/foundation/service.ts'
import { Connections, isAnswering, jsonHeaders, splitAddress } from './kernel/http/connections.ts'
import { describeFailure, type Endpoint } from './kernel/http/json-endpoint.ts'
import { createObserver, type Observation } from './kernel/http/observation.ts'
import { publicDocument } from './kernel/http/protected-resources.ts'
import { createRest } from './kernel/http/rest.ts'
import { SharedFile, sendFile } from './kernel/http/shared-file.ts'
import { notFound } from './kernel/lib/errors.ts'
import { serveInvitations } from './organizations/organizations/invitation-pages.ts'
import { createScim, scimPath } from './organizations/scim/endpoint.ts'
import { serveLocalBilling } from './plans/billing/local-billing-pages.ts'
import { serveBillingWebhooks } from './plans/billing/webhooks.ts'
import { serveConnect } from './tools/consent/connect-pages.ts'
import { createMcp } from './tools/mcp/server.ts'
import { serveWidget } from './visitors/embed/embed.ts'
import { answerPreflight } from './visitors/tickets/cors.ts'

export interface App {
  /** Resolves when the request has been handled. Returns undefined if it waits for earlier ones of its connection. */
  listener(request: IncomingMessage, response: ServerResponse): Promise<void> | undefined
  upgrade: Runtime['upgrade']
  /** Makes readiness fail and asks widgets to reconnect elsewhere. Requests are served as usual. */
  drain(): void
  /** Closes each connection after its next response. */
  endConnections(): void
}

/** Everything that the server serves. */
export async function createApp(service: Capabilities): Promise<App> {
  const app = new Hono<PageEnv>()
  const observe = createObserver(service)
  const access = createAccess(service)
  const keys = createSigningKeys(service)
  const authorizationServer = createAuthorizationServer(service)
  let isDraining = false

  app.use(observePage(observe))
  app.get('/healthz', (c) => c.json({ status: 'ok' }))
  app.get('/readyz', async (c) => {
    if (isDraining) return c.json({ status: 'stopping' }, 503)
    const stores = await checkStores(service)
    const isReady = Object.values(stores).every((state) => state === 'ok')
    return c.json({ status: isReady ? 'ok' : 'unavailable', stores }, isReady ? 200 : 503)
  })
  app.get('/metrics', async (c) => {
    if (!mayReadMetrics(service, c)) return c.notFound()
    return c.body(await service.metrics.render(), 200, { 'content-type': service.metrics.contentType })
  })

  app.get('/api/spec.json', (c) => sendFile(c, describeOnce(), { 'cache-control': 'public, no-cache' }))
  app.options('/api/auth/pk-ticket', answerPreflight)
  app.options('/api/agent/session', answerPreflight)
  app.get('/oauth/jwks', async (c) => c.json(await keys.published(), 200, publicDocument))
  app.route('/', authorizationServer.pages)
  app.route('/', serveConnect(service, authorizationServer.session))
  app.route('/', serveInvitations(service, authorizationServer.session))
  app.route('/', serveJoinPages(service, authorizationServer.session))
  app.route('/', serveAccountPages(service, authorizationServer.session))
  app.route('/', servePasskeyScript())
  app.route('/', serveGithubApp(service, authorizationServer.session))
  app.route('/', serveInstallations(service, authorizationServer.session))
  app.route('/', serveGithubWebhooks(service))
  app.route('/setup', serveSetup(service))
  app.route('/sign-in', serveSignIn(service))
  app.route('/sign-in', serveOrganizationSignIn(service))
  if (service.billing) app.route('/billing', serveBillingWebhooks(service))
  if (service.config.mode === 'development' && !service.config.polar) app.route('/billing', serveLocalBilling(service))
  app.route('/', serveConfirmation(service))
  app.route('/', serveWidget(service))
  app.route('/', serveDashboard(service))

  const refuse = (error: unknown, c: Context<PageEnv>) => {
    const { status, headers, body } = describeFailure(service, error, c.get('observation'))
    return new Response(body, { status, headers: { ...headers, ...jsonHeaders } })
  }
  app.notFound((c) => refuse(notFound('route', `${c.req.method} ${c.req.path}`), c))
  app.onError(refuse)

  const pages = getRequestListener(app.fetch, { overrideGlobalObjects: false })
  const findOperation = createRest(service, access, api)
  const mcp = await createMcp(service, access, tools)
  const scim = createScim(service)

  function endpointOf(path: string): Endpoint | undefined {
    if (path === '/mcp' || path === '/mcp/') return mcp
    if (path === '/ag-ui' || path.startsWith('/ag-ui/')) return service.agUi.serve
    if (path.startsWith(scimPath)) return scim
  }

  /** Operations and tools bypass the pages' router, because they are almost all requests. */
  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = 'GET', url = '/' } = request
    const address = splitAddress(url)
    const endpoint = endpointOf(address.path) ?? findOperation(method, address.path)
    if (!endpoint) return pages(request, response)
    const observation = observe()
    const operation = await endpoint(request, response, observation, address)
    observation.end(operation, method, response.statusCode)
  }
  const connections = new Connections(serve)

  return {
    listener: (request, response) => connections.receive(request, response),
    async upgrade(request, socket, head) {
      // An upgrade would take over the socket while responses are still pending on it.
      if (isAnswering(socket)) socket.destroy()
      else await service.runtime.upgrade(request, socket, head)
    },
    drain() {
      isDraining = true
      service.runtime.drain()
    },
    endConnections() {
      service.agUi.endStreams()
      connections.close()
    },
  }
}

let description: SharedFile | undefined

/** Built on first use: generating the OpenAPI document takes longer than the rest of the start. */
function describeOnce(): SharedFile {
  const operations = api.map(({ operation }) => operation)
  description ??= new SharedFile(JSON.stringify(describeApi(operations, tags)), 'application/json')
  return description
}

type PageEnv = { Bindings: HttpBindings; Variables: { observation: Observation; operation?: string } }

/** Headers that browsers only apply to documents. */
const documentHeaders = {
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
}

const observePage = (observe: () => Observation) => async (c: Context<PageEnv>, next: Next) => {
  const observation = observe()
  c.set('observation', observation)
  Object.assign(observation.headers, documentHeaders)
  for (const [name, value] of Object.entries(observation.headers)) c.header(name, value)
  try {
    await next()
  } finally {
    observation.end(c.get('operation') ?? 'other', c.req.method, c.res.status)
  }
}

/** Load balancers time out probes after seconds, so a store that hasn't responded by then counts as unavailable. */
const readinessMs = 1_500

async function checkStores({ database, kv }: Service): Promise<Record<string, 'ok' | 'unavailable'>> {
  const checks = { database: database.ping(), kv: kv.ping() }
  const deadline = new AbortController()
  const late = delay(readinessMs, 'unavailable' as const, deadline).catch(() => 'unavailable' as const)
  const states = Object.entries(checks).map(async ([name, check]) => {
    const state = check.then(() => 'ok' as const).catch(() => 'unavailable' as const)
    return [name, await Promise.race([state, late])] as const
  })
  const result = Object.fromEntries(await Promise.all(states))
  deadline.abort()
  return result
}

function mayReadMetrics({ config }: Service, c: Context): boolean {
  if (!config.metricsToken) return config.mode === 'development'
  const given = Buffer.from(c.req.header('authorization') ?? '')
  const wanted = Buffer.from(`Bearer ${config.metricsToken}`)
  return given.length === wanted.length && timingSafeEqual(given, wanted)
}
