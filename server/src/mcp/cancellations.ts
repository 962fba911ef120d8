import type { Caller } from '../foundation/caller.ts'
import type { Service } from '../foundation/service.ts'
import { newId } from '../lib/ids.ts'
import { PassingMap } from '../lib/passing-map.ts'
import { type CancellationMessage, channels } from '../stores/bus-messages.ts'

/**
 * Pending calls, so that a `notifications/cancelled` of the older era can cancel one even though it arrives in another
 * request, possibly on another node. Without sessions, two processes may share a token and use the same request IDs, so
 * a call is cancelled only if no other pending call has its token and request ID.
 */
export interface Cancellations {
  /** Returns a function that removes the call. */
  add(key: string, cancel: () => void): () => void
  /** Cancels the call with this key, unless several calls have it. */
  cancel(key: string): void
}

/** Identifies a call by its caller, its grant or token, and the client's request ID. */
export const keyOf = ({ id, token }: Caller, requestId: string | number): string =>
  `${id} ${token.grant_id ?? token.id} ${JSON.stringify(requestId)}`

/** How long to wait for the nodes' counts, which take about a millisecond on a local network. */
const answerWithinMs = 250
/** Then a cancellation is forgotten whose messages were lost. */
const forgetAfterMs = 5_000

export async function createCancellations({
  bus,
  config,
  log,
}: Pick<Service, 'bus' | 'config' | 'log'>): Promise<Cancellations> {
  const calls = new PassingMap<(() => void)[]>()
  /** By question of this node. */
  const counts = new Map<string, { key: string; count: number }>()
  const countOf = (key: string) => calls.get(key)?.length ?? 0

  function end(key: string): void {
    const [only, ...others] = calls.get(key) ?? []
    if (others.length === 0) only?.()
  }

  const publish = (message: CancellationMessage) =>
    void bus
      .publish(channels.cancellations, message)
      .catch((error) => log.warn({ err: error }, 'Could not tell the other nodes about a cancelled call'))

  function receive(message: CancellationMessage): void {
    if ('end' in message) end(message.end)
    else if ('found' in message) {
      const asked = counts.get(message.found)
      if (asked) asked.count += message.count
    } else if ('settle' in message) {
      const asked = counts.get(message.settle)
      counts.delete(message.settle)
      if (asked?.count === 1) publish({ end: asked.key })
    } else {
      // Only now, so that a busy node or Redis doesn't use up the time of the other nodes.
      if (counts.has(message.ask)) setTimeout(() => publish({ settle: message.ask }), answerWithinMs).unref()
      if (countOf(message.key) > 0) publish({ found: message.ask, count: countOf(message.key) })
    }
  }

  if (config.redisUrl) await bus.subscribe<CancellationMessage>(channels.cancellations, receive)

  return {
    add(key, cancel) {
      const known = calls.get(key)
      if (known) known.push(cancel)
      else calls.set(key, [cancel])
      return () => {
        const rest = calls.get(key)?.filter((one) => one !== cancel) ?? []
        if (rest.length > 0) calls.set(key, rest)
        else calls.delete(key)
      }
    },
    cancel(key) {
      // Without Redis there is only one node.
      if (!config.redisUrl) return end(key)
      const ask = newId()
      counts.set(ask, { key, count: 0 })
      setTimeout(() => counts.delete(ask), forgetAfterMs).unref()
      publish({ ask, key })
    },
  }
}
