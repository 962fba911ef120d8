import type pg from 'pg'
import { withMaintenance } from './maintenance.ts'

const rowsAtOnce = 2_000

export interface TenantErasure {
  /** The row in `organization_erasures` that counts what was deleted. */
  erasureId: string
  organizationId: string
  /** Ends the work between two transactions. */
  signal: AbortSignal
}

/**
 * Deletes every row of an organization and then the organization, with the rights of the schema's owner: the service isn't
 * allowed to delete audit trails. Small transactions keep locks short. Each adds what it deleted to the counts of the
 * erasure, so that a later call continues exactly where a crash ended this one. Returns false if another node is working
 * on it.
 */
export const eraseTenant = (
  maintenance: pg.ClientConfig,
  { erasureId, organizationId, signal }: TenantErasure,
): Promise<boolean> =>
  withMaintenance(maintenance, async (client) => {
    const { rows } = await client.query<{ is_mine: boolean }>(
      'select pg_try_advisory_lock(hashtextextended($1, 0)) as is_mine',
      [`erasure ${organizationId}`],
    )
    if (!rows[0]?.is_mine) return false
    const eraseSome = async (table: string) => {
      const { rows } = await client.query<{ count: number }>('select erase_rows($1, $2, $3, $4) as count', [
        ...[erasureId, organizationId, table, rowsAtOnce],
      ])
      return rows[0]?.count ?? 0
    }
    for (const table of await listErasableTables(client)) {
      while ((await eraseSome(table)) > 0) signal.throwIfAborted()
    }
    // Also deletes rows that were written in the meantime, and from now on none can be.
    await eraseSome('organizations')
    // Except jobs, which have no foreign key. Transactions that request some have ended before the organization was deleted.
    while ((await eraseSome('jobs')) > 0) signal.throwIfAborted()
    return true
  })

/** Every tenant table in PostgreSQL's catalog, each before those that it references. */
async function listErasableTables(client: pg.Client): Promise<string[]> {
  const { rows } = await client.query<{ name: string; references: string[] }>(`
    select c.relname::text as name, array(
      select distinct f.confrelid::regclass::text from pg_constraint f
      where f.conrelid = c.oid and f.contype = 'f' and f.confrelid <> c.oid) as references
    from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
      and not a.attisdropped
      and a.attname = 'organization_id'
    order by 1`)
  const left = new Map(rows.map(({ name, references }) => [name, references]))
  const ordered: string[] = []
  while (left.size > 0) {
    const referenced = new Set([...left.values()].flat())
    const free = [...left.keys()].filter((name) => !referenced.has(name))
    // Tables that reference each other have no order. Their foreign keys say what happens to their rows.
    for (const name of free.length > 0 ? free : [...left.keys()]) {
      ordered.push(name)
      left.delete(name)
    }
  }
  return ordered
}
