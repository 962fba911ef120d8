import type { Service } from '../foundation/service.ts'
import { newId } from '../lib/ids.ts'
import { PassingMap } from '../lib/passing-map.ts'

/**
 * Messages between the hubs of several nodes. They carry what people do in their pages, so they are sealed like
 * everything else that Redis sees. A node that holds sources or waits for calls says so again and again; one that falls
 * silent is gone.
 */
export interface Nodes<Message> {
  self: string
  /** Those that hold sources. */
  others(): string[]
  isAlive(node: string): boolean
  /** A node that was not heard of yet has some time to be heard. */
  expect(node: string): void
  send(node: string, message: Message): void
  broadcast(message: Message): void
  /** Undefined when no answer comes in time. `toMessage` puts the question's id into the message. */
  ask<Answer>(node: string, toMessage: (ask: string) => Message): Promise<Answer | undefined>
  /** Answers the question of a node. */
  answer(node: string, ask: string, answer: unknown): void
  /** Tells the others that this node is there, and whether it holds sources. */
  announce(holdsSources: boolean): void
  close(): Promise<void>
}

type Signal =
  /** The node is there, with sources or without; `who` asks the others for that. */
  | { signal: 'holding' | 'empty' | 'who' }
  /** A part of an answer. `from` is where in the text it begins. */
  | { signal: 'part'; ask: string; text: string; from: number; length: number }
  | { signal: 'more'; ask: string; from: number }

/** The number changes with the messages, so that nodes of two versions don't misread each other. */
const channel = 'hub:3'
const place = 'bus:hub'
/** On one network an answer takes a millisecond. */
const answerWithinMs = 1_000
/** Three announcements may be late or lost. */
const goneAfterMs = 7_000
/**
 * Redis disconnects a subscriber for which 32 MB wait. Longer answers travel in parts, and each part is sent when the one
 * before has been read.
 */
const maxPartLength = 1024 * 1024

interface Question {
  parts: string
  timer: NodeJS.Timeout
  settle(answer: unknown): void
}

export async function createNodes<Message extends object>(
  { bus, clock, secrets, log }: Service,
  receive: (message: Message, from: string) => void,
): Promise<Nodes<Message>> {
  const self = newId()
  const heard = new Map<string, number>()
  /** Those that hold sources. One that has given its last away is still alive: its calls went elsewhere with it. */
  const holders = new Set<string>()
  /** Nodes that left a question unanswered are not waited for until they are heard of again. */
  const silent = new Set<string>()
  const questions = new PassingMap<Question>()
  /** Answers of several parts, until the last one is sent or nobody asks for the next. */
  const longAnswers = new Map<string, { text: string; timer: NodeJS.Timeout }>()
  let isAnnounced = false

  function publish(to: string, message: Message | Signal): void {
    const sealed = secrets.seal(JSON.stringify({ from: self, message }), place)
    bus.publish(to, sealed).catch((error) => log.warn({ err: error }, 'the other nodes were not reached'))
  }

  function read(sealed: string): void {
    const { from, message } = JSON.parse(secrets.open(sealed, place)) as { from: string; message: Message | Signal }
    if (from === self) return
    heard.set(from, clock())
    if (silent.size > 0) silent.delete(from)
    if ('signal' in message) readSignal(message, from)
    else receive(message, from)
  }

  function readSignal(message: Signal, from: string): void {
    switch (message.signal) {
      case 'who':
        if (isAnnounced) publish(nodeChannel(from), { signal: 'holding' })
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

  function readPart({ ask, text, from, length }: Signal & { signal: 'part' }, node: string): void {
    const question = questions.get(ask)
    if (!question || question.parts.length !== from) return
    question.parts += text
    question.timer.refresh()
    const read = question.parts.length
    if (read < length) publish(nodeChannel(node), { signal: 'more', ask, from: read })
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
    publish(nodeChannel(node), {
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

  const unsubscribe = await Promise.all([bus.subscribe(channel, read), bus.subscribe(nodeChannel(self), read)])
  publish(channel, { signal: 'who' })

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
    send: (node, message) => publish(nodeChannel(node), message),
    broadcast: (message) => publish(channel, message),
    ask<Answer>(node: string, toMessage: (ask: string) => Message) {
      if (silent.has(node)) return Promise.resolve(undefined)
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
        }, answerWithinMs)
        questions.set(ask, { parts: '', timer, settle })
        publish(nodeChannel(node), toMessage(ask))
      })
    },
    answer(node, ask, answer) {
      const text = JSON.stringify({ answer })
      if (text.length > maxPartLength) {
        const timer = setTimeout(() => forgetAnswer(ask), answerWithinMs)
        longAnswers.set(ask, { text, timer })
      }
      publishPart(node, ask, text, 0)
    },
    announce(holdsSources) {
      publish(channel, { signal: holdsSources ? 'holding' : 'empty' })
      isAnnounced = holdsSources
    },
    async close() {
      if (isAnnounced) publish(channel, { signal: 'empty' })
      for (const [, { settle }] of questions) settle(undefined)
      for (const ask of longAnswers.keys()) forgetAnswer(ask)
      // A node must be able to stop while Redis is away.
      await Promise.allSettled(unsubscribe.map((end) => end()))
    },
  }
}

const nodeChannel = (node: string) => `${channel}:${node}`
