// Measures the CPU time and the delay that a server adds between the model and the user, and the memory of an open
// conversation. Compares Inlay with the model itself, with node:http that passes its text on, with the AI SDK,
// and with CopilotKit's runtime.
//
//   node bench/agent.ts [--rounds=3] [--seconds=10] [--conversations=300] [--tokens=200] [--only=<pattern>]
//                       [--idle=2000] [--profile=<folder>] [--copilotkit=<folder with CopilotKit's packages>]
//                       [--before=<folder of another version, with its dependencies installed>]
//
// The model is a local process. It streams to a few conversations as fast as the server reads, and to many conversations
// 20 tokens per second each. Inlay runs as in load.ts, with everything on: its clients are pages of different end users,
// with a ticket each. The conversations ask at different times. In each round, the servers take turns. With --before, the
// other version takes part as well, and the CPU times of both are compared within each round.

import { randomUUID } from 'node:crypto'
import { loadavg } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { startTestProvider, type TestProvider } from '../server/test/oidc-provider.ts'
import { asRunInput, type Conversation, openPage, openStream } from './agent-peers/clients.ts'
import { now, type Task, writeTask } from './agent-peers/tasks.ts'
import {
  cpuOf,
  cpuOfChildren,
  cpuOfMachine,
  inEarlierVersion,
  options,
  peer,
  quantile,
  residentOf,
  startInlay,
  stopAll,
} from './load.ts'

interface Contender {
  name: string
  pid: number
  open(): Promise<Conversation>
}

interface Sample {
  /** CPU time in microseconds per token, of the server and of its PostgreSQL. */
  cpu: number
  postgres: number
  replies: number
  tokens: number
  /** Milliseconds from a message to the first token of its reply. */
  first: number[]
  /** Milliseconds between a token's departure from the model and its arrival. */
  late: number[]
  /** Only those without any CPU time that the machine's host took away, meanwhile or shortly before. */
  calm: { first: number[]; late: number[] }
  /** The turns that conversations left out, because their replies took too long. */
  skipped: number
  /** The share of the machine's CPU time that its host took away, in percent. */
  stolen: number
}

const origin = 'https://shop.example.com'
const rounds = Number(options.rounds)
const seconds = Number(options.seconds)
const idle = Number(options.idle)
/** Two rounds of pings. */
const idleSeconds = 30
interface Load extends Task {
  conversations: number
}
const tokens = Number(options.tokens)
/** As fast as the server reads. */
const fast: Load = { conversations: 8, tokens, everyMs: 0 }
/** At a model's usual speed. */
const long: Load = { conversations: Number(options.conversations), tokens, everyMs: 50 }
/** Little more than beginnings and ends. */
const short: Load = { conversations: 24, tokens: 24, everyMs: 50 }
const loads = [fast, long, short]
/** Between the end of a reply and the next question, so that conversations keep their own time. */
const restMs = 250
/** A conversation that would ask later than this after its time leaves a turn out. */
const mostLateMs = 50
/** After these, a conversation begins anew. */
const repliesPerThread = 10

// --- the servers

const providers: TestProvider[] = []
const urlOf = ({ port }: { port: number }) => `http://127.0.0.1:${port}/v1`

async function startAgent(name: string, modelUrl: string, settings: Record<string, string> = {}): Promise<Contender> {
  const provider = await startTestProvider()
  providers.push(provider)
  const { call, pid, port } = await startInlay(name, { MODEL_URL: modelUrl, MODEL_NAME: 'bench', ...settings })
  const trust = { idp_type: 'custom_oidc', idp_issuer: provider.issuer, allowed_audiences: ['shop'] }
  await call('PATCH', '/identity-providers/config', trust)
  const { key } = await call<{ key: string }>('POST', '/publishable-keys', { name: 'Shop' })
  const count = Math.max(...loads.map(({ conversations }) => conversations), idle)
  const idTokens: string[] = []
  while (idTokens.length < count) idTokens.push(await provider.idToken({ sub: `user-${idTokens.length}` }))
  const open = () => openPage(port, origin, { publishable_key: key, id_token: idTokens.pop() ?? '' })
  return { name: inlayName, pid, open }
}

const inlayName = 'Inlay, everything on'

