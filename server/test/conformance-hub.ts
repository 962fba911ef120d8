import { ToolDefinition } from '@inlay/protocol'
import { type Client, ProtocolError } from '@modelcontextprotocol/client'
import type { Service } from '../src/kernel/foundation/service.ts'
import { createSecrets } from '../src/kernel/lib/secrets.ts'
import { createSafeFetch } from '../src/kernel/net/safe-fetch.ts'
import type { Kv } from '../src/kernel/stores/kv.ts'
import type { StoredConnector } from '../src/tools/connectors/connectors.ts'
import { readServerMetadata } from '../src/tools/connectors/server-metadata.ts'
import { StepFailed } from '../src/tools/connectors/steps.ts'
import { beginConsent, type Consenting, finishConsent, takeVisit } from '../src/tools/consent/consent.ts'
import { findAssertionIssuer, redeemAssertion, requestAssertion } from '../src/tools/delegation/token-exchange.ts'
import { createAccessTokens } from '../src/tools/remote-tools/connector-tokens.ts'
import {
  connectClient,
  createRemoteClients,
  listRemoteTools,
  withBearer,
} from '../src/tools/remote-tools/remote-clients.ts'
import { testSecret } from './engines/engines.ts'

/** The environment variable `MCP_CONFORMANCE_CONTEXT`, as the suite sets it for its client. */
export interface Context {
  client_id?: string
  client_secret?: string
  idp_client_id?: string
  idp_id_token?: string
  idp_issuer?: string
  toolCalls?: { name: string; arguments: Record<string, unknown> }[]
}

const secrets = createSecrets([testSecret])
const allowedPrivateNetworks = ['127.0.0.0/8', '::1/128']

/**
 * The hub as a client of the conformance suite: the functions that a call to a connector's tool runs through, without a
 * database. `context` is the suite's own, such as credentials and the calls to make.
 */
export async function runAsClient(scenario: string, server_url: string, context: Context): Promise<void> {
  const safeFetch = createSafeFetch({ allowedPrivateNetworks })
  const service = {
    fetch: safeFetch,
    clock: Date.now,
    kv: createMemoryKv(),
    secrets,
    config: { publicUrl: 'https://conformance-test.local', allowedPrivateNetworks },
  } as unknown as Service
  const connectAs = (token: string) =>
    connectClient(server_url, (input, init) => safeFetch(input, withBearer(init, token)))
  try {
    if (!scenario.startsWith('auth/')) await callTools(await connectAs('none'), context)
    else if (context.idp_id_token)
      await callTools(await connectAs(await exchangeIdToken(service, server_url, context)), context)
    else await callAsUser(service, server_url, context)
  } finally {
    await safeFetch.close()
  }
}

async function callTools(client: Client, context: Context): Promise<void> {
  const { tools } = await listRemoteTools(client)
  // The hub's own definition of a tool, which its callers see.
  const described = tools.map((tool) => ToolDefinition.parse(tool))
  const calls = context.toolCalls ?? described.map(({ name }) => ({ name, arguments: argumentsFor(name, described) }))
  for (const call of calls) {
    await client.callTool(call).catch((error) => {
      // As in the hub, a server's error ends one call and leaves the connection open.
      if (!(error instanceof ProtocolError)) throw error
    })
  }
}

/** The arguments that the suite's tools need. */
function argumentsFor(name: string, tools: ToolDefinition[]): Record<string, unknown> {
  if (name === 'add_numbers') return { a: 5, b: 3 }
  if (name === 'json_schema_echo') return { schema: tools.find((tool) => tool.name !== name)?.inputSchema }
  return {}
}

async function exchangeIdToken(service: Service, server_url: string, context: Context): Promise<string> {
  const { client_id = '', client_secret = '', idp_client_id = '', idp_id_token = '', idp_issuer = '' } = context
  const delegation = {
    server_url,
    audience_mode: 'issuer' as const,
    scopes: ['mcp:tools:read', 'mcp:tools:call'],
    client: { id: client_id, secret: client_secret },
    idpClient: { id: idp_client_id, secret: client_secret },
  }
  const metadata = await readServerMetadata(service, server_url)
  const provider = await findAssertionIssuer(service, { issuer: idp_issuer, audiences: null })
  const assertion = await requestAssertion(service, provider, idp_id_token, delegation, metadata)
  return (await redeemAssertion(service, assertion, delegation, metadata)).access_token
}

/** Consents again when the server asks for more scopes, up to three times. */
async function callAsUser(service: Service, server_url: string, context: Context): Promise<void> {
  const { client_id = null, client_secret } = context
  const id = 'connector'
  const client_secret_sealed = client_secret
    ? secrets.seal(client_secret, `connectors.client_secret_sealed:${id}`)
    : null
  const connector = { id, kind: 'oauth', server_url, client_id, client_secret_sealed, scopes: [] as string[] }
  const who = {
    organizationId: 'org',
    userId: 'user',
    connector: connector as unknown as StoredConnector,
    vouched: undefined,
  }
  const clients = createRemoteClients(service, createAccessTokens(service))
  for (let visits = 0; visits < 3; visits += 1) {
    await consent(service, who)
    try {
      await clients.use('tools_call', who, (client) => callTools(client, context))
      break
    } catch (error) {
      if (!(error instanceof StepFailed && error.step === 'consent')) throw error
    }
  }
  await clients.close()
}

/** The suite's authorization servers consent without asking. */
async function consent(service: Service, who: Consenting): Promise<void> {
  const target = await beginConsent(service, who)
  const response = await fetch(target, { redirect: 'manual' })
  const { searchParams } = new URL(response.headers.get('location') ?? '')
  const visit = await takeVisit(service, searchParams.get('state') ?? '')
  if (!visit) throw new Error('The redirect carries an unknown state')
  const iss = searchParams.get('iss') ?? undefined
  await finishConsent(service, who, visit, { code: searchParams.get('code') ?? '', iss })
}

function createMemoryKv(): Pick<Kv, 'get' | 'set' | 'setIfAbsent' | 'take' | 'delete' | 'count'> {
  const entries = new Map<string, unknown>()
  const get = async <T>(key: string) => entries.get(key) as T | undefined
  return {
    get,
    set: async (key, value) => void entries.set(key, value),
    setIfAbsent: async (key, value) => !entries.has(key) && Boolean(entries.set(key, value)),
    async take<T>(key: string) {
      const value = await get<T>(key)
      entries.delete(key)
      return value
    },
    delete: async (key) => void entries.delete(key),
    async count(key) {
      const count = ((await get<number>(key)) ?? 0) + 1
      entries.set(key, count)
      return count
    },
  }
}
