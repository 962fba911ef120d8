import type { IncomingMessage, ServerResponse } from 'node:http'
import { LRUCache } from 'lru-cache'
import { readText } from '../../kernel/http/connections.ts'
import type { Endpoint } from '../../kernel/http/json-endpoint.ts'
import type { Observation } from '../../kernel/http/observation.ts'
import { Failure, internalError } from '../../kernel/lib/errors.ts'
import { isId } from '../../kernel/lib/ids.ts'
import { InvalidJson, parseJson } from '../../kernel/lib/json.ts'
import { fingerprint } from '../../kernel/lib/secrets.ts'
import { createFairQueue, QueueFull } from '../../kernel/lib/shares/fair-queue.ts'
import { upTo } from '../../kernel/lib/up-to.ts'
import { recordRefusal } from '../diagnostics/refusals.ts'
import { directorySyncs, directoryTokenUse } from '../directories/directory-activity.ts'
import { describeServer } from './discovery.ts'
import { scimGroups } from './groups.ts'
import {
  bareTag,
  type Directory,
  type Fields,
  notThere,
  type Reply,
  type ResourceRequest,
  type Resources,
  type ScimService,
} from './resources.ts'
import { errorSchema, groupType, type ResourceType, userType } from './schemas.ts'
import { badRequest, quote, ScimError } from './scim-error.ts'
import { scimUsers } from './users.ts'

/** Enough for a PUT of a group with `scimLimits.membersPerGroup` members. */
const bodyLimit = 2 * 1024 * 1024
/** Per directory and node. Okta and Entra send at most about 25 requests per second. */
export const scimRate = { perSecond: 50, atOnce: 200 }
const knownDirectories = 10_000
/** Requests of one directory on a node, so that their bodies take at most 32 MiB together. */
const mostInFlight = 16
/** Requests that are handled at a time, and that wait, per node. Directories take turns. */
const queueLimits = { atATime: 4, waiting: 400 }
/** Anyone can send well-formed tokens that don't exist, so only a few are looked up at a time. */
const lookups = { atATime: 2, waiting: 400 }
const seenTokens = 10_000

export const scimPath = '/scim/v2/'

interface Token {
  id: string
  organization_id: string
  directory_id: string
  is_expired: boolean
}

interface Bucket {
  left: number
  at: number
}

const resourceTypes: Record<string, { type: ResourceType; resources: Resources }> = {
  Users: { type: userType, resources: scimUsers },
  Groups: { type: groupType, resources: scimGroups },
}

