import type { Config } from '../config/config.ts'
import type { Clock } from '../lib/clock.ts'
import type { Log } from '../lib/log.ts'
import { type ClientAddress, createClientAddress } from '../net/client-address.ts'
import { createSafeFetch } from '../net/safe-fetch.ts'
import type { Stores } from '../stores/stores.ts'
import { type Activity, createActivity } from './activity.ts'
import { createMetrics, type Metrics } from './metrics.ts'

/** What every capability works with: passed in, never reached for. */
export interface Service extends Pick<Stores, 'database' | 'kv' | 'bus' | 'changes' | 'secrets'> {
  config: Config & { publicUrl: string }
  /** For every address that an administrator or an outside document chose; see net/safe-fetch.ts. */
  fetch: typeof fetch
  /** For addresses that a member chose: never reaches a private network, whatever the operator allows. */
  publicFetch: typeof fetch
  /** Where a request comes from, for limits and the audit trail. */
  clientAddress: ClientAddress
  /** What administrators are shown about keys in use and callers turned away. */
  activity: Activity
  clock: Clock
  log: Log
  metrics: Metrics
  /** Writes down what is still in memory. The stores are the caller's to close. */
  close(): Promise<void>
}

export function createService(
  { database, kv, bus, changes, secrets }: Stores,
  { config, clock, log }: Pick<Service, 'config' | 'clock' | 'log'>,
): Service {
  const safeFetch = createSafeFetch({ allowedPrivateNetworks: config.allowedPrivateNetworks })
  const publicFetch = createSafeFetch({ allowedPrivateNetworks: [] })
  const clientAddress = createClientAddress(config.trustedProxies, (address) =>
    log.warn({ address }, 'this proxy is not in INLAY_TRUSTED_PROXIES, so all its clients count as one'),
  )
  const metrics = createMetrics()
  const activity = createActivity({ database, clock, log, metrics })
  return {
    database,
    kv,
    bus,
    changes,
    secrets,
    config,
    fetch: safeFetch,
    publicFetch,
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
