import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { createSecrets } from '../../src/lib/secrets.ts'
import { migrate } from '../../src/stores/postgres/migrations.ts'

/** What a set of engines tells the tests: where to make databases, and where Redis is, if it is one with Redis. */
export interface Engines {
  /** A database that is migrated and empty, to copy from. */
  template: string
  /** Connection URL of the cluster's owner, for a database. */
  databaseUrl: string
  redisUrl: string | undefined
}

declare module 'vitest' {
  interface ProvidedContext {
    engines: Engines
  }
}

/** The data of one test run. Below it every test file has folders and databases of its own. */
export function makeRunFolder(name: string): { path: string; remove: () => void } {
  const path = mkdtempSync(join(tmpdir(), `inlay-${name}-`))
  // PostgreSQL runs as another user when the tests run as root.
  chmodSync(path, 0o755)
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) }
}

export const testSecret = 'test-secret-0123456789-abcdefghijklmnop'

/** Migrates once, so that a test file's database is a copy and takes milliseconds. */
export async function makeTemplate(cluster: pg.ClientConfig): Promise<string> {
  const name = 'inlay_template'
  const client = new pg.Client({ ...cluster, database: 'postgres' })
  await client.connect()
  await client.query(`create database ${name}`)
  await client.end()
  await migrate({ ...cluster, database: name }, createSecrets([testSecret]))
  return name
}

export const databaseUrl = (socket: string, user: string) =>
  `postgres://${user}@localhost/DATABASE?host=${encodeURIComponent(socket)}`
