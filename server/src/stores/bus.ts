import { connectRedis } from './kv.ts'

/** Messages between nodes: what changed, so that every node forgets what it remembered. Delivered at most once. */
export interface Bus {
  publish(channel: string, message: unknown): Promise<void>
  /** Returns once the subscription is in force. The function it returns ends it. */
  subscribe<T>(channel: string, handler: (message: T) => void): Promise<() => Promise<void>>
  close(): Promise<void>
}

type Handlers = Map<string, Set<(message: never) => void>>

export function openLocalBus(): Bus {
  const handlers: Handlers = new Map()
  return {
    publish: async (channel, message) => deliver(handlers, channel, message),
    subscribe: async (channel, handler) => {
      add(handlers, channel, handler)
      return async () => void handlers.get(channel)?.delete(handler)
    },
    close: async () => handlers.clear(),
  }
}

export function openRedisBus(url: string, prefix: string, onError?: (error: Error) => void): Bus {
  const handlers: Handlers = new Map()
  const publisher = connectRedis(url, onError)
  const subscriber = connectRedis(url, onError)
  const name = (channel: string) => `${prefix}:${channel}`
  subscriber.on('message', (channel: string, text: string) =>
    deliver(handlers, channel.slice(prefix.length + 1), JSON.parse(text)),
  )
  return {
    publish: async (channel, message) => void (await publisher.publish(name(channel), JSON.stringify(message))),
    async subscribe(channel, handler) {
      if (add(handlers, channel, handler) === 1) await subscriber.subscribe(name(channel))
      return async () => {
        const rest = handlers.get(channel)
        rest?.delete(handler)
        if (rest?.size === 0) await subscriber.unsubscribe(name(channel))
      }
    },
    close: async () => {
      await Promise.all([publisher, subscriber].map((redis) => redis.quit().catch(() => redis.disconnect())))
    },
  }
}

function add(handlers: Handlers, channel: string, handler: (message: never) => void): number {
  const known = handlers.get(channel) ?? new Set()
  handlers.set(channel, known.add(handler))
  return known.size
}

function deliver(handlers: Handlers, channel: string, message: unknown): void {
  for (const handler of handlers.get(channel) ?? []) handler(message as never)
}
