import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newId } from '../src/kernel/lib/ids.ts'
import type { Sql } from '../src/kernel/stores/database.ts'
import { withMaintenance } from '../src/kernel/stores/postgres/maintenance.ts'
import { serviceConnection } from '../src/kernel/stores/postgres/migrations.ts'
import { startTestService, type TestService } from './harness.ts'
import { fillTenantTables } from './samples.ts'
import { listTenantTables, passingTables, type TenantTable } from './tenant-tables.ts'

let app: TestService
let owner: pg.Client
/** A connection with the service's role, without an organization. */
let service: pg.Client
let demo = ''
let other = ''
let tenantTables: TenantTable[] = []

beforeAll(async () => {
  app = await startTestService({}, { inheritsGrants: false })
  owner = new pg.Client(app.stores.owner)
  service = new pg.Client(serviceConnection(app.stores.owner, app.stores.secrets))
  await Promise.all([owner.connect(), service.connect()])
  tenantTables = await listTenantTables(app)
  demo = await app.organization('demo')
  other = await app.organization('other')
  for (const slug of ['demo', 'other'] as const) await fillTenantTables(app, slug)
})
afterAll(async () => {
  await Promise.all([owner.end(), service.end()])
  await app.close()
})

const ours = `c.relnamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace, 'pg_toast'::regnamespace)`
const hasOrganization = `exists (
  select from pg_attribute a where a.attrelid = c.oid and a.attname = 'organization_id' and not a.attisdropped)`

async function catalogue<Row>(sql: string, values: unknown[] = []): Promise<Row[]> {
  return (await owner.query(sql, values)).rows
}

const invite = (sql: Sql, email: string) => sql`
  insert into invitations (organization_id, id, email, role, invited_by)
  values (current_organization(), ${newId()}, ${email}, 'member', 'somebody')`

/** The column that a table is partitioned by: without it, no partition fits. */
const timesOf = (table: string) => ({ usage_events: ['created_at'], tool_call_records: ['at'] })[table] ?? []

/** The tenant tables with rows of both organizations. */
async function seededTables(): Promise<typeof tenantTables> {
  const seeded = []
  for (const table of tenantTables) {
    const isEmpty = async (id: string) => (await asOrg(id, `select from ${table.name} limit 1`)).length === 0
    if (!(await isEmpty(demo)) && !(await isEmpty(other))) seeded.push(table)
  }
  return seeded
}

async function asOrg<Row extends pg.QueryResultRow>(
  organizationId: string,
  sql: string,
  values: unknown[] = [],
): Promise<Row[]> {
  await service.query('begin')
  try {
    await service.query("select set_config('inlay.organization_id', $1, true)", [organizationId])
    return (await service.query<Row>(sql, values)).rows
  } finally {
    await service.query('rollback')
  }
}

