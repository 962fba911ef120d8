import type { Config } from '../config/config.ts'
import { type Clock, keepDoing, type Repeated } from '../lib/clock.ts'
import type { Log } from '../lib/log.ts'
import { recordAudit } from './audit/audit.ts'
import { eventsDropped, findDropped } from './audit/chain.ts'
import { withMaintenance } from './postgres/maintenance.ts'
import type { Stores } from './stores.ts'

const everyMs = 60 * 60_000

/** Drops the months that the operator doesn't want to keep. */
export function keepRetention(
  stores: Pick<Stores, 'database' | 'maintenance'>,
  { clock, log, config }: { clock: Clock; log: Log; config: Pick<Config, 'keptMonths'> },
): Repeated {
  async function run(): Promise<void> {
    for (const [table, months] of Object.entries(config.keptMonths)) {
      if (months === undefined) continue
      try {
        const dropped = await dropMonths(stores, table, firstKept(clock(), months))
        if (dropped > 0) log.info({ table, months: dropped }, 'Dropped old months')
      } catch (error) {
        log.warn({ err: error, table }, 'Could not drop old months; retrying')
      }
    }
  }
  return keepDoing(run, everyMs)
}

/** The beginning of the month that is a number of months before the current one. */
function firstKept(now: number, months: number): Date {
  const date = new Date(now)
  return new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() - months))
}

const dropMonths = (
  { database, maintenance }: Pick<Stores, 'database' | 'maintenance'>,
  table: string,
  before: Date,
): Promise<number> =>
  withMaintenance(maintenance, async (client) => {
    const { rows: locks } = await client.query(
      `select pg_try_advisory_lock(hashtextextended('retention', 0)) as is_mine`,
    )
    if (!locks[0].is_mine) return 0
    if (table === 'audit_events') {
      const { rows } = await client.query<{ id: string; sequence: string }>(
        'select organization_id as id, max(sequence) as sequence from audit_events_to_drop($1) group by 1 order by 1',
        [before],
      )
      for (const { id, sequence } of rows) await noteDropped(database, id, Number(sequence), before)
    }
    const { rows } = await client.query<{ dropped: number }>('select drop_partitions($1, $2) as dropped', [
      table,
      before,
    ])
    return rows[0]?.dropped ?? 0
  })

/**
 * Adds the last number and hash that will be dropped to the organization's chain, so that verification can begin there.
 * Only the service can, because it authenticates the chain.
 */
async function noteDropped({ asOrg }: Stores['database'], organizationId: string, sequence: number, before: Date) {
  await asOrg(organizationId, async (sql) => {
    const [last] = await sql<{ hash: string; is_whole: boolean }>`
      select encode(hash, 'hex') as hash,
             not exists (select from audit_events where sequence < ${sequence} and created_at >= ${before}) as is_whole
      from audit_events where sequence = ${sequence} limit 1`
    // The organization was deleted.
    if (!last) return
    if (!last.is_whole) {
      // Rows from before numbers and times had the same order. The next month has both.
      throw new Error(`An audit event of ${organizationId} before number ${sequence} is of a later month`)
    }
    if ((await findDropped(sql, sequence)) !== undefined) return
    await recordAudit(sql, { organizationId, actor: 'retention' }, eventsDropped, organizationId, {
      sequence,
      hash: last.hash,
      before: before.toISOString(),
    })
  })
}
