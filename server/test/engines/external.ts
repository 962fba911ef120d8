import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { Redis } from 'ioredis'
import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { databaseUrl, type Engines, makeRunFolder, makeTemplates } from './engines.ts'

/**
 * The engines of several machines: the system's PostgreSQL and Redis, as private servers on sockets in a new folder.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { stop, ...engines } = await startExternalEngines()
  project.provide('engines', engines)
  return stop
}

export async function startExternalEngines(): Promise<Engines & { redisUrl: string; stop: () => Promise<void> }> {
  const folder = makeRunFolder('external')
  const parts = JSON.parse(
    readFileSync(join(import.meta.dirname, '../../../node_modules/.inlay-test-parts.json'), 'utf8'),
  )
  const [postgres, redis] = await Promise.all([
    startPostgres(parts.postgres, folder.path),
    startRedis(parts.redis, folder.path),
  ])
  const templates = await makeTemplates({ host: folder.path, user: owner })
  return {
    templates,
    databaseUrl: databaseUrl(folder.path, owner),
    superuserUrl: databaseUrl(folder.path, 'postgres'),
    redisUrl: redis.url,
    async stop() {
      await Promise.all([stop(postgres, 'SIGINT'), stop(redis.child, 'SIGTERM')])
      folder.remove()
    },
  }
}

/** Not a superuser, as in a managed PostgreSQL, so that row-level security also applies to the owner. */
const owner = 'inlay_owner'

async function startPostgres(bin: string, folder: string): Promise<ChildProcess> {
  const data = join(folder, 'data')
  mkdirSync(data, { mode: 0o700 })
  const user = unprivilegedUser()
  if (user) for (const path of [folder, data]) chownSync(path, user.uid, user.gid)
  const options = { ...user, cwd: '/', stdio: 'ignore' } as const
  execFileSync(
    join(bin, 'initdb'),
    ['-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C', '-N'],
    options,
  )
  writeFileSync(
    join(data, 'pg_hba.conf'),
    `local all postgres trust\nlocal all ${owner} trust\nlocal all all scram-sha-256\n`,
  )
  const speed = ['fsync=off', 'full_page_writes=off', 'autovacuum=off']
  const flags = ['listen_addresses=', `unix_socket_directories=${folder}`, 'max_connections=200', ...speed]
  const child = spawn(join(bin, 'postgres'), ['-D', data, ...flags.flatMap((flag) => ['-c', flag])], options)
  await until(async () => {
    const client = new pg.Client({ host: folder, user: 'postgres', database: 'postgres' })
    await client.connect()
    await client.query(`create role ${owner} login createrole createdb`)
    await client.end()
  })
  return child
}

async function startRedis(program: string, folder: string): Promise<{ child: ChildProcess; url: string }> {
  const socket = join(folder, 'redis.sock')
  const child = spawn(
    program,
    ['--port', '0', '--unixsocket', socket, '--save', '', '--dir', folder, '--pidfile', join(folder, 'redis.pid')],
    {
      stdio: 'ignore',
    },
  )
  await until(async () => {
    const redis = new Redis({ path: socket, lazyConnect: true, retryStrategy: () => null })
    redis.on('error', () => undefined)
    await redis.connect()
    await redis.quit()
  })
  chmodSync(socket, 0o777)
  return { child, url: `unix://${socket}` }
}

function unprivilegedUser(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined
  const id = (flag: string) => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }))
  return { uid: id('-u'), gid: id('-g') }
}

async function stop(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  const exited = once(child, 'exit')
  child.kill(signal)
  await exited
}

async function until(isReady: () => Promise<void>): Promise<void> {
  for (const deadline = Date.now() + 30_000; ; ) {
    try {
      return await isReady()
    } catch (error) {
      if (Date.now() > deadline) throw error
      await delay(20)
    }
  }
}
