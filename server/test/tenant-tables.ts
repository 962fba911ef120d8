import type { TestService } from './harness.ts'

/** A table with rows of organizations, and the column with the organization's id. */
export interface TenantTable {
  name: string
  key: string
}

/** Finds every tenant table in PostgreSQL's catalog, so that new ones are included automatically. */
export const listTenantTables = (app: TestService): Promise<TenantTable[]> =>
  app.service.database.asService(
    (sql) => sql<TenantTable>`
      select c.relname::text as name, a.attname::text as key from pg_class c join pg_attribute a on a.attrelid = c.oid
      where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
        and not a.attisdropped
        and a.attname = case c.relname when 'organizations' then 'id' else 'organization_id' end
      order by c.relname`,
  )

/** The server deletes rows from these tables, so a test can't rely on a row that it wrote. */
export const passingTables = ['jobs']

/** The number of rows of an organization, by table. */
export async function countRows(app: TestService, organizationId: string): Promise<Record<string, number>> {
  const tables = await listTenantTables(app)
  const text = [tables.map(({ name }) => `select '${name}' as name, count(*) as rows from ${name}`).join(' union all ')]
  const rows = await app.service.database.asOrg(organizationId, (sql) =>
    sql<{ name: string; rows: number }>(Object.assign(text, { raw: text })),
  )
  return Object.fromEntries(rows.filter(({ rows }) => rows > 0).map(({ name, rows }) => [name, rows]))
}
