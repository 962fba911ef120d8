import pg from 'pg'
import type { Stores } from '../../kernel/stores/stores.ts'

/**
 * Re-encrypts values of older secrets in every column whose name ends in `_sealed`, so that no new column is forgotten.
 * A value's place is `table.column:id`, with the organization's id for tables that have one row per organization.
 */
export async function resealColumns({ owner, secrets }: Stores, organizationIds: readonly string[]): Promise<number> {
  const client = new pg.Client(owner)
  await client.connect()
  try {
    let changed = 0
    for (const column of await sealedColumns(client)) {
      for (const organizationId of column.is_tenants ? organizationIds : [null])
        changed += await resealColumn(client, column, organizationId, secrets)
    }
    return changed
  } finally {
    await client.end()
  }
}

interface SealedColumn {
  table: string
  column: string
  key: 'id' | 'organization_id'
  /** False for the few tables that belong to the installation. */
  is_tenants: boolean
}

async function sealedColumns(client: pg.Client): Promise<SealedColumn[]> {
  const { rows } = await client.query<SealedColumn>(`
    select c.table_name as table, c.column_name as column,
           case when exists (select from information_schema.columns k
                             where k.table_schema = 'public' and k.table_name = c.table_name and k.column_name = 'id')
                then 'id' else 'organization_id' end as key,
           exists (select from information_schema.columns k
                   where k.table_schema = 'public' and k.table_name = c.table_name and k.column_name = 'organization_id')
             as is_tenants
    from information_schema.columns c
    where c.table_schema = 'public' and c.column_name like '%\\_sealed' order by 1, 2`)
  return rows
}

async function resealColumn(
  client: pg.Client,
  { table, column, key }: SealedColumn,
  organizationId: string | null,
  secrets: Stores['secrets'],
): Promise<number> {
  await client.query("select set_config('inlay.organization_id', $1, false)", [organizationId ?? ''])
  const where = organizationId ? `organization_id = ${pg.escapeLiteral(organizationId)}` : 'true'
  const { rows } = await client.query<{ id: string; sealed: string }>(
    `select ${key} as id, ${column} as sealed from ${table} where ${where} and ${column} is not null`,
  )
  const old = rows.filter(({ sealed }) => !secrets.isCurrent(sealed))
  for (const { id, sealed } of old) {
    const place = `${table}.${column}:${id}`
    const fresh = secrets.seal(secrets.open(sealed, place), place)
    // The condition skips values that were changed or deleted in the meantime.
    await client.query(`update ${table} set ${column} = $1 where ${where} and ${key} = $2 and ${column} = $3`, [
      fresh,
      id,
      sealed,
    ])
  }
  return old.length
}
