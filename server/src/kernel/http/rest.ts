import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { LRUCache } from 'lru-cache'
import { z } from 'zod'
import type { AccessControl, Caller } from '../foundation/caller.ts'
import { check } from '../foundation/input.ts'
import {
  defaultBodyLimit,
  type HttpExchange,
  needsBody,
  type Operation,
  type Route,
  type TextDocument,
} from '../foundation/operation.ts'
import type { Service } from '../foundation/service.ts'
import { Failure, internalError, invalid, notFound } from '../lib/errors.ts'
import { InvalidJson, parseJson } from '../lib/json.ts'
import { isJson, readText, sendJson } from './connections.ts'
import { createOnce } from './idempotency.ts'
import type { Observation } from './observation.ts'
import { resources } from './protected-resources.ts'
import { sendDocument, sendLines, sendRows } from './row-formats.ts'

type Fields = Record<string, unknown>

interface Reader {
  readQuery: (text: string) => Fields
  readBody: (text: string, headers: IncomingHttpHeaders) => Fields
}

type Served<Needs> = Route<Needs> & Reader & { bodyLimit: number }

/** The operation that a request matches, and its path parameters. */
interface Match<Needs> extends Served<Needs> {
  params: Record<string, string>
}

export interface Rest<Needs> {
  match(method: string, path: string): Match<Needs> | undefined
  serve(
    match: Match<Needs>,
    query: string,
    request: IncomingMessage,
    response: ServerResponse,
    seen: Observation,
  ): Promise<void>
}

/**
 * Serves operations over HTTP. Checks, in this order: authentication, organization, role, input, existence.
 *
 * It works on Node's requests, without an adapter or a router, because that takes less CPU time (bench/README.md, section
 * Tickets).
 */
export function createRest<Needs extends Service>(
  service: Needs,
  access: AccessControl,
  routes: readonly Route<Needs>[],
): Rest<Needs> {
  const audience = resources(service.config.publicUrl).api
  /** Keyed by method, then by path. */
  const byAddress = new Map<string, Map<string, Match<Needs>>>()
  const byPattern: { method: string; pattern: RegExp; served: Served<Needs> }[] = []
  for (const { operation, handler } of routes) {
    const { bodyLimit = defaultBodyLimit } = operation
    const served = { operation, handler, bodyLimit, readQuery: queryReader(operation), readBody: bodyReader(operation) }
    const method = operation.method.toUpperCase()
    const path = `/api${operation.path}`
    if (path.includes('{')) {
      const pattern = new RegExp(`^${path.replace(/\{(\w+)\}/g, '(?<$1>[^/]+)')}$`)
      byPattern.push({ method, pattern, served })
    } else byAddress.getOrInsertComputed(method, () => new Map()).set(path, { ...served, params: {} })
  }

  return {
    match(given, path) {
      const method = given === 'HEAD' ? 'GET' : given
      const known = byAddress.get(method)?.get(path)
      if (known) return known
      for (const candidate of byPattern) {
        if (candidate.method !== method) continue
        const values = candidate.pattern.exec(path)?.groups
        if (values) return { ...candidate.served, params: decodeParams(values) }
      }
    },
    async serve({ operation, handler, bodyLimit, readQuery, readBody, params }, query, request, response, observation) {
      const { headers } = observation
      try {
        const isPublic = operation.access === 'public'
        const caller = isPublic ? undefined : await access.check(request.headers.authorization, operation, audience)
        const queried = readQuery(query)
        if (operation.body) requirePlainBody(request.headers)
        const body = operation.body && readBody(await readText(request, bodyLimit), request.headers)
        if (operation.resource && operation.params?.safeParse(params).success === false)
          throw notFound(operation.resource, Object.values(params)[0] ?? '')
        const input = { ...body, ...queried, ...params }
        const exchange = exchangeOf(request, headers)
        const key = operation.creates ? request.headers['idempotency-key'] : undefined
        if (key === undefined) {
          const value = await handler(service, caller as never, input, exchange)
          if (operation.lines) return await sendLines(value as AsyncIterable<unknown[]>, response, headers)
          if (operation.documents) return await sendDocument(value as TextDocument, response, headers)
          if (operation.rows && sendRows(operation, input, value, response, headers)) return
          sendJson(response, 200, headers, JSON.stringify(value))
          return
        }
        const attempt = { operation, caller: caller as Caller, key: String(key), input }
        const created = await createOnce(service, attempt, () => handler(service, caller as never, input, exchange))
        if (created.isReplayed) headers['idempotent-replayed'] = 'true'
        sendJson(response, 200, headers, created.response)
      } catch (error) {
        sendFailure(service, ownFailure(operation, error), response, observation)
      }
    },
  }
}

