import pg from 'pg'
import { inShortLocks, type Patience } from './short-locks.ts'

/** What the service may do with a table. */
const everything = ['DELETE', 'INSERT', 'SELECT', 'UPDATE']
const restricted: Record<string, readonly string[]> = {
  // The audit trail and the records of tool calls only grow.
  audit_events: ['INSERT', 'SELECT'],
  tool_call_records: ['INSERT', 'SELECT'],
  audit_chains: ['INSERT', 'SELECT', 'UPDATE'],
  // Deleting an organization would delete its audit trail.
  organizations: ['INSERT', 'SELECT', 'UPDATE'],
  audit_keys: ['SELECT'],
  migrations: [],
}

interface Table {
  name: string
  /** The column with the organization's ID, or null if the table isn't a tenant's. */
  key: string | null
  is_walled: boolean
  /** The conditions of the tenant policy; null without one. */
  condition: string | null
  granted: string[]
}

/**
 * Gives every table row-level security and the service's privileges, by construction. A tenant table is one with a
 * column `organization_id`; `organizations` is protected by its own ID. Changes only what differs, and each table in a
 * transaction of its own, so that it locks no table that requests use. A new table can't be read by the service before
 * it has its policy, because both are given to it together. The service has no privileges on partitions: it reaches them
 * through their table only, whose policy then applies.
 */
export async function secureTables(
  client: pg.Client,
  connection: pg.ClientConfig,
  patience: Patience,
  groups: { service: string; maintenance: string },
): Promise<void> {
  for (const group of Object.values(groups)) {
    const { rows } = await client.query(`select has_schema_privilege($1, 'public', 'usage') as has_usage`, [group])
    if (!rows[0].has_usage) await client.query(`grant usage on schema public to ${pg.escapeIdentifier(group)}`)
  }
  await letMaintain(client, groups.maintenance)
  for (const table of await listTables(client, groups.service)) {
    const changes = listChanges(table, pg.escapeIdentifier(groups.service))
    if (changes.length === 0) continue
    await inShortLocks(client, connection, patience, () => client.query(changes.join(';')))
  }
  await letOwnerListOrganizations(client, connection, patience)
}

async function listTables(client: pg.Client, group: string): Promise<Table[]> {
  const { rows } = await client.query<Table>(
    `select c.relname::text as name, c.relrowsecurity and c.relforcerowsecurity as is_walled,
       (select a.attname::text from pg_attribute a where a.attrelid = c.oid and not a.attisdropped
        and a.attname = case c.relname when 'organizations' then 'id' else 'organization_id' end) as key,
       (select concat_ws(' / ', pg_get_expr(p.polqual, c.oid), pg_get_expr(p.polwithcheck, c.oid)) from pg_policy p
        where p.polrelid = c.oid and p.polname = 'tenant') as condition,
       array(select privilege from unnest($2::text[]) privilege where has_table_privilege($1, c.oid, privilege)) as granted
     from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
       and not c.relispartition order by c.relname`,
    [group, everything],
  )
  return rows
}

function listChanges({ name, key, is_walled, condition, granted }: Table, role: string): string[] {
  const table = pg.escapeIdentifier(name)
  const changes: string[] = []
  if (key) {
    const column = pg.escapeIdentifier(key)
    if (!is_walled) {
      changes.push(`alter table ${table} enable row level security, force row level security`)
    }
    // In a subquery, so that it's evaluated once for a statement and not once for a row.
    const isOurs = `${column} = (select current_organization())`
    const asStored = `(${key} = ( SELECT current_organization() AS current_organization))`
    if (condition !== `${asStored} / ${asStored}`) {
      changes.push(
        `drop policy if exists tenant on ${table}`,
        `create policy tenant on ${table} using (${isOurs}) with check (${isOurs})`,
      )
    }
  }
  const wanted = restricted[name] ?? everything
  if (wanted.join() !== granted.join()) {
    changes.push(`revoke all on ${table} from ${role}`)
    if (wanted.length > 0) changes.push(`grant ${wanted.join(', ')} on ${table} to ${role}`)
  }
  return changes
}

/** The operator's commands list the organizations as the schema's owner, and then act as the service in each. */
async function letOwnerListOrganizations(client: pg.Client, connection: pg.ClientConfig, patience: Patience) {
  const { rowCount } = await client.query(
    `select from pg_policy where polrelid = 'organizations'::regclass and polname = 'operator'
     and polroles = array[current_user::regrole::oid]`,
  )
  if (rowCount) return
  await inShortLocks(client, connection, patience, () =>
    client.query(`
      drop policy if exists operator on organizations;
      create policy operator on organizations for select to current_user using (true)`),
  )
}

/** The functions that run with the owner's rights are for maintenance. Their migrations have closed them to others. */
async function letMaintain(client: pg.Client, group: string): Promise<void> {
  const { rows } = await client.query<{ signature: string }>(
    `select oid::regprocedure::text as signature from pg_proc
     where pronamespace = 'public'::regnamespace and prosecdef and not has_function_privilege($1, oid, 'execute')`,
    [group],
  )
  for (const { signature } of rows)
    await client.query(`grant execute on function ${signature} to ${pg.escapeIdentifier(group)}`)
}