async function startContenders(model: { port: number; pid: number }): Promise<Contender[]> {
  const url = urlOf(model)
  const relay = await peer('./agent-peers/relay.ts', url)
  const sdk = await peer('./agent-peers/ai-sdk.ts', url)
  return [
    { name: 'the model itself', pid: model.pid, open: async () => openStream(model.port, '/v1/chat/completions') },
    { name: 'node:http, passes the text on', pid: relay.pid, open: async () => openStream(relay.port, '/') },
    { name: 'AI SDK, nothing checked or saved', pid: sdk.pid, open: async () => openStream(sdk.port, '/') },
    ...(options.copilotkit ? [await startCopilotKit(url, options.copilotkit)] : []),
    await startAgent('inlay', url),
  ]
}

/** The earlier version of Inlay. */
async function startBefore(model: { port: number }): Promise<Contender[]> {
  const before = await inEarlierVersion(() => startAgent('inlay', urlOf(model)))
  return before ? [{ ...before, name: `${inlayName}, before` }] : []
}

async function startCopilotKit(url: string, folder: string): Promise<Contender> {
  const { pid, port } = await peer('./agent-peers/copilotkit.ts', url, folder)
  const open = async () => openStream(port, '/agent/default/run', asRunInput)
  return { name: 'CopilotKit, nothing checked', pid, open }
}

// --- the load

const openOf = new Map<Contender, Conversation[]>()

async function openConversations(contender: Contender, count: number): Promise<Conversation[]> {
  const open = openOf.get(contender) ?? []
  openOf.set(contender, open)
  while (open.length < count) {
    const missing = Math.min(20, count - open.length)
    open.push(...(await Promise.all(Array.from({ length: missing }, () => contender.open()))))
  }
  return open.slice(0, count)
}

/** The servers have to catch up after the host has taken CPU time away. */
const catchUpMicros = 100_000
let stolenAt = 0
let ticks = cpuOfMachine().stolen
setInterval(() => {
  const { stolen } = cpuOfMachine()
  if (stolen > ticks) stolenAt = now()
  ticks = stolen
}, 10).unref()

const isCalmSince = (time: number) => stolenAt < time - catchUpMicros

async function measure(contender: Contender, { conversations, ...task }: Load): Promise<Sample> {
  const open = await openConversations(contender, conversations)
  const turnMs = task.everyMs === 0 ? 0 : task.tokens * task.everyMs + restMs
  const opened = now()
  // The first replies of each conversation warm the server and its connections to PostgreSQL up.
  const begin = opened + Math.max(2 * turnMs, 3_000) * 1000
  const end = begin + seconds * 1_000_000
  const isCounted = (time: number) => time >= begin && time < end
  const sample: Sample = {
    cpu: 0,
    postgres: 0,
    replies: 0,
    tokens: 0,
    first: [],
    late: [],
    calm: { first: [], late: [] },
    skipped: 0,
    stolen: 0,
  }

  async function talk(conversation: Conversation, index: number): Promise<void> {
    let threadId = ''
    let due = opened + (index / conversations) * turnMs * 1000
    for (let replies = 0; ; replies += 1, due += turnMs * 1000) {
      // Conversations whose replies were late together would otherwise go on together.
      while (turnMs > 0 && now() - due > mostLateMs * 1000) {
        due += turnMs * 1000
        if (isCounted(now())) sample.skipped += 1
      }
      await sleep(Math.max(0, due - now()) / 1000)
      const asked = now()
      if (asked >= end) return
      if (replies % repliesPerThread === 0) threadId = randomUUID()
      let count = 0
      await conversation.ask(threadId, writeTask(task), (sentAt) => {
        const time = now()
        count += 1
        if (count === 1 && isCounted(asked)) {
          sample.first.push((time - asked) / 1000)
          if (isCalmSince(asked)) sample.calm.first.push((time - asked) / 1000)
        }
        if (!isCounted(time)) return
        sample.tokens += 1
        sample.late.push((time - sentAt) / 1000)
        if (isCalmSince(sentAt)) sample.calm.late.push((time - sentAt) / 1000)
      })
      if (count !== task.tokens) throw new Error(`${contender.name} sent ${count} of ${task.tokens} tokens`)
      if (isCounted(now())) sample.replies += 1
    }
  }

  async function countCpu(): Promise<void> {
    const times = () => ({
      cpu: cpuOf(contender.pid),
      postgres: cpuOfChildren(contender.pid),
      machine: cpuOfMachine(),
    })
    await sleep((begin - now()) / 1000)
    const before = times()
    await sleep((end - now()) / 1000)
    const after = times()
    sample.cpu = (after.cpu - before.cpu) / sample.tokens
    sample.postgres = (after.postgres - before.postgres) / sample.tokens
    const { all, stolen } = before.machine
    sample.stolen = ((after.machine.stolen - stolen) / (after.machine.all - all)) * 100
  }

  await Promise.all([countCpu(), ...open.map(talk)])
  return sample
}

