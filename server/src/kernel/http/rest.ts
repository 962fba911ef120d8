import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { LRUCache } from 'lru-cache'
import { z } from 'zod'
import type { AccessControl, Caller } from '../foundation/caller.ts'
import type { Paged } from '../foundation/cursors.ts'
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
import { Failure, invalid, notFound } from '../lib/errors.ts'
import { isJson, readText, sendJson } from './connections.ts'
import { createOnce } from './idempotency.ts'
import { compressionProblem, type Endpoint, notJson, parseBody, sendFailure } from './json-endpoint.ts'
import type { Observation } from './observation.ts'
import { resources } from './protected-resources.ts'
import { sendDocument, sendLines, sendRows } from './row-formats.ts'

type Fields = Record<string, unknown>

interface Reader {
  readQuery: (text: string) => Fields
  readBody: (text: string, headers: IncomingHttpHeaders) => Fields
}

type Served<Needs> = Route<Needs> & Reader & { bodyLimit: number }

/** Returns the endpoint of the operation that a request matches. */
export type FindOperation = (method: string, path: string) => Endpoint | undefined

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
): FindOperation {
  const audience = resources(service.config.publicUrl).api
  /** Keyed by method, then by path. */
  const byAddress = new Map<string, Map<string, Endpoint>>()
  const byPattern: { method: string; pattern: RegExp; served: Served<Needs> }[] = []
  for (const { operation, handler } of routes) {
    const { bodyLimit = defaultBodyLimit } = operation
    const served = { operation, handler, bodyLimit, readQuery: queryReader(operation), readBody: bodyReader(operation) }
    const method = operation.method.toUpperCase()
    const path = `/api${operation.path}`
    if (path.includes('{')) {
      const pattern = new RegExp(`^${path.replace(/\{(\w+)\}/g, '(?<$1>[^/]+)')}$`)
      byPattern.push({ method, pattern, served })
    } else byAddress.getOrInsertComputed(method, () => new Map()).set(path, endpointOf(served, {}))
  }

  function endpointOf(served: Served<Needs>, params: Record<string, string>): Endpoint {
    return async (request, response, observation, { query }) => {
      await serve(served, params, query, request, response, observation)
      return served.operation.id
    }
  }

  async function serve(
    { operation, handler, bodyLimit, readQuery, readBody }: Served<Needs>,
    params: Record<string, string>,
    query: string,
    request: IncomingMessage,
    response: ServerResponse,
    observation: Observation,
  ): Promise<void> {
    const { headers } = observation
    try {
      const isPublic = operation.access === 'public'
      const caller = isPublic ? undefined : await access.check(request.headers.authorization, operation, audience)
      const queried = readQuery(query)
      // Before the body is read, because a compressed body isn't text. Its type is checked afterwards, if it isn't empty.
      const compressed = operation.body && compressionProblem(request.headers)
      if (compressed) throw invalid('', compressed)
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
        const { next_cursor = null } = (value ?? {}) as Partial<Paged<unknown>>
        if (next_cursor !== null) headers['next-cursor'] = next_cursor
        if (operation.rows && sendRows(operation, input, value, response, headers)) return
        sendJson(response, 200, headers, JSON.stringify(operation.pages ? (value as Paged<unknown>).body : value))
        return
      }
      const attempt = { operation, caller: caller as Caller, key: String(key), input }
      const created = await createOnce(service, attempt, () => handler(service, caller as never, input, exchange))
      if (created.isReplayed) headers['idempotent-replayed'] = 'true'
      sendJson(response, 200, headers, created.response)
    } catch (error) {
      sendFailure(service, ownFailure(operation, error), response, observation)
    }
  }

  return (given, path) => {
    const method = given === 'HEAD' ? 'GET' : given
    const known = byAddress.get(method)?.get(path)
    if (known) return known
    for (const candidate of byPattern) {
      if (candidate.method !== method) continue
      const values = candidate.pattern.exec(path)?.groups
      if (values) return endpointOf(candidate.served, decodeParams(values))
    }
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
    if (text === '') throw invalid('', 'A JSON body is required')
    const fields = check(body as z.ZodObject, parseBody(text))
    cache?.set(text, fields)
    return fields
  }
  return (text, headers) => {
    if (text === '' && !needsBody(operation)) return read('{}')
    if (!isJson(headers['content-type'])) throw invalid('', notJson)
    return read(text)
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
