import { timingSafeEqual } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { getRequestListener } from '@hono/node-server'
import { type Context, Hono, type Next } from 'hono'
import { createAccess } from './access.ts'
import { api } from './api.ts'
import { serveApiDocs } from './api-docs.ts'
import { serveWidget } from './embed/embed.ts'
import { notFound, serviceUnavailable } from './errors.ts'
import { jsonHeaders, OpenAnswers, splitAddress } from './http.ts'
import { createMcp } from './mcp/server.ts'
import { serveAuthorizationServer } from './oauth/authorization-server.ts'
import { createSigningKeys } from './oauth/signing-keys.ts'
import { createObserver, type Observation } from './observation.ts'
import { describeApi } from './openapi.ts'
import { createRest, describeFailure } from './rest.ts'
import type { Runtime } from './runtime/runtime.ts'
import type { Service } from './service.ts'
import { serveSetup } from './setup/setup.ts'
import { serveSignIn } from './sign-in/sign-in.ts'
import { serveLocalBilling } from './subscriptions/local-billing-pages.ts'
import { answerPreflight } from './tickets/preflight.ts'
import { serveWelcome } from './welcome.ts'

export interface App {
  listener(request: IncomingMessage, response: ServerResponse): Promise<void>
  upgrade: Runtime['upgrade']
  /** From now on new requests are told to come back later. */
  drain(): void
}

/** The whole server on one screen. */
export async function createApp(service: Service): Promise<App> {
  const app = new Hono<PageEnv>()
  const observe = createObserver(service)
  const access = createAccess(service)
  const keys = createSigningKeys(service)
  const specification = describeApi(api.map(({ operation }) => operation))
  const specificationText = JSON.stringify(specification)
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

  app.use(async (_, next) => {
    if (isDraining) throw serviceUnavailable('The server is restarting')
    await next()
  })
  app.get('/api/spec.json', (c) => c.body(specificationText, 200, { 'content-type': 'application/json' }))
  app.route('/api/docs', serveApiDocs(specification, service.config.publicUrl))
  app.options('/api/auth/pk-ticket', answerPreflight)
  app.get('/oauth/jwks', async (c) => c.json(await keys.published(), 200, { 'cache-control': 'public, max-age=300' }))
  app.route('/', serveAuthorizationServer(service))
  app.route('/setup', serveSetup(service))
  app.route('/sign-in', serveSignIn(service))
  if (service.config.mode === 'development') app.route('/billing', serveLocalBilling(service))
  app.route('/', serveWidget(service))
  app.route('/', serveWelcome(service))

  const refuse = (error: unknown, c: Context<PageEnv>) => {
    const { status, headers, body } = describeFailure(service, error, c.get('observation'))
    return new Response(body, { status, headers: { ...headers, ...jsonHeaders } })
  }
  app.notFound((c) => refuse(notFound('route', `${c.req.method} ${c.req.path}`), c))
  app.onError(refuse)

  const pages = getRequestListener(app.fetch, { overrideGlobalObjects: false })
  const rest = createRest(service, access, api)
  const mcp = createMcp(service, access)

  const open = new OpenAnswers()

  return {
    /** Operations and tools are served as they come, without the pages' router: almost all requests are for them. */
    async listener(request, response) {
      const { method = 'GET', url = '/' } = request
      const { path, query } = splitAddress(url)
      const connection = open.begin(request, response)
      if (isDraining) {
        response.setHeader('connection', 'close')
        await pages(request, response)
      } else if (path === '/mcp') {
        const observation = observe()
        const operation = await mcp(request, response, observation)
        observation.end(operation, method, response.statusCode)
      } else {
        const match = rest.match(method, path)
        if (match) {
          const observation = observe()
          await rest.serve(match, query, request, response, observation)
          observation.end(match.operation.id, method, response.statusCode)
        } else await pages(request, response)
      }
      if (connection.answer === response) connection.answer = undefined
    },
    upgrade: service.runtime.upgrade,
    drain() {
      isDraining = true
      service.runtime.drain()
      open.closeConnections()
    },
  }
}

type PageEnv = { Variables: { observation: Observation; operation?: string } }

/** What browsers heed on documents alone. */
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

async function checkStores({ database, kv }: Service): Promise<Record<string, 'ok' | 'unavailable'>> {
  const checks = { database: database.asService((sql) => sql`select 1`), kv: kv.ping() }
  const states = Object.entries(checks).map(async ([name, check]) => {
    const state: 'ok' | 'unavailable' = await check.then(() => 'ok' as const).catch(() => 'unavailable' as const)
    return [name, state] as const
  })
  return Object.fromEntries(await Promise.all(states))
}

function mayReadMetrics({ config }: Service, c: Context): boolean {
  if (!config.metricsToken) return config.mode === 'development'
  const given = Buffer.from(c.req.header('authorization') ?? '')
  const wanted = Buffer.from(`Bearer ${config.metricsToken}`)
  return given.length === wanted.length && timingSafeEqual(given, wanted)
}
