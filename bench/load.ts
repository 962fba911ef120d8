// Shared by the server benchmarks: starts servers, puts load on them, and prints the table.
//
// Every server is a separate process. Inlay is started as an operator would (`inlay start`, log level info, log in a
// file), on a temporary data folder. The load comes from this process over keep-alive connections: each sends its next
// request when it has received the whole response, which must be a 200. With --profile, Inlay writes CPU profiles.
//
// With --before=<folder of another version, with its dependencies installed>, that version takes part as well. Both
// take turns in every round, so that other load on the machine affects both. Many short rounds are best for this:
//
//   node bench/mcp.ts --only=Inlay --rounds=60 --seconds=0.5 --before=../before

import { type ChildProcess, execFileSync, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

export const { values: options } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '3' },
    connections: { type: 'string', default: '32' },
    calls: { type: 'string', default: '50' },
    sockets: { type: 'string', default: '10000' },
    conversations: { type: 'string', default: '300' },
    tokens: { type: 'string', default: '200' },
    idle: { type: 'string', default: '2000' },
    messages: { type: 'string', default: '5000' },
    sites: { type: 'string', default: '50' },
    users: { type: 'string', default: '100000' },
    scale: { type: 'string', default: '1' },
    only: { type: 'string', default: '' },
    profile: { type: 'string' },
    checkout: { type: 'string' },
    before: { type: 'string' },
    copilotkit: { type: 'string' },
    runs: { type: 'string', default: '3' },
    length: { type: 'string', default: '60' },
  },
})
const rounds = Number(options.rounds)
const seconds = Number(options.seconds)
const connections = Number(options.connections)
const warmUpSeconds = 1
/** The number of different keys, users, clients and messages that take turns. */
export const variety = 50

export interface Contender {
  name: string
  port: number
  pid: number
  requests: Buffer[]
}

interface Sample {
  perSecond: number
  p50: number
  p99: number
  /** CPU time of the server's process, in microseconds per request. */
  cpu: number
}

export const folder = mkdtempSync(join(tmpdir(), 'inlay-bench-'))
const processes: ChildProcess[] = []

// --- the servers

/** Starts another kind of server. `file` is relative to this folder. */
export const peer = async (file: string, ...args: string[]) => {
  const child = fork(new URL(file, import.meta.url), args, { stdio: 'ignore' })
  processes.push(child)
  const [message] = await once(child, 'message')
  return { pid: child.pid as number, ...message }
}

export const form = { 'content-type': 'application/x-www-form-urlencoded' }

export const postRequest = (path: string, body: string, headers: Record<string, string> = {}) => {
  const lines = { host: 'localhost', 'content-type': 'application/json', 'content-length': body.length, ...headers }
  const head = Object.entries(lines).map(([name, value]) => `${name}: ${value}\r\n`)
  return Buffer.from(`POST ${path} HTTP/1.1\r\n${head.join('')}\r\n${body}`)
}

/** The request that oidc-provider gets in all benchmarks. */
export const askForToken = ({ client_id, client_secret }: { client_id: string; client_secret: string }) =>
  postRequest('/token', `grant_type=client_credentials&client_id=${client_id}&client_secret=${client_secret}`, form)

/** The version that is started: this checkout, or the one in `--checkout`, and then the one in `--before`. */
let version = { name: 'now', folder: options.checkout ?? fileURLToPath(new URL('..', import.meta.url)) }

/** A folder of its own for each version. */
function versionFolder(): string {
  const path = join(folder, version.name)
  mkdirSync(path, { recursive: true })
  return path
}

export async function startInlay(store: string, settings: Record<string, string> = {}) {
  const inlay = join(version.folder, 'server/bin/inlay.mjs')
  const dataDir = join(versionFolder(), store)
  const logFile = join(versionFolder(), `${store}.log`)
  const env = { ...process.env, PORT: '0', INLAY_DATA_DIR: dataDir, INLAY_LOG_LEVEL: 'info', ...settings }
  const profiling = options.profile ? ['--cpu-prof', `--cpu-prof-dir=${options.profile}`] : []
  const child = spawn(process.execPath, [...profiling, inlay, 'start'], {
    env,
    stdio: ['ignore', openSync(logFile, 'a'), 'inherit'],
  })
  processes.push(child)
  let url: string | undefined
  while (!url) {
    if (child.exitCode !== null) throw new Error(`Inlay did not start: ${readFileSync(logFile, 'utf8')}`)
    await sleep(100)
    url = /ready on (\S+)/.exec(readFileSync(logFile, 'utf8'))?.[1]
  }
  /** The token of an administrator of a demo organization. */
  const tokenOf = async (slug: 'demo' | 'other') => {
    const who = ['--email', `admin@${slug}.test`, '--org', slug]
    const asking = spawn(process.execPath, [inlay, 'token', ...who], { env })
    return Buffer.concat(await asking.stdout.toArray())
      .toString()
      .trim()
  }
  const token = await tokenOf('demo')
  const call = async <T>(method: string, path: string, body: unknown): Promise<T> => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    const response = await fetch(`${url}/api${path}`, { method, headers, body: JSON.stringify(body) })
    if (!response.ok) throw new Error(`${path}: ${await response.text()}`)
    return (await response.json()) as T
  }
  return { pid: child.pid as number, port: Number(new URL(url).port), dataDir, logFile, token, tokenOf, call }
}

