// Measures what an attacker can cost a server, and how long access lasts after it was revoked.
//
//   node bench/abuse.ts [--only=<text>] [--checkout=<folder of another version, with its dependencies installed>]
//   node bench/abuse.ts --only=others [--runs=3] [--length=60] [--before=<folder of another version>]
//
// The second table says what other organizations notice of an attack. The attack, a member of another organization and a
// health check are processes of their own. Runs with and without the attack take turns, and so do both versions.
//
// Every attack is bounded in count and time, and has its own server on this machine's loopback. To compare versions,
// run it in two checkouts, or with --checkout.

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, statSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { WebSocket } from 'ws'
import { inEarlierVersion, options, peer, quantile, residentOf, startInlay, stopAll } from './load.ts'

type Inlay = Awaited<ReturnType<typeof startInlay>>

const origin = 'https://shop.example.com'
const megabytes = (bytes: number) => `${(bytes / 1024 / 1024).toFixed(1)} MB`

/** Sends requests first, so that one-time allocations don't count. */
async function warmUp({ port, token }: Inlay): Promise<void> {
  const headers = { authorization: `Bearer ${token}` }
  for (const path of ['/api/users/me', '/api/spec.json']) {
    for (let count = 0; count < 1_000; count += 1)
      await (await fetch(`http://127.0.0.1:${port}${path}`, { headers })).text()
  }
}

/** The maximum growth of a process's resident memory during some work. */
async function growthDuring(pid: number, work: () => Promise<unknown>): Promise<number> {
  const before = residentOf(pid)
  let most = before
  const timer = setInterval(() => {
    most = Math.max(most, residentOf(pid))
  }, 200)
  try {
    await work()
    return Math.max(most, residentOf(pid)) - before
  } finally {
    clearInterval(timer)
  }
}

async function open({ port }: Inlay): Promise<Socket> {
  const socket = connect(port, '127.0.0.1').on('error', () => undefined)
  await once(socket, 'connect')
  return socket
}

// --- the attacks

const unreadConnections = 12
const pipelined = 1_500

/** Sends pipelined requests on connections that it never reads. */
async function leaveResponsesUnread(inlay: Inlay, path: string, headers = ''): Promise<number> {
  const request = `GET ${path} HTTP/1.1\r\nhost: localhost\r\n${headers}\r\n`
  const sockets: Socket[] = []
  await warmUp(inlay)
  const growth = await growthDuring(inlay.pid, async () => {
    for (let index = 0; index < unreadConnections; index += 1) {
      const socket = (await open(inlay)).pause()
      socket.write(request.repeat(pipelined))
      sockets.push(socket)
    }
    await sleep(6_000)
  })
  for (const socket of sockets) socket.destroy()
  return growth / unreadConnections
}

const hostileSenders = 4
const measuredRequests = 300

/** The response times of a well-behaved client that sends one request at a time. */
async function politeLatencies({ port, token }: Inlay): Promise<number[]> {
  const headers = { authorization: `Bearer ${token}` }
  const latencies: number[] = []
  const end = performance.now() + 10_000
  while (latencies.length < measuredRequests && performance.now() < end) {
    const asked = performance.now()
    await (await fetch(`http://127.0.0.1:${port}/api/users/me`, { headers })).text()
    latencies.push(performance.now() - asked)
  }
  return latencies
}

/** p50 of a client, alone and while others post bodies of one megabyte with many keys. */
async function sendHostileBodies(inlay: Inlay): Promise<{ alone: number; under: number }> {
  await politeLatencies(inlay)
  const alone = quantile(await politeLatencies(inlay), 0.5)
  const senders = await peer('./abuse-peers/hostile-bodies.ts', JSON.stringify({ port: inlay.port, hostileSenders }))
  await sleep(500)
  const under = quantile(await politeLatencies(inlay), 0.5)
  process.kill(senders.pid)
  return { alone, under }
}

const registrations = 300

