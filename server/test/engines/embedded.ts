import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { openEmbeddedPostgres } from '../../src/kernel/stores/postgres/embedded-postgres.ts'
import { databaseUrl, makeRunFolder, makeTemplates } from './engines.ts'

/** The engines of one machine: the embedded PostgreSQL, and a file for the key-value store. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = makeRunFolder('embedded')
  const postgres = await openEmbeddedPostgres({ dataDir: folder.path, claim: 'own', connections: 200 })
  await forgoDurability(postgres.connection)
  const templates = await makeTemplates(postgres.connection)
  const { host = '', user = '' } = postgres.connection
  const url = databaseUrl(host, user)
  project.provide('engines', { templates, databaseUrl: url, superuserUrl: url, redisUrl: undefined })
  return async () => {
    await postgres.stop()
    folder.remove()
  }
}

/**
 * Turns off durability, which a test run doesn't need, because waiting for the disk takes longer than the tests, and
 * maintenance, which would go through hundreds of databases.
 */
async function forgoDurability(cluster: pg.ClientConfig): Promise<void> {
  const client = new pg.Client({ ...cluster, database: 'postgres' })
  await client.connect()
  for (const setting of ['fsync', 'full_page_writes', 'autovacuum', 'jit'])
    await client.query(`alter system set ${setting} = off`)
  // Hundreds of connections sign in with passwords derived from a secret.
  await client.query('alter system set scram_iterations = 1')
  await client.query('select pg_reload_conf()')
  await client.end()
}