/** Serves SCIM 2.0 (RFC 7644) at `/scim/v2/{directory_id}`. Every refusal of a known token is shown to administrators. */
export function createScim(service: ScimService): Endpoint {
  const { activity, clock, config, database } = service
  const inTurn = createFairQueue(queueLimits)
  const buckets = new LRUCache<string, Bucket>(upTo(knownDirectories))
  const inFlight = new Map<string, number>()
  const lookUp = createFairQueue(lookups)
  /** Tokens that were valid before. They have a lane of their own, which unknown tokens can't crowd. */
  const seen = new LRUCache<string, true>(upTo(seenTokens))

  async function findToken(authorization = ''): Promise<Token | undefined> {
    const token = /^Bearer +(scim_[\w-]{43})$/i.exec(authorization)?.[1]
    if (token === undefined) return undefined
    const hash = fingerprint(token)
    const [found] = await lookUp(seen.has(hash) ? 'seen' : 'new', () =>
      database.asKeyHolder(
        hash,
        (sql) => sql<Token>`
          select id, organization_id, directory_id, coalesce(expires_at <= now(), false) as is_expired
          from directory_tokens where token_hash = ${hash}`,
      ),
    )
    if (found) seen.set(hash, true)
    return found
  }

  function requireRate(directoryId: string): void {
    const { perSecond, atOnce } = scimRate
    const now = clock()
    const { left, at } = buckets.get(directoryId) ?? { left: atOnce, at: now }
    const refilled = Math.min(atOnce, left + (Math.max(0, now - at) / 1000) * perSecond)
    buckets.set(directoryId, { left: Math.max(0, refilled - 1), at: now })
    if (refilled < 1) throw tooBusy(`This directory sends more than ${perSecond} requests per second. Slow down.`)
  }

  async function whileCounted<T>(directoryId: string, work: () => Promise<T>): Promise<T> {
    const count = inFlight.get(directoryId) ?? 0
    if (count >= mostInFlight) throw tooBusy(`This directory sends more than ${mostInFlight} requests at a time.`)
    inFlight.set(directoryId, count + 1)
    try {
      return await work()
    } finally {
      const left = (inFlight.get(directoryId) ?? 1) - 1
      if (left > 0) inFlight.set(directoryId, left)
      else inFlight.delete(directoryId)
    }
  }

  async function answer(
    token: Token,
    directoryId: string,
    place: readonly string[],
    query: string,
    request: IncomingMessage,
  ): Promise<Reply> {
    if (token.directory_id !== directoryId) throw unauthorized('The bearer token belongs to another directory.')
    if (token.is_expired) {
      throw unauthorized('The bearer token was replaced and has expired. Enter the new one, or rotate it again.')
    }
    const directory: Directory = {
      id: directoryId,
      organizationId: token.organization_id,
      url: `${config.publicUrl}${scimPath}${directoryId}`,
    }
    requireRate(directoryId)
    const reply = await whileCounted(directoryId, async () => {
      const parts = new URLSearchParams(query)
      // Read before its turn, because a slow client must not hold up others.
      const body = hasBody(request) ? await readBody(request) : {}
      return inTurn(directoryId, () => dispatch(service, directory, place, parts, body, request))
    })
    activity.note(directorySyncs, token.organization_id, directoryId)
    activity.note(directoryTokenUse, token.organization_id, token.id)
    return reply
  }

  return async (request, response, observation, { path, query }) => {
    const [directoryId = '', ...place] = path.slice(scimPath.length).split('/').filter(Boolean).map(decode)
    const operation = `scim ${nameOf(place)}`
    let token: Token | undefined
    try {
      token = await findToken(request.headers.authorization)
      if (!token) throw unauthorized('The bearer token is missing or isn’t valid. Copy the token of this directory.')
      send(request, response, await answer(token, directoryId, place, query, request), observation)
    } catch (caught) {
      const error = readError(caught)
      if (error.status >= 500) service.log.error({ request_id: observation.requestId, err: caught }, 'request failed')
      if (token && isTold(error)) {
        recordRefusal(service, token.organization_id, {
          surface: 'scim',
          step: `${request.method?.toLowerCase()} ${nameOf(place)}`,
          code: error.scimType ?? String(error.status),
          message: error.message,
          // The token's, because the URL can name any.
          directory_id: token.directory_id,
        })
      }
      sendError(response, error, observation)
    }
    return operation
  }
}

/** Missing resources and outdated versions are part of normal work. */
const isTold = ({ status }: ScimError): boolean => status < 500 && status !== 404 && status !== 412