// --- the tables

const median = (values: number[]) => quantile(values, 0.5)
const digit = (value: number) => (Number.isFinite(value) ? value.toFixed(1) : '—')
const row = (...cells: (string | number)[]) => console.log(`| ${cells.join(' | ')} |`)

type Samples = Map<Contender, Sample[]>

const samplesOf = (samples: Samples, start: string): Sample[] =>
  [...samples].find(([{ name }]) => name.startsWith(start))?.[1] ?? []

/** CPU time per token, as a part of the AI SDK's, and PostgreSQL's. */
function describeCpu(samples: Samples, own: readonly Sample[]): string[] {
  const sdk = samplesOf(samples, 'AI SDK')
  const ratio = median(own.map((sample, round) => sample.cpu / (sdk[round]?.cpu ?? Number.NaN)))
  return [
    digit(median(own.map(({ cpu }) => cpu))),
    Number.isFinite(ratio) ? ratio.toFixed(2) : '—',
    digit(median(own.map(({ postgres }) => postgres))),
  ]
}

const cpuTitles = ['CPU µs per token', 'Of the AI SDK’s', 'PostgreSQL µs']

function printFast(samples: Samples): void {
  console.log(`${fast.conversations} conversations, as fast as the server reads, ${fast.tokens} tokens per reply:\n`)
  row('Server', ...cpuTitles, 'Tokens per second')
  row('---', ...Array(4).fill('---:'))
  for (const [{ name }, own] of samples) {
    row(name, ...describeCpu(samples, own), Math.round(median(own.map(({ tokens }) => tokens / seconds))))
  }
  console.log()
}

function printLong(longs: Samples, shorts: Samples): void {
  console.log(`${long.conversations} conversations, 20 tokens per second each, ${long.tokens} tokens per reply:\n`)
  row('Server', ...cpuTitles, 'Without beginnings and ends', 'CPU per reply')
  row('---', ...Array(5).fill('---:'))
  for (const [contender, own] of longs) {
    const cpu = median(own.map((sample) => sample.cpu))
    const small = median((shorts.get(contender) ?? []).map((sample) => sample.cpu))
    // Two equations with two unknowns: what a token costs, and what a reply costs beside its tokens.
    const further = (cpu * long.tokens - small * short.tokens) / (long.tokens - short.tokens)
    const perReply = (cpu - further) * long.tokens
    row(contender.name, ...describeCpu(longs, own), digit(further), `${digit(perReply / 1000)} ms`)
  }
  console.log()
  const titles = ['First token p50 ms', 'p99', 'After the model’s p50', 'p99', 'Delay of a token p50', 'p99', 'longest']
  row('Server', ...titles, 'Taken by the host', 'Turns left out')
  row('---', ...Array(9).fill('---:'))
  for (const [{ name }, own] of longs) {
    row(
      name,
      ...describeDelays(longs, own, (sample) => sample),
      own.map(({ stolen }) => `${digit(stolen)} %`).join(', '),
      own.map(({ skipped }) => skipped).join(', '),
    )
  }
  console.log('\nOnly replies during which the host took nothing, nor in the 100 ms before:\n')
  row('Server', ...titles, 'Replies')
  row('---', ...Array(8).fill('---:'))
  for (const [{ name }, own] of longs) {
    const replies = own.map(({ calm, first }) => `${calm.first.length} of ${first.length}`).join(', ')
    row(name, ...describeDelays(longs, own, ({ calm }) => calm), replies)
  }
  console.log()
}

function describeDelays(all: Samples, own: readonly Sample[], select: (sample: Sample) => Sample['calm']): string[] {
  const of = (key: 'first' | 'late', share: number) => median(own.map((sample) => quantile(select(sample)[key], share)))
  const behind = (share: number) => {
    const differences = own.map((sample, round) => {
      const model = samplesOf(all, 'the model')[round]
      return quantile(select(sample).first, share) - quantile(model ? select(model).first : [], share)
    })
    return median(differences)
  }
  const most = Math.max(...own.map((sample) => quantile(select(sample).late, 1 - Number.EPSILON)))
  const delays = [
    of('first', 0.5),
    of('first', 0.99),
    behind(0.5),
    behind(0.99),
    of('late', 0.5),
    of('late', 0.99),
    most,
  ]
  return delays.map(digit)
}

