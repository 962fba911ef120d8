import { newId } from '../lib/ids.ts'
import { PassingMap } from '../lib/passing-map.ts'
import { goneAfterMs } from '../runtime/protocol.ts'
import type { Foundation } from '../service.ts'

/**
 * Messages between the hubs of several nodes. They carry what people do in their pages, so they are sealed like
 * everything else that Redis sees. A node that holds sources says so again and again; one that falls silent is gone.
 */
export interface Nodes<Message> {
  self: string
  /** Those that hold sources. */
  others(): string[]
  isAlive(node: string): boolean
  send(node: string, message: Message): void
  broadcast(message: Message): void
  /** Undefined when no answer comes in time. `toMessage` puts the question's id into the message. */
  ask<Answer>(node: string, toMessage: (ask: string) => Message): Promise<Answer | undefined>
  /** For the answer to a question. */
  answer(ask: string, answer: unknown): void
  /** Tells the others that this node holds sources, or that it holds none any more. */
  announce(holdsSources: boolean): void
  close(): Promise<void>
}

type Signal = { signal: 'here' | 'gone' | 'who' }

const channel = 'hub'
const place = 'bus:hub'
/** On one network an answer takes a millisecond. */
const answerWithinMs = 1_000

export async function createNodes<Message extends object>(
  { bus, clock, secrets, log }: Foundation,
  receive: (message: Message, from: string) => void,
): Promise<Nodes<Message>> {
  const self = newId()
  const heard = new Map<string, number>()
  /** Those that hold sources. One that has given its last away is still alive: its calls went elsewhere with it. */
  const holders = new Set<string>()
  /** Nodes that left a question unanswered are not waited for until they are heard of again. */
  const silent = new Set<string>()
  const questions = new PassingMap<(answer: unknown) => void>()
  let isAnnounced = false

  function publish(to: string, message: Message | Signal): void {
    const sealed = secrets.seal(JSON.stringify({ from: self, message }), place)
    bus.publish(to, sealed).catch((error) => log.warn({ err: error }, 'the other nodes were not reached'))
  }

  function read(sealed: string): void {
    const { from, message } = JSON.parse(secrets.open(sealed, place)) as { from: string; message: Message | Signal }
    if (from === self) return
    if (!('signal' in message)) receive(message, from)
    else if (message.signal === 'who') {
      if (isAnnounced) publish(nodeChannel(from), { signal: 'here' })
    } else {
      silent.delete(from)
      heard.set(from, clock())
      if (message.signal === 'here') holders.add(from)
      else holders.delete(from)
    }
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
        questions.set(ask, settle)
        publish(nodeChannel(node), toMessage(ask))
      })
    },
    answer: (ask, answer) => questions.get(ask)?.(answer),
    announce(holdsSources) {
      if (holdsSources || isAnnounced) publish(channel, { signal: holdsSources ? 'here' : 'gone' })
      isAnnounced = holdsSources
    },
    async close() {
      if (isAnnounced) publish(channel, { signal: 'gone' })
      for (const [, settle] of questions) settle(undefined)
      await Promise.all(unsubscribe.map((end) => end()))
    },
  }
}

const nodeChannel = (node: string) => `${channel}:${node}`
