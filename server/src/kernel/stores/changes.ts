import type { Log } from '../lib/log.ts'
import type { Bus } from './bus.ts'
import { type ChangeMessage, changesChannel } from './topics.ts'

/**
 * Notifies every node of changes, so that no cached value or open connection outlives the access it was granted under.
 * Messages can be lost, so watchers also limit the age of what they keep (`recheckMs`) and drop everything on `missed`.
 */
export interface Changes {
  /**
   * Call it after the commit. It takes effect on this node before it returns. It never fails, because the change is
   * already committed; if a message can't be sent, it is retried.
   */
  announce(...topics: string[]): void
  /** Returns a function that ends the watch. */
  watch(watcher: Watcher): () => void
  close(): Promise<void>
}

interface Watcher {
  changed(topic: string): void
  /** Called when messages may have been lost, so anything may have changed. */
  missed(): void
}

/** Maximum age of a cached value before a node reads it from the database again. */
export const recheckMs = 30_000

/** Finds what depends on a topic without looking at anything else. */
export class TopicIndex<T> {
  readonly #dependents = new Map<string, Set<T>>()

  add(dependent: T, topics: readonly string[]): void {
    for (const topic of topics) this.#dependents.getOrInsertComputed(topic, () => new Set()).add(dependent)
  }

  delete(dependent: T, topics: readonly string[]): void {
    for (const topic of topics) {
      const dependents = this.#dependents.get(topic)
      if (dependents?.delete(dependent) && dependents.size === 0) this.#dependents.delete(topic)
    }
  }

  /** Returns a copy, because the caller may change the index while it goes through them. */
  of(topic: string): T[] {
    return [...(this.#dependents.get(topic) ?? [])]
  }
}

const topicsAtOnce = 500

/** Announces any number of changes, in messages of a limited size. */
export function announceAll(changes: Changes, topics: readonly string[]): void {
  for (let first = 0; first < topics.length; first += topicsAtOnce)
    changes.announce(...topics.slice(first, first + topicsAtOnce))
}

const resendAfterMs = 1_000
/** Maximum number of unsent topics. Beyond it, the other nodes are only told that they missed something. */
const mostUnsent = 1_000

/** Needs a `bus` of its own, because a large message on the same connection could delay or disconnect it. */
export async function openChanges(bus: Bus, log: Log): Promise<Changes> {
  const watchers = new Set<Watcher>()
  let unsent = new Set<string>()
  let hasUnsentTooMany = false
  let resend: NodeJS.Timeout | undefined

  function tell(message: ChangeMessage): void {
    for (const watcher of watchers) {
      try {
        if ('missed' in message) watcher.missed()
        else for (const topic of message.topics) watcher.changed(topic)
      } catch (error) {
        log.error({ err: error }, 'a watcher failed to handle a change')
      }
    }
  }

  async function send(message: ChangeMessage): Promise<void> {
    try {
      await bus.publish(changesChannel, message)
    } catch (error) {
      log.warn({ err: error }, 'could not announce a change to the other nodes; retrying')
      if ('missed' in message || unsent.size + message.topics.length > mostUnsent) {
        hasUnsentTooMany = true
        unsent = new Set()
      } else for (const topic of message.topics) unsent.add(topic)
      resend ??= setTimeout(sendAgain, resendAfterMs).unref()
    }
  }

  function sendAgain(): void {
    resend = undefined
    const message: ChangeMessage = hasUnsentTooMany ? { missed: true } : { topics: [...unsent] }
    unsent = new Set()
    hasUnsentTooMany = false
    void send(message)
  }

  await bus.subscribe<ChangeMessage>(changesChannel, tell)
  bus.onMissed(() => tell({ missed: true }))

  return {
    announce: (...changed) => void send({ topics: changed }),
    watch(watcher) {
      watchers.add(watcher)
      return () => void watchers.delete(watcher)
    },
    async close() {
      clearTimeout(resend)
      await bus.close()
    },
  }
}
