import { timingSafeEqual } from 'node:crypto'
import { type Context, Hono, type Next } from 'hono'
import { createAccess } from './access.ts'
import { api } from './api.ts'
import { serveApiDocs } from './api-docs.ts'
import { serviceUnavailable } from './errors.ts'
import { newId } from './lib/ids.ts'
import { createSigningKeys } from './oauth/signing-keys.ts'
import { describeApi } from './openapi.ts'
import { answerFailure, createRest, unknownRoute } from './rest.ts'
import type { Service } from './service.ts'
import { serveSetup } from './setup/setup.ts'
import { serveLocalBilling } from './subscriptions/local-billing-pages.ts'
import { answerPreflight } from './tickets/preflight.ts'
import { serveWelcome } from './welcome.ts'

export interface App {
  fetch: Hono['fetch']
  /** From now on new requests are told to come back later. */
  drain(): void
}

/** The whole server on one screen. */
export async function createApp(service: Service): Promise<App> {
  const app = new Hono()
  const access = await createAccess(service)
  const keys = createSigningKeys(service)
  const specification = describeApi(api.map(({ operation }) => operation))
  const specificationText = JSON.stringify(specification)
  let isDraining = false

  app.use(observe(service))
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
  app.route('/api', createRest(service, access, api))
  app.get('/oauth/jwks', async (c) => c.json(await keys.published(), 200, { 'cache-control': 'public, max-age=300' }))
  app.route('/setup', serveSetup(service))
  if (service.config.mode === 'development') app.route('/billing', serveLocalBilling(service))
  app.route('/', serveWelcome(service))

  app.notFound((c) => answerFailure(c, unknownRoute(c)).response)
  app.onError((error, c) => {
    const { response, failure } = answerFailure(c, error)
    const details = { request_id: c.res.headers.get('x-request-id'), err: failure.cause ?? failure }
    if (failure.envelope.status >= 500) service.log.error(details, 'request failed')
    else service.log.debug(details, 'request refused')
    return response
  })

  return {
    fetch: app.fetch,
    drain() {
      isDraining = true
    },
  }
}

const securityHeaders: [string, string][] = [
  ['x-content-type-options', 'nosniff'],
  ['x-frame-options', 'DENY'],
  ['referrer-policy', 'no-referrer'],
  ['cross-origin-opener-policy', 'same-origin'],
  ['content-security-policy', "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"],
]

/** A request id, security headers, one log line and one observation for every request. */
function observe({ log, config, metrics }: Service) {
  const headers = [...securityHeaders]
  if (config.mode === 'production') headers.push(['strict-transport-security', 'max-age=31536000; includeSubDomains'])
  return async (c: Context, next: Next) => {
    const started = performance.now()
    const requestId = newId()
    for (const [name, value] of headers) c.header(name, value)
    c.header('x-request-id', requestId)
    metrics.requestStarted()
    try {
      await next()
    } finally {
      const milliseconds = performance.now() - started
      const operation: string = c.get('operation') ?? 'other'
      metrics.requestEnded()
      metrics.observeRequest(operation, c.res.status, milliseconds / 1000)
      // The route, not the address: a path or a query could hold what must not be written down.
      log.info(
        {
          request_id: requestId,
          method: c.req.method,
          operation,
          status: c.res.status,
          ms: Math.round(milliseconds * 10) / 10,
        },
        'request',
      )
    }
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
