import { type AccessReason, type Caller, createAccessTokens } from './access-tokens.ts'
import { type Answer, answerJson, toResponse } from './answers.ts'
import { type Headed, headerOf } from './headers.ts'
import { readLimited } from './limited-text.ts'
import { authorizationServer, protectedResource } from './metadata.ts'
import { ProviderKeys } from './provider-keys.ts'
import { type Refusal, Refused, report } from './refusals.ts'
import { type ReplayStore, rememberInMemory } from './replays.ts'
import { requireSafeUrl } from './safe-url.ts'
import { type Scope, scopes } from './scopes.ts'
import { answerRefusedGrant, type GrantReason, grant, type TokenRequest, type TrustedHub } from './token-endpoint.ts'

// What the author of a server meets besides.
export { type Answer, type Caller, type Headed, type Refusal, type ReplayStore, type Scope, toResponse }

/** A tool hub that may act for people, and the identity provider that says for whom. */
export interface Hub {
  clientId: string
  clientSecret: string
  /** The identity provider, exactly as its discovery document names itself. */
  issuer: string
  /** Where the provider's keys are. Without it, its discovery document says so. */
  jwksUri?: string
}

export interface ToolServerOptions {
  /** The resource ID: the address of the MCP endpoint as the world knows it. It is the token issuer's name too. */
  resource: string
  hubs: readonly Hub[]
  /** Sign the access tokens, the same on all nodes. At least 32 characters; the first signs, all of them verify. */
  secrets: readonly string[]
  /** Of access tokens, in seconds, 300 to 3600. Without it 1800. */
  lifetime?: number
  /** Without it each process remembers its own assertions, so several nodes need one. */
  replays?: ReplayStore
  /** Is told why somebody was refused, who is told less. */
  onRefusal?: (refusal: Refusal) => void
  fetch?: typeof fetch
  /** Milliseconds since 1970. */
  clock?: () => number
}

export type Verified = { ok: true; caller: Caller } | { ok: false; answer: Answer }

/** A request before it belongs to a framework. */
export interface Asked extends Headed {
  method: string
  path: string
  /** At most `maxBody` bytes; undefined when there are more. */
  readBody(): Promise<string | undefined>
}

export interface ToolServer {
  /** Answers requests for metadata and tokens. Others are not for it, and get undefined. */
  fetch(request: Request): Promise<Response | undefined>
  /** The same for adapters. */
  answer(asked: Asked): Promise<Answer | undefined>
  /** Who calls, if the request has an access token with all these scopes. */
  verify(request: Headed, scopes?: readonly Scope[]): Promise<Verified>
}

/** In bytes, of a request for a token. */
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
  const aboutResource = publish(protectedResource(resource, scopes))
  const documents = new Map([
    [`${wellKnown}/oauth-protected-resource`, aboutResource],
    [`${wellKnown}/oauth-protected-resource${path}`, aboutResource],
    [`${wellKnown}/oauth-authorization-server${path}`, publish(authorizationServer(resource, scopes))],
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
      return await grant(endpoint, request, clock() / 1000)
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      const { reason, cause } = error
      report(onRefusal, { of: 'grant', reason, ...(cause !== undefined && { cause }) })
      return answerRefusedGrant(reason as GrantReason)
    }
  }

  async function verify(request: Headed, wanted: readonly Scope[] = []): Promise<Verified> {
    try {
      return { ok: true, caller: await tokens.verify(headerOf(request, 'authorization'), wanted, clock() / 1000) }
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      report(onRefusal, { of: 'access', reason: error.reason })
      return { ok: false, answer: challenge(metadataUrl, error.reason as AccessReason, wanted) }
    }
  }

  return {
    answer,
    verify,
    async fetch(request) {
      const { pathname } = new URL(request.url)
      // Whoever leaves in the middle does not wait for the answer.
      const readBody = () => readLimited(request.body, maxBody).catch(() => undefined)
      const answered = await answer({ method: request.method, path: pathname, headers: request.headers, readBody })
      return answered && toResponse(answered)
    },
  }
}

const wellKnown = '/.well-known'

const publish = (document: object): Answer => answerJson(200, document, { 'cache-control': 'public, max-age=3600' })

/** RFC 6749, section 4.1.2.1, without a redirect: no client has a redirect URI here. */
const noAuthorization = answerJson(400, { error: 'unsupported_response_type' }, { 'cache-control': 'no-store' })

const notAllowed = (method: string): Answer => ({ status: 405, headers: { allow: method }, body: '' })

/** RFC 6750 and RFC 9728: where to go for a token, and what it has to allow. */
function challenge(metadataUrl: string, reason: AccessReason, wanted: readonly Scope[]): Answer {
  const isScope = reason === 'scope'
  const error = isScope ? 'insufficient_scope' : 'invalid_token'
  const parts = [
    ...(reason === 'missing' ? [] : [`error="${error}"`]),
    `resource_metadata="${metadataUrl}"`,
    `scope="${(wanted.length ? wanted : scopes).join(' ')}"`,
  ]
  const headers = { 'www-authenticate': `Bearer ${parts.join(', ')}`, 'cache-control': 'no-store' }
  return answerJson(isScope ? 403 : 401, { error }, headers)
}

/** Hubs of the same identity provider share what is known of its keys. */
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
    throw new TypeError('secrets must be at least one, each of at least 32 characters')
  }
  if (!(lifetime >= 300 && lifetime <= 3600)) throw new RangeError('lifetime must be 300 to 3600 seconds')
  if (new Set(hubs.map(({ clientId }) => clientId)).size < hubs.length) throw new TypeError('clientId must be unique')
  for (const { clientId, clientSecret, issuer, jwksUri } of hubs) {
    if (!clientId || !clientSecret) throw new TypeError('a hub must have a clientId and a clientSecret')
    requireSafeUrl(issuer, 'issuer')
    if (jwksUri !== undefined) requireSafeUrl(jwksUri, 'jwksUri')
  }
}