const decode = (text: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

const nameOf = ([kind = '']: readonly string[]): string =>
  kind in resourceTypes || ['ServiceProviderConfig', 'ResourceTypes', 'Schemas'].includes(kind) ? kind : 'other'

async function dispatch(
  service: ScimService,
  directory: Directory,
  place: readonly string[],
  query: URLSearchParams,
  body: Fields,
  request: IncomingMessage,
): Promise<Reply> {
  const { method = 'GET' } = request
  const [kind = '', id, ...more] = place
  const isRead = method === 'GET' || method === 'HEAD'
  const document = isRead && more.length === 0 ? describeServer(directory, place) : undefined
  if (document) return document
  const known = Object.hasOwn(resourceTypes, kind) ? resourceTypes[kind] : undefined
  if (kind === 'Bulk' || kind === 'Me') throw new ScimError(501, `/${kind} isn’t supported.`)
  if (!known || more.length > 0) throw new ScimError(404, `There is no ${quote(`/${place.join('/')}`)} in SCIM.`)
  const { type, resources } = known
  for (const value of query.values())
    if (value.includes('\0')) throw badRequest('invalidValue', 'Text must not contain NUL.')
  const work: ResourceRequest = { id: id ?? '', body, query, ifMatch: request.headers['if-match'] }
  if (id === undefined) {
    if (isRead) return resources.list(service, directory, query)
    if (method === 'POST') return resources.create(service, directory, work)
    throw notAllowed(method, 'GET, POST')
  }
  const { read, replace, patch, remove } = resources
  const methods = { GET: read, HEAD: read, PUT: replace, PATCH: patch, DELETE: remove }
  if (!Object.hasOwn(methods, method)) throw notAllowed(method, 'GET, PUT, PATCH, DELETE')
  if (!isId(id)) throw notThere(type, id)
  return methods[method as keyof typeof methods](service, directory, work)
}

const hasBody = ({ method = '' }: IncomingMessage): boolean => ['POST', 'PUT', 'PATCH'].includes(method)

const notAllowed = (method: string, allow: string) =>
  new ScimError(405, `${method} isn’t possible here. Use ${allow}.`, undefined, { allow })

async function readBody(request: IncomingMessage): Promise<Fields> {
  const { 'content-type': type = '', 'content-encoding': encoding } = request.headers
  if (encoding) throw new ScimError(415, 'Compressed request bodies are not accepted.')
  if (!/^application\/(scim\+)?json\s*(;|$)/i.test(type)) {
    throw new ScimError(415, 'The Content-Type must be application/scim+json or application/json.')
  }
  const body = parseBody(await readText(request, bodyLimit))
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body as Fields
  throw badRequest('invalidSyntax', 'The body must be a JSON object.')
}

function parseBody(text: string): unknown {
  try {
    return parseJson(text)
  } catch (error) {
    throw error instanceof InvalidJson ? badRequest('invalidSyntax', `${error.message}.`) : error
  }
}

const unauthorized = (detail: string) => new ScimError(401, detail, undefined, { 'www-authenticate': 'Bearer' })
const tooBusy = (detail: string) => new ScimError(429, detail, undefined, { 'retry-after': '1' })

/** Only messages for the client are shown; the log has the rest. */
function readError(error: unknown): ScimError {
  if (error instanceof ScimError) return error
  if (error instanceof QueueFull) return tooBusy('Too many requests of directories are waiting. Try again.')
  const { envelope, headers } = error instanceof Failure ? error : internalError(error)
  const { status, message, data } = envelope
  const details = typeof data?.details === 'string' ? `: ${data.details}` : ''
  const scimType = status === 400 ? 'invalidSyntax' : undefined
  return new ScimError(status, `${message}${details}`, scimType, headers)
}

const contentType = 'application/scim+json'

function send(request: IncomingMessage, response: ServerResponse, reply: Reply, { headers }: Observation): void {
  const { status, body, headers: own = {} } = reply
  const isKnown = request.method === 'GET' && own.etag !== undefined && hasVersion(request, own.etag)
  sendText(response, isKnown ? 304 : status, { ...headers, ...own }, isKnown ? undefined : body)
}

const hasVersion = ({ headers }: IncomingMessage, etag: string): boolean =>
  (headers['if-none-match'] ?? '').split(',').some((tag) => tag.trim() === '*' || bareTag(tag) === bareTag(etag))

function sendError(response: ServerResponse, error: ScimError, { headers }: Observation): void {
  const { status, scimType, message } = error
  const body = { schemas: [errorSchema], status: String(status), ...(scimType && { scimType }), detail: message }
  sendText(response, status, { ...headers, ...error.headers }, body)
}

function sendText(response: ServerResponse, status: number, headers: Record<string, string>, body?: Fields): void {
  const text = body && JSON.stringify(body)
  response.writeHead(status, {
    ...headers,
    'cache-control': 'no-store',
    ...(text !== undefined && { 'content-type': contentType, 'content-length': Buffer.byteLength(text) }),
  })
  response.end(text)
}
