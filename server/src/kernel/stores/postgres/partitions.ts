import type pg from 'pg'
import { type Clock, keepDoing, type Repeated } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import type { Database } from '../database.ts'
import { withMaintenance } from './maintenance.ts'

const everyMs = 60 * 60_000
/** So that an installation survives a year in which nobody notices that none are made. */
const monthsAhead = 13

/** Makes the partitions of the months to come. Without one for the current month, nothing could be written. */
export function keepPartitions(
  stores: { database: Database; maintenance: pg.ClientConfig },
  { clock, log }: { clock: Clock; log: Log },
): Repeated {
  async function run(): Promise<void> {
    try {
      await makePartitions(stores, clock())
    } catch (error) {
      log.warn({ err: error }, 'Could not make the partitions of the months to come; retrying')
    }
  }
  return keepDoing(run, everyMs)
}

export async function makePartitions(
  { database, maintenance }: { database: Database; maintenance: pg.ClientConfig },
  now: number,
): Promise<void> {
  if ((await countMonthsAhead(database, now)) >= monthsAhead) return
  const today = new Date(now).toISOString().slice(0, 10)
  await withMaintenance(maintenance, (client) => client.query('select make_partitions($1, $2)', [today, monthsAhead]))
}

/** For how many months after the current one every partitioned table has partitions. */
export async function countMonthsAhead(database: Database, now: number): Promise<number> {
  const [row] = await database.asService(
    (sql) => sql<{ year: number; month: number }>`
      select extract(year from until) as year, extract(month from until) as month from (
        select min(until) at time zone 'UTC' as until from (
          select max(substring(pg_get_expr(c.relpartbound, c.oid) from $$TO \\('([^']+)'\\)$$)::timestamptz) as until
          from pg_inherits join pg_class c on c.oid = inhrelid
          where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace
          group by inhparent) as tables) as first_end`,
  )
  const date = new Date(now)
  return ((row?.year ?? 0) - date.getUTCFullYear()) * 12 + (row?.month ?? 0) - date.getUTCMonth() - 2
}
