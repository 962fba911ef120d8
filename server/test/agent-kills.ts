import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { EventEmitter, once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { ClientMessageInput, ServerMessage } from '@inlay/protocol'
import { type Findings, findProblems, lastSentence, type Witness } from './agent-kills-check.ts'
import { createTranscript, openChat } from './chat.ts'
import { queryEmbedded, type StartedServer, startProcess } from './kills.ts'
import { startTestProvider } from './oidc-provider.ts'
import { connectPage, type Page, pageOrigin } from './page.ts'
import { type ModelRequest, type ScriptedReply, startScriptedModel } from './scripted-model.ts'

/**
 * Repeatedly kills a server while users talk to its agent, and checks afterwards what they saw, and the rows. With
 * `suspend`, there are two servers, which take turns: one is suspended, and the users continue on the other.
 */
export interface AgentKillPlan {
  dataDir: string
  kills: number
  onKill?: (text: string) => void
  suspend?: { seconds: number; env: Record<string, string>; read: Read }
}

type Read = <Row>(text: string) => Promise<Row[]>

interface AgentKillReport extends Findings {
  /** Number of kills or suspensions, by what a user's run was doing. */
  kills: Record<Moment, number>
  /** Number of errors in the servers' logs. A suspended server loses its connections, so they only count for kills. */
  errors: number
}

const moments = ['before the first token', 'mid-stream', 'in a tool call', 'while a question waits'] as const
type Moment = (typeof moments)[number]

/** What users ask for. `visit` is a tool that changes something, and that the organization allows without asking. */
const tasks = ['talk', 'read', 'visit', 'empty'] as const

const program = join(import.meta.dirname, '../bin/inlay.mjs')
const users = 5
/** Results that a page sends again when it connects, as the widget does. */
const repeatedResults = 16
const tools = [
  { name: 'read', description: 'Reads', annotations: { readOnlyHint: true } },
  { name: 'visit', description: 'Notes a visit' },
  { name: 'empty', description: 'Empties the cart' },
]

export async function killDuringRuns({ dataDir, kills, onKill, suspend }: AgentKillPlan): Promise<AgentKillReport> {
  const seen = new EventEmitter<Record<Moment, []>>()
  const model = await startScriptedModel(async (request) => {
    seen.emit('before the first token')
    await delay(Math.random() * 300)
    return answer(request)
  })
  const provider = await startTestProvider()
  const env = {
    PATH: process.env.PATH ?? '',
    PORT: '0',
    INLAY_DATA_DIR: dataDir,
    INLAY_LOG_LEVEL: 'error',
    // Keeps tokens valid although every start uses another port.
    INLAY_PUBLIC_URL: 'http://localhost:1',
    INLAY_DRAIN_SECONDS: '0',
    MODEL_URL: model.url,
    MODEL_NAME: 'scripted',
    ...suspend?.env,
  }
  const launch = (...args: string[]) =>
    spawn(process.execPath, [program, ...args], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  const launchOther = (...args: string[]) => {
    const otherEnv = { ...env, INLAY_DATA_DIR: `${dataDir}-other` }
    return spawn(process.execPath, [program, ...args], { env: otherEnv, stdio: ['ignore', 'pipe', 'inherit'] })
  }
  const end = async (signal: NodeJS.Signals, server: StartedServer | undefined) => {
    if (!server) return
    const { child } = server
    if (child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill(signal)
    await exited
    errors.push(
      ...server
        .output()
        .split('\n')
        .filter((line) => line.startsWith('{"level":"error"')),
    )
  }
  const errors: string[] = []
  let server: StartedServer = await startProcess(launch)
  let other = suspend && (await startProcess(launchOther))
  const endAll = async () => {
    await end('SIGTERM', server)
    await end('SIGTERM', other)
  }
  let isOver = false
  try {
    const key = await prepare(launch, () => server, provider.issuer)
    const clients = await Promise.all(
      Array.from({ length: users }, async (_, n) => {
        const id_token = await provider.idToken({
          sub: `user-${n}`,
          email: `user-${n}@demo.test`,
          email_verified: true,
        })
        const exchange = { publishable_key: key, id_token, embedding_origin: pageOrigin }
        return createClient({ url: () => server.url, exchange, seen, isOver: () => isOver })
      }),
    )
    const interrupt = async () => {
      if (!suspend || !other) {
        await end('SIGKILL', server)
        server = await startProcess(launch)
        return
      }
      const suspended = server
      server = other
      other = suspended
      suspended.child.kill('SIGSTOP')
      for (const { leave } of clients) leave()
      await delay(suspend.seconds * 1000)
      suspended.child.kill('SIGCONT')
    }
    const talking = Promise.all(clients.map((client) => client.talk()))
    const done = Object.fromEntries(moments.map((moment) => [moment, 0])) as Record<Moment, number>
    for (let n = 0; n < kills; n += 1) {
      const moment = moments[Math.floor(Math.random() * moments.length)] as Moment
      await Promise.race([once(seen, moment), talking])
      // Half of the time at once, otherwise at some time afterwards.
      if (Math.random() < 0.5) await delay(Math.random() * 200)
      await interrupt()
      done[moment] += 1
      onKill?.(`${n + 1} of ${kills}`)
    }
    isOver = true
    await talking
    const witnesses = clients.map(({ witness }) => witness)
    const read: Read = suspend?.read ?? ((text) => queryEmbedded(dataDir, text))
    const { problems, ...findings } = await findProblems(read, witnesses, model.requests.length)
    await endAll()
    return { kills: done, errors: errors.length, ...findings, problems: suspend ? problems : [...problems, ...errors] }
  } finally {
    isOver = true
    await endAll()
    await provider.stop()
    model.close()
  }
}

/** Sets up the identity provider, the agent's policies and a key. Returns the key. */
async function prepare(
  launch: (...args: string[]) => ReturnType<typeof spawn>,
  server: () => StartedServer,
  issuer: string,
): Promise<string> {
  const child = launch('token', '--email', 'admin@demo.test', '--org', 'demo')
  const [output] = await Promise.all([child.stdout?.setEncoding('utf8').toArray(), once(child, 'close')])
  const call = async (method: string, path: string, body: unknown) => {
    const headers = { authorization: `Bearer ${output?.join('').trim()}`, 'content-type': 'application/json' }
    const response = await fetch(`${server().url}/api${path}`, { method, headers, body: JSON.stringify(body) })
    if (!response.ok) throw new Error(`${method} ${path} failed: ${await response.text()}`)
    return (await response.json()) as { key: string }
  }
  const trust = { idp_type: 'custom_oidc', idp_issuer: issuer, allowed_audiences: ['shop'] }
  await call('PATCH', '/identity-providers/config', trust)
  await call('PATCH', '/agent/config', { tool_policies: { visit: 'auto' } })
  return (await call('POST', '/publishable-keys', { name: 'Shop' })).key
}

function answer({ messages }: ModelRequest): ScriptedReply {
  const taskIn = (content: unknown) => /(?:talk|read|visit|empty) [0-9a-f-]{36}/.exec(JSON.stringify(content))?.[0]
  const asked = messages.findLast(({ role, content }) => role === 'user' && taskIn(content) !== undefined)
  const task = taskIn(asked?.content) ?? ''
  const [name = '', n] = task.split(' ')
  const last = messages.findLast(({ content }) => !JSON.stringify(content)?.includes('its result has arrived now'))
  const isInterrupted =
    last?.role === 'tool' && JSON.stringify(last.content).includes('unknown whether it was carried out')
  const words = (text: string) => text.split(/(?<= )/)
  if (JSON.stringify(messages.at(-1)?.content).includes('Summarize the conversation so far'))
    return { text: ['They talked.'] }
  const delayMs = Math.random() * 60
  if (name === 'talk' || (last?.role === 'tool' && !isInterrupted)) return { text: words(lastSentence(task)), delayMs }
  const before = isInterrupted ? 'It was interrupted, so I try again. ' : 'Let me see. '
  return { text: words(before), delayMs, calls: [{ name, args: { n } }] }
}

interface Around {
  url(): string
  exchange: object
  seen: EventEmitter<Record<Moment, []>>
  isOver(): boolean
}

interface Client {
  witness: Witness
  talk(): Promise<void>
  /** Notices that the server no longer responds. */
  leave(): void
}

/** A user with one page, which connects again whenever the server is gone, and sends the results that it has. */
function createClient({ url, exchange, seen, isOver }: Around): Client {
  const transcript = createTranscript()
  const thread = randomUUID()
  const received: Witness['received'] = new Map()
  const results: (ClientMessageInput & { type: 'tool/result' })[] = []
  let current: Page | undefined
  const witness: Witness = { runs: new Map(), shown: transcript.run, received }

  /** Returns undefined while the server is away. */
  async function open(): Promise<Page | undefined> {
    try {
      const response = await fetch(`${url()}/api/auth/pk-ticket`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(exchange),
        signal: AbortSignal.timeout(10_000),
      })
      const { ticket } = (await response.json()) as { ticket: string }
      return await connectPage(url(), ticket)
    } catch {
      await delay(50)
      return undefined
    }
  }

  function watch(page: Page): void {
    page.socket.on('message', (data) => {
      const message = JSON.parse(String(data)) as ServerMessage
      if (message.type === 'chat/chunk' && JSON.stringify(message.chunks).includes('text-delta'))
        seen.emit('mid-stream')
      if (message.type === 'chat/end' && message.status === 'waiting') seen.emit('while a question waits')
      if (message.type === 'tool/call') void run(message)
    })
  }

  async function run({ call_id, name, args, receipt }: ServerMessage & { type: 'tool/call' }): Promise<void> {
    const known = received.get(call_id)
    received.set(call_id, { name, args, count: (known?.count ?? 0) + 1 })
    seen.emit('in a tool call')
    await delay(Math.random() * 300)
    const result = { type: 'tool/result' as const, call_id, result: `did ${name}`, receipt }
    results.push(result)
    if (current?.socket.readyState === WebSocket.OPEN) current.send(result)
  }

  /** Brings one message to its answer. Returns false if the server is gone before. */
  async function converse(page: Page, message: { id: string; text: string }): Promise<boolean> {
    const chat = openChat(page, thread, transcript)
    const gone = page.closed.then(() => undefined)
    const until = <T>(promise: Promise<T>) => Promise.race([promise, gone])
    // A refusal is in the server's log, and the message is sent again.
    const runId = await until(chat.say(message.text, { id: message.id }).catch(() => undefined))
    if (runId === undefined) return false
    witness.runs.set(runId, message.text)
    // A message that the server knew already doesn't show its run again.
    const { attempt, n } = transcript.run(runId)
    const have = attempt > 0 ? { have: { run_id: runId, attempt, n } } : {}
    page.send({ type: 'chat/resume', request_id: randomUUID(), thread_id: thread, ...have })
    for (;;) {
      const shown = await until(chat.rest(runId))
      if (!shown) return false
      if (shown.end?.status !== 'waiting') return true
      const question = shown.calls.find(({ question, answer }) => question !== undefined && answer === undefined)
      const waited = shown.end
      await delay(Math.random() * 200)
      const decide = { type: 'chat/decide' as const, call_id: question?.id ?? '', approved: true }
      await until(chat.request(decide, 'chat/done').catch(() => undefined))
      if (!(await until(chat.until(runId, ({ end }) => end !== waited)))) return false
    }
  }

  return {
    witness,
    leave: () => current?.socket.terminate(),
    async talk() {
      while (!isOver()) {
        const message = { id: randomUUID(), text: `${tasks[Math.floor(Math.random() * tasks.length)]} ${randomUUID()}` }
        for (let isAnswered = false; !isAnswered; ) {
          const page = await open()
          if (!page) continue
          current = page
          watch(page)
          page.send({ type: 'tools/list', tools })
          for (const result of results.slice(-repeatedResults)) page.send(result)
          isAnswered = await converse(page, message)
          page.socket.terminate()
        }
      }
    },
  }
}
