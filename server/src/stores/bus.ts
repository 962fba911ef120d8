import { newId } from '../lib/ids.ts'
import { connectRedis } from './kv.ts'

/** Messages between nodes. Each is delivered at most once: a node whose connection breaks misses those sent meanwhile. */
export interface Bus {
  /** Delivers to this node before it returns its promise. */
  publish(channel: string, message: unknown): Promise<void>
  /** Returns once the subscription is in force. The function it returns ends it. */
  subscribe<T>(channel: string, handler: (message: T) => void): Promise<() => Promise<void>>
  /** Calls the handler after every reconnect, once the subscriptions are in force again. */
  onMissed(handler: () => void): void
  close(): Promise<void>
}

const heartbeatMs = 5_000

type Handlers = Map<string, Set<(message: never) => void>>

export function openLocalBus(): Bus {
  const handlers: Handlers = new Map()
  return {
    publish: async (channel, message) => deliver(handlers, channel, message),
    subscribe: async (channel, handler) => {
      add(handlers, channel, handler)
      return async () => void handlers.get(channel)?.delete(handler)
    },
    onMissed: () => undefined, // Within one process nothing is lost.
    close: async () => handlers.clear(),
  }
}

export function openRedisBus(url: string, prefix: string, onError?: (error: Error) => void): Bus {
  const handlers: Handlers = new Map()
  const missed = new Set<() => void>()
  const publisher = connectRedis(url, onError)
  const subscriber = connectRedis(url, onError)
  const name = (channel: string) => `${prefix}:${channel}`
  const self = newId()
  let isConnectedBefore = false
  subscriber.on('ready', () => {
    if (isConnectedBefore) resubscribe().catch((error) => onError?.(error))
    isConnectedBefore = true
  })
  // A connection that went silent would deliver nothing and never end: the ping's timeout replaces it.
  const heartbeat = setInterval(() => subscriber.ping().catch(() => undefined), heartbeatMs)
  heartbeat.unref()

  /** The client has sent its subscriptions again by itself; this waits until they are in force. */
  async function resubscribe(): Promise<void> {
    if (handlers.size > 0) await subscriber.subscribe(...[...handlers.keys()].map(name))
    for (const handler of missed) handler()
  }

  subscriber.on('message', (channel: string, text: string) => {
    try {
      const { from, message } = JSON.parse(text)
      if (from !== self) deliver(handlers, channel.slice(prefix.length + 1), message)
    } catch (error) {
      // Nothing awaits this handler, so an error thrown here would end the process.
      onError?.(error as Error)
    }
  })
  return {
    async publish(channel, message) {
      // Directly, not through Redis: a request's change must apply to the next request on the same node.
      deliver(handlers, channel, message)
      await publisher.publish(name(channel), JSON.stringify({ from: self, message }))
    },
    async subscribe(channel, handler) {
      add(handlers, channel, handler)
      await subscriber.subscribe(name(channel))
      return async () => {
        const rest = handlers.get(channel)
        rest?.delete(handler)
        if (rest?.size === 0) {
          handlers.delete(channel)
          await subscriber.unsubscribe(name(channel))
        }
      }
    },
    onMissed: (handler) => void missed.add(handler),
    close: async () => {
      clearInterval(heartbeat)
      await Promise.all([publisher, subscriber].map((redis) => redis.quit().catch(() => redis.disconnect())))
    },
  }
}

function add(handlers: Handlers, channel: string, handler: (message: never) => void): void {
  handlers.set(channel, (handlers.get(channel) ?? new Set()).add(handler))
}

function deliver(handlers: Handlers, channel: string, message: unknown): void {
  for (const handler of handlers.get(channel) ?? []) handler(message as never)
}
