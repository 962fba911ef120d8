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
import { type Step, StepFailed } from '../connectors/steps.ts'
import type { Service } from '../foundation/service.ts'
import { createSafeFetch, SafeFetchError } from '../net/safe-fetch.ts'
import type { AccessTokens } from './connector-tokens.ts'
import { type Delegate, delegateKey } from './delegates.ts'
import { MirroredHeaders } from './mirrored-headers.ts'

/** MCP clients of tool servers, each connected as one person. */
export interface RemoteClients {
  /** Throws StepFailed, or the ProtocolError that the server answers with. */
  use<T>(step: Step, delegate: Delegate, work: (client: Client) => Promise<T>): Promise<T>
  /** The requests of `work` share one access token. */
  share<T>(delegate: Delegate, work: () => Promise<T>): Promise<T>
  close(): Promise<void>
}

/** As much as the other side gets for anything but the call of a tool. */
export const answerWithinMs = 5_000
/** The least recently used client beyond so many is dropped; its next call starts with a handshake. */
const mostClients = 500
/** A client serves for so long; tokens are fetched for every request anyway. */
const clientLifetimeMs = 60 * 60_000
/** A page of a list is 1 MiB at most. */
const mostListPages = 4
/** A stream that does not end after the answer is not left open for longer, nor cut before it could be used again. */
const lingerMs = 1_000

interface Connection {
  client: Promise<Client>
  since: number
  /** What is known of the person and the server at the time of the latest call. */
  delegate: Delegate
}

/** One use of a client. What it has asked for ends with it. */
interface Use {
  end: AbortController
  /** Why an answer broke off. */
  failure: unknown
}

/** Which use of a client asks: the client is shared, and the library does not say. */
const uses = new AsyncLocalStorage<Use>()

export function createRemoteClients(service: Service, tokens: AccessTokens): RemoteClients {
  const { allowedPrivateNetworks } = service.config
  const connections = new LRUCache<string, Connection>({ max: mostClients })
  // A tool may take as long as a page may.
  const patientFetch = createSafeFetch({
    allowedPrivateNetworks,
    timeoutMs: longestCallMs,
    streamIdleMs: callDeadlineMs,
  })

  function connect(key: string, delegate: Delegate): Connection {
    const connection = { delegate, since: service.clock() } as Connection
    const fetchAsPerson: typeof fetch = (input, init) => {
      const one = uses.getStore()
      // The library keeps to itself why a stream has failed.
      const onBroken = (reason: unknown) => {
        if (one) one.failure = reason
      }
      return fetchWithToken(tokens, connection.delegate, (token) =>
        patientFetch(input, { ...withBearer(init, token), onBroken }),
      )
    }
    connection.client = connectClient(delegate.connector.server_url, fetchAsPerson)
    connection.client.catch(() => forget(key, connection))
    return connection
  }

  /** Whatever happened to it, the next call does not inherit it. */
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
      // A session of the older protocol that the server has forgotten: nothing was called.
      if (known && error instanceof SdkHttpError && error.status === 404) return useOnce(step, delegate, work)
      if (isBrokenOff)
        throw explainRemoteFailure(step, one.failure ?? new StepFailed(step, 'The tool server broke off its answer'))
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

/** The library would wait on for an answer that has broken off; and in the older protocol it leaves open what was cancelled. */
class RemoteTransport extends StreamableHTTPClientTransport {
  override send(message: JSONRPCMessage, options: SendOptions = {}): Promise<void> {
    const one = uses.getStore()
    if (!one || !('method' in message && 'id' in message)) return super.send(message, options)
    const signals = [one.end.signal, ...(options.requestSignal ? [options.requestSignal] : [])]
    // Whoever has the answer already does not hear this.
    const error = { code: -32000, message: 'The answer broke off', data: one }
    const onRequestStreamEnd = () => this.onmessage?.({ jsonrpc: '2.0', id: message.id, error })
    return super.send(message, { ...options, requestSignal: AbortSignal.any(signals), onRequestStreamEnd })
  }
}

/** The stream of the older protocol, for what a server says unasked, is not opened: nobody would listen. */
export async function connectClient(serverUrl: string, fetch: typeof globalThis.fetch): Promise<Client> {
  const client = new Client(
    { name: 'inlay', version: '1.0.0' },
    {
      capabilities: { extensions: { 'io.modelcontextprotocol/enterprise-managed-authorization': {} } },
      versionNegotiation: { mode: 'auto' },
      listMaxPages: mostListPages,
      responseCacheStore: new MirroredHeaders(),
      // Schemas from outside are data: compiled, a pattern in one could take for ever.
      jsonSchemaValidator: {
        getValidator: () => (data) => ({ valid: true, data: data as never, errorMessage: undefined }),
      },
    },
  )
  const transport = new RemoteTransport(new URL(serverUrl), {
    fetch: async (input, init) => (init?.method === 'GET' ? new Response(null, { status: 405 }) : fetch(input, init)),
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

/** Always asks the server. The client's cache is for headers alone, see `MirroredHeaders`. */
export const listRemoteTools = (client: Client) =>
  client.listTools(undefined, { timeout: answerWithinMs, cacheMode: 'refresh' })

export function withBearer(init: RequestInit = {}, token: string): RequestInit {
  const headers = new Headers(init.headers)
  headers.set('authorization', `Bearer ${token}`)
  return { ...init, headers }
}

/** Every request carries the token that is good at that moment. One that the server refuses is dropped, once. */
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

/** What is thrown in the middle of the library's work may come out wrapped. */
class NoToken extends Error {}

const getToken = (tokens: AccessTokens, delegate: Delegate): Promise<string> =>
  tokens.get(delegate).catch((cause) => {
    throw new NoToken('There is no access token', { cause })
  })

export function explainRemoteFailure(step: Step, error: unknown): unknown {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof NoToken) return cause.cause
    if (cause instanceof StepFailed) return cause
    if (cause instanceof SafeFetchError) return new StepFailed(step, cause.message, { cause: error })
    if (cause instanceof SdkHttpError) return new StepFailed(step, explainStatus(cause.status), { cause: error })
    if (cause instanceof SdkError && cause.code === SdkErrorCode.RequestTimeout)
      return new StepFailed(step, 'The tool server did not answer in time', { cause: error })
    if (cause instanceof InsufficientScopeError)
      return new StepFailed(step, 'The tool server asks for a scope that was not granted', {
        expected: cause.requiredScope,
        cause: error,
      })
  }
  return new StepFailed(step, 'The tool server does not keep to the protocol', { cause: error })
}

function explainStatus(status: number): string {
  if (status === 401) return 'The tool server refuses the access token that it has just issued'
  if (status === 403) return 'The tool server does not let the person do this (status 403)'
  return `The tool server answered with status ${status}`
}
