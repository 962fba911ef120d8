import type { IncomingHttpHeaders } from 'node:http'
import type { AccessControl, Caller } from '../../kernel/foundation/caller.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { readText } from '../../kernel/http/connections.ts'
import { type Endpoint, isPreflight, requireJsonPost } from '../../kernel/http/json-endpoint.ts'
import { resources } from '../../kernel/http/protected-resources.ts'
import { InvalidJson, parseJson } from '../../kernel/lib/json.ts'
import { type Dispatcher, readFailure } from './dispatcher.ts'
import { checkLegacy, claimsModern, readEra } from './eras.ts'
import { Exchange } from './exchange.ts'
import { codes, encodeFault, encodeResult, Fault, idOf, kindOf, type Notification, type Request } from './messages.ts'

const batchLimit = 100
/** Maximum size of a message or batch, in bytes. Arguments for a page's tool can be large. */
const bodyLimit = 1024 * 1024

/** Streamable HTTP without sessions: every POST is self-contained. */
export function createEndpoint(service: Service, access: AccessControl, dispatcher: Dispatcher): Endpoint {
  const audience = resources(service.config.publicUrl).mcp
  const addresses = ownAddresses(service.config)

  async function answer(message: Request, caller: Caller, headers: IncomingHttpHeaders, exchange: Exchange) {
    const era = readEra(message, headers)
    return encodeResult(message.id, await dispatcher.dispatch(message, era, caller, exchange))
  }

  function notice({ method, params }: Notification, caller: Caller): void {
    if (method !== 'notifications/cancelled') return
    const { requestId } = params ?? {}
    if (typeof requestId === 'string' || typeof requestId === 'number') dispatcher.cancel(caller, requestId)
  }

  /** Only revision 2025-03-26 defines batches. */
  async function answerBatch(batch: unknown[], caller: Caller, headers: IncomingHttpHeaders, exchange: Exchange) {
    const requests = checkBatch(batch, headers)
    for (const message of batch) if (kindOf(message) === 'notification') notice(message as Notification, caller)
    const answers = requests.map((request) =>
      answer(request, caller, headers, exchange).catch((error) => encodeFault(request.id, toFault(error, exchange))),
    )
    if (answers.length === 0) exchange.accept()
    else exchange.send(200, `[${(await Promise.all(answers)).join(',')}]`)
  }

  function toFault(error: unknown, exchange: Exchange): Fault {
    if (error instanceof Fault) return error
    if (error instanceof InvalidJson) return new Fault(codes.parseError, error.message, { status: 400 })
    const { envelope, headers } = readFailure(service, error, exchange)
    const code = envelope.status >= 500 ? codes.internalError : codes.refused
    return new Fault(code, envelope.message, { status: envelope.status, data: envelope, headers })
  }

  return async (request, response, observation) => {
    const { headers } = request
    const exchange = new Exchange(request, response, observation)
    let message: unknown
    try {
      requireOwnAddress(headers, addresses)
      if (headers.origin !== undefined) {
        Object.assign(observation.headers, readableBy(headers.origin))
        if (isPreflight(request)) {
          exchange.allow(headers['access-control-request-headers'])
          return 'mcp'
        }
      }
      const caller = (await access.check(headers.authorization, { access: 'user' }, audience)) as Caller
      requireJsonPost(request, refusals)
      message = parseJson(await readText(request, bodyLimit))
      if (Array.isArray(message)) {
        await answerBatch(message, caller, headers, exchange)
        return 'mcp'
      }
      const kind = kindOf(message)
      if (kind === 'invalid') throw invalidMessage()
      if (kind === 'request') {
        exchange.send(200, await answer(message as Request, caller, headers, exchange))
        return dispatcher.nameOf(message as Request)
      }
      if (kind === 'notification') {
        readEra(message as Notification, headers)
        notice(message as Notification, caller)
      } else checkLegacy(headers)
      exchange.accept()
      return 'mcp'
    } catch (error) {
      const fault = toFault(error, exchange)
      exchange.send(fault.status, encodeFault(idOf(message), fault), fault.headers)
      return kindOf(message) === 'request' ? dispatcher.nameOf(message as Request) : 'mcp'
    }
  }
}

/** Returns the requests of a batch, or throws if any message in it is invalid. */
function checkBatch(batch: unknown[], headers: IncomingHttpHeaders): Request[] {
  if (batch.length === 0 || batch.length > batchLimit) {
    throw new Fault(codes.invalidRequest, `A batch must have 1 to ${batchLimit} messages`, { status: 400 })
  }
  for (const message of batch) {
    if (kindOf(message) === 'invalid') throw invalidMessage()
    const { method } = message as Request
    if (claimsModern(message as Request) || (method === 'initialize' && batch.length > 1)) {
      throw new Fault(codes.invalidRequest, `${method} can’t be part of this batch`, { status: 400 })
    }
  }
  checkLegacy(headers)
  return batch.filter((message) => kindOf(message) === 'request') as Request[]
}

const invalidMessage = () => new Fault(codes.invalidRequest, 'The body is not a JSON-RPC message', { status: 400 })

const refusals = {
  method: (headers: Record<string, string>) => new Fault(codes.refused, 'Method not allowed', { status: 405, headers }),
  body: (reason: string) => new Fault(codes.refused, reason, { status: 415 }),
}

/** Lets a page of an allowed origin read the response. Without credentials, because requests carry tokens. */
const readableBy = (origin: string) => ({
  'access-control-allow-origin': origin,
  'access-control-expose-headers': 'www-authenticate, x-request-id, retry-after',
  vary: 'Origin',
})

/** The hosts of this service, and the origins whose pages may call it. */
function ownAddresses({ publicUrl, mode, mcpAllowedOrigins }: Service['config']) {
  const { hostname, origin } = new URL(publicUrl)
  const origins = new Set([origin, ...mcpAllowedOrigins])
  const local = new Set(mode === 'development' ? ['localhost', '127.0.0.1', '[::1]'] : [])
  return {
    hasHost: (host: string) => host === hostname || local.has(host),
    hasOrigin: (text: string) => origins.has(text) || local.has(URL.parse(text)?.hostname ?? ''),
  }
}

/** Protects against DNS rebinding. */
function requireOwnAddress({ host = '', origin }: IncomingHttpHeaders, own: ReturnType<typeof ownAddresses>): void {
  if (!own.hasHost(host.replace(/:\d+$/, '').toLowerCase())) throw foreign('Host')
  if (origin !== undefined && !own.hasOrigin(origin)) throw foreign('Origin')
}

const foreign = (header: string) => new Fault(codes.refused, `The ${header} header is not allowed`, { status: 403 })