/** Growth of the data folder, in bytes per anonymous client registration. */
async function register({ port, dataDir }: Inlay): Promise<{ bytes: number; accepted: number }> {
  const size = () => {
    const files = readdirSync(dataDir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
    return files.reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0)
  }
  const before = size()
  let accepted = 0
  for (let number = 0; number < registrations; number += 1) {
    const body = { client_name: `${number}${'x'.repeat(54_000)}`, redirect_uris: ['https://client.example/callback'] }
    const response = await fetch(`http://127.0.0.1:${port}/oauth/register`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    await response.text()
    if (response.ok) accepted += 1
  }
  await sleep(2_000)
  return { bytes: Math.max(size() - before, 0) / registrations, accepted }
}

interface Page {
  socket: WebSocket
  closed: Promise<number>
}

async function openPage({ port }: Inlay, publishable_key: string, number = 0): Promise<Page> {
  const response = await fetch(`http://127.0.0.1:${port}/api/auth/pk-ticket`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', origin },
    body: JSON.stringify({ publishable_key }),
  })
  const { ticket } = (await response.json()) as { ticket: string }
  const protocols = ['inlay.v1', `inlay.ticket.${ticket}`]
  const socket = new WebSocket(`ws://127.0.0.1:${port}/runtime`, protocols, { origin, perMessageDeflate: false })
  socket.on('error', () => undefined)
  const closed = new Promise<number>((resolve) => socket.once('close', resolve))
  await once(socket, 'open')
  const ready = once(socket, 'message')
  socket.send(JSON.stringify({ type: 'hello', tab_id: `tab-${number}`, url: `${origin}/`, title: 'Page' }))
  await ready
  return { socket, closed }
}

const pings = 1_000_000

async function pingWithoutReading(inlay: Inlay, key: string): Promise<number> {
  const { socket } = await openPage(inlay, key)
  const growth = await growthDuring(inlay.pid, async () => {
    socket.pause()
    const end = performance.now() + 20_000
    for (let sent = 0; sent < pings && socket.readyState === WebSocket.OPEN && performance.now() < end; sent += 1) {
      socket.ping('x'.repeat(100))
      if (sent % 1_000 === 0) await sleep(1)
    }
    await sleep(2_000)
  })
  socket.terminate()
  return growth
}

const pagesWithTools = 30

/** Bytes per page, for pages that all offer the same tools of almost the maximum size. */
async function describeManyTools(inlay: Inlay, key: string): Promise<number> {
  const pages: Page[] = []
  const growth = await growthDuring(inlay.pid, async () => {
    for (let number = 0; number < pagesWithTools; number += 1) {
      const page = await openPage(inlay, key, number)
      pages.push(page)
      for (let part = 0; part < 4; part += 1) {
        const set = Array.from({ length: 100 }, (_, index) => ({
          name: `tool_${part}_${index}`,
          description: 'A tool',
          inputSchema: { type: 'object', properties: manyProperties },
        }))
        page.socket.send(JSON.stringify({ type: 'tools/changed', set, removed: [] }))
      }
    }
    await sleep(3_000)
  })
  for (const { socket } of pages) socket.terminate()
  return growth / pagesWithTools
}

const manyProperties = Object.fromEntries(
  Array.from({ length: 180 }, (_, index) => [`property_${index}`, { type: 'string', description: 'x' }]),
)

const longestWaitSeconds = 75

/** Revokes a key in the database only, as if the message to the nodes were lost. */
async function revokeUnheard(inlay: Inlay, key: { id: string; key: string }): Promise<string> {
  const { closed, socket } = await openPage(inlay, key.key)
  const client = new pg.Client({ host: join(inlay.dataDir, 'postgres/socket'), user: 'inlay', database: 'inlay' })
  await client.connect()
  await client.query('update publishable_keys set revoked_at = now() where id = $1', [key.id])
  await client.end()
  const started = performance.now()
  const isClosed = await Promise.race([closed.then(() => true), sleep(longestWaitSeconds * 1000, false)])
  socket.terminate()
  const seconds = ((performance.now() - started) / 1000).toFixed(0)
  return isClosed ? `${seconds} s` : `open after ${longestWaitSeconds} s`
}