describe('the catalog', () => {
  test('has only known tables without an organization', async () => {
    const tables = await catalogue(`
      select c.relname as name from pg_class c
      where ${ours} and c.relkind in ('r', 'p', 'f') and not c.relispartition and c.relname <> 'organizations' and not ${hasOrganization} order by 1`)
    const known = [
      'audit_keys',
      'mail_outbox',
      'migrations',
      'organization_erasures',
      'passkeys',
      'recovery_codes',
      'second_factors',
      'users',
    ]
    expect(tables).toEqual(known.map((name) => ({ name })))
    expect(tenantTables.length).toBeGreaterThan(5)
  })

  test('has row-level security on every tenant table, even for its owner', async () => {
    const open = await catalogue(
      `select c.relname, c.relrowsecurity, c.relforcerowsecurity from pg_class c
       where c.relname = any($1) and ${ours} and not (
         c.relrowsecurity and c.relforcerowsecurity and exists (
           select from pg_policy p where p.polrelid = c.oid and p.polname = 'tenant' and p.polcmd = '*'
             and pg_get_expr(p.polqual, c.oid) like '%= ( SELECT current_organization() AS current_organization))'
             and pg_get_expr(p.polwithcheck, c.oid) like '%= ( SELECT current_organization() AS current_organization))'))`,
      [tenantTables.map(({ name }) => name)],
    )
    expect(open).toEqual([])
  })

  test('gives the service no privileges on partitions, which have no policy of their own', async () => {
    const partitions = await catalogue<{ is_open: boolean }>(
      `select has_table_privilege($1, c.oid, 'select, insert, update, delete') as is_open from pg_class c
       where ${ours} and c.relispartition and c.relkind = 'r'`,
      [service.user],
    )
    expect(partitions.length).toBeGreaterThan(30)
    expect(partitions.filter(({ is_open }) => is_open)).toEqual([])
  })

  test('has additional policies only for reading, except for the worker and for jobs without an organization', async () => {
    const others = await catalogue(
      `select polname as name, polrelid::regclass::text as table from pg_policy
       where polname <> 'tenant' and polcmd <> 'r' order by 1`,
    )
    expect(others).toEqual([
      { name: 'without_organization', table: 'jobs' },
      { name: 'worker', table: 'jobs' },
    ])
  })

  test('gives the service’s roles no privileges and no objects', async () => {
    const group = `${app.stores.owner.database}_service`
    const roles = await catalogue<{ oid: number; login: boolean }>(
      `select oid, rolname, rolcanlogin as login, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication
       from pg_roles where rolname = $1 or rolname = $2 order by rolcanlogin`,
      [group, service.user],
    )
    const powerless = {
      rolsuper: false,
      rolbypassrls: false,
      rolcreaterole: false,
      rolcreatedb: false,
      rolreplication: false,
    }
    expect(roles).toEqual([
      { oid: expect.anything(), rolname: group, login: false, ...powerless },
      { oid: expect.anything(), rolname: service.user, login: true, ...powerless },
    ])
    const oids = roles.map(({ oid }) => oid)
    expect(
      await catalogue(`select * from pg_shdepend where refobjid = any($1) and deptype = 'o'`, [oids]),
      'objects that the service owns',
    ).toEqual([])
    expect(
      await catalogue(`select roleid::regrole::text as of from pg_auth_members where member = any($1)`, [oids]),
      'roles that the service belongs to',
    ).toEqual([{ of: group }])
  })

  test('has no view that reads with its owner’s privileges', async () => {
    const views = await catalogue(`
      select c.relname from pg_class c
      where ${ours} and (c.relkind = 'm' or c.relkind = 'v' and not 'security_invoker=true' = any(coalesce(c.reloptions, '{}')))`)
    expect(views).toEqual([])
  })

  test('has functions that run with their owner’s privileges only for maintenance, which can’t do anything else', async () => {
    const maintenance = app.stores.maintenance.user
    const functions = await catalogue(
      `select c.proname as name, 'search_path=pg_catalog, pg_temp' = any(c.proconfig) as is_pinned,
         array(select role from unnest(array[$1, $2, 'public']) role where has_function_privilege(role, c.oid, 'execute'))
           as callers
       from pg_proc c where c.prosecdef
         and c.pronamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace) order by 1`,
      [maintenance, service.user],
    )
    const names = [
      'analyze_table',
      'applied_migrations',
      'audit_events_to_drop',
      'drop_partitions',
      'erase_rows',
      'make_partitions',
    ]
    expect(functions).toEqual(names.map((name) => ({ name, is_pinned: true, callers: [maintenance] })))
    const open = await catalogue(
      `select c.relname from pg_class c where ${ours} and c.relkind in ('r', 'p')
       and has_table_privilege($1, c.oid, 'select, insert, update, delete, truncate, references, trigger')`,
      [maintenance],
    )
    expect(open).toEqual([])
    const [role] = await catalogue(
      'select rolsuper or rolbypassrls or rolcreaterole or rolcreatedb as is_powerful from pg_roles where rolname = $1',
      [maintenance],
    )
    expect(role).toEqual({ is_powerful: false })
  })

  test('lets maintenance erase only an organization whose erasure was requested', async () => {
    const erasing = withMaintenance(app.stores.maintenance, (client) =>
      client.query('select erase_rows($1, $2, $3, 1)', [newId(), demo, 'audit_events']),
    )
    await expect(erasing).rejects.toMatchObject({ code: '42501' })
  })

  test('lets maintenance erase members and invitations of an organization that pays by the seat', async () => {
    const [id, erasure] = [newId(), newId()]
    await app.service.database.asOrg(id, async (sql) => {
      await sql`insert into organizations (id, name, slug) values (${id}, 'By seat', ${id})`
      await sql`
        insert into subscriptions (organization_id, id, status, plan_id, product_id, customer_id, seats, created_at, updated_at)
        values (${id}, ${newId()}, 'active', 'team', 'x', 'x', 2, now(), now())`
      await invite(sql, 'late@example.com')
      await sql`
        insert into organization_erasures (id, organization_hash, pending_id, requested_by, counts)
        select ${erasure}, ${id}, ${id}, id, '{}' from users limit 1`
    })
    const { rows } = await withMaintenance(app.stores.maintenance, (client) =>
      client.query(`select erase_rows($1, $2, 'invitations', 1) as erased`, [erasure, id]),
    )
    expect(rows).toEqual([{ erased: 1 }])
  })

  test.each([
    // A key without the organization could reference another organization's row.
    ['foreign key between tenant tables', 'f'],
    ['primary key of a tenant table', 'p'],
  ])('starts every %s with the organization', async (_, kind) => {
    const names = tenantTables.map(({ name }) => name)
    const keys = await catalogue<{ table: string; first: string; target: string | null; target_first: string | null }>(
      `select c.relname as table, a.attname as first, target.relname as target, b.attname as target_first
       from pg_constraint k join pg_class c on c.oid = k.conrelid
       join pg_attribute a on a.attrelid = c.oid and a.attnum = k.conkey[1]
       left join pg_class target on target.oid = k.confrelid
       left join pg_attribute b on b.attrelid = target.oid and b.attnum = k.confkey[1]
       where k.contype = $1 and c.relname = any($2) and (target.oid is null or target.relname = any($2))`,
      [kind, names],
    )
    const keyOf = new Map(tenantTables.map(({ name, key }) => [name, key]))
    const isWalled = (table: string, first: string | null) => keyOf.get(table) === first
    expect(
      keys.filter(
        ({ table, first, target, target_first }) =>
          !isWalled(table, first) || (target !== null && !isWalled(target, target_first)),
      ),
    ).toEqual([])
    const withKey = new Set(keys.map(({ table }) => table))
    // Jobs outlive their organization for a moment, and some belong to none.
    const withoutForeignKey = ['organizations', 'jobs']
    expect(names.filter((name) => !withKey.has(name) && !(kind === 'f' && withoutForeignKey.includes(name)))).toEqual(
      [],
    )
  })
})

