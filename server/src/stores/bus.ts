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

export type Handlers = Map<string, Set<(message: never) => void>>

export function openLocalBus(): Bus {
  const handlers: Handlers = new Map()
  return {
    publish: async (channel, message) => deliver(handlers, channel, message),
    subscribe: async (channel, handler) => {
      addHandler(handlers, channel, handler)
      return async () => void handlers.get(channel)?.delete(handler)
    },
    onMissed: () => undefined, // Within one process nothing is lost.
    close: async () => handlers.clear(),
  }
}

export function addHandler(handlers: Handlers, channel: string, handler: (message: never) => void): void {
  handlers.set(channel, (handlers.get(channel) ?? new Set()).add(handler))
}

export function deliver(handlers: Handlers, channel: string, message: unknown): void {
  for (const handler of handlers.get(channel) ?? []) handler(message as never)
}
