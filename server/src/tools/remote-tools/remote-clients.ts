import { AsyncLocalStorage } from 'node:async_hooks'
import { callDeadlineMs, longestCallMs } from '@inlay/protocol'
import {
  Client,
  extractWWWAuthenticateParams,
  InsufficientScopeError,
  type JSONRPCMessage,
  ProtocolError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client'
import { LRUCache } from 'lru-cache'
import type { Service } from '../../kernel/foundation/service.ts'
import { readInParts } from '../../kernel/net/event-lines.ts'
import { createSafeFetch, SafeFetchError } from '../../kernel/net/safe-fetch.ts'
import { type Step, StepFailed } from '../connectors/steps.ts'
import type { AccessTokens } from './connector-tokens.ts'
import { type Delegate, delegateKey } from './delegates.ts'
import { MirroredHeaders } from './mirrored-headers.ts'

/** MCP clients for tool servers, each connected as one user. */
export interface RemoteClients {
  /** Throws StepFailed, or a ProtocolError if the server returns an error. */
  use<T>(step: Step, delegate: Delegate, work: (client: Client) => Promise<T>): Promise<T>
  /** The requests of `work` share one access token. */
  share<T>(delegate: Delegate, work: () => Promise<T>): Promise<T>
  close(): Promise<void>
}

/** Timeout of every request except tool calls. */
export const answerWithinMs = 5_000
/** Maximum number of cached clients. A dropped client's next call needs a new handshake. */
const mostClients = 500
/** Maximum age of a cached client. Tokens don't depend on it, because every request fetches its own. */
const clientLifetimeMs = 60 * 60_000
/** Maximum number of pages in a list of tools, each of at most 1 MiB. */
const mostListPages = 4
/** How long a stream may stay open after its result, so that its connection can be reused. */
const lingerMs = 1_000

interface Connection {
  client: Promise<Client>
  since: number
  /** User and connector as of the latest call. */
  delegate: Delegate
}

/** One use of a client. Its requests are aborted when it ends. */
interface Use {
  end: AbortController
  /** Why a response stream broke off. */
  failure: unknown
}

/** Tracks which use of a shared client sends a request, because the library doesn't report it. */
const uses = new AsyncLocalStorage<Use>()

export function createRemoteClients(service: Service, tokens: AccessTokens): RemoteClients {
  const { allowedPrivateNetworks } = service.config
  const connections = new LRUCache<string, Connection>({ max: mostClients })
  // Tool servers get the same time limits as pages.
  const patientFetch = createSafeFetch({
    allowedPrivateNetworks,
    timeoutMs: longestCallMs,
    streamIdleMs: callDeadlineMs,
  })

  function connect(key: string, delegate: Delegate): Connection {
    const connection = { delegate, since: service.clock() } as Connection
    const fetchAsUser: typeof fetch = (input, init) => {
      const one = uses.getStore()
      // The library doesn't expose why a stream failed.
      const onBroken = (reason: unknown) => {
        if (one) one.failure = reason
      }
      return fetchWithToken(tokens, connection.delegate, (token) =>
        patientFetch(input, { ...withBearer(init, token), onBroken }),
      )
    }
    connection.client = connectClient(delegate.connector.server_url, fetchAsUser)
    connection.client.catch(() => forget(key, connection))
    return connection
  }

  /** Removes a failed connection, so that the next call opens a new one. */
  function forget(key: string, connection: Connection): void {
    if (connections.get(key) === connection) connections.delete(key)
  }

  async function useOnce<T>(step: Step, delegate: Delegate, work: (client: Client) => Promise<T>): Promise<T> {
    const key = delegateKey(delegate)
    const cached = connections.get(key)
    const known = cached && service.clock() - cached.since < clientLifetimeMs ? cached : undefined
    const connection = known ?? connect(key, delegate)
    connection.delegate = delegate
    connections.set(key, connection)
    const client = await connection.client.catch((error) => {
      throw explainRemoteFailure(step, error)
    })
    const one: Use = { end: new AbortController(), failure: undefined }
    try {
      const result = await uses.run(one, () => work(client))
      setTimeout(() => one.end.abort(), lingerMs).unref()
      return result
    } catch (error) {
      one.end.abort()
      const isBrokenOff = error instanceof ProtocolError && error.data === one
      if (error instanceof ProtocolError && !isBrokenOff) throw error
      forget(key, connection)
      // The server no longer knows the session of the older protocol, so nothing was called.
      if (known && error instanceof SdkHttpError && error.status === 404) return useOnce(step, delegate, work)
      if (isBrokenOff)
        throw explainRemoteFailure(
          step,
          one.failure ?? new StepFailed(step, 'The tool server closed the stream before it sent a result'),
        )
      throw explainRemoteFailure(step, error)
    }
  }

  return {
    use: (step, delegate, work) => tokens.share(delegate, () => useOnce(step, delegate, work)),
    share: (delegate, work) => tokens.share(delegate, work),
    close: () => patientFetch.close(),
  }
}

type SendOptions = Parameters<StreamableHTTPClientTransport['send']>[1]

/** Fails requests whose stream broke off and closes cancelled ones, which the library doesn't always do. */
class RemoteTransport extends StreamableHTTPClientTransport {
  override send(message: JSONRPCMessage, options: SendOptions = {}): Promise<void> {
    const one = uses.getStore()
    if (!one || !('method' in message && 'id' in message)) return super.send(message, options)
    const signals = [one.end.signal, ...(options.requestSignal ? [options.requestSignal] : [])]
    // Ignored if the request already has its response.
    const error = { code: -32000, message: 'The response broke off', data: one }
    const onRequestStreamEnd = () => this.onmessage?.({ jsonrpc: '2.0', id: message.id, error })
    return super.send(message, { ...options, requestSignal: AbortSignal.any(signals), onRequestStreamEnd })
  }
}

/** Connects without the older protocol's GET stream for server-initiated messages, which nothing here handles. */
export async function connectClient(serverUrl: string, fetch: typeof globalThis.fetch): Promise<Client> {
  const client = new Client(
    { name: 'inlay', version: '1.0.0' },
    {
      capabilities: { extensions: { 'io.modelcontextprotocol/enterprise-managed-authorization': {} } },
      versionNegotiation: { mode: 'auto' },
      listMaxPages: mostListPages,
      responseCacheStore: new MirroredHeaders(),
      // Schemas are untrusted and never compiled, because a pattern in one could take forever to match.
      jsonSchemaValidator: {
        getValidator: () => (data) => ({ valid: true, data: data as never, errorMessage: undefined }),
      },
    },
  )
  const transport = new RemoteTransport(new URL(serverUrl), {
    fetch: async (input, init) =>
      init?.method === 'GET' ? new Response(null, { status: 405 }) : readInParts(await fetch(input, init)),
    requestInit: { redirect: 'manual' },
    reconnectionOptions: {
      maxRetries: 0,
      initialReconnectionDelay: 0,
      maxReconnectionDelay: 0,
      reconnectionDelayGrowFactor: 1,
    },
  })
  await client.connect(transport, { timeout: answerWithinMs })
  return client
}

/** Always sends a request. The client's cache only serves headers, see `MirroredHeaders`. */
export const listRemoteTools = (client: Client) =>
  client.listTools(undefined, { timeout: answerWithinMs, cacheMode: 'refresh' })

export function withBearer(init: RequestInit = {}, token: string): RequestInit {
  const headers = new Headers(init.headers)
  headers.set('authorization', `Bearer ${token}`)
  return { ...init, headers }
}

/** Sends a request with the current token. If the server rejects the token, retries once with a new one. */
async function fetchWithToken(
  tokens: AccessTokens,
  delegate: Delegate,
  send: (token: string) => Promise<Response>,
): Promise<Response> {
  const token = await getToken(tokens, delegate)
  const response = await send(token)
  const { error, scope } = extractWWWAuthenticateParams(response)
  const lacksScope = response.status === 403 && error === 'insufficient_scope'
  if (response.status !== 401 && !lacksScope) return response
  await response.body?.cancel()
  await tokens.drop(delegate, token, lacksScope ? scope : undefined)
  return send(await getToken(tokens, delegate))
}

/** Marks token errors, because the library may wrap errors that are thrown within it. */
class NoToken extends Error {}

const getToken = (tokens: AccessTokens, delegate: Delegate): Promise<string> =>
  tokens.get(delegate).catch((cause) => {
    throw new NoToken('Could not get an access token', { cause })
  })

export function explainRemoteFailure(step: Step, error: unknown): unknown {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof NoToken) return cause.cause
    if (cause instanceof StepFailed) return cause
    if (cause instanceof SafeFetchError) return new StepFailed(step, cause.message, { cause: error })
    if (cause instanceof SdkHttpError) return new StepFailed(step, explainStatus(cause.status), { cause: error })
    if (cause instanceof SdkError && cause.code === SdkErrorCode.RequestTimeout)
      return new StepFailed(step, 'The tool server did not respond in time', { cause: error })
    if (cause instanceof InsufficientScopeError)
      return new StepFailed(step, 'The tool server requires a scope that was not granted', {
        expected: cause.requiredScope,
        cause: error,
      })
  }
  return new StepFailed(step, 'The tool server’s response is not valid MCP', { cause: error })
}

function explainStatus(status: number): string {
  if (status === 401) return 'The tool server rejected a new access token (status 401)'
  if (status === 403) return 'The tool server doesn’t allow the user to do this (status 403)'
  return `The tool server responded with status ${status}`
}