describe('the service', () => {
  test('sees no rows of any tenant table before it sets an organization', async () => {
    for (const { name } of tenantTables) {
      expect((await service.query(`select * from ${name}`)).rows, name).toEqual([])
    }
  })

  test('sees only rows of the organization that it sets', async () => {
    for (const { name, key } of tenantTables) {
      for (const id of [demo, other]) {
        expect(await asOrg(id, `select ${key} as id from ${name} where ${key} <> $1`, [id]), name).toEqual([])
      }
    }
    const seeded = (await seededTables()).map(({ name }) => name)
    const filled = tenantTables.map(({ name }) => name).filter((name) => !passingTables.includes(name))
    expect(seeded, 'tables with rows').toEqual(expect.arrayContaining(filled))
  })

  test('cannot insert a row for another organization', async () => {
    for (const { name, key } of tenantTables) {
      // Row-level security is checked before the other columns.
      const insert = asOrg(
        demo,
        `insert into ${name} (${[key, ...timesOf(name)]}) values ($1${timesOf(name).map(() => ', now()')})`,
        [other],
      )
      await expect(insert, name).rejects.toMatchObject({ code: '42501' })
    }
  })

  test('cannot move a row to another organization', async () => {
    for (const { name, key } of await seededTables()) {
      const update = asOrg(demo, `update ${name} set ${key} = $1`, [other])
      await expect(update, name).rejects.toMatchObject({ code: '42501' })
    }
  })

  test('cannot change rows of another organization, whatever its SQL is', async () => {
    const growing = ['audit_events', 'audit_chains', 'tool_call_records']
    for (const { name, key } of tenantTables.filter(({ name }) => !growing.includes(name))) {
      // The service isn't allowed to delete organizations; see below.
      const deletion = name === 'organizations' ? [] : [`delete from ${name}`]
      for (const sql of [`update ${name} set ${key} = ${key}`, ...deletion]) {
        const changed = await asOrg(demo, `${sql} where ${key} = $1 returning 1`, [other])
        expect(changed, sql).toEqual([])
      }
    }
  })

  test.each([
    'update audit_events set actor = actor',
    'delete from audit_events',
    'truncate audit_events',
    'delete from audit_chains',
    'update tool_call_records set user_id = user_id',
    'delete from tool_call_records',
    'delete from organizations',
    'select * from migrations',
    "insert into migrations (name, checksum) values ('0999_x.sql', '')",
    'alter table organizations disable row level security',
    'alter table organizations no force row level security',
    "insert into audit_keys (id, key_sealed) values ('x', 'y')",
    'delete from audit_keys',
    'create policy mine on members using (true)',
    'drop policy tenant on members',
    'drop table members',
    'create table mine (id int)',
    "create function mine() returns int language sql as 'select 1'",
    'create role mine',
    'alter role current_user bypassrls',
    'set session_replication_role = replica',
    'set row_security = off; select * from members',
    "copy members to program 'cat'",
  ])('cannot run: %s', async (sql) => {
    await expect(asOrg(demo, sql)).rejects.toMatchObject({ code: '42501' })
  })

  test('cannot become the owner', async () => {
    const role = pg.escapeIdentifier(app.stores.owner.user ?? '')
    await expect(service.query(`set role ${role}`)).rejects.toMatchObject({ code: '42501' })
    await expect(service.query(`set session authorization ${role}`)).rejects.toMatchObject({ code: '42501' })
  })
})

test('an address can be invited by two organizations, but only once by each', async () => {
  for (const id of [demo, other]) {
    await app.stores.database.asOrg(id, (sql) => invite(sql, 'new@example.com'))
    const invitations = await asOrg(id, "select organization_id from invitations where email = 'new@example.com'")
    expect(invitations).toEqual([{ organization_id: id }])
  }
  const again = app.stores.database.asOrg(demo, (sql) => invite(sql, 'new@example.com'))
  await expect(again).rejects.toMatchObject({ code: '23505', constraint: 'invitations_email' })
})