// --- the table

const makeKey = ({ call }: Inlay) => call<{ id: string; key: string }>('POST', '/publishable-keys', { name: 'Shop' })

const attacks: [name: string, run: (inlay: Inlay) => Promise<string>][] = [
  [
    'memory per connection with 1 500 unread responses of /api/spec.json',
    async (inlay) => megabytes(await leaveResponsesUnread(inlay, '/api/spec.json')),
  ],
  [
    'memory per connection with 1 500 unread responses, with a token',
    async (inlay) =>
      megabytes(await leaveResponsesUnread(inlay, '/api/users/me', `authorization: Bearer ${inlay.token}\r\n`)),
  ],
  [
    'p50 of another client while 4 senders post 1 MB with 74 000 keys',
    async (inlay) => {
      const { alone, under } = await sendHostileBodies(inlay)
      return `${under.toFixed(1)} ms, ${(under / alone).toFixed(1)} times`
    },
  ],
  [
    'disk per anonymous registration with a name of 54 000 characters',
    async (inlay) => {
      const { bytes, accepted } = await register(inlay)
      return `${(bytes / 1024).toFixed(1)} KB, ${accepted} of ${registrations} accepted`
    },
  ],
  [
    'memory for a million pings of a socket that doesn’t read',
    async (inlay) => megabytes(await pingWithoutReading(inlay, (await makeKey(inlay)).key)),
  ],
  [
    'memory per page with the same 400 tools of 9 KB, including garbage from parsing them',
    async (inlay) => megabytes(await describeManyTools(inlay, (await makeKey(inlay)).key)),
  ],
  [
    'time until a socket closes if the message about its revoked key is lost',
    async (inlay) => revokeUnheard(inlay, await makeKey(inlay)),
  ],
]

// --- what others notice

interface Seen {
  /** Response times of a member of another organization, in milliseconds, from when a request was due. */
  times: number[]
  /** Responses other than 200, by status; 0 without a response. */
  failures: [status: number, count: number][]
  longestCheck: number
  longestDelay: number
}

/** The kinds of `abuse-peers/attack.ts`. Organizations don't allow visitors unless they say so. */
const attacksOnOthers = [
  { kind: 'chat/decide', allowsVisitors: false },
  { kind: 'chat/messages', allowsVisitors: true },
  { kind: 'tools/changed', allowsVisitors: true },
  { kind: 'hostile models', allowsVisitors: true },
  { kind: 'AG-UI bodies', allowsVisitors: true },
]

async function begin(file: string, more: Record<string, unknown>): Promise<ChildProcess> {
  const child = fork(new URL(`abuse-peers/${file}.ts`, import.meta.url), [JSON.stringify(more)], { stdio: 'ignore' })
  await once(child, 'message')
  return child
}

async function end(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}

/** Everything since the last time. */
async function report(neighbour: ChildProcess): Promise<Pick<Seen, 'times' | 'failures'>> {
  const response = once(neighbour, 'message')
  neighbour.send('report')
  return (await response)[0]
}

const longestAnswerMs = 15_000

const ask = async (port: number, path: string): Promise<string> => {
  const signal = AbortSignal.timeout(longestAnswerMs)
  return (await fetch(`http://127.0.0.1:${port}${path}`, { signal })).text()
}

/** The longest delay of the event loop since the metrics were last read, in milliseconds. */
async function readDelay(port: number): Promise<number> {
  const metrics = await ask(port, '/metrics').catch(() => undefined)
  if (metrics === undefined) return Number.POSITIVE_INFINITY
  return Number(/^nodejs_eventloop_lag_max_seconds (\S+)/m.exec(metrics)?.[1]) * 1000
}

/** Waits until the server answers again, however much an attack has left it to do. */
async function recover(port: number): Promise<void> {
  const until = performance.now() + 120_000
  while (performance.now() < until) {
    if ((await ask(port, '/healthz').catch(() => undefined)) !== undefined) return
  }
}

