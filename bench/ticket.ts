// How many tickets does one server process hand out, next to what node:http itself manages and what others need for
// comparable work: verifying an API key (better-auth), and an opaque token for a client's credentials (oidc-provider)?
//
//   node bench/ticket.ts [--rounds=7] [--seconds=3] [--connections=32] [--only=<text>] [--profile=<folder>]
//
// Every server is a process of its own, started as an operator would (`inlay start`, log level info, log in a file),
// on a temporary data folder; Redis is the machine's own, on a unix socket. The load comes from this process over
// connections that are kept open: each sends its next request when it has the whole answer, which must be a 200.
// With --profile Inlay writes a CPU profile per store.

import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { startTestProvider } from '../server/test/oidc-provider.ts'

const { values: options } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '3' },
    connections: { type: 'string', default: '32' },
    only: { type: 'string', default: '' },
    profile: { type: 'string' },
  },
})
const rounds = Number(options.rounds)
const seconds = Number(options.seconds)
const connections = Number(options.connections)
const warmUpSeconds = 1
/** Keys, signed-in people, clients: so many of each take turns. */
const variety = 50
const origin = 'https://shop.example.com'

interface Contender {
  name: string
  port: number
  pid: number
  requests: Buffer[]
}

interface Sample {
  perSecond: number
  p50: number
  p99: number
  /** Of the server's process, in microseconds per request. */
  cpu: number
}

const folder = mkdtempSync(join(tmpdir(), 'inlay-ticket-'))
const processes: ChildProcess[] = []

// --- the servers

const peer = async (file: string, argument: string) => {
  const child = fork(new URL(`./ticket-peers/${file}`, import.meta.url), [argument], { stdio: 'ignore' })
  processes.push(child)
  const [message] = await once(child, 'message')
  return { pid: child.pid as number, ...message }
}

const postRequest = (path: string, body: string, headers: Record<string, string> = {}) => {
  const lines = { host: 'localhost', 'content-type': 'application/json', 'content-length': body.length, ...headers }
  const head = Object.entries(lines).map(([name, value]) => `${name}: ${value}\r\n`)
  return Buffer.from(`POST ${path} HTTP/1.1\r\n${head.join('')}\r\n${body}`)
}

async function startRedis(): Promise<string> {
  const parts = JSON.parse(readFileSync(new URL('../node_modules/.inlay-test-parts.json', import.meta.url), 'utf8'))
  const socket = join(folder, 'redis.sock')
  const settings = { port: '0', unixsocket: socket, dir: folder, save: '', appendonly: 'no' }
  const flags = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value])
  processes.push(spawn(parts.redis, flags, { stdio: 'ignore' }))
  while (!existsSync(socket)) await sleep(20)
  return `unix:${socket}`
}

const inlay = fileURLToPath(new URL('../server/bin/inlay.mjs', import.meta.url))

async function startInlay(store: string, settings: Record<string, string>) {
  const dataDir = join(folder, store)
  const logFile = join(folder, `${store}.log`)
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
  const asking = spawn(process.execPath, [inlay, 'token', '--email', 'admin@demo.test', '--org', 'demo'], { env })
  const token = Buffer.concat(await asking.stdout.toArray())
    .toString()
    .trim()
  const call = async <T>(method: string, path: string, body: unknown): Promise<T> => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    const response = await fetch(`${url}/api${path}`, { method, headers, body: JSON.stringify(body) })
    if (!response.ok) throw new Error(`${path}: ${await response.text()}`)
    return (await response.json()) as T
  }
  return { pid: child.pid as number, port: Number(new URL(url).port), call }
}