const decodeParams = (values: Record<string, string>) =>
  Object.fromEntries(Object.entries(values).map(([name, text]) => [name, decode(text)]))

/** Leaves text with invalid escapes as it is; no resource matches it. */
function decode(text: string): string {
  try {
    return text.includes('%') ? decodeURIComponent(text) : text
  } catch {
    return text
  }
}

const single = (header: string | string[] | undefined) => (typeof header === 'string' ? header : undefined)

const exchangeOf = (request: IncomingMessage, headers: Record<string, string>): HttpExchange => ({
  origin: request.headers.origin,
  proof: single(request.headers.dpop),
  allowOrigin(origin) {
    headers['access-control-allow-origin'] = origin
    headers.vary = 'Origin'
  },
})

/** Some operations have their own error for an invalid body. */
const ownFailure = ({ refuseBody }: Operation, error: unknown): unknown =>
  refuseBody && error instanceof Failure && error.envelope.data?.code === 'VALIDATION_ERROR' ? refuseBody(error) : error

function sendFailure(service: Service, error: unknown, response: ServerResponse, observation: Observation): void {
  const { status, headers, body } = describeFailure(service, error, observation)
  if (response.headersSent) response.destroy()
  else sendJson(response, status, headers, body)
}

/**
 * Returns the error response for anything that was thrown. Only a `Failure` shows its message; the log has the rest.
 */
export function describeFailure({ log }: Service, error: unknown, { requestId, headers }: Observation) {
  const failure = error instanceof Failure ? error : internalError(error)
  const { status } = failure.envelope
  const details = { request_id: requestId, err: failure.cause ?? failure }
  if (failure.isElsewhere)
    log.warn({ request_id: requestId, reason: failure.message }, 'another service is unavailable')
  else if (status >= 500) log.error(details, 'request failed')
  else log.debug(details, 'request refused')
  const challenge = status === 401 ? { 'www-authenticate': 'Bearer' } : {}
  const own: Record<string, string> = { ...headers, ...challenge, ...failure.headers }
  return { status, headers: own, body: JSON.stringify(failure.envelope) }
}

/** Number of short bodies that a public operation caches. */
const cachedBodies = 1_000
const longestCached = 300

function bodyReader(operation: Operation): Reader['readBody'] {
  const { body, access } = operation
  // Public operations are called by pages, whose visitors all send the same body, so parsed bodies are cached.
  const understood = access === 'public' ? new LRUCache<string, Fields>({ max: cachedBodies }) : undefined
  const read = (text: string): Fields => {
    const cache = text.length <= longestCached ? understood : undefined
    const known = cache?.get(text)
    if (known) return known
    const fields = check(body as z.ZodObject, parseBody(text))
    cache?.set(text, fields)
    return fields
  }
  return (text, headers) => {
    if (text === '' && !needsBody(operation)) return read('{}')
    if (!isJson(headers['content-type'])) throw invalid('', 'Content-Type must be application/json')
    return read(text)
  }
}

/** Checked before the body is read, because a compressed body isn't text. */
function requirePlainBody(headers: IncomingHttpHeaders): void {
  if (headers['content-encoding']) throw invalid('', 'Compressed request bodies are not accepted')
}

function parseBody(text: string): unknown {
  if (text === '') throw invalid('', 'A JSON body is required')
  try {
    return parseJson(text)
  } catch (error) {
    throw error instanceof InvalidJson ? invalid('', error.message) : error
  }
}

/** Converts query values that the operation declares as numbers, if they look like one. */
function queryReader({ query }: Operation): Reader['readQuery'] {
  if (!query) return () => ({})
  const numeric = new Set(Object.keys(query.shape).filter((name) => isNumeric(query.shape[name] as z.ZodType)))
  return (text) => {
    const given = new Map<string, string | number>()
    for (const [name, value] of new URLSearchParams(text)) {
      if (given.has(name)) throw invalid(name, 'Must not be repeated')
      if (value.includes('\0')) throw invalid(name, 'Text must not contain NUL')
      given.set(name, numeric.has(name) && /^-?\d+(\.\d+)?$/.test(value) ? Number(value) : value)
    }
    return check(query, Object.fromEntries(given))
  }
}

function isNumeric(type: z.ZodType): boolean {
  if (type instanceof z.ZodOptional || type instanceof z.ZodDefault || type instanceof z.ZodNullable) {
    return isNumeric(type.unwrap() as z.ZodType)
  }
  return type instanceof z.ZodNumber
}
