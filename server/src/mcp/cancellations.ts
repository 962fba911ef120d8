import type { Caller } from '../foundation/caller.ts'
import type { Service } from '../foundation/service.ts'
import { newId } from '../lib/ids.ts'
import { PassingMap } from '../lib/passing-map.ts'

/**
 * The calls that clients wait for, so that `notifications/cancelled` of the older era ends one although it arrives in a
 * request of its own, maybe at another node. There are no sessions, and two processes may share a sign-in and number their
 * requests alike: a call is cancelled only if it is the only one under way with its sign-in and request id.
 */
export interface Cancellations {
  /** Returns a function that takes the call out again. */
  add(key: string, cancel: () => void): () => void
  /** Cancels the call that the key stands for, unless several could be meant. */
  cancel(key: string): void
}

/** What identifies a call: the sign-in that makes it, and its id as the client numbers its requests. */
export const keyOf = ({ user, token }: Caller, requestId: string | number): string =>
  `${user.id} ${token.grant_id ?? token.id} ${JSON.stringify(requestId)}`

type Message =
  /** Which nodes have calls with this key? */
  { ask: string; key: string } | { found: string; count: number } | { end: string }

const channel = 'mcp:cancel'
/** How long other nodes have to say that they know such a call too. On one network an answer takes a millisecond. */
const answerWithinMs = 250

export async function createCancellations({
  bus,
  config,
  log,
}: Pick<Service, 'bus' | 'config' | 'log'>): Promise<Cancellations> {
  const calls = new PassingMap<(() => void)[]>()
  const counts = new Map<string, number>()
  const countOf = (key: string) => calls.get(key)?.length ?? 0

  function end(key: string): void {
    const [only, ...others] = calls.get(key) ?? []
    if (others.length === 0) only?.()
  }

  const publish = (message: Message) =>
    void bus
      .publish(channel, message)
      .catch((error) => log.warn({ err: error }, 'the other nodes were not reached about a cancelled call'))

  function receive(message: Message): void {
    if ('end' in message) end(message.end)
    else if ('found' in message) {
      const count = counts.get(message.found)
      if (count !== undefined) counts.set(message.found, count + message.count)
    } else if (countOf(message.key) > 0) publish({ found: message.ask, count: countOf(message.key) })
  }

  if (config.redisUrl) await bus.subscribe<Message>(channel, receive)

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
      // Without Redis there is one node.
      if (!config.redisUrl) return end(key)
      const ask = newId()
      counts.set(ask, 0)
      publish({ ask, key })
      setTimeout(() => {
        const count = counts.get(ask)
        counts.delete(ask)
        if (count === 1) publish({ end: key })
      }, answerWithinMs).unref()
    },
  }
}
