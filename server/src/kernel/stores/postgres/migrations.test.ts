import pg from 'pg'
import { parseIntoClientConfig } from 'pg-connection-string'
import { describe, expect, inject, onTestFinished, test, vi } from 'vitest'
import { makeRelease, shipped } from '../../../../test/releases.ts'
import { newId } from '../../lib/ids.ts'
import { createSecrets } from '../../lib/secrets.ts'
import { auditKeys } from '../audit/chain.ts'
import { openDatabase } from '../database.ts'
import { dropFormerLogins, migrate, serviceConnection } from './migrations.ts'

const [secret, nextSecret] = ['migrations-secret-0123456789-abcdef', 'another-secret-0123456789-abcdefgh']
const secrets = createSecrets([secret])
const next = createSecrets([nextSecret])
/** The secrets in the middle of a rotation. */
const both = createSecrets([nextSecret, secret])

const ownerOf = (database: string): pg.ClientConfig =>
  parseIntoClientConfig(inject('engines').databaseUrl.replace('DATABASE', database))

async function connect(connection: pg.ClientConfig): Promise<pg.Client> {
  const client = new pg.Client(connection)
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

/** An empty database, and a connection as its owner. */
async function makeDatabase(): Promise<{ owner: pg.ClientConfig; client: pg.Client }> {
  const name = `m_${newId().replaceAll('-', '')}`
  const cluster = await connect(ownerOf('postgres'))
  await cluster.query(`create database ${name}`)
  // Waits for sessions that are ending, because the owner isn't allowed to end them by force.
  onTestFinished(async () => void (await cluster.query(`drop database ${name}`)))
  return { owner: ownerOf(name), client: await connect(ownerOf(name)) }
}

const tablesOf = async (client: pg.Client): Promise<string[]> =>
  (
    await client.query<{ name: string }>(
      `select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r' order by 1`,
    )
  ).rows.map(({ name }) => name)

const recorded = async (client: pg.Client): Promise<string[]> =>
  (await client.query<{ name: string }>(`select name from migrations where name like '0%' order by name`)).rows.map(
    ({ name }) => name,
  )

/** Waits until the running migration waits for a lock, then kills its connection as if the machine died. */
async function killWhenBlocked(client: pg.Client): Promise<void> {
  await vi.waitFor(
    async () => {
      const { rows } = await client.query(`
        select pg_terminate_backend(pid, 10000) from pg_stat_activity
        where application_name = 'inlay migrate' and datname = current_database() and wait_event_type = 'Lock'`)
      expect(rows).toHaveLength(1)
    },
    { interval: 20 },
  )
}

/** Checks that the service can work with its own connection. */
async function serviceWorks(owner: pg.ClientConfig, by = secrets): Promise<void> {
  const [auditKey] = auditKeys(by)
  const database = openDatabase({ connection: serviceConnection(owner, by), auditKey, connections: 1 })
  onTestFinished(() => database.close())
  const id = newId()
  await database.asOrg(id, (sql) => sql`insert into organizations (id, name, slug) values (${id}, 'Some', ${id})`)
  expect(await database.asOrg(id, (sql) => sql`select id from organizations`)).toEqual([{ id }])
  expect(await database.asService((sql) => sql`select id from organizations`)).toEqual([])
}

describe('an empty database', () => {
  test('is brought up to date, so that the service works', async () => {
    const { owner, client } = await makeDatabase()
    expect(await migrate(owner, secrets)).toEqual({ applied: shipped })
    expect(await recorded(client)).toEqual(shipped)
    await serviceWorks(owner)
  })

  test('is migrated once by nodes that start together', async () => {
    const { owner, client } = await makeDatabase()
    const runs = await Promise.all(Array.from({ length: 5 }, () => migrate(owner, secrets)))
    expect(runs.flatMap(({ applied }) => applied)).toEqual(shipped)
    expect(await recorded(client)).toEqual(shipped)
    await serviceWorks(owner)
  })
})

describe('an up-to-date database', () => {
  test('is left unchanged', async () => {
    const { owner, client } = await makeDatabase()
    await migrate(owner, secrets)
    const catalogue = async () =>
      (
        await client.query(`
          select 'policy' as kind, oid, xmin::text from pg_policy union all
          select 'table', oid, xmin::text from pg_class where relnamespace = 'public'::regnamespace union all
          select 'role', oid, rolname::text from pg_roles where starts_with(rolname, current_database()) union all
          select 'migration', 0, name || applied_at from migrations order by 1, 2, 3`)
      ).rows
    const before = await catalogue()
    expect(await migrate(owner, secrets)).toEqual({ applied: [] })
    expect(await catalogue()).toEqual(before)
    expect(before.filter(({ kind }) => kind === 'policy').length).toBeGreaterThan(5)
  })

  test('accepts a new secret without losing the old one, until that is dropped', async () => {
    const { owner } = await makeDatabase()
    await migrate(owner, secrets)
    await migrate(owner, both)
    await Promise.all([secrets, both, next].map((by) => serviceWorks(owner, by)))
    await dropFormerLogins(owner, next)
    await serviceWorks(owner, next)
    await expect(serviceWorks(owner, secrets)).rejects.toThrow('The database is not reachable')
  })

  test('is rejected if a migration was changed after it was applied', async () => {
    const { owner, client } = await makeDatabase()
    await migrate(owner, secrets)
    await client.query(`update migrations set checksum = 'another'`)
    await expect(migrate(owner, secrets)).rejects.toMatchObject({
      name: 'MigrationFailed',
      message: `${shipped[0]} was changed after it was applied. Run the release that applied it; if you changed the file, add a new migration instead`,
    })
  })

  test('is rejected by an older release', async () => {
    const { owner, client } = await makeDatabase()
    const later = await makeRelease({ '0900_later.sql': 'create table later ()' })
    expect(await later(owner, secrets)).toEqual({ applied: [...shipped, '0900_later.sql'] })
    await expect(migrate(owner, secrets)).rejects.toMatchObject({
      name: 'MigrationFailed',
      message: 'The database is newer than this release: it includes 0900_later.sql. Run the newer release.',
    })
    expect(await tablesOf(client)).toContain('later')
  })
})

describe('a migration', () => {
  test('that fails leaves nothing behind, and runs again once it is fixed', async () => {
    const { owner, client } = await makeDatabase()
    await migrate(owner, secrets)
    const before = await tablesOf(client)
    const broken = await makeRelease({ '0900_notes.sql': 'create table notes (id int); select 1 / 0' })
    await expect(broken(owner, secrets)).rejects.toMatchObject({
      name: 'MigrationFailed',
      message: '0900_notes.sql: division by zero',
    })
    expect([await tablesOf(client), await recorded(client)]).toEqual([before, shipped])
    await serviceWorks(owner)
    const mended = await makeRelease({ '0900_notes.sql': 'create table notes (id int)' })
    expect(await mended(owner, secrets)).toEqual({ applied: ['0900_notes.sql'] })
  })

  test('that is killed after its last statement leaves nothing behind, and runs again', async () => {
    const { owner, client } = await makeDatabase()
    const holder = await connect(owner)
    // The same table as in `migrate`. The lock allows the schema to be created, but not recorded.
    await holder.query(
      'create table migrations (name text primary key, checksum text not null, applied_at timestamptz not null default now())',
    )
    await holder.query('begin')
    await holder.query('lock table migrations in share mode')
    const run = migrate(owner, secrets).catch((error: Error) => error)
    await killWhenBlocked(client)
    expect(await run).toMatchObject({ name: 'MigrationFailed', message: expect.stringContaining(shipped[0] ?? '') })
    await holder.query('rollback')
    expect([await tablesOf(client), await recorded(client)]).toEqual([['migrations'], []])
    expect(await migrate(owner, secrets)).toEqual({ applied: shipped })
    await serviceWorks(owner)
  })

  test('gets row-level security on its new tables even if it is killed before that step', async () => {
    const { owner, client } = await makeDatabase()
    await migrate(owner, secrets)
    const later = await makeRelease({
      '0900_notes.sql': `create table notes (
        organization_id uuid references organizations (id), id uuid, primary key (organization_id, id))`,
    })
    // Tables are secured in the order of their names, and this one has lost its policy.
    await client.query('drop policy tenant on budgets')
    const holder = await connect(owner)
    await holder.query('begin')
    await holder.query('lock table budgets in access share mode')
    const run = later(owner, secrets).catch((error: Error) => error)
    await killWhenBlocked(client)
    expect(await run).toBeInstanceOf(Error)
    expect(await recorded(client)).toContain('0900_notes.sql')
    const service = await connect(serviceConnection(owner, secrets))
    await expect(service.query('select from notes')).rejects.toMatchObject({ code: '42501' })
    await holder.query('rollback')

    await later(owner, secrets)
    expect((await service.query('select from notes')).rows).toEqual([])
    const { rows } = await client.query(`
      select relname, relrowsecurity, relforcerowsecurity, (select count(*) from pg_policy where polrelid = c.oid) as policies,
             has_table_privilege(current_database() || '_service', c.oid, 'insert') as granted
      from pg_class c where relname = 'notes'`)
    expect(rows).toEqual([
      { relname: 'notes', relrowsecurity: true, relforcerowsecurity: true, policies: '1', granted: true },
    ])
  })
})

test('an owner that cannot create roles gets an error, and can continue once it has CREATEROLE', async () => {
  const cluster = await connect(ownerOf('postgres'))
  const name = `m_${newId().replaceAll('-', '')}`
  await cluster.query(`create role ${name} login password 'plain'`)
  await cluster.query(`grant ${name} to current_user`)
  await cluster.query(`create database ${name} owner ${name}`)
  onTestFinished(async () => void (await cluster.query(`drop database ${name}`)))
  const owner = { ...ownerOf(name), user: name, password: 'plain' }
  await expect(migrate(owner, secrets)).rejects.toMatchObject({
    name: 'MigrationFailed',
    message: expect.stringMatching(
      /^Could not create the role m_\w+_service \(.+\)\. The role in DATABASE_URL needs CREATEROLE: alter role … createrole$/,
    ),
  })
  await cluster.query(`alter role ${name} createrole`)
  await migrate(owner, secrets)
  await serviceWorks(owner)
})
