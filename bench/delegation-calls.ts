// Measures the overhead of calling a remote tool as a user whose access token is cached, compared with the same MCP
// client that calls the server directly. Also measures each step with empty caches.
//
//   node bench/delegation-calls.ts [--rounds=7] [--calls=50]
//
// The identity provider and the tool server are the examples, each in its own process. Inlay runs in this process, once
// on the file store and once on Redis. Calls are sequential, and the variants take turns within each round.

import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { introduceShop } from '../examples/introduction.ts'
import { createAccess } from '../server/src/accounts/access/access.ts'
import { issueAccessToken } from '../server/src/accounts/access/access-tokens.ts'
import { findUserByEmail } from '../server/src/accounts/users/local-accounts.ts'
import { findOrganization } from '../server/src/console/demo/demo.ts'
import { readConfig } from '../server/src/kernel/config/config.ts'
import type { MemberCaller } from '../server/src/kernel/foundation/caller.ts'
import type { Service } from '../server/src/kernel/foundation/service.ts'
import { memberAsToolUser } from '../server/src/kernel/foundation/tool-user.ts'
import { resources } from '../server/src/kernel/http/protected-resources.ts'
import { startServer } from '../server/src/main.ts'
import { openConnector } from '../server/src/tools/connectors/connectors.ts'
import { readServerMetadata } from '../server/src/tools/connectors/server-metadata.ts'
import {
  findAssertionIssuer,
  redeemAssertion,
  requestAssertion,
} from '../server/src/tools/delegation/token-exchange.ts'
import { readSetup, requireIdentity, type Setup } from '../server/src/tools/remote-tools/delegates.ts'
import { connectClient, withBearer } from '../server/src/tools/remote-tools/remote-clients.ts'
import { createRemoteTools } from '../server/src/tools/remote-tools/remote-tools.ts'
import { startExampleProcesses } from '../server/test/example-processes.ts'
import { signInAtExample } from '../server/test/example-sign-in.ts'
import { folder, options, quantile, startRedis, stopAll } from './load.ts'

const tool = 'list_orders'
const atEnd: (() => unknown)[] = []

interface Way {
  name: string
  call(): Promise<unknown>
}

// --- the variants

/** Inlay on one store, with a connector to the example, and a page where the demo's administrator is signed in. */
async function startInlay(store: string, settings: Record<string, string>) {
  const examples = await startExampleProcesses()
  atEnd.push(examples.stop)
  const env = { PORT: '0', INLAY_LOG_LEVEL: 'error', INLAY_DATA_DIR: join(folder, store), ...settings }
  const { service, url, stop } = await startServer(readConfig(env))
  atEnd.push(stop)
  const user = await findUserByEmail(service, 'admin@demo.test')
  const organizationId = user && (await findOrganization(service, user.id, 'demo'))
  if (!user || !organizationId) throw new Error('The demo data is missing')
  const { api, mcp } = resources(url)
  const token = await issueAccessToken(service, {
    userId: user.id,
    organizationId,
    audience: [api, mcp],
    lifetimeSeconds: 3600,
  })
  const { identityProviderUrl: issuer, toolServerUrl } = examples
  const shopUrl = 'https://shop.example.com'
  const publishable_key = await introduceShop({ inlayUrl: url, token, shopUrl, issuer, toolServerUrl })
  const id_token = await signInAtExample(issuer, 'Demo Admin admin@demo.test')
  const ask = { publishable_key, id_token, embedding_origin: shopUrl }
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(`${api}/auth/pk-ticket`, { method: 'POST', headers, body: JSON.stringify(ask) })
  if (!response.ok) throw new Error(await response.text())
  const caller = (await createAccess(service).check(`Bearer ${token}`, { access: 'org' }, api)) as MemberCaller
  const setup = await readSetup(service, organizationId)
  return { service, caller, setup, token, mcpUrl: mcp }
}

