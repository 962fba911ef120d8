import type { Config } from '../config/config.ts'
import type { Clock } from '../lib/clock.ts'
import type { Log } from '../lib/log.ts'
import { type ClientAddress, createClientAddress } from '../net/client-address.ts'
import { createSafeFetch } from '../net/safe-fetch.ts'
import { createTextRecords, type TextRecords } from '../net/text-records.ts'
import type { Stores } from '../stores/stores.ts'
import { type Activity, createActivity } from './activity.ts'
import { createMetrics, type Metrics } from './metrics.ts'

/** The dependencies of every capability, always passed as an argument. */
export interface Service extends Pick<Stores, 'database' | 'kv' | 'bus' | 'changes' | 'secrets' | 'eraseTenant'> {
  config: Config & { publicUrl: string }
  /** For addresses from an administrator or an external document; see kernel/net/safe-fetch.ts. */
  fetch: typeof fetch
  /** For addresses from a member. Never reaches a private network, even if the operator allows some. */
  publicFetch: typeof fetch
  /** Asks the DNS for TXT records. */
  textRecords: TextRecords
  /** Returns the address of a request's client, for limits and the audit trail. */
  clientAddress: ClientAddress
  /** Collects what isn't worth a write per request. */
  activity: Activity
  clock: Clock
  log: Log
  metrics: Metrics
  /** Writes what is still in memory. Doesn't close the stores. */
  close(): Promise<void>
}

export function createService(
  { database, kv, bus, changes, secrets, eraseTenant }: Stores,
  { config, clock, log }: Pick<Service, 'config' | 'clock' | 'log'>,
): Service {
  const safeFetch = createSafeFetch({ allowedPrivateNetworks: config.allowedPrivateNetworks })
  const publicFetch = createSafeFetch({ allowedPrivateNetworks: [] })
  const textRecords = createTextRecords(config.dnsServers)
  const clientAddress = createClientAddress(config.trustedProxies, (address) =>
    log.warn({ address }, 'this proxy is not in INLAY_TRUSTED_PROXIES, so all its clients count as one client'),
  )
  const metrics = createMetrics()
  const activity = createActivity({ database, clock, log })
  return {
    database,
    kv,
    bus,
    changes,
    secrets,
    eraseTenant,
    config,
    fetch: safeFetch,
    publicFetch,
    textRecords,
    clientAddress,
    activity,
    clock,
    log,
    metrics,
    async close() {
      await activity.close()
      await safeFetch.close()
      await publicFetch.close()
    },
  }
}
