import type { Config } from './config.ts'
import { createRemoteTools } from './connectors/remote-tools.ts'
import { keepFinishing } from './departures/departures.ts'
import { type Activity, createActivity } from './diagnostics/activity.ts'
import { createIdentities, type Identities } from './end-users/identities.ts'
import { createHub, type Hub } from './hub/hub.ts'
import { type ClientAddress, createClientAddress } from './lib/client-address.ts'
import type { Clock } from './lib/clock.ts'
import type { Log } from './lib/log.ts'
import { createSafeFetch } from './lib/safe-fetch.ts'
import { tools } from './mcp.ts'
import { createMetrics, type Metrics } from './metrics.ts'
import { createKeyLookup, type KeyLookup } from './publishable-keys/key-lookup.ts'
import { createRuntime, type Runtime } from './runtime/runtime.ts'
import type { Stores } from './stores/stores.ts'
import { type BillingProvider, createBilling } from './subscriptions/billing-provider.ts'
import { createContentsDays, keepExpiring } from './tool-calls/contents.ts'
import { createToolCallRecorder, type ToolCallRecorder } from './tool-calls/recorder.ts'

/** What a capability's functions work with: passed in, never reached for. */
export interface Service extends Foundation {
  keyLookup: KeyLookup
  identities: Identities
  activity: Activity
  toolCalls: ToolCallRecorder
  billing: BillingProvider | undefined
  hub: Hub
  runtime: Runtime
  /** Writes down what is still in memory. The stores are the caller's to close. */
  close(): Promise<void>
}

/** The part of a service that remembers nothing. */
export interface Foundation extends Pick<Stores, 'database' | 'kv' | 'bus' | 'changes' | 'secrets'> {
  config: Config & { publicUrl: string }
  /** For every address that an administrator or an outside document chose; see lib/safe-fetch.ts. */
  fetch: typeof fetch
  /** For addresses that a member chose: never reaches a private network, whatever the operator allows. */
  publicFetch: typeof fetch
  /** Where a request comes from, for limits and the audit trail. */
  clientAddress: ClientAddress
  clock: Clock
  log: Log
  metrics: Metrics
}

export async function createService(
  { database, kv, bus, changes, secrets }: Stores,
  { config, clock, log }: Pick<Foundation, 'config' | 'clock' | 'log'>,
): Promise<Service> {
  const safeFetch = createSafeFetch({ allowedPrivateNetworks: config.allowedPrivateNetworks })
  const publicFetch = createSafeFetch({ allowedPrivateNetworks: [] })
  const metrics = createMetrics()
  const clientAddress = createClientAddress(config.trustedProxies, (address) =>
    log.warn({ address }, 'this proxy is not in INLAY_TRUSTED_PROXIES, so all its clients count as one'),
  )
  const foundation: Foundation = {
    database,
    kv,
    bus,
    changes,
    secrets,
    config,
    clientAddress,
    clock,
    log,
    metrics,
    fetch: safeFetch,
    publicFetch,
  }
  const activity = createActivity(foundation)
  const toolCalls = createToolCallRecorder(foundation, createContentsDays(foundation))
  const builtInNames = new Set(tools.map(({ name }) => name))
  const hub = await createHub(
    foundation,
    builtInNames,
    createRemoteTools(foundation, activity, builtInNames),
    toolCalls,
  )
  const runtime = await createRuntime(foundation, hub, activity, toolCalls)
  const service = {
    ...foundation,
    activity,
    toolCalls,
    keyLookup: createKeyLookup(foundation),
    identities: createIdentities(foundation),
    billing: createBilling(foundation),
    hub,
    runtime,
    async close() {
      await departures.close()
      await expiry.close()
      await runtime.close()
      await hub.close()
      await toolCalls.close()
      await activity.close()
      await safeFetch.close()
      await publicFetch.close()
    },
  }
  const departures = keepFinishing(service)
  const expiry = keepExpiring(foundation)
  return service
}
