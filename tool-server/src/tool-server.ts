import { type Caller, createAccessTokens } from './access-tokens.ts'
import {
  type Answer,
  answerJson,
  type Headed,
  headerOf,
  noStore,
  readLimited,
  requireSafeUrl,
  toResponse,
} from './http.ts'
import { ProviderKeys } from './provider-keys.ts'
import { type Reason, type Refusal, report } from './refusals.ts'
import { type ReplayStore, rememberInMemory } from './replays.ts'
import { type Scope, scopes } from './scopes.ts'
import { answerRefusedGrant, grant, grantType, type TokenRequest, type TrustedHub } from './token-endpoint.ts'

// The other types and functions that an application uses.
export { type Answer, type Caller, type Headed, type Refusal, type ReplayStore, type Scope, toResponse }

/** A tool hub that can act for users, and the identity provider that vouches for them. */
export interface Hub {
  clientId: string
  clientSecret: string
  /** The identity provider's issuer, exactly as in its discovery document. */
  issuer: string
  /** URL of the provider's keys. Default: the one in the discovery document. */
  jwksUri?: string
}

export interface ToolServerOptions {
  /** The resource ID: the public URL of the MCP endpoint. It's also the issuer of the access tokens. */
  resource: string
  hubs: readonly Hub[]
  /** Secrets for access tokens, the same on all nodes. At least 32 characters; the first signs, all of them verify. */
  secrets: readonly string[]
  /** Lifetime of access tokens in seconds, 300 to 3600. Default: 1800. */
  lifetime?: number
  /** Records used assertions. Default: the process's memory, so several nodes need a shared store. */
  replays?: ReplayStore
  /** Called with the reason for each refusal, which the response doesn't reveal. */
  onRefusal?: (refusal: Refusal) => void
  fetch?: typeof fetch
  /** Returns milliseconds since 1970. */
  clock?: () => number
}

export type Verified = { ok: true; caller: Caller } | { ok: false; answer: Answer }

/** A request, independent of the framework. */
export interface Asked extends Headed {
  method: string
  path: string
  /** Returns undefined if the body has more than `maxBody` bytes. */
  readBody(): Promise<string | undefined>
}

export interface ToolServer {
  /** Responds to requests for metadata and tokens. Returns undefined for every other request. */
  fetch(request: Request): Promise<Response | undefined>
  /** Does the same as `fetch`, for adapters. */
  answer(asked: Asked): Promise<Answer | undefined>
  /** Returns the caller, if the request has a valid access token with all of these scopes. */
  verify(request: Headed, scopes?: readonly Scope[]): Promise<Verified>
}

/** Maximum size of a token request, in bytes. */
export const maxBody = 32 * 1024

export function createToolServer(options: ToolServerOptions): ToolServer {
  checkOptions(options)
  const { resource, secrets, lifetime = 1800, onRefusal, fetch = globalThis.fetch, clock = Date.now } = options
  const { replays = rememberInMemory(clock) } = options
  const hubs = trustHubs(options.hubs, fetch, clock)
  const issuers = new Map(options.hubs.map(({ clientId, issuer }) => [clientId, issuer]))
  const tokens = createAccessTokens({ resource, secrets, lifetime, issuers })
  const endpoint = { resource, scopes, hubs, replays, issue: tokens.issue, lifetime }
  const path = new URL(resource).pathname.replace(/\/$/, '')
  const metadataUrl = new URL(`${wellKnown}/oauth-protected-resource${path}`, resource).href
  const aboutResource = publish(protectedResource(resource))
  const documents = new Map([
    [`${wellKnown}/oauth-protected-resource`, aboutResource],
    [`${wellKnown}/oauth-protected-resource${path}`, aboutResource],
    [`${wellKnown}/oauth-authorization-server${path}`, publish(authorizationServer(resource))],
  ])

  async function answer(asked: Asked): Promise<Answer | undefined> {
    if (asked.path === '/oauth/authorize') return noAuthorization
    if (asked.path === '/oauth/token') return asked.method === 'POST' ? answerToken(asked) : notAllowed('POST')
    const document = documents.get(asked.path)
    return document && asked.method !== 'GET' ? notAllowed('GET') : document
  }

  async function answerToken(asked: Asked): Promise<Answer> {
    const request: TokenRequest = {
      contentType: headerOf(asked, 'content-type'),
      authorization: headerOf(asked, 'authorization'),
      body: await asked.readBody(),
    }
    try {
      return await grant(endpoint, request, clock())
    } catch (error) {
      return answerRefusedGrant(report(onRefusal, 'grant', error))
    }
  }

  async function verify(request: Headed, wanted: readonly Scope[] = []): Promise<Verified> {
    try {
      return { ok: true, caller: await tokens.verify(headerOf(request, 'authorization'), wanted, clock()) }
    } catch (error) {
      return { ok: false, answer: challenge(metadataUrl, report(onRefusal, 'access', error), wanted) }
    }
  }

  return {
    answer,
    verify,
    async fetch(request) {
      const { pathname } = new URL(request.url)
      // A client that disconnects while it sends the body gets no response.
      const readBody = () => readLimited(request.body, maxBody).catch(() => undefined)
      const answered = await answer({ method: request.method, path: pathname, headers: request.headers, readBody })
      return answered && toResponse(answered)
    },
  }
}