/** Inlay on one store, asked by strangers and by people who were there before, from a page that the key allows. */
async function inlayContenders(store: string, settings: Record<string, string>): Promise<Contender[]> {
  const provider = await startTestProvider()
  const { pid, port, call } = await startInlay(store, settings)
  const trust = { idp_type: 'custom_oidc', idp_issuer: provider.issuer, allowed_audiences: ['shop'] }
  await call('PATCH', '/identity-providers/config', trust)
  const strangers: Buffer[] = []
  const people: Buffer[] = []
  for (let index = 0; index < variety; index++) {
    const wanted = { name: `Key ${index}`, allowed_origins: [origin] }
    const { key } = await call<{ key: string }>('POST', '/publishable-keys', wanted)
    const id_token = await provider.idToken({ sub: `person-${index}`, name: 'Ann', email: `ann${index}@example.com` })
    const ask = (body: Record<string, string>) => postRequest('/api/auth/pk-ticket', JSON.stringify(body), { origin })
    strangers.push(ask({ publishable_key: key }))
    people.push(ask({ publishable_key: key, id_token }))
    await call('POST', '/auth/pk-ticket', { publishable_key: key, id_token, embedding_origin: origin })
  }
  await provider.stop()
  return [
    { name: `Inlay, ${store}, key only`, port, pid, requests: strangers },
    { name: `Inlay, ${store}, key and ID token`, port, pid, requests: people },
  ]
}

/** What Inlay answers, for the raw server to repeat. */
async function exampleAnswer({ port, requests: [request] }: Contender): Promise<string> {
  const body = request?.toString().split('\r\n\r\n')[1] ?? ''
  const headers = { 'content-type': 'application/json', origin }
  const url = `http://127.0.0.1:${port}/api/auth/pk-ticket`
  const response = await fetch(url, { method: 'POST', headers, body })
  const { date, connection, 'keep-alive': _, ...own } = Object.fromEntries(response.headers)
  return JSON.stringify({ headers: own, body: await response.text() })
}

async function startContenders(): Promise<Contender[]> {
  const onFile = await inlayContenders('LMDB', {})
  const onRedis = await inlayContenders('Redis', { REDIS_URL: await startRedis() })
  const [keyOnly] = onFile as [Contender, Contender]
  const raw = await peer('raw-http.ts', await exampleAnswer(keyOnly))
  const betterAuth = await peer('better-auth.ts', String(variety))
  const oidc = await peer('oidc-provider.ts', String(variety))
  const credentials = ({ client_id, client_secret }: Record<string, string>) =>
    `grant_type=client_credentials&client_id=${client_id}&client_secret=${client_secret}`
  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  return [
    { name: 'node:http, the same bytes', ...raw, requests: keyOnly.requests },
    ...onFile,
    ...onRedis,
    {
      name: 'better-auth, verify an API key',
      ...betterAuth,
      requests: betterAuth.keys.map((key: string) => postRequest('/', JSON.stringify({ key }))),
    },
    {
      name: 'oidc-provider, client credentials',
      ...oidc,
      requests: oidc.clients.map((client: Record<string, string>) => postRequest('/token', credentials(client), form)),
    },
  ]
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

/** One connection. Hardly more than the bytes are looked at, so that the load costs less than what it is put on. */
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
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(received)?.[1])
      if (!received.startsWith('HTTP/1.1 200') || Number.isNaN(length)) {
        socket.destroy()
        return reject(new Error(`Not an answer: ${received}`))
      }
      if (received.length < headEnd + 4 + length) return
      const now = performance.now()
      latencies.push(now - asked)
      if (now < end) return ask()
      socket.end()
      resolve()
    })
  })
}

/** Microseconds that a process has used, with all its threads. Linux tells; elsewhere it stays unknown. */
function cpuOf(pid: number): number {
  const file = `/proc/${pid}/stat`
  if (!existsSync(file)) return Number.NaN
  const [user, system] = readFileSync(file, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ')
    .slice(11, 13)
  return (Number(user) + Number(system)) * 10_000
}

// --- the table

const quantile = (values: number[], share: number) =>
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

async function main(): Promise<void> {
  const contenders = (await startContenders()).filter(({ name }) => new RegExp(options.only).test(name))
  const samples = new Map<Contender, Sample[]>(contenders.map((contender) => [contender, []]))
  console.log(`Load of the machine before: ${loadavg().map((load) => load.toFixed(1))}`)
  for (let round = 0; round < rounds; round++) {
    for (const [contender, own] of samples) {
      await measure(contender, round === 0 ? 3 * warmUpSeconds : warmUpSeconds / 2)
      own.push(await measure(contender, seconds))
    }
  }
  printTable(samples)
}

try {
  await main()
} finally {
  for (const child of processes.reverse()) {
    if (child.exitCode !== null) continue
    const exited = once(child, 'exit')
    child.kill('SIGTERM')
    await exited
  }
  rmSync(folder, { recursive: true, force: true })
}
