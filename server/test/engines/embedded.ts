import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { openEmbeddedPostgres } from '../../src/stores/postgres/embedded-postgres.ts'
import { databaseUrl, makeRunFolder, makeTemplate } from './engines.ts'

/** One machine: the PostgreSQL that the product ships, and a file for the key-value store. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = makeRunFolder('embedded')
  const postgres = await openEmbeddedPostgres({ dataDir: folder.path, claim: 'own' })
  await forgoDurability(postgres.connection)
  const template = await makeTemplate(postgres.connection)
  const { host = '', user = '' } = postgres.connection
  project.provide('engines', { template, databaseUrl: databaseUrl(host, user), redisUrl: undefined })
  return async () => {
    await postgres.stop()
    folder.remove()
  }
}

/** The data of a test run need not survive the machine, and waiting for the disk takes more time than the tests. */
async function forgoDurability(cluster: pg.ClientConfig): Promise<void> {
  const client = new pg.Client({ ...cluster, database: 'postgres' })
  await client.connect()
  for (const setting of ['fsync', 'full_page_writes']) await client.query(`alter system set ${setting} = off`)
  await client.query('select pg_reload_conf()')
  await client.end()
}
