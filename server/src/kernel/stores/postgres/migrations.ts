import { hash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import type { DerivedKey, Secrets } from '../../lib/secrets.ts'
import { plainHash } from '../audit/chain.ts'
import { retireAuditKeys } from '../audit/key-change.ts'
import { unpackToolCalls } from './tool-call-batches.ts'

/**
 * Brings the schema up to date as its owner, under one lock for all nodes. Each migration and the row that records it
 * are one transaction, so an interrupted run can be repeated. The service then connects as a role that owns nothing.
 */
export async function migrate(owner: pg.ClientConfig, secrets: Secrets): Promise<{ applied: string[] }> {
  requireShortName(databaseName(owner))
  const client = new pg.Client({ ...owner, application_name: 'inlay migrate' })
  client.on('error', () => undefined) // The running statement reports the error.
  await client.connect()
  try {
    await client.query('select pg_advisory_lock($1)', [migrationLock])
    await client.query(
      'create table if not exists migrations (name text primary key, checksum text not null, applied_at timestamptz not null default now())',
    )
    const applied = await applyMigrations(client, secrets)
    await grantToService(client, secrets)
    return { applied }
  } finally {
    await client.end()
  }
}

/** The service's connection: the owner's address, another role, and a password derived from the secret. */
export function serviceConnection(owner: pg.ClientConfig, secrets: Secrets): pg.ClientConfig {
  const [key] = secrets.derive(passwordPurpose) as [DerivedKey]
  return { ...owner, user: loginName(serviceRole(databaseName(owner)), key), password: passwordOf(key) }
}

/** Drops the logins of secrets that are no longer configured, as the last step of a rotation. */
export async function dropFormerLogins(owner: pg.ClientConfig, secrets: Secrets): Promise<void> {
  const client = new pg.Client(owner)
  await client.connect()
  try {
    const group = serviceRole(databaseName(owner))
    const wanted = secrets.derive(passwordPurpose).map((key) => loginName(group, key))
    const { rows } = await client.query<{ login: string }>(
      `select member.rolname as login from pg_auth_members m
       join pg_roles member on member.oid = m.member join pg_roles parent on parent.oid = m.roleid
       where parent.rolname = $1 and member.rolname like $1 || '\\_%' and not member.rolname = any($2)`,
      [group, wanted],
    )
    for (const { login } of rows) await client.query(`drop role ${pg.escapeIdentifier(login)}`)
  } finally {
    await client.end()
  }
}

export class MigrationFailed extends Error {
  override name = 'MigrationFailed'
}

const folder = join(import.meta.dirname, '../../../../migrations')
const migrationLock = 7_140_002
const afterEach = 'after_each.sql'
const passwordPurpose = 'database login'

/** Parts of migrations that need the secret or more than SQL. Each runs in its migration's transaction. */
const steps: Record<string, (client: pg.Client, secrets: Secrets) => Promise<void>> = {
  async '0014_keyed_audit_chains.sql'(client, secrets) {
    const { rows } = await client.query<{ id: string }>('select id from organizations')
    for (const { id } of rows) await retireAuditKeys(client, secrets, id, [plainHash])
  },
  '0049_tool_call_records.sql': unpackToolCalls,
}

async function applyMigrations(client: pg.Client, secrets: Secrets): Promise<string[]> {
  const { rows } = await client.query<{ name: string; checksum: string }>(
    'select name, checksum from migrations where name <> $1',
    [afterEach],
  )
  const known = new Map(rows.map(({ name, checksum }) => [name, checksum]))
  const applied: string[] = []
  for (const name of readdirSync(folder)
    .filter((file) => /^\d{4}_.+\.sql$/.test(file))
    .sort()) {
    const text = readFileSync(join(folder, name), 'utf8')
    const checksum = hash('sha256', text)
    const before = known.get(name)
    known.delete(name)
    if (before === checksum) continue
    if (before) throw new MigrationFailed(`${name} was changed after it was applied; add a new migration instead`)
    try {
      await client.query('begin')
      await client.query(text)
      await steps[name]?.(client, secrets)
      await client.query('insert into migrations (name, checksum) values ($1, $2)', [name, checksum])
      await client.query('commit')
    } catch (cause) {
      await client.query('rollback').catch(() => undefined) // A lost connection has already rolled back.
      throw new MigrationFailed(`${name}: ${(cause as Error).message}`, { cause })
    }
    applied.push(name)
  }
  if (known.size > 0) {
    throw new MigrationFailed(
      `The database is newer than this release: it includes ${[...known.keys()].join(', ')}. Run the newer release.`,
    )
  }
  return applied
}

/** One role holds the grants. Each secret has its own login in that role, so nodes can change secrets one by one. */
async function grantToService(client: pg.Client, secrets: Secrets): Promise<void> {
  const group = serviceRole(client.database ?? '')
  await createRole(client, group, 'nologin')
  const [key] = secrets.derive(passwordPurpose) as [DerivedKey]
  const login = loginName(group, key)
  if (await createRole(client, login, `login password ${pg.escapeLiteral(passwordOf(key))}`)) {
    await client.query(`grant ${pg.escapeIdentifier(group)} to ${pg.escapeIdentifier(login)}`)
  }
  const text = readFileSync(join(folder, afterEach), 'utf8')
  const { rows } = await client.query<{ name: string; checksum: string }>(
    'select name, checksum from migrations order by name',
  )
  const checksum = hash(
    'sha256',
    [text, ...rows.map(({ name }) => name).filter((name) => name !== afterEach)].join('\n'),
  )
  if (rows.find(({ name }) => name === afterEach)?.checksum === checksum && (await hasGrants(client, group))) return
  // One transaction, so that a run that is killed after a migration adds its row-level security when it is repeated.
  await client.query(`begin; ${text.replaceAll(':service_role', pg.escapeIdentifier(group))}`)
  await client.query(
    `insert into migrations (name, checksum) values ($1, $2)
     on conflict (name) do update set checksum = excluded.checksum, applied_at = now()`,
    [afterEach, checksum],
  )
  await client.query('commit')
}

/** PostgreSQL truncates names to 63 bytes, and role names contain the database's name. */
function requireShortName(database: string): void {
  const longest = 63 - '_service_01234567'.length
  if (Buffer.byteLength(database) > longest) {
    throw new MigrationFailed(`The database's name is longer than ${longest} bytes: ${database}`)
  }
}

/** False if the database was restored, or copied under another name. */
async function hasGrants(client: pg.Client, group: string): Promise<boolean> {
  const { rows } = await client.query("select has_table_privilege($1, 'organizations', 'select') as granted", [group])
  return rows[0].granted
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

const serviceRole = (database: string) => `${database}_service`
const loginName = (group: string, key: DerivedKey) => `${group}_${key.id}`
const passwordOf = (key: DerivedKey) => key.key.toString('base64url')
// Only a client resolves pg's defaults (environment, user name).
const databaseName = (connection: pg.ClientConfig) => new pg.Client(connection).database ?? ''
