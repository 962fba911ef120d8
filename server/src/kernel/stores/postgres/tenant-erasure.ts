import pg from 'pg'

const rowsAtOnce = 2_000
/** So that a dead connection doesn't block the erasure forever. */
const statementMs = 60_000

export interface TenantErasure {
  /** The row in `organization_erasures` that counts what was deleted. */
  erasureId: string
  organizationId: string
  /** Ends the work between two transactions. */
  signal: AbortSignal
}

/**
 * Deletes every row of an organization and then the organization, as the schema's owner: the service isn't allowed to
 * delete audit trails. Small transactions keep locks short. Each adds what it deleted to the counts of the erasure, so
 * that a later call continues exactly where a crash ended this one. Returns false if another node is working on it.
 */
export async function eraseTenant(
  owner: pg.ClientConfig,
  { erasureId, organizationId, signal }: TenantErasure,
): Promise<boolean> {
  const client = new pg.Client({ ...owner, statement_timeout: statementMs, query_timeout: statementMs + 5_000 })
  // Without a listener, a lost connection would end the process. The running query fails too.
  client.on('error', () => undefined)
  await client.connect()
  try {
    const { rows } = await client.query<{ is_mine: boolean }>(
      'select pg_try_advisory_lock(hashtextextended($1, 0)) as is_mine',
      [`erasure ${organizationId}`],
    )
    if (!rows[0]?.is_mine) return false
    await client.query("select set_config('inlay.organization_id', $1, false)", [organizationId])
    for (const table of await listErasableTables(client)) {
      while ((await eraseSome(client, table, 'organization_id', erasureId, organizationId)) > 0) signal.throwIfAborted()
    }
    // Also deletes rows that were written in the meantime, and from now on none can be.
    await eraseSome(client, 'organizations', 'id', erasureId, organizationId)
    // Except jobs, which have no foreign key.
    await eraseSome(client, 'jobs', 'organization_id', erasureId, organizationId)
    return true
  } finally {
    await client.end()
  }
}

/** One statement, so that the rows and their count change together. */
async function eraseSome(
  client: pg.Client,
  table: string,
  key: string,
  erasureId: string,
  organizationId: string,
): Promise<number> {
  const name = pg.escapeIdentifier(table)
  const { rows } = await client.query<{ count: number }>(
    `with gone as (
       delete from ${name}
       where ctid = any(array(select ctid from ${name} where ${key} = $1 limit ${rowsAtOnce})) and ${key} = $1
       returning 1),
     counted as (
       update organization_erasures
       set counts = jsonb_set(counts, array[$3], to_jsonb(coalesce((counts ->> $3)::bigint, 0) + (select count(*) from gone)))
       where id = $2 and exists (select from gone))
     select count(*)::int as count from gone`,
    [organizationId, erasureId, table],
  )
  return rows[0]?.count ?? 0
}

/** Every tenant table in PostgreSQL's catalog, each before those that it references. */
async function listErasableTables(client: pg.Client): Promise<string[]> {
  const { rows } = await client.query<{ name: string; references: string[] }>(`
    select c.relname::text as name, array(
      select distinct f.confrelid::regclass::text from pg_constraint f
      where f.conrelid = c.oid and f.contype = 'f' and f.confrelid <> c.oid) as references
    from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not a.attisdropped
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
