import type { Caller } from '../../kernel/foundation/caller.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { PassingMap } from '../../kernel/lib/passing-map.ts'

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

const channel = 'mcp:cancel'

type CancellationMessage =
  /** `ask` requests the number of calls with a key from all nodes, `found` returns it, `end` cancels the call. */
  { ask: string; key: string } | { found: string; count: number } | { end: string }

/** Identifies a call by its caller, its grant or token, and the client's request ID. */
export const keyOf = ({ id, token }: Caller, requestId: string | number): string =>
  `${id} ${token.grant_id ?? token.id} ${JSON.stringify(requestId)}`

/** How long to wait for nodes that don't reply. The others take about a millisecond on a local network. */
const answerWithinMs = 2_000

/** This node's question to all nodes, how many calls have a key. */
interface Question {
  count: number
  replies: number
  /** Number of nodes that received it. */
  expected: number
  answered(): void
}

export async function createCancellations({
  bus,
  config,
  log,
}: Pick<Service, 'bus' | 'config' | 'log'>): Promise<Cancellations> {
  const calls = new PassingMap<(() => void)[]>()
  const questions = new Map<string, Question>()
  const countOf = (key: string) => calls.get(key)?.length ?? 0

  function end(key: string): void {
    const [only, ...others] = calls.get(key) ?? []
    if (others.length === 0) only?.()
  }

  /** Returns the number of nodes that received the message. */
  const publish = (message: CancellationMessage): Promise<number> =>
    bus.publish(channel, message).catch((error) => {
      log.warn({ err: error }, 'Could not tell the other nodes about a cancelled call')
      return 0
    })

  function receive(message: CancellationMessage): void {
    if ('end' in message) end(message.end)
    else if ('ask' in message) void publish({ found: message.ask, count: countOf(message.key) })
    else {
      const question = questions.get(message.found)
      if (!question) return
      question.count += message.count
      question.replies += 1
      settle(question)
    }
  }

  const settle = ({ replies, expected, answered }: Question) => replies >= expected && answered()

  async function cancelAnywhere(key: string): Promise<void> {
    const ask = newId()
    const { promise, resolve } = Promise.withResolvers<void>()
    const question = { count: 0, replies: 0, expected: Number.POSITIVE_INFINITY, answered: resolve }
    questions.set(ask, question)
    question.expected = await publish({ ask, key })
    const timer = setTimeout(resolve, answerWithinMs).unref()
    settle(question)
    await promise
    clearTimeout(timer)
    questions.delete(ask)
    if (question.count === 1) await publish({ end: key })
  }

  if (config.redisUrl) await bus.subscribe<CancellationMessage>(channel, receive)

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
      if (config.redisUrl) void cancelAnywhere(key)
      else end(key)
    },
  }
}
