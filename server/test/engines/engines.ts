import { spawn } from 'node:child_process'
import { chmodSync, mkdtempSync } from 'node:fs'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { seedDemo } from '../../src/console/demo/demo.ts'
import { createSecrets, type Secrets } from '../../src/kernel/lib/secrets.ts'
import { auditKeys } from '../../src/kernel/stores/audit/chain.ts'
import { openDatabase } from '../../src/kernel/stores/database.ts'
import { migrate, serviceConnection } from '../../src/kernel/stores/postgres/migrations.ts'

/** Tells tests where to create databases, and where Redis is, if there is one. */
export interface Engines {
  /** Names of databases to copy: a migrated, empty one, and one with the demo's organizations and users. */
  templates: { empty: string; demo: string }
  /** Connection URL of the cluster's owner, with `DATABASE` as the placeholder for a database. */
  databaseUrl: string
  /** Like `databaseUrl`, for a superuser, who sees the rows of all organizations. */
  superuserUrl: string
  redisUrl: string | undefined
}

declare module 'vitest' {
  interface ProvidedContext {
    engines: Engines
  }
}

/** Waits until its standard input ends, and then ends the servers in a folder and removes it. */
const guard = `
  cat > /dev/null
  for file in $(find "$0" -name postmaster.pid -o -name redis.pid); do kill -QUIT "$(head -n 1 "$file")"; done
  rm -rf "$0"`

/** Creates the folder for the data of one test run. It's removed, and its servers end, also if the run is killed. */
export function makeRunFolder(name: string): { path: string; remove: () => void } {
  const path = mkdtempSync(join(tmpdir(), `inlay-${name}-`))
  // PostgreSQL runs as another user when the tests run as root.
  chmodSync(path, 0o755)
  // A process of its own, also because deleting the files of hundreds of databases takes half a minute.
  const child = spawn('sh', ['-c', guard, path], { detached: true, stdio: ['pipe', 'ignore', 'ignore'] })
  child.unref()
  const input = child.stdin as Socket
  input.unref()
  return { path, remove: () => input.end() }
}

export const testSecret = 'test-secret-0123456789-abcdefghijklmnop'

/** Prepares templates once, so that each test can copy one in milliseconds. */
export async function makeTemplates(cluster: pg.ClientConfig): Promise<Engines['templates']> {
  const templates = { empty: 'inlay_template', demo: 'inlay_demo_template' }
  const secrets = createSecrets([testSecret])
  const client = new pg.Client({ ...cluster, database: 'postgres' })
  await client.connect()
  await client.query(`create database ${templates.empty}`)
  await migrate({ ...cluster, database: templates.empty }, secrets)
  await client.query(`create database ${templates.demo} template ${templates.empty}`)
  await client.end()
  await fillWithDemo({ ...cluster, database: templates.demo }, secrets)
  return templates
}

async function fillWithDemo(owner: pg.ClientConfig, secrets: Secrets): Promise<void> {
  await migrate(owner, secrets)
  const [auditKey] = auditKeys(secrets)
  const database = openDatabase({ connection: serviceConnection(owner, secrets), auditKey })
  await seedDemo({ database })
  await database.close()
}

export const databaseUrl = (socket: string, user: string) =>
  `postgres://${user}@localhost/DATABASE?host=${encodeURIComponent(socket)}`
