import type { Config } from './config.ts'
import type { Clock } from './lib/clock.ts'
import type { Log } from './lib/log.ts'
import type { Stores } from './stores/stores.ts'

/** What a capability's functions work with: passed in, never reached for. */
export interface Service extends Pick<Stores, 'database' | 'kv' | 'bus' | 'secrets'> {
  config: Config & { publicUrl: string }
  /** For every address that an administrator or an outside document chose; see lib/safe-fetch.ts. */
  fetch: typeof fetch
  clock: Clock
  log: Log
}
