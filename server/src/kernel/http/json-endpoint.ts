import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Service } from '../foundation/service.ts'
import { Failure, internalError, invalid } from '../lib/errors.ts'
import { InvalidJson, parseJson } from '../lib/json.ts'
import { type Address, isJson, readText, sendJson } from './connections.ts'
import type { Observation } from './observation.ts'

/** Serves a request, and returns its name for logs and metrics. */
export type Endpoint = (
  request: IncomingMessage,
  response: ServerResponse,
  seen: Observation,
  address: Address,
) => Promise<string>

/** Browsers send preflight requests without a token. */
export const isPreflight = ({ method, headers }: IncomingMessage): boolean =>
  method === 'OPTIONS' && headers['access-control-request-method'] !== undefined

/**
 * The response to a preflight request whose origin can't be checked yet, because the key or token comes with the request
 * itself. It only lets the browser send that request; whether the page can read its response is decided then.
 */
export const preflightHeaders = (origin = 'null', allowedHeaders: string) => ({
  'access-control-allow-origin': origin,
  'access-control-allow-methods': 'POST',
  'access-control-allow-headers': allowedHeaders,
  'access-control-max-age': '600',
  vary: 'Origin',
})

/** The errors of a protocol for requests that aren't a POST of JSON. */
interface Refusals {
  method(headers: Record<string, string>): Error
  body(reason: string): Error
}

/** Checks the headers, before the body is read. */
export function requireJsonPost({ method, headers }: IncomingMessage, refusals: Refusals): void {
  if (method !== 'POST') throw refusals.method({ allow: 'POST' })
  const problem = isJson(headers['content-type']) ? compressionProblem(headers) : notJson
  if (problem) throw refusals.body(problem)
}

export const notJson = 'Content-Type must be application/json'

/** A compressed body isn't text. */
export const compressionProblem = (headers: IncomingMessage['headers']): string | undefined =>
  headers['content-encoding'] ? 'Compressed request bodies are not accepted' : undefined

export const readJson = async (request: IncomingMessage, limit: number): Promise<unknown> =>
  parseBody(await readText(request, limit))

export function parseBody(text: string): unknown {
  try {
    return parseJson(text)
  } catch (error) {
    throw error instanceof InvalidJson ? invalid('', error.message) : error
  }
}

/** Sends the error response for anything that was thrown, if the response hasn't begun. */
export function sendFailure(service: Service, error: unknown, response: ServerResponse, seen: Observation): void {
  const { status, headers, body } = describeFailure(service, error, seen)
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
