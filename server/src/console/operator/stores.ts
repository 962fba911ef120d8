import { statfsSync } from 'node:fs'
import pg from 'pg'
import type { Config } from '../../kernel/config/config.ts'
import { systemClock } from '../../kernel/lib/clock.ts'
import { createLog } from '../../kernel/lib/log.ts'
import { UnreadableSecret } from '../../kernel/lib/secrets.ts'
import { openStores, RedisFailed, type Stores } from '../../kernel/stores/stores.ts'
import { CommandFailed } from './command-failed.ts'

/** Runs a command on the stores. Without a running server, they are opened for the duration of the command. */
export async function withStores<T>(
  config: Config,
  work: (stores: Stores) => Promise<T>,
  onProgress?: (text: string) => void,
): Promise<T> {
  const options = {
    clock: systemClock,
    log: createLog('silent'),
    claim: 'join',
    ...(onProgress && { onProgress }),
  } as const
  const stores = await openStores(config, options).catch((error) => {
    throw explainStores(error, config)
  })
  try {
    return await work(stores)
  } catch (error) {
    throw error instanceof UnreadableSecret ? explainStores(error, config) : error
  } finally {
    await stores.close()
  }
}

/** Turns errors of the stores into messages that tell the operator what to fix. */
export function explainStores(error: unknown, { databaseUrl, dataDir }: Config): unknown {
  if (error instanceof UnreadableSecret) {
    return new CommandFailed(
      `INLAY_SECRET isn't the secret that this data was encrypted with (${error.message}). Use the previous secret. To change it, put the new one in front: INLAY_SECRET=new,old`,
      { cause: error },
    )
  }
  const { code, message, path } = error as NodeJS.ErrnoException
  if (isFull(dataDir)) {
    return new CommandFailed(`The disk of the data folder ${dataDir} is full: ${message}. Free some space.`, {
      cause: error,
    })
  }
  if (error instanceof RedisFailed) {
    return new CommandFailed(`Can't use Redis: ${message}. Check REDIS_URL.`, { cause: error })
  }
  if (path?.startsWith(dataDir)) {
    return new CommandFailed(`Can't use the data folder: ${message}. Check INLAY_DATA_DIR.`, { cause: error })
  }
  if (!databaseUrl || typeof code !== 'string') return error
  return new CommandFailed(`Can't use the database: ${message || code}. Check DATABASE_URL.`, { cause: error })
}

/** PostgreSQL needs new files of 16 MiB to start. */
const neededBytes = 32 * 1024 * 1024

function isFull(folder: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(folder)
    return bavail * bsize < neededBytes
  } catch {
    return false
  }
}

export interface ListedOrganization {
  id: string
  name: string
  slug: string
  plan_id: string
}

/** Every organization, or the one with a slug. Only the schema's owner may list across tenants. */
export async function listAllOrganizations({ owner }: Stores, slug?: string): Promise<ListedOrganization[]> {
  const client = new pg.Client(owner)
  client.on('error', () => undefined) // The query reports the error.
  try {
    await client.connect()
    const { rows } = await client.query<ListedOrganization>(
      'select id, name, slug, plan_id from organizations where slug = coalesce($1, slug) order by slug',
      [slug ?? null],
    )
    if (slug && rows.length === 0) throw new CommandFailed(`No organization has the slug "${slug}"`)
    return rows
  } catch (error) {
    if (!(error instanceof pg.DatabaseError && /^(28|42501)/.test(error.code ?? ''))) throw error
    throw new CommandFailed(
      `This command needs the role that owns the schema in DATABASE_URL (${(error as Error).message})`,
      { cause: error },
    )
  } finally {
    await client.end()
  }
}
