import { type Context, Hono } from 'hono'
import { z } from 'zod'
import type { AccessControl } from './access.ts'
import { Failure, internalError, invalid, notFound, payloadTooLarge } from './errors.ts'
import { InvalidJson, parseJson } from './lib/json.ts'
import { resources } from './oauth/access-tokens.ts'
import type { Observation } from './observation.ts'
import { type HttpExchange, needsBody, type Operation, type Route } from './operation.ts'
import type { Service } from './service.ts'

export const bodyLimit = 1024 * 1024

/** Serves operations over HTTP. The order of checks is the interface's: who, which organization, role, input, existence. */
export function createRest(
  service: Service,
  access: AccessControl,
  routes: readonly Route[],
  observe: () => Observation,
): Hono {
  const app = new Hono()
  const audience = resources(service.config.publicUrl).api
  for (const { operation, handler } of routes) {
    const readQuery = queryReader(operation)
    app.on(operation.method.toUpperCase(), operation.path.replace(/\{(\w+)\}/g, ':$1'), async (c) => {
      const observation = observe()
      const { headers } = observation
      const carryOut = async () => {
        const caller = await access.check(c.req.header('authorization'), operation.access, audience)
        const params = c.req.param() as Record<string, string>
        const query = readQuery(c)
        const body = operation.body ? await readCheckedBody(c, operation) : {}
        if (operation.resource && operation.params?.safeParse(params).success === false)
          throw notFound(operation.resource, Object.values(params)[0] ?? '')
        const input = { ...params, ...query, ...body }
        return answer(200, await handler(service, caller as never, input, exchangeOf(c, headers)), headers)
      }
      const response = await carryOut().catch((error) => answerFailure(service, error, observation))
      observation.end(operation.id, c.req.method, response.status)
      return response
    })
  }
  return app
}

const exchangeOf = (c: Context, headers: Record<string, string>): HttpExchange => ({
  origin: c.req.header('origin'),
  allowOrigin(origin) {
    headers['access-control-allow-origin'] = origin
    headers.vary = 'Origin'
  },
})

const apiHeaders = {
  'content-type': 'application/json',
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
}

/** The server writes a plain object of headers as it is; those set through the context it would copy several times. */
const answer = (status: number, value: unknown, headers: Record<string, string>) =>
  new Response(JSON.stringify(value), { status, headers: { ...apiHeaders, ...headers } })

/** The envelope for whatever was thrown. Only failures made for callers show their text; the log has the rest. */
export function answerFailure({ log }: Service, error: unknown, { requestId, headers }: Observation): Response {
  const failure = error instanceof Failure ? error : internalError(error)
  const { status } = failure.envelope
  const details = { request_id: requestId, err: failure.cause ?? failure }
  if (status >= 500) log.error(details, 'request failed')
  else log.debug(details, 'request refused')
  const challenge = status === 401 ? { 'www-authenticate': 'Bearer' } : {}
  return answer(status, failure.envelope, { ...headers, ...challenge, ...failure.headers })
}

export const unknownRoute = (c: Context) => notFound('route', `${c.req.method} ${c.req.path}`)

async function readCheckedBody(c: Context, operation: Operation): Promise<Record<string, unknown>> {
  const { body, refuseBody } = operation
  try {
    return check(body as z.ZodObject, await readBody(c, operation))
  } catch (error) {
    throw refuseBody && error instanceof Failure && error.envelope.status === 400 ? refuseBody(error) : error
  }
}

async function readBody(c: Context, operation: Operation): Promise<unknown> {
  if (c.req.header('content-encoding')) throw invalid('', 'Compressed request bodies are not accepted')
  const text = await readText(c.req.raw)
  if (text === '' && !needsBody(operation)) return {}
  const type = c.req.header('content-type') ?? ''
  if (!/^application\/json\s*(;|$)/i.test(type)) throw invalid('', 'Content-Type must be application/json')
  if (text === '') throw invalid('', 'A JSON body is required')
  try {
    return parseJson(text)
  } catch (error) {
    throw error instanceof InvalidJson ? invalid('', error.message) : error
  }
}

/** A body with a declared length is read at once; one without is counted while it arrives. */
async function readText(request: Request): Promise<string> {
  const declared = request.headers.get('content-length')
  if (declared !== null) {
    if (Number(declared) > bodyLimit) throw payloadTooLarge(bodyLimit)
    return decodeUtf8(await request.arrayBuffer())
  }
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of request.body ?? []) {
    size += chunk.byteLength
    if (size > bodyLimit) throw payloadTooLarge(bodyLimit)
    chunks.push(chunk)
  }
  return decodeUtf8(Buffer.concat(chunks))
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

function decodeUtf8(bytes: ArrayBuffer | Uint8Array): string {
  if (bytes.byteLength > bodyLimit) throw payloadTooLarge(bodyLimit)
  try {
    return utf8.decode(bytes)
  } catch {
    throw invalid('', 'The body is not valid UTF-8')
  }
}

/** Query values are text; those that the operation declares as numbers become numbers, if they look like one. */
function queryReader({ query }: Operation): (c: Context) => Record<string, unknown> {
  if (!query) return () => ({})
  const numeric = new Set(Object.keys(query.shape).filter((name) => isNumeric(query.shape[name] as z.ZodType)))
  return (c) => {
    const given = Object.entries(c.req.queries()).map(([name, values]) => {
      const [value = '', ...more] = values
      if (more.length > 0) throw invalid(name, 'Given more than once')
      if (value.includes('\0')) throw invalid(name, 'Text must not contain NUL')
      return [name, numeric.has(name) && /^-?\d+(\.\d+)?$/.test(value) ? Number(value) : value]
    })
    return check(query, Object.fromEntries(given))
  }
}

function isNumeric(type: z.ZodType): boolean {
  if (type instanceof z.ZodOptional || type instanceof z.ZodDefault || type instanceof z.ZodNullable) {
    return isNumeric(type.unwrap() as z.ZodType)
  }
  return type instanceof z.ZodNumber
}

function check<T extends z.ZodObject>(type: T, value: unknown): z.output<T> {
  const result = type.safeParse(value, { reportInput: true })
  if (result.success) return result.data
  throw describeIssue(result.error.issues[0] as z.core.$ZodIssue)
}

/** The first thing that is wrong, in the interface's words: a dotted path and a sentence. */
function describeIssue(issue: z.core.$ZodIssue): Failure {
  if (issue.code === 'unrecognized_keys') {
    return invalid([...issue.path, issue.keys[0] ?? ''].join('.'), `Unknown field "${issue.keys[0]}"`)
  }
  const isMissing = issue.code === 'invalid_type' && issue.input === undefined && issue.path.length > 0
  return invalid(issue.path.join('.'), isMissing ? 'Required' : issue.message)
}
