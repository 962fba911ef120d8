import pg from 'pg'
import type { Config } from '../config.ts'
import { systemClock } from '../lib/clock.ts'
import { createLog } from '../lib/log.ts'
import { openStores, type Stores } from '../stores/stores.ts'
import { CommandFailed } from './command-failed.ts'

/** Runs a command on the stores: those of the running server, or, without one, opened for as long as the command takes. */
export async function withStores<T>(config: Config, work: (stores: Stores) => Promise<T>): Promise<T> {
  const stores = await openStores(config, { clock: systemClock, log: createLog('silent'), claim: 'join' })
  try {
    return await work(stores)
  } finally {
    await stores.close()
  }
}

export interface ListedOrganization {
  id: string
  name: string
  slug: string
}

/** Every organization, or the one with a slug. Only the schema's owner may list across tenants. */
export async function listOrganizations({ owner }: Stores, slug?: string): Promise<ListedOrganization[]> {
  const client = new pg.Client(owner)
  await client.connect()
  try {
    const { rows } = await client.query<ListedOrganization>(
      'select id, name, slug from organizations where slug = coalesce($1, slug) order by slug',
      [slug ?? null],
    )
    if (slug && rows.length === 0) throw new CommandFailed(`There is no organization with the slug "${slug}"`)
    return rows
  } finally {
    await client.end()
  }
}
