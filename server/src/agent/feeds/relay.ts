import type { Service } from '../../kernel/foundation/service.ts'
import { newId } from '../../kernel/lib/ids.ts'
import type { Position, RunRest } from '../runs/runs.ts'
import type { Chunk } from './chunks.ts'

/** What nodes tell each other about runs. A lost message delays a viewer until the next `watch`. */
export type RelayMessage =
  /** The sender has viewers of the feed, and asks the node that works on its run for chunks. */
  | { kind: 'watch'; feed: string; have?: Position | undefined }
  /** The sender works on runs of these feeds. */
  | { kind: 'working'; feeds: string[] }
  | { kind: 'chunks'; feed: string; run: { id: string; attempt: number }; n: number; chunks: readonly Chunk[] }
  | { kind: 'rested'; feed: string; rest: RunRest }
  | { kind: 'stop'; runId: string }
  /** The rows of a run were changed by a node that doesn't work on it. */
  | { kind: 'changed'; feed: string; runId: string }
  /** The thread is another's now. */
  | { kind: 'claimed'; feed: string }

export interface Relay {
  send(node: string, message: RelayMessage): void
  broadcast(message: RelayMessage): void
  close(): Promise<void>
}

/** To every node; the messages are sealed. */
const everyNode = 'runs:2'
const oneNode = (node: string) => `${everyNode}:${node}`
const place = 'bus:runs'

/** Encrypted, because the chunks contain conversations. */
export async function createRelay(
  { bus, secrets, log }: Pick<Service, 'bus' | 'secrets' | 'log'>,
  receive: (message: RelayMessage, from: string) => void,
): Promise<Relay> {
  const self = newId()

  function publish(channel: string, message: RelayMessage): void {
    const sealed = secrets.seal(JSON.stringify({ from: self, message }), place)
    bus.publish(channel, sealed).catch((error) => log.warn({ err: error }, 'Could not tell other nodes about a run'))
  }

  function read(sealed: string): void {
    const { from, message } = JSON.parse(secrets.open(sealed, place)) as { from: string; message: RelayMessage }
    if (from !== self) receive(message, from)
  }

  const unsubscribe = await Promise.all([bus.subscribe(everyNode, read), bus.subscribe(oneNode(self), read)])
  return {
    send: (node, message) => publish(oneNode(node), message),
    broadcast: (message) => publish(everyNode, message),
    close: async () => void (await Promise.all(unsubscribe.map((end) => end()))),
  }
}