export async function startRedis(): Promise<string> {
  const parts = JSON.parse(readFileSync(new URL('../node_modules/.inlay-test-parts.json', import.meta.url), 'utf8'))
  const dir = versionFolder()
  const socket = join(dir, 'redis.sock')
  const settings = { port: '0', unixsocket: socket, dir, save: '', appendonly: 'no' }
  const flags = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value])
  processes.push(spawn(parts.redis, flags, { stdio: 'ignore' }))
  while (!existsSync(socket)) await sleep(20)
  return `unix:${socket}`
}

/** Captures a server's response, so that the raw server can repeat it. */
export async function exampleAnswer({ port, requests: [request] }: Contender): Promise<string> {
  const [head = '', body = ''] = request?.toString().split('\r\n\r\n') ?? []
  const [start = '', ...lines] = head.split('\r\n')
  const headers = Object.fromEntries(lines.map((line) => line.split(': ', 2)).filter(([name]) => name !== 'host'))
  const response = await fetch(`http://127.0.0.1:${port}${start.split(' ')[1]}`, { method: 'POST', headers, body })
  const { date, connection, 'keep-alive': _, ...own } = Object.fromEntries(response.headers)
  return JSON.stringify({ headers: own, body: await response.text() })
}

// --- the load

async function measure({ port, pid, requests }: Contender, duration: number): Promise<Sample> {
  const latencies: number[] = []
  const cpuBefore = cpuOf(pid)
  const start = performance.now()
  const end = start + duration * 1000
  let next = 0
  const takeRequest = () => requests[next++ % requests.length] as Buffer
  await Promise.all(Array.from({ length: connections }, () => converse(port, takeRequest, end, latencies)))
  const elapsed = (performance.now() - start) / 1000
  latencies.sort((a, b) => a - b)
  const at = (share: number) => (latencies[Math.floor(latencies.length * share)] ?? Number.NaN) * 1000
  const cpu = (cpuOf(pid) - cpuBefore) / latencies.length
  return { perSecond: latencies.length / elapsed, p50: at(0.5), p99: at(0.99), cpu }
}

/** One connection. It barely parses responses, so that the load generator uses less CPU time than the server. */
function converse(port: number, takeRequest: () => Buffer, end: number, latencies: number[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1')
    let received = ''
    let asked = 0
    const ask = () => {
      received = ''
      asked = performance.now()
      socket.write(takeRequest())
    }
    socket.setNoDelay().on('error', reject).on('connect', ask)
    socket.on('data', (chunk: Buffer) => {
      received += chunk.toString('latin1')
      const headEnd = received.indexOf('\r\n\r\n')
      if (headEnd < 0) return
      if (!received.startsWith('HTTP/1.1 200')) {
        socket.destroy()
        return reject(new Error(`Unexpected response: ${received}`))
      }
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(received)?.[1])
      // A response without a length is sent in chunks, and the last chunk is empty.
      if (Number.isNaN(length) ? !received.endsWith('\r\n0\r\n\r\n') : received.length < headEnd + 4 + length) return
      const now = performance.now()
      latencies.push(now - asked)
      if (now < end) return ask()
      socket.end()
      resolve()
    })
  })
}

/** Resident memory of a process, in bytes. */
export const residentOf = (pid: number): number =>
  Number(execFileSync('ps', ['-o', 'rss=', '-p', String(pid)], { encoding: 'utf8' })) * 1024

/** CPU time of a process's threads, in microseconds. Only available on Linux. */
export function cpuOf(pid: number): number {
  const threads = existsSync(`/proc/${pid}/task`) ? readdirSync(`/proc/${pid}/task`) : []
  const read = (thread: string) => readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8')
  const times = threads.map((thread) => Number(read(thread).split(' ')[0]))
  return times.length > 0 ? times.reduce((sum, time) => sum + time, 0) / 1000 : Number.NaN
}

/** CPU time of the machine, in ticks, and the part that its host gave to others meanwhile. Only on Linux. */
export function cpuOfMachine(): { all: number; stolen: number } {
  if (!existsSync('/proc/stat')) return { all: Number.NaN, stolen: Number.NaN }
  const times = readFileSync('/proc/stat', 'utf8').split('\n', 1).join().split(/ +/).slice(1, 9).map(Number)
  return { all: times.reduce((sum, time) => sum + time), stolen: times[7] ?? 0 }
}

