import { newId } from '../lib/ids.ts'
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
  const self = newId()
  subscriber.on('message', (channel: string, text: string) => {
    try {
      const { from, message } = JSON.parse(text)
      if (from !== self) deliver(handlers, channel.slice(prefix.length + 1), message)
    } catch (error) {
      // Nobody waits for it here: thrown, it would end the process.
      onError?.(error as Error)
    }
  })
  return {
    async publish(channel, message) {
      // Not by way of Redis: what a request changed must hold for the next one on the same node.
      deliver(handlers, channel, message)
      await publisher.publish(name(channel), JSON.stringify({ from: self, message }))
    },
    async subscribe(channel, handler) {
      add(handlers, channel, handler)
      await subscriber.subscribe(name(channel))
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

function add(handlers: Handlers, channel: string, handler: (message: never) => void): void {
  handlers.set(channel, (handlers.get(channel) ?? new Set()).add(handler))
}

function deliver(handlers: Handlers, channel: string, message: unknown): void {
  for (const handler of handlers.get(channel) ?? []) handler(message as never)
}