async function startAttacked(kind: string, allowsVisitors: boolean) {
  const model = await peer('./abuse-peers/hostile-model.ts')
  const settings = { MODEL_URL: `http://127.0.0.1:${model.port}/v1`, MODEL_NAME: 'bench' }
  const inlay = await startInlay(`others-${kind.replaceAll(/\W/g, '-')}`, settings)
  const { key } = await makeKey(inlay)
  await inlay.call('PATCH', '/agent/config', { anonymous: { is_enabled: allowsVisitors, runs_per_minute: 60 } })
  const { port } = inlay
  const token = await inlay.tokenOf('other')
  const path = '/api/organizations/current/members'
  const member = await begin('neighbour', { port, path, token, perSecond: 10 })
  const check = await begin('neighbour', { port, path: '/healthz', perSecond: 10 })
  const watch = async (milliseconds: number): Promise<Seen> => {
    await Promise.all([report(member), report(check), readDelay(port)])
    await sleep(milliseconds)
    const [seen, checks, longestDelay] = await Promise.all([report(member), report(check), readDelay(port)])
    return { ...seen, longestCheck: Math.max(...checks.times), longestDelay }
  }
  return {
    /** Without and with the attack. */
    async measure(milliseconds: number): Promise<[alone: Seen, under: Seen]> {
      const alone = await watch(milliseconds)
      const attack = await begin('attack', { kind, port, key })
      await sleep(2_000)
      const under = await watch(milliseconds)
      await end(attack)
      await recover(port)
      await sleep(3_000)
      return [alone, under]
    },
    stop: () => Promise.all([end(member), end(check)]),
  }
}

function describe(seen: Seen[]): string {
  const times = seen.flatMap((each) => each.times)
  const whole = [quantile(times, 0.5), quantile(times, 0.99), Math.max(...times)]
  const longest = [
    Math.max(...seen.map((each) => each.longestCheck)),
    Math.max(...seen.map((each) => each.longestDelay)),
  ]
  const failed = seen.flatMap(({ failures }) => failures)
  const byStatus = [...Map.groupBy(failed, ([status]) => status)].map(
    ([status, all]) => `${all.reduce((sum, [, count]) => sum + count, 0)} × ${status || 'none'}`,
  )
  return [...[...whole, ...longest].map((value) => value.toFixed(0)), byStatus.join(', ') || 0].join(' | ')
}

async function compareOthers(kind: string, allowsVisitors: boolean): Promise<void> {
  const start = () => startAttacked(kind, allowsVisitors)
  const before = await inEarlierVersion(start)
  const servers = [...(before ? [{ name: 'before', server: before }] : []), { name: 'now', server: await start() }].map(
    (each) => ({ ...each, seen: [[], []] as [Seen[], Seen[]] }),
  )
  for (let run = 0; run < Number(options.runs); run += 1) {
    for (const { server, seen } of run % 2 ? servers.toReversed() : servers) {
      const [alone, under] = await server.measure(Number(options.length) * 1000)
      seen[0].push(alone)
      seen[1].push(under)
    }
  }
  for (const { name, server, seen } of servers) {
    for (const [index, phase] of ['without', 'with'].entries()) {
      console.log(`| ${kind}, ${name} | ${phase} | ${describe(seen[index] ?? [])} |`)
    }
    await server.stop()
  }
}

try {
  const chosen = attacks.filter(([name]) => new RegExp(options.only).test(name))
  if (chosen.length > 0) console.log('| Attack | Cost |\n| --- | ---: |')
  for (const [index, [name, run]] of chosen.entries()) {
    console.log(`| ${name} | ${await run(await startInlay(`abuse-${index}`))} |`)
  }
  const ofOthers = attacksOnOthers.filter(({ kind }) => new RegExp(options.only).test(`others: ${kind}`))
  if (ofOthers.length > 0) {
    console.log('\n| Attack | | p50 ms | p99 ms | max ms | longest check ms | longest loop delay ms | not 200 |')
    console.log('| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |')
  }
  for (const { kind, allowsVisitors } of ofOthers) await compareOthers(kind, allowsVisitors)
} finally {
  await stopAll()
}