/** Compares both versions' CPU time per token, of the server and its PostgreSQL, within each round. */
function printVersions(all: readonly (readonly [Load, Samples])[]): void {
  const named = (samples: Samples, wanted: string) => [...samples].find(([{ name }]) => name === wanted)?.[1] ?? []
  if (all.every(([, samples]) => named(samples, `${inlayName}, before`).length === 0)) return
  row('Conversations', 'Server’s CPU µs per token before', 'now', 'Ratio (quartiles)', 'With PostgreSQL')
  row('---:', ...Array(4).fill('---:'))
  for (const [{ conversations, tokens }, samples] of all) {
    const [old, own] = [named(samples, `${inlayName}, before`), named(samples, inlayName)]
    const ratio = (costOf: (sample: Sample | undefined) => number) => {
      const ratios = own.map((sample, round) => costOf(sample) / costOf(old[round]))
      const [low, middle, high] = [0.25, 0.5, 0.75].map((share) => quantile(ratios, share).toFixed(3))
      return `${middle} (${low}–${high})`
    }
    const cpu = (sample: Sample | undefined) => sample?.cpu ?? Number.NaN
    const both = (sample: Sample | undefined) => cpu(sample) + (sample?.postgres ?? Number.NaN)
    const times = [old, own].map((each) => digit(median(each.map(cpu))))
    row(`${conversations} with ${tokens} tokens`, ...times, ratio(cpu), ratio(both))
  }
  console.log()
}

const describeLoad = () => loadavg().map((load) => load.toFixed(1))

async function compareReplies(contenders: readonly Contender[]): Promise<void> {
  const noSamples = (): Samples => new Map(contenders.map((contender) => [contender, []]))
  const [fasts, longs, shorts] = [noSamples(), noSamples(), noSamples()]
  console.log(`Load average before: ${describeLoad()}`)
  for (let round = 0; round < rounds; round++) {
    for (const contender of round % 2 ? contenders.toReversed() : contenders) {
      fasts.get(contender)?.push(await measure(contender, fast))
      longs.get(contender)?.push(await measure(contender, long))
      shorts.get(contender)?.push(await measure(contender, short))
    }
    console.log(`Load average after round ${round + 1}: ${describeLoad()}\n`)
  }
  printFast(fasts)
  printLong(longs, shorts)
  printVersions([
    [fast, fasts],
    [long, longs],
    [short, shorts],
  ])
}

/** Lets a process collect its garbage on demand. */
const collectable = {
  NODE_OPTIONS: "--expose-gc --import=data:text/javascript,process.on('SIGUSR2',()=>gc({flavor:'last-resort'}))",
}

async function residentWithoutGarbage({ pid }: Contender): Promise<number> {
  process.kill(pid, 'SIGUSR2')
  await sleep(2_000)
  return residentOf(pid)
}

/** What conversations cost that have ended and stay open. */
async function measureIdle(contender: Contender): Promise<void> {
  const talkOnce = (conversation: Conversation) =>
    conversation.ask(randomUUID(), writeTask({ tokens: 40, everyMs: 5 }), () => undefined)
  const talkAll = async (all: Conversation[]) => {
    for (let from = 0; from < all.length; from += 50) await Promise.all(all.slice(from, from + 50).map(talkOnce))
  }
  const warmUp = Math.ceil(idle / 10)
  await talkAll(await openConversations(contender, warmUp))
  const before = await residentWithoutGarbage(contender)
  await talkAll((await openConversations(contender, idle)).slice(warmUp))
  const each = (bytes: number) => `${digit((bytes - before) / (idle - warmUp) / 1024)} KiB`
  const withGarbage = each(residentOf(contender.pid))
  const withoutGarbage = each(await residentWithoutGarbage(contender))
  const cpuBefore = cpuOf(contender.pid)
  await sleep(idleSeconds * 1000)
  const share = (cpuOf(contender.pid) - cpuBefore) / idleSeconds / 1e4
  row('Idle conversations', 'Memory of each', 'With garbage', 'CPU of all')
  row('---', '---:', '---:', '---:')
  row(idle, withoutGarbage, withGarbage, `${digit(share)} %`)
}

try {
  const isWanted = ({ name }: Contender) => new RegExp(options.only).test(name)
  const model = await peer('./agent-peers/model.ts', '')
  if (rounds > 0) {
    const contenders = (await startContenders(model)).filter(isWanted)
    await compareReplies([...contenders, ...(await startBefore(model))])
  }
  if (idle > 0) await measureIdle(await startAgent('idle', urlOf(model), collectable))
} finally {
  for (const provider of providers) await provider.stop()
  await stopAll()
}
