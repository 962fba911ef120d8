import { hash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { DerivedKey, Secrets } from '../../lib/secrets.ts'
import { withMaintenance } from './maintenance.ts'
import { secureTables } from './row-level-security.ts'
import { defaultPatienceMs, inShortLocks, type Patience } from './short-locks.ts'

/**
 * Brings the schema up to date as its owner, under one lock for all nodes. Each migration and the row that records it
 * are one transaction, so an interrupted run can be repeated. The service then connects as a role that owns nothing.
 */
export function migrate(
  owner: pg.ClientConfig,
  secrets: Secrets,
  patience: Patience = { patienceMs: defaultPatienceMs },
): Promise<{ applied: string[] }> {
  requireShortName(databaseName(owner))
  return withMigrationLock(owner, async (client, connection) => {
    await client.query(
      'create table if not exists migrations (name text primary key, checksum text not null, applied_at timestamptz not null default now())',
    )
    const applied: string[] = []
    const { rows } = await client.query<AppliedMigration>('select name, checksum from migrations')
    for (const migration of listNewMigrations(rows)) {
      await apply(client, connection, patience, migration)
      applied.push(migration.name)
    }
    for (const role of roles) await createLogin(client, secrets, role)
    const groups = {
      service: groupName(databaseName(owner), 'service'),
      maintenance: groupName(databaseName(owner), 'maintenance'),
    }
    await secureTables(client, connection, patience, groups).catch((cause) => {
      throw new MigrationFailed(`Could not set up row-level security: ${(cause as Error).message}`, { cause })
    })
    return { applied }
  })
}

/** Connects as the owner, and holds the lock that lets one process at a time change the schema. */
export async function withMigrationLock<T>(
  owner: pg.ClientConfig,
  work: (client: pg.Client, connection: pg.ClientConfig) => Promise<T>,
): Promise<T> {
  const connection = { ...owner, application_name: 'inlay migrate' }
  const client = new pg.Client(connection)
  client.on('error', () => undefined) // The running statement reports the error.
  await client.connect()
  try {
    await lockMigrations(client)
    return await work(client, connection)
  } finally {
    await client.end()
  }
}

/** The files of a folder of migrations, in order. */
export const readMigrations = (folder: string): Migration[] =>
  readdirSync(folder)
    .filter((name) => isMigration.test(name))
    .sort()
    .map((name) => {
      const text = readFileSync(join(folder, name), 'utf8')
      return { name, text, checksum: hash('sha256', text) }
    })

/** Fails if the schema isn't that of this release, for a server that isn't allowed to migrate it. */
export async function requireMigrated(maintenance: pg.ClientConfig): Promise<void> {
  const howTo = 'Run `npx inlay migrate` with this release, this INLAY_SECRET, and the role that owns the schema.'
  const applied = await withMaintenance(maintenance, async (client) => {
    const { rows } = await client.query<AppliedMigration>('select name, checksum from applied_migrations()')
    return rows
  }).catch((cause) => {
    if (!(cause instanceof pg.DatabaseError && isUnprepared.has(cause.code ?? ''))) throw cause
    throw new MigrationFailed(`The database isn't set up for this server (${cause.message}). ${howTo}`, { cause })
  })
  const missing = listNewMigrations(applied).map(({ name }) => name)
  if (missing.length > 0) throw new MigrationFailed(`The schema lacks ${missing.join(', ')}. ${howTo}`)
}

/** There's no such role with this password or privilege, no such database, or no such function. */
const isUnprepared = new Set(['28000', '28P01', '42501', '3D000', '42883'])

/** The service's connection: the owner's address, another role, and a password derived from the secret. */
export const serviceConnection = (owner: pg.ClientConfig, secrets: Secrets): pg.ClientConfig =>
  connectionAs('service', owner, secrets)

/** The connection for maintenance.ts. */
export const maintenanceConnection = (owner: pg.ClientConfig, secrets: Secrets): pg.ClientConfig =>
  connectionAs('maintenance', owner, secrets)

/** How the names of all logins begin, whatever the secret is. */
export const loginPrefixes = (owner: pg.ClientConfig): string[] =>
  roles.map((role) => `${groupName(databaseName(owner), role)}_`)

/** Drops the logins of secrets that are no longer configured, as the last step of a rotation. */
export async function dropFormerLogins(owner: pg.ClientConfig, secrets: Secrets): Promise<void> {
  const client = new pg.Client(owner)
  await client.connect()
  try {
    const groups = roles.map((role) => groupName(databaseName(owner), role))
    const wanted = roles.flatMap((role, n) =>
      secrets.derive(purposes[role]).map((key) => loginName(groups[n] ?? '', key)),
    )
    const { rows } = await client.query<{ login: string }>(
      `select member.rolname as login from pg_auth_members m
       join pg_roles member on member.oid = m.member join pg_roles parent on parent.oid = m.roleid
       where parent.rolname = any($1) and starts_with(member.rolname, parent.rolname || '_') and member.rolname <> all($2)`,
      [groups, wanted],
    )
    for (const { login } of rows) await client.query(`drop role ${pg.escapeIdentifier(login)}`)
  } finally {
    await client.end()
  }
}

export class MigrationFailed extends Error {
  override name = 'MigrationFailed'
}

export const schemaFolder = join(import.meta.dirname, '../../../../migrations')
const isMigration = /^\d{4}_.+\.sql$/
/** Every database from before 0.1.0 has it, and no later one. */
export const firstFormerMigration = '0001_foundation.sql'
const migrationLock = 7_140_002
const lockPollMs = 100
/** The first line of a migration that PostgreSQL can't run in a transaction, such as `create index concurrently`. */
const outsideTransaction = '-- not in a transaction\n'
/** What each role's password is derived for. */
const purposes = { service: 'database login', maintenance: 'database maintenance login' }
type Role = keyof typeof purposes
const roles: readonly Role[] = ['service', 'maintenance']

/**
 * Asks again and again, because `create index concurrently` waits for every statement that is running, and so for nodes
 * that wait for this lock in a statement, while they wait for it.
 */
async function lockMigrations(client: pg.Client): Promise<void> {
  for (;;) {
    const { rows } = await client.query('select pg_try_advisory_lock($1) as is_ours', [migrationLock])
    if (rows[0].is_ours) return
    await sleep(lockPollMs)
  }
}

export interface Migration {
  name: string
  text: string
  checksum: string
}

interface AppliedMigration {
  name: string
  checksum: string
}

function listNewMigrations(rows: readonly AppliedMigration[]): Migration[] {
  const known = new Map(rows.map(({ name, checksum }) => [name, checksum]))
  if (known.has(firstFormerMigration)) {
    throw new MigrationFailed(
      'The database is from before 0.1.0. Stop every server, back up the database, and run `npx inlay convert` once: docs/migrations.md',
    )
  }
  const migrations: Migration[] = []
  for (const migration of readMigrations(schemaFolder)) {
    const before = known.get(migration.name)
    known.delete(migration.name)
    if (before === migration.checksum) continue
    if (before) {
      throw new MigrationFailed(
        `${migration.name} was changed after it was applied. Run the release that applied it; if you changed the file, add a new migration instead`,
      )
    }
    migrations.push(migration)
  }
  if (known.size > 0) {
    throw new MigrationFailed(
      `The database is newer than this release: it includes ${[...known.keys()].join(', ')}. Run the newer release.`,
    )
  }
  return migrations
}

async function apply(
  client: pg.Client,
  connection: pg.ClientConfig,
  patience: Patience,
  { name, text, checksum }: Migration,
): Promise<void> {
  const record = () => client.query('insert into migrations (name, checksum) values ($1, $2)', [name, checksum])
  try {
    if (text.startsWith(outsideTransaction)) {
      await applyOutsideTransaction(client, patience, text)
      await record()
      return
    }
    await inShortLocks(client, connection, patience, async () => {
      await client.query(text)
      await record()
    })
  } catch (cause) {
    throw new MigrationFailed(`${name}: ${(cause as Error).message}`, { cause })
  }
}

/**
 * Runs each statement by itself. Requests don't queue behind these, so they may wait for long. If one is interrupted, all
 * are run again: each index must be dropped first, because an interrupted one stays behind, and is of no use.
 */
async function applyOutsideTransaction(client: pg.Client, { patienceMs }: Patience, text: string): Promise<void> {
  await client.query(`set lock_timeout = ${patienceMs}`)
  for (const statement of text.split(/;$/m)) await client.query(statement)
  await client.query('reset lock_timeout')
}

/** A group holds the grants. Each secret has its own login in that group, so nodes can change secrets one by one. */
async function createLogin(client: pg.Client, secrets: Secrets, role: Role): Promise<void> {
  const group = groupName(client.database ?? '', role)
  await createRole(client, group, 'nologin')
  const [key] = secrets.derive(purposes[role]) as [DerivedKey]
  const login = loginName(group, key)
  if (await createRole(client, login, `login password ${pg.escapeLiteral(passwordOf(key))}`)) {
    await client.query(`grant ${pg.escapeIdentifier(group)} to ${pg.escapeIdentifier(login)}`)
  }
}

/** PostgreSQL truncates names to 63 bytes, and role names contain the database's name. */
function requireShortName(database: string): void {
  const longest = 63 - '_maintenance_01234567'.length
  if (Buffer.byteLength(database) > longest) {
    throw new MigrationFailed(`The database's name is longer than ${longest} bytes: ${database}`)
  }
}

async function createRole(client: pg.Client, name: string, attributes: string): Promise<boolean> {
  const { rowCount } = await client.query('select from pg_roles where rolname = $1', [name])
  if (rowCount) return false
  try {
    await client.query(
      `create role ${pg.escapeIdentifier(name)} nosuperuser nocreatedb nocreaterole nobypassrls ${attributes}`,
    )
  } catch (cause) {
    throw new MigrationFailed(
      `Could not create the role ${name} (${(cause as Error).message}). The role in DATABASE_URL needs CREATEROLE: alter role … createrole`,
      { cause },
    )
  }
  return true
}

function connectionAs(role: Role, owner: pg.ClientConfig, secrets: Secrets): pg.ClientConfig {
  const [key] = secrets.derive(purposes[role]) as [DerivedKey]
  return { ...owner, user: loginName(groupName(databaseName(owner), role), key), password: passwordOf(key) }
}

const groupName = (database: string, role: Role) => `${database}_${role}`
const loginName = (group: string, key: DerivedKey) => `${group}_${key.id}`
const passwordOf = (key: DerivedKey) => key.key.toString('base64url')
// Only a client resolves pg's defaults (environment, user name).
const databaseName = (connection: pg.ClientConfig) => new pg.Client(connection).database ?? ''
