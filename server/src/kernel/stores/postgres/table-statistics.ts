import pg from 'pg'
import { keepDoing, type Repeated } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import type { Stores } from '../stores.ts'

const everyMs = 5_000
/** How PostgreSQL finds fewer rows hardly matters. This is also its own default threshold. */
const fewRows = 50
const statementMs = 60_000

/**
 * Analyzes each table when it has more than a few rows, and each time its size has doubled. Without statistics,
 * PostgreSQL assumes that any column identifies a row, so instead of the primary key it may choose an index whose first
 * column is the organization, and read all of an organization's rows to find one. While a table is tiny, it reads all of
 * it. Prepared statements keep such a plan until the table is analyzed again, which PostgreSQL itself only does after a
 * minute or two; see the agent in bench/README.md.
 */
export function keepTablesAnalyzed(stores: Pick<Stores, 'database' | 'owner'>, log: Log): Repeated {
  async function run(): Promise<void> {
    try {
      const tables = await listGrownTables(stores)
      if (tables.length > 0) await analyze(stores.owner, tables)
    } catch (error) {
      log.warn({ err: error }, 'Could not analyze tables that have grown; retrying')
    }
  }
  return keepDoing(run, everyMs)
}

/** `reltuples` is negative until the table is analyzed, and `relpages` is the size that it had then. */
async function listGrownTables({ database }: Pick<Stores, 'database'>): Promise<string[]> {
  const rows = await database.asService(
    (sql) => sql<{ name: string }>`
      select relname as name from pg_class
      where relnamespace = 'public'::regnamespace and relkind = 'r' and case
        when reltuples < 0 then pg_stat_get_mod_since_analyze(oid) >= ${fewRows}
        else pg_relation_size(oid) > 2 * relpages::bigint * current_setting('block_size')::int
      end`,
  )
  return rows.map(({ name }) => name)
}

/** As the schema's owner, because the service's role isn't allowed to. */
async function analyze(owner: pg.ClientConfig, tables: readonly string[]): Promise<void> {
  const client = new pg.Client({ ...owner, statement_timeout: statementMs, query_timeout: statementMs + 5_000 })
  // Without a listener, a lost connection would end the process. The running query fails too.
  client.on('error', () => undefined)
  await client.connect()
  try {
    // Another node may be at it.
    for (const name of tables) await client.query(`analyze (skip_locked) ${pg.escapeIdentifier(name)}`)
  } finally {
    await client.end()
  }
}