/** Runs the hub's flow step by step. */
async function takeSteps(service: Service, caller: MemberCaller, setup: Setup) {
  const [connector] = setup.connectors
  if (!connector) throw new Error('The connector is missing')
  const took: Record<string, number> = {}
  const time = async <T>(step: string, work: () => Promise<T>): Promise<T> => {
    const start = performance.now()
    const result = await work()
    took[step] = performance.now() - start
    return result
  }
  const { identity, trusted } = await time('read the stored ID token', () =>
    requireIdentity(service, memberAsToolUser(caller), setup),
  )
  const delegation = openConnector(service, connector, trusted)
  const metadata = await time('metadata of the tool server', () => readServerMetadata(service, connector.server_url))
  const assertion = await time('exchange at the identity provider', async () =>
    requestAssertion(service, await findAssertionIssuer(service, trusted), identity.id_token, delegation, metadata),
  )
  const { access_token } = await time('redemption at the tool server', () =>
    redeemAssertion(service, assertion, delegation, metadata),
  )
  const client = await time('handshake', () =>
    connectClient(connector.server_url, (input, init) => fetch(input, withBearer(init, access_token))),
  )
  await time('the call', () => client.callTool({ name: tool, arguments: {} }))
  return { took, client }
}

async function startWays(store: string, settings: Record<string, string>) {
  const { service, caller, setup, token, mcpUrl } = await startInlay(store, settings)
  const { client } = await takeSteps(service, caller, setup)
  const remoteTools = await createRemoteTools(service, new Set())
  atEnd.push(remoteTools.close)
  const toolCall = { signal: new AbortController().signal, progress: () => undefined }
  const agent = new Client({ name: 'agent', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } })
  const requestInit = { headers: { authorization: `Bearer ${token}` } }
  await agent.connect(new StreamableHTTPClientTransport(new URL(mcpUrl), { requestInit }))
  const ways: Way[] = [
    { name: 'directly to the server', call: () => client.callTool({ name: tool, arguments: {} }) },
    {
      name: 'through the hub',
      async call() {
        const found = await remoteTools.find(memberAsToolUser(caller), `orders.${tool}`)
        return found?.call({}, toolCall, 'bench')
      },
    },
    {
      name: 'from an MCP client through /mcp and the hub',
      call: () => agent.callTool({ name: 'hub_call_tool', arguments: { tool_name: `orders.${tool}`, args: {} } }),
    },
  ]
  return { ways, steps: () => takeSteps(service, caller, setup) }
}

// --- the measurements

async function measure({ name, call }: Way): Promise<number> {
  const times: number[] = []
  for (let index = 0; index < Number(options.calls); index++) {
    const start = performance.now()
    const answer = await call()
    times.push(performance.now() - start)
    if (!JSON.stringify(answer).includes('1042')) throw new Error(`${name}: ${JSON.stringify(answer)}`)
  }
  return quantile(times, 0.5)
}

async function compareWays(store: string, ways: Way[]): Promise<void> {
  const medians = new Map<Way, number[]>(ways.map((way) => [way, []]))
  for (const way of ways) for (let warmUp = 0; warmUp < 5; warmUp++) await measure(way)
  for (let round = 0; round < Number(options.rounds); round++) {
    for (const [way, own] of medians) own.push(await measure(way))
  }
  const [direct = []] = medians.values()
  console.log(`\n| Call, ${store} | ms | Overhead (quartiles) |\n| --- | ---: | ---: |`)
  for (const [{ name }, own] of medians) {
    const over = own.map((ms, round) => (100 * ms) / (direct[round] ?? Number.NaN) - 100)
    const [low, middle, high] = [0.25, 0.5, 0.75].map((share) => quantile(over, share).toFixed(1))
    console.log(`| ${name} | ${quantile(own, 0.5).toFixed(2)} | ${middle} % (${low}–${high}) |`)
  }
}

async function showSteps(store: string, steps: () => ReturnType<typeof takeSteps>): Promise<void> {
  const runs: Record<string, number>[] = []
  for (let run = 0; run < Number(options.calls); run++) runs.push((await steps()).took)
  console.log(`\n| Call with empty caches, ${store} | ms |\n| --- | ---: |`)
  for (const step of Object.keys(runs[0] ?? {})) {
    const times = runs.map((took) => took[step] ?? Number.NaN)
    console.log(`| ${step} | ${quantile(times, 0.5).toFixed(2)} |`)
  }
}

try {
  for (const [store, settings] of [
    ['file', {}],
    ['Redis', { REDIS_URL: await startRedis() }],
  ] as const) {
    const { ways, steps } = await startWays(store, settings)
    await compareWays(store, ways)
    await showSteps(store, steps)
    for (const end of atEnd.splice(0).reverse()) await end()
  }
} finally {
  await stopAll()
}
process.exit()
