import type pg from 'pg'
import { type Config, prepareDataFolder } from '../src/kernel/config/config.ts'
import { createLog } from '../src/kernel/lib/log.ts'
import { createSecrets, type Secrets } from '../src/kernel/lib/secrets.ts'
import {
  firstFormerMigration,
  loginPrefixes,
  type Migration,
  MigrationFailed,
  migrate,
  readMigrations,
  schemaFolder,
  withMigrationLock,
} from '../src/kernel/stores/postgres/migrations.ts'
import { openPostgres } from '../src/kernel/stores/stores.ts'
import { unpackToolCalls } from './tool-call-batches.ts'

/** `inlay convert`. Fails if a server is running on the data folder. */
export async function convertDatabase(config: Config): Promise<void> {
  if (!config.databaseUrl) prepareDataFolder(config.dataDir)
  const { connection, stop } = await openPostgres(config, { log: createLog('silent'), claim: 'own' })
  try {
    await convert(connection, createSecrets(config.secrets))
    console.log('Converted the database. The schema is up to date')
  } finally {
    await stop()
  }
}

/**
 * Brings a database from before 0.1.0 to the schema of `server/migrations`, in one transaction: applies the former
 * migrations that it lacks, and records the files of 0.1.0 instead of them. Then applies later ones, and sets up row-level
 * security and roles, as any migration does.
 */
export async function convert(owner: pg.ClientConfig, secrets: Secrets): Promise<{ applied: string[] }> {
  const applied = await withMigrationLock(owner, async (client) => {
    const missing = await listMissing(client)
    await requireStoppedServers(client, owner)
    await client.query('begin')
    for (const migration of missing) await applyFormer(client, migration)
    await client.query('delete from migrations where name <> all($1)', [laterMigrations.map(({ name }) => name)])
    for (const { name, checksum } of schema) {
      await client.query('insert into migrations (name, checksum) values ($1, $2)', [name, checksum])
    }
    await client.query('commit')
    return missing.map(({ name }) => name)
  })
  await migrate(owner, secrets)
  return { applied }
}

export async function applyFormer(client: pg.Client, { name, text }: Pick<Migration, 'name' | 'text'>): Promise<void> {
  try {
    await client.query(text)
    if (name === '0049_tool_call_records.sql') await unpackToolCalls(client)
  } catch (cause) {
    throw new MigrationFailed(`${name}: ${(cause as Error).message}`, { cause })
  }
}

/** The former migrations after those of the oldest database that can be converted. */
export const formerMigrations = readMigrations(import.meta.dirname)
const oldest = '0040_ended_clients.sql'
/** The former migrations lead to the files up to the last one of 0.1.0, and `migrate` applies those after it. */
const isLater = ({ name }: Migration) => name > '0011_partitions.sql'
const schema = readMigrations(schemaFolder).filter((file) => !isLater(file))
const laterMigrations = readMigrations(schemaFolder).filter(isLater)
/** Commits had different versions of some of these, so they are always run. */
const rebuilt = [
  '0063_list_totals.sql',
  '0064_list_totals_of_before.sql',
  '0065_threads_of_status.sql',
  '0067_usage_rankings.sql',
]

async function listMissing(client: pg.Client): Promise<Migration[]> {
  const { rows: tables } = await client.query(
    `select from pg_tables where schemaname = 'public' and tablename = 'migrations'`,
  )
  const { rows } =
    tables.length > 0 ? await client.query<{ name: string }>('select name from migrations') : { rows: [] }
  const recorded = new Set(rows.map(({ name }) => name))
  if (!recorded.has(firstFormerMigration)) {
    throw new MigrationFailed("There is nothing to convert: the database isn't from before 0.1.0.")
  }
  if (!recorded.has(oldest)) {
    throw new MigrationFailed(
      'The database is too old to be converted. Start the server of commit 5d624c9 on it once, stop it, and try again.',
    )
  }
  // Commits numbered some files differently.
  const withoutNumber = (name: string) => name.slice('0000_'.length)
  const done = new Set([...recorded].map(withoutNumber))
  const known = new Set([...formerMigrations, ...laterMigrations].map(({ name }) => withoutNumber(name)))
  const unknown = [...recorded].filter((name) => /^\d/.test(name) && name > oldest && !known.has(withoutNumber(name)))
  if (unknown.length > 0) {
    throw new MigrationFailed(`The database is newer than this release: it includes ${unknown.join(', ')}.`)
  }
  return formerMigrations.filter(({ name }) => rebuilt.includes(name) || !done.has(withoutNumber(name)))
}

/** A server of a former version fails on the converted tables, and would wait for the conversion until then. */
async function requireStoppedServers(client: pg.Client, owner: pg.ClientConfig): Promise<void> {
  const { rowCount } = await client.query(
    `select from pg_stat_activity join unnest($1::text[]) prefix on starts_with(usename, prefix)
     where datname = current_database()`,
    [loginPrefixes(owner)],
  )
  if (rowCount) throw new MigrationFailed('A server is using the database. Stop every server, and try again.')
}