function readStat(pid: number) {
  const file = `/proc/${pid}/stat`
  if (!existsSync(file)) return undefined
  const fields = readFileSync(file, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ')
  const time = (index: number) => (Number(fields[index]) + Number(fields[index + 1])) * 10_000
  return { pid, parent: Number(fields[1]), cpu: time(11), cpuOfEnded: time(13) }
}

/** CPU time of all processes that a process has started, such as its PostgreSQL, in microseconds. Only on Linux. */
export function cpuOfChildren(pid: number): number {
  const stats = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => readStat(Number(name)) ?? [])
  const ofChildren = (parent: number): number =>
    stats
      .filter((each) => each.parent === parent)
      .reduce((sum, each) => sum + each.cpu + each.cpuOfEnded + ofChildren(each.pid), 0)
  return ofChildren(pid)
}

// --- the table

export const quantile = (values: number[], share: number) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] ?? Number.NaN

function printTable(samples: Map<Contender, Sample[]>): void {
  const [limit] = samples.values()
  console.log('| Server | Requests/s | p50 µs | p99 µs | Server CPU µs | Of the limit (quartiles) |')
  console.log('| --- | ---: | ---: | ---: | ---: | ---: |')
  for (const [{ name }, own] of samples) {
    const of = (key: keyof Sample) =>
      Math.round(
        quantile(
          own.map((sample) => sample[key]),
          0.5,
        ),
      )
    const ratios = own.map(({ perSecond }, round) => perSecond / (limit?.[round]?.perSecond ?? Number.NaN))
    const [low, middle, high] = [0.25, 0.5, 0.75].map((share) => quantile(ratios, share).toFixed(2))
    console.log(
      `| ${[name, of('perSecond'), of('p50'), of('p99'), of('cpu'), `${middle} (${low}–${high})`].join(' | ')} |`,
    )
  }
}

/** Compares both versions' CPU time per request within each round. */
function printVersions(samples: Map<Contender, Sample[]>, earlier: Map<Contender, Contender>): void {
  console.log('\n| Server | CPU µs before | now | Ratio (quartiles) |')
  console.log('| --- | ---: | ---: | ---: |')
  for (const [now, before] of earlier) {
    const cpuTimes = (one: Contender) => (samples.get(one) ?? []).map(({ cpu }) => cpu)
    const [old, own] = [cpuTimes(before), cpuTimes(now)]
    const ratios = own.map((cpu, round) => cpu / (old[round] ?? Number.NaN))
    const [low, middle, high] = [0.25, 0.5, 0.75].map((share) => quantile(ratios, share).toFixed(3))
    const times = [old, own].map((values) => quantile(values, 0.5).toFixed(1))
    console.log(`| ${[now.name, ...times, `${middle} (${low}–${high})`].join(' | ')} |`)
  }
}

/** What `start` starts is the version in `--before`, if there is one. */
export async function inEarlierVersion<Started>(start: () => Promise<Started>): Promise<Started | undefined> {
  if (!options.before) return undefined
  const now = version
  version = { name: 'before', folder: options.before }
  const started = await start()
  version = now
  return started
}

/** The earlier version of each contender that has one. */
async function startBefore(
  contenders: Contender[],
  start: () => Promise<Contender[]>,
): Promise<Map<Contender, Contender>> {
  const others = (await inEarlierVersion(start)) ?? []
  if (others.length === 0) return new Map()
  const ours = contenders.filter(({ name }) => name.startsWith('Inlay'))
  return new Map(
    ours.map((now) => {
      const before = others.find(({ name }) => name === now.name) as Contender
      return [now, { ...before, name: `${now.name}, before` }]
    }),
  )
}

async function runRounds(start: () => Promise<Contender[]>): Promise<void> {
  const chosen = (await start()).filter(({ name }) => new RegExp(options.only).test(name))
  const earlier = await startBefore(chosen, start)
  const contenders = chosen.flatMap((contender) => [contender, earlier.get(contender) ?? []].flat())
  const samples = new Map<Contender, Sample[]>(contenders.map((contender) => [contender, []]))
  console.log(`Load average before: ${loadavg().map((load) => load.toFixed(1))}`)
  for (let round = 0; round < rounds; round++) {
    for (const contender of round % 2 ? contenders.toReversed() : contenders) {
      await measure(contender, round === 0 ? 3 * warmUpSeconds : warmUpSeconds / 2)
      samples.get(contender)?.push(await measure(contender, seconds))
    }
  }
  printTable(samples)
  if (earlier.size > 0) printVersions(samples, earlier)
}

/** Measures all servers in turn within each round, compares them with the first, and prints the results. */
export async function compare(start: () => Promise<Contender[]>): Promise<void> {
  try {
    await runRounds(start)
  } finally {
    await stopAll()
  }
}

export async function stopAll(): Promise<void> {
  for (const child of processes.reverse()) {
    if (child.exitCode !== null) continue
    const exited = once(child, 'exit')
    child.kill('SIGTERM')
    await exited
  }
  rmSync(folder, { recursive: true, force: true })
}
