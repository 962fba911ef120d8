import { join } from 'node:path'
import type pg from 'pg'
import { parseIntoClientConfig } from 'pg-connection-string'
import { type Config, prepareDataFolder } from '../config/config.ts'
import type { Clock } from '../lib/clock.ts'
import type { Log } from '../lib/log.ts'
import { createSecrets, type Secrets } from '../lib/secrets.ts'
import { auditKeys } from './audit/chain.ts'
import { type Bus, openLocalBus } from './bus.ts'
import { type Changes, openChanges } from './changes.ts'
import { type Database, openDatabase } from './database.ts'
import { type Kv, type KvOptions, openFileKv } from './kv.ts'
import { openEmbeddedPostgres } from './postgres/embedded-postgres.ts'
import { maintenanceConnection, migrate, requireMigrated, serviceConnection } from './postgres/migrations.ts'
import { makePartitions } from './postgres/partitions.ts'
import { defaultPatienceMs } from './postgres/short-locks.ts'
import { eraseTenant, type TenantErasure } from './postgres/tenant-erasure.ts'

/** The configured stores, opened and migrated. */
export interface Stores {
  database: Database
  kv: Kv
  bus: Bus
  changes: Changes
  secrets: Secrets
  /** The schema owner's connection, for the operator's commands. A running server doesn't use it. */
  owner: pg.ClientConfig
  /** The connection for what the service's role isn't allowed to do; see postgres/maintenance.ts. */
  maintenance: pg.ClientConfig
  /** Deletes all rows of an organization; see postgres/tenant-erasure.ts. */
  eraseTenant(erasure: TenantErasure): Promise<boolean>
  close(): Promise<void>
}

export interface StoreOptions {
  clock: Clock
  log: Log
  claim: 'own' | 'join'
  onProgress?: (text: string) => void
}

/** For the start, maintenance, commands and administrators. */
const connectionsBesidePool = 50

/** Redis can't be reached, or rejects the connection. */
export class RedisFailed extends Error {
  override name = 'RedisFailed'
}

export async function openStores(config: Config, options: StoreOptions): Promise<Stores> {
  const { clock, log, claim, onProgress } = options
  const secrets = createSecrets(config.secrets)
  if (!config.databaseUrl || !config.redisUrl) prepareDataFolder(config.dataDir)
  const postgres = await openPostgres(config, options)
  const closers = [postgres.stop]
  const close = async () => {
    for (const closeOne of closers.splice(0).reverse()) await closeOne()
  }
  try {
    const maintenance = maintenanceConnection(postgres.connection, secrets)
    if (config.migratesOnStart) {
      const { applied } = await migrate(postgres.connection, secrets, {
        patienceMs: defaultPatienceMs,
        onWait: (text) => log.warn(`The migration waits: ${text}`),
      })
      if (applied.length > 0) onProgress?.(`Applied ${applied.length} migration${applied.length > 1 ? 's' : ''}`)
    } else await requireMigrated(maintenance)

    let lastError: Error | undefined
    const onError = (error: Error) => {
      lastError = error
      log.warn({ err: error }, 'could not reach a store')
    }
    const [auditKey] = auditKeys(secrets)
    const connection = serviceConnection(postgres.connection, secrets)
    const database = openDatabase({
      connection,
      auditKey,
      connections: config.databasePoolSize,
      onIdleError: onError,
    })
    closers.push(() => database.close())
    if (claim === 'own') await makePartitions({ database, maintenance }, clock())
    const { openKv, openBus } = await chooseShared(config, { secrets, clock, onError })
    const kv = openKv()
    closers.push(() => kv.close())
    // Prefers the connection's error: the command's error only reports a missing connection.
    await kv.ping().catch((error: Error) => {
      throw config.redisUrl
        ? new RedisFailed((lastError ?? (error.cause as Error | undefined) ?? error).message, { cause: error })
        : error
    })
    const bus = openBus()
    closers.push(() => bus.close())
    const changes = await openChanges(openBus(), log)
    closers.push(() => changes.close())
    return {
      database,
      kv,
      bus,
      changes,
      secrets,
      owner: postgres.connection,
      maintenance,
      eraseTenant: (erasure) => eraseTenant(maintenance, erasure),
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

/** The owner's connection to the configured PostgreSQL, or to the embedded one, which is started if it isn't running. */
export const openPostgres = async (
  config: Config,
  { log, claim, onProgress }: Omit<StoreOptions, 'clock'>,
): Promise<{ connection: pg.ClientConfig; stop: () => Promise<void> }> =>
  config.databaseUrl
    ? {
        connection: { ...parseIntoClientConfig(config.databaseUrl), connectionTimeoutMillis: 10_000 },
        stop: async () => undefined,
      }
    : openEmbeddedPostgres({
        dataDir: config.dataDir,
        claim,
        connections: config.databasePoolSize + connectionsBesidePool,
        onTrouble: (error) => log.warn({ err: error }, 'the embedded PostgreSQL is not running; restarting it'),
        ...(onProgress && { onProgress }),
      })

/** Opens the stores that nodes share in Redis, or, on one machine, in a file and this process. */
async function chooseShared({ redisUrl, redisPrefix, dataDir }: Config, options: KvOptions) {
  if (!redisUrl) return { openKv: () => openFileKv(join(dataDir, 'kv.db'), options), openBus: openLocalBus }
  const { openRedisKv, openRedisBus } = await import('./redis.ts')
  return {
    openKv: () => openRedisKv(redisUrl, redisPrefix, options),
    openBus: () => openRedisBus(redisUrl, redisPrefix, options.onError),
  }
}
