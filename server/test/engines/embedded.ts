import type { TestProject } from 'vitest/node'
import { openEmbeddedPostgres } from '../../src/stores/embedded-postgres.ts'
import { databaseUrl, makeRunFolder, makeTemplate } from './engines.ts'

/** One machine: the PostgreSQL that the product ships, and a file for the key-value store. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = makeRunFolder('embedded')
  const postgres = await openEmbeddedPostgres({ dataDir: folder.path, claim: 'own' })
  const template = await makeTemplate(postgres.connection)
  const { host = '', user = '' } = postgres.connection
  project.provide('engines', { template, databaseUrl: databaseUrl(host, user), redisUrl: undefined })
  return async () => {
    await postgres.stop()
    folder.remove()
  }
}
