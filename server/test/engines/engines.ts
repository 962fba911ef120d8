import { spawn } from 'node:child_process'
import { chmodSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { createSecrets } from '../../src/lib/secrets.ts'
import { migrate } from '../../src/stores/postgres/migrations.ts'

/** Tells tests where to create databases, and where Redis is, if there is one. */
export interface Engines {
  /** Name of a migrated, empty database to copy. */
  template: string
  /** Connection URL of the cluster's owner, with `DATABASE` as the placeholder for a database. */
  databaseUrl: string
  redisUrl: string | undefined
}

declare module 'vitest' {
  interface ProvidedContext {
    engines: Engines
  }
}

/** Creates the folder for the data of one test run. */
export function makeRunFolder(name: string): { path: string; remove: () => void } {
  const path = mkdtempSync(join(tmpdir(), `inlay-${name}-`))
  // PostgreSQL runs as another user when the tests run as root.
  chmodSync(path, 0o755)
  // In the background, because deleting the files of hundreds of databases takes half a minute.
  const remove = () => spawn('rm', ['-rf', path], { detached: true, stdio: 'ignore' }).unref()
  return { path, remove }
}

export const testSecret = 'test-secret-0123456789-abcdefghijklmnop'

/** Migrates a template once, so that each test file can copy it in milliseconds. */
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
