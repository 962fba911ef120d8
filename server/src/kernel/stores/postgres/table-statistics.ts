import type pg from 'pg'
import { keepDoing, type Repeated } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import type { Stores } from '../stores.ts'
import { withMaintenance } from './maintenance.ts'

const everyMs = 5_000
/** How PostgreSQL finds fewer rows hardly matters. This is also its own default threshold. */
const fewRows = 50

/**
 * Analyzes each table when it has more than a few rows, and each time its size has doubled. Without statistics,
 * PostgreSQL assumes that any column identifies a row, so instead of the primary key it may choose an index whose first
 * column is the organization, and read all of an organization's rows to find one. While a table is tiny, it reads all of
 * it. Prepared statements keep such a plan until the table is analyzed again, which PostgreSQL itself only does after a
 * minute or two; see the agent in bench/README.md.
 */
export function keepTablesAnalyzed(stores: Pick<Stores, 'database' | 'maintenance'>, log: Log): Repeated {
  async function run(): Promise<void> {
    try {
      const tables = await listGrownTables(stores)
      if (tables.length > 0) await analyze(stores.maintenance, tables)
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

/** With the rights of the schema's owner, because the service's role isn't allowed to. */
const analyze = (maintenance: pg.ClientConfig, tables: readonly string[]): Promise<void> =>
  withMaintenance(maintenance, async (client) => {
    for (const name of tables) await client.query('select analyze_table($1)', [name])
  })
