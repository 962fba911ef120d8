import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'

/** Repeatedly kills a server and its PostgreSQL while clients write, and checks the data afterwards. */
export interface KillPlan {
  dataDir: string
  serverKills: number
  postgresKills: number
  onKill?: (text: string) => void
}

export interface KillReport {
  acknowledged: number
  /** Acknowledged keys that are missing or different. */
  lost: string[]
  /** Keys without an audit row, and audit rows without a key. */
  halves: string[]
  /** Number of failed requests, by outcome. */
  failures: Record<string, number>
  /** Output of `audit verify`. */
  audit: string
  /** Time from each kill to the next acknowledged write, in milliseconds. */
  recoveries: { server: number[]; postgres: number[] }
}

const program = join(import.meta.dirname, '../bin/inlay.mjs')
const writers = 8
/** Number of acknowledged writes between two kills. */
const writesBetween = 20

export async function killRepeatedly({ dataDir, serverKills, postgresKills, onKill }: KillPlan): Promise<KillReport> {
  const env = {
    PATH: process.env.PATH ?? '',
    PORT: '0',
    INLAY_DATA_DIR: dataDir,
    INLAY_LOG_LEVEL: 'silent',
    // Keeps tokens valid although every start uses another port.
    INLAY_PUBLIC_URL: 'http://localhost:1',
  }
  const launch = (...args: string[]) =>
    spawn(process.execPath, [program, ...args], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  const run = async (...args: string[]) => {
    const child = launch(...args)
    const output = collect(child)
    const [code] = await once(child, 'close')
    if (code !== 0) throw new Error(`inlay ${args.join(' ')} exited with ${code}: ${output()}`)
    return output().trim()
  }

  let server = await startProcess(launch)
  const token = await run('token', '--email', 'admin@demo.test', '--org', 'demo')
  const acknowledged = new Map<string, string>()
  const failures: Record<string, number> = {}
  let isOver = false
  const write = async (name: string) => {
    try {
      const response = await fetch(`${server.url}/api/publishable-keys`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify({ name }),
      })
      const body = (await response.json()) as { id: string }
      if (response.status === 200) return void acknowledged.set(body.id, name)
      return `${response.status}${response.headers.has('retry-after') ? ' with Retry-After' : ''}`
    } catch {
      return 'no answer'
    }
  }
  const clients = Array.from({ length: writers }, async (_, client) => {
    for (let turn = 0; !isOver; turn += 1) {
      const failure = await write(`${client}/${turn}`)
      if (!failure) continue
      failures[failure] = (failures[failure] ?? 0) + 1
      await delay(10)
    }
  })
  const acknowledgedBeyond = async (count: number) => {
    for (const deadline = Date.now() + 120_000; acknowledged.size < count; await delay(2)) {
      if (Date.now() > deadline)
        throw new Error(`No write was acknowledged for two minutes: ${JSON.stringify(failures)}`)
    }
  }
  const recoveries = { server: [] as number[], postgres: [] as number[] }
  const measure = async (kind: keyof typeof recoveries, kill: () => Promise<void>) => {
    await acknowledgedBeyond(acknowledged.size + writesBetween)
    const killed = performance.now()
    await kill()
    // Each client may have had one request in flight before the kill.
    await acknowledgedBeyond(acknowledged.size + writers + 1)
    recoveries[kind].push(performance.now() - killed)
    onKill?.(`${kind} ${recoveries[kind].length}: ${acknowledged.size} writes acknowledged`)
  }

  try {
    for (let n = 0; n < serverKills; n += 1) {
      await measure('server', async () => {
        const exited = once(server.child, 'exit')
        server.child.kill('SIGKILL')
        await exited
        server = await startProcess(launch)
      })
    }
    for (let n = 0; n < postgresKills; n += 1) {
      await measure('postgres', async () => {
        process.kill(postmaster(dataDir).pid, 'SIGKILL')
      })
    }
    isOver = true
    await Promise.all(clients)
    const audit = await run('audit', 'verify', '--org', 'demo')
    const stored = await queryEmbedded(dataDir, 'select id, name from publishable_keys')
    const names = new Map(stored.map(({ id, name }) => [id, name]))
    const halves = await queryEmbedded(
      dataDir,
      `select coalesce(id::text, target) as id from publishable_keys full join (
         select target from audit_events where action = 'publishable_key.created'
       ) audit on audit.target = publishable_keys.id::text
       where id is null or target is null`,
    )
    return {
      acknowledged: acknowledged.size,
      lost: [...acknowledged].filter(([id, name]) => names.get(id) !== name).map(([id]) => id),
      halves: halves.map(({ id }) => id as string),
      failures,
      audit,
      recoveries,
    }
  } finally {
    isOver = true
    await Promise.all(clients)
    if (server.child.exitCode === null && server.child.signalCode === null) {
      const exited = once(server.child, 'exit')
      server.child.kill('SIGTERM')
      await exited
    }
  }
}

/** PostgreSQL's process id and socket. */
function postmaster(dataDir: string): { pid: number; socket: string } {
  const lines = readFileSync(join(dataDir, 'postgres/data/postmaster.pid'), 'utf8').split('\n')
  return { pid: Number(lines[0]), socket: lines[4] ?? '' }
}

/** Queries the embedded database as its owner. */
export async function queryEmbedded<Row = Record<string, unknown>>(dataDir: string, text: string): Promise<Row[]> {
  const client = new pg.Client({ host: postmaster(dataDir).socket, user: 'inlay', database: 'inlay' })
  await client.connect()
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}

export interface StartedServer {
  child: ChildProcess
  url: string
  /** Everything that it wrote to its standard output so far. */
  output(): string
}

/** Waits until the server is ready. */
export async function startProcess(launch: (command: string) => ChildProcess): Promise<StartedServer> {
  const child = launch('start')
  const output = collect(child)
  for (;;) {
    const port = portIn(output())
    if (port) return { child, url: `http://localhost:${port}`, output }
    if (child.exitCode !== null) throw new Error(`The server exited with ${child.exitCode}: ${output()}`)
    await Promise.race([once(child.stdout as NodeJS.ReadableStream, 'data'), once(child, 'exit')])
  }
}

/** The local port in a server's banner, which names it separately if it has a public URL. */
export const portIn = (banner: string) =>
  banner.match(/Listens on +port (\d+)/)?.[1] ?? banner.match(/ready on http:\/\/localhost:(\d+)/)?.[1]

function collect(child: ChildProcess): () => string {
  let text = ''
  child.stdout?.setEncoding('utf8').on('data', (chunk) => {
    text += chunk
  })
  return () => text
}
