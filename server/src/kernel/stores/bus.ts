/**
 * Messages between nodes, delivered at most once: a node whose connection breaks misses the messages sent meanwhile.
 * Nodes of two versions may run side by side during an upgrade, so a message that changes its meaning needs a new channel.
 */
export interface Bus {
  /**
   * Delivers to this node synchronously, before it returns the promise. Resolves with the number of nodes that subscribe
   * to the channel, including this one.
   */
  publish(channel: string, message: unknown): Promise<number>
  /** Resolves once the subscription is active, with a function that ends it and doesn't fail. */
  subscribe<T>(channel: string, handler: (message: T) => void): Promise<() => Promise<void>>
  /** Calls the handler after every reconnect, once the subscriptions are active again. */
  onMissed(handler: () => void): void
  close(): Promise<void>
}

export type Handlers = Map<string, Set<(message: never) => void>>

export function openLocalBus(): Bus {
  const handlers: Handlers = new Map()
  return {
    async publish(channel, message) {
      deliver(handlers, channel, message)
      return handlers.get(channel)?.size ? 1 : 0
    },
    subscribe: async (channel, handler) => {
      addHandler(handlers, channel, handler)
      return async () => void handlers.get(channel)?.delete(handler)
    },
    onMissed: () => undefined, // Messages within one process are never lost.
    close: async () => handlers.clear(),
  }
}

export function addHandler(handlers: Handlers, channel: string, handler: (message: never) => void): void {
  handlers.set(channel, (handlers.get(channel) ?? new Set()).add(handler))
}

export function deliver(handlers: Handlers, channel: string, message: unknown): void {
  for (const handler of handlers.get(channel) ?? []) handler(message as never)
}