const wellKnown = '/.well-known'

/** RFC 9728. */
const protectedResource = (resource: string) => ({
  resource,
  authorization_servers: [resource],
  scopes_supported: scopes,
})

/** RFC 8414, with the profile of the identity assertion grant. */
const authorizationServer = (resource: string) => ({
  issuer: resource,
  token_endpoint: new URL('/oauth/token', resource).href,
  // The MCP SDK refuses metadata without this endpoint, which responds to every request with an error.
  authorization_endpoint: new URL('/oauth/authorize', resource).href,
  response_types_supported: [],
  grant_types_supported: [grantType],
  authorization_grant_profiles_supported: ['urn:ietf:params:oauth:grant-profile:id-jag'],
  token_endpoint_auth_methods_supported: ['client_secret_post', 'client_secret_basic'],
  scopes_supported: scopes,
})

const publish = (document: object): Answer => answerJson(200, document, { 'cache-control': 'public, max-age=3600' })

/** RFC 6749, section 4.1.2.1, but without a redirect, because clients of this server have no redirect URIs. */
const noAuthorization = answerJson(400, { error: 'unsupported_response_type' }, noStore)

const notAllowed = (method: string): Answer => ({ status: 405, headers: { allow: method }, body: '' })

/** RFC 6750 and RFC 9728: tells the client where the metadata is and which scopes the token needs. */
function challenge(metadataUrl: string, reason: Reason, wanted: readonly Scope[]): Answer {
  const isScope = reason === 'scope'
  const error = isScope ? 'insufficient_scope' : 'invalid_token'
  const parts = [
    ...(reason === 'missing' ? [] : [`error="${error}"`]),
    `resource_metadata="${metadataUrl}"`,
    `scope="${(wanted.length ? wanted : scopes).join(' ')}"`,
  ]
  const headers = { 'www-authenticate': `Bearer ${parts.join(', ')}`, ...noStore }
  return answerJson(isScope ? 403 : 401, { error }, headers)
}

/** Hubs with the same identity provider share its cached keys. */
function trustHubs(hubs: readonly Hub[], fetch: typeof globalThis.fetch, clock: () => number) {
  const providers = new Map<string, ProviderKeys>()
  const trust = ({ clientId, clientSecret, issuer, jwksUri }: Hub): [string, TrustedHub] => {
    const name = `${issuer} ${jwksUri}`
    const keys = providers.get(name) ?? new ProviderKeys({ issuer, jwksUri, fetch, clock })
    providers.set(name, keys)
    return [clientId, { clientId, secret: new TextEncoder().encode(clientSecret), issuer, keys }]
  }
  return new Map(hubs.map(trust))
}

function checkOptions({ resource, hubs, secrets, lifetime = 1800 }: ToolServerOptions): void {
  const { hash, search } = requireSafeUrl(resource, 'resource')
  if (hash || search) throw new TypeError('resource must have neither a query nor a fragment')
  if (!secrets.length || secrets.some((secret) => secret.length < 32)) {
    throw new TypeError('secrets must have at least one entry, and each entry at least 32 characters')
  }
  if (!(lifetime >= 300 && lifetime <= 3600)) throw new RangeError('lifetime must be 300 to 3600 seconds')
  if (new Set(hubs.map(({ clientId }) => clientId)).size < hubs.length)
    throw new TypeError('each hub must have a unique clientId')
  for (const { clientId, clientSecret, issuer, jwksUri } of hubs) {
    if (!clientId || !clientSecret) throw new TypeError('each hub must have a clientId and a clientSecret')
    requireSafeUrl(issuer, 'issuer')
    if (jwksUri !== undefined) requireSafeUrl(jwksUri, 'jwksUri')
  }
}
