import type { Service } from '../../kernel/foundation/service.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { PassingMap } from '../../kernel/lib/passing-map.ts'
import { type HubMessage, hubChannels, type NodeSignal } from './messages.ts'

/**
 * Messages between the hubs of several nodes, encrypted because they contain end users' data. A node announces itself
 * regularly while it holds sources or waits for calls; a node that stops announcing itself counts as down.
 */
export interface Nodes {
  self: string
  /** The other nodes that hold sources. */
  others(): string[]
  isAlive(node: string): boolean
  /** Counts a node that hasn't announced itself yet as alive, as if it just had. */
  expect(node: string): void
  send(node: string, message: HubMessage): void
  broadcast(message: HubMessage): void
  /** Undefined if the node doesn't reply in time. `toMessage` puts the request's ID into the message. */
  ask<Answer>(node: string, toMessage: (ask: string) => HubMessage, options?: AskOptions): Promise<Answer | undefined>
  /** Replies to another node's request. */
  answer(node: string, ask: string, answer: unknown): void
  /** Tells the other nodes that this one is alive, and whether it holds sources. */
  announce(holdsSources: boolean): void
  close(): Promise<void>
}

interface AskOptions {
  /** Sends the message also to a node that didn't reply the last time. */
  evenIfSilent?: boolean
}

const place = 'bus:hub'
/** Timeout for a reply, which takes about a millisecond on a local network. Tests allow more on a busy machine. */
export const replyTimeout = { ms: 1_000 }
/** Allows for three announcements to be late or lost. */
const goneAfterMs = 7_000
/**
 * Redis disconnects a subscriber with 32 MB of unread messages. Longer replies are sent in parts, each after the
 * previous one was read.
 */
const maxPartLength = 1024 * 1024

interface Question {
  parts: string
  timer: NodeJS.Timeout
  settle(answer: unknown): void
}

export async function createNodes(
  { bus, clock, secrets, log }: Service,
  receive: (message: HubMessage, from: string) => void,
): Promise<Nodes> {
  const self = newId()
  const heard = new Map<string, number>()
  /** Nodes that hold sources. A node that handed its last source to another node is still alive, but not listed. */
  const holders = new Set<string>()
  /** Nodes that didn't reply in time. They are skipped until they send a message again. */
  const silent = new Set<string>()
  const questions = new PassingMap<Question>()
  /** Replies in several parts, until the last part is sent or the other node stops asking. */
  const longAnswers = new Map<string, { text: string; timer: NodeJS.Timeout }>()
  let isAnnounced = false

  function publish(to: string, message: HubMessage | NodeSignal): void {
    const sealed = secrets.seal(JSON.stringify({ from: self, message }), place)
    bus.publish(to, sealed).catch((error) => log.warn({ err: error }, 'Could not send a message to the other nodes'))
  }

  function read(sealed: string): void {
    const { from, message } = JSON.parse(secrets.open(sealed, place)) as {
      from: string
      message: HubMessage | NodeSignal
    }
    if (from === self) return
    heard.set(from, clock())
    if (silent.size > 0) silent.delete(from)
    if ('signal' in message) readSignal(message, from)
    else receive(message, from)
  }

  function readSignal(message: NodeSignal, from: string): void {
    switch (message.signal) {
      case 'who':
        if (isAnnounced) publish(hubChannels.node(from), { signal: 'holding' })
        break
      case 'holding':
        holders.add(from)
        break
      case 'empty':
        holders.delete(from)
        break
      case 'part':
        readPart(message, from)
        break
      case 'more':
        sendPart(from, message.ask, message.from)
    }
  }

  function readPart({ ask, text, from, length }: NodeSignal & { signal: 'part' }, node: string): void {
    const question = questions.get(ask)
    if (!question || question.parts.length !== from) return
    question.parts += text
    question.timer.refresh()
    const read = question.parts.length
    if (read < length) publish(hubChannels.node(node), { signal: 'more', ask, from: read })
    else question.settle(JSON.parse(question.parts).answer)
  }

  function sendPart(node: string, ask: string, from: number): void {
    const answer = longAnswers.get(ask)
    if (!answer) return
    answer.timer.refresh()
    publishPart(node, ask, answer.text, from)
    if (from + maxPartLength >= answer.text.length) forgetAnswer(ask)
  }

  const publishPart = (node: string, ask: string, text: string, from: number) =>
    publish(hubChannels.node(node), {
      signal: 'part',
      ask,
      text: text.slice(from, from + maxPartLength),
      from,
      length: text.length,
    })

  function forgetAnswer(ask: string): void {
    clearTimeout(longAnswers.get(ask)?.timer)
    longAnswers.delete(ask)
  }

  const unsubscribe = await Promise.all([
    bus.subscribe(hubChannels.all, read),
    bus.subscribe(hubChannels.node(self), read),
  ])
  publish(hubChannels.all, { signal: 'who' })

  const forget = (node: string) => {
    for (const nodes of [heard, holders, silent]) nodes.delete(node)
  }
  const isAlive = (node: string) => node === self || clock() - (heard.get(node) ?? 0) < goneAfterMs

  return {
    self,
    isAlive,
    others() {
      for (const node of heard.keys()) if (!isAlive(node)) forget(node)
      return [...holders]
    },
    expect(node) {
      if (!heard.has(node)) heard.set(node, clock())
    },
    send: (node, message) => publish(hubChannels.node(node), message),
    broadcast: (message) => publish(hubChannels.all, message),
    ask<Answer>(node: string, toMessage: (ask: string) => HubMessage, { evenIfSilent = false }: AskOptions = {}) {
      if (silent.has(node) && !evenIfSilent) return Promise.resolve(undefined)
      const ask = newId()
      return new Promise<Answer | undefined>((resolve) => {
        const settle = (answer: unknown) => {
          clearTimeout(timer)
          questions.delete(ask)
          resolve(answer as Answer | undefined)
        }
        const timer = setTimeout(() => {
          silent.add(node)
          settle(undefined)
        }, replyTimeout.ms)
        questions.set(ask, { parts: '', timer, settle })
        publish(hubChannels.node(node), toMessage(ask))
      })
    },
    answer(node, ask, answer) {
      const text = JSON.stringify({ answer })
      if (text.length > maxPartLength) {
        const timer = setTimeout(() => forgetAnswer(ask), replyTimeout.ms)
        longAnswers.set(ask, { text, timer })
      }
      publishPart(node, ask, text, 0)
    },
    announce(holdsSources) {
      publish(hubChannels.all, { signal: holdsSources ? 'holding' : 'empty' })
      isAnnounced = holdsSources
    },
    async close() {
      if (isAnnounced) publish(hubChannels.all, { signal: 'empty' })
      for (const [, { settle }] of questions) settle(undefined)
      for (const ask of longAnswers.keys()) forgetAnswer(ask)
      await Promise.all(unsubscribe.map((end) => end()))
    },
  }
}
