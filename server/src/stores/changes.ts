import type { Log } from '../lib/log.ts'
import type { Bus } from './bus.ts'

/**
 * Tells every node what has changed, so that nothing cached or held open outlives the access it was granted under. A
 * message may be lost: watchers also bound the age of what they keep (`recheckMs`), and start over when `missed` says so.
 */
export interface Changes {
  /**
   * Call it after the commit. It takes effect on this node before it returns, and never fails: the change is already
   * stored, so a message that could not be sent is sent again.
   */
  announce(...topics: string[]): void
  /** Returns a function that ends the watch. */
  watch(watcher: Watcher): () => void
  close(): Promise<void>
}

interface Watcher {
  changed(topic: string): void
  /** Messages may have been lost: anything may have changed. */
  missed(): void
}

/** Upper bound for how long a node relies on a fact without reading it from the database again. */
export const recheckMs = 30_000

/** What can change, as `<kind>:<id>`. */
export const topics = {
  /** A user's profile, memberships or sessions. */
  user: (id: string) => `user:${id}`,
  /** An access token was revoked; see `AccessToken.id`. */
  token: (id: string) => `token:${id}`,
  /** A browser session of the authorization server ended. */
  session: (uid: string) => `session:${uid}`,
  /** An authorization, and with it every token that came from it. */
  grant: (id: string) => `grant:${id}`,
  key: (id: string) => `key:${id}`,
  /** An organization's identity provider or allowed domains. */
  provider: (organizationId: string) => `provider:${organizationId}`,
  endUser: (id: string) => `end-user:${id}`,
  connectors: (organizationId: string) => `connectors:${organizationId}`,
  governance: (organizationId: string) => `governance:${organizationId}`,
  toolCallSettings: (organizationId: string) => `tool-call-settings:${organizationId}`,
}

const channel = 'changes'
const resendAfterMs = 1_000
/** Beyond so many unsent topics the other nodes are told that they missed something. */
const mostUnsent = 1_000

type Message = { topics: string[] } | { missed: true }

/** `bus` carries nothing else: a large message on the same connection would delay or disconnect this one. */
export async function openChanges(bus: Bus, log: Log): Promise<Changes> {
  const watchers = new Set<Watcher>()
  let unsent = new Set<string>()
  let hasUnsentTooMany = false
  let resend: NodeJS.Timeout | undefined

  function tell(message: Message): void {
    for (const watcher of watchers) {
      try {
        if ('missed' in message) watcher.missed()
        else for (const topic of message.topics) watcher.changed(topic)
      } catch (error) {
        log.error({ err: error }, 'a watcher failed to handle a change')
      }
    }
  }

  async function send(message: Message): Promise<void> {
    try {
      await bus.publish(channel, message)
    } catch (error) {
      log.warn({ err: error }, 'a change could not be announced to the other nodes and will be sent again')
      if ('missed' in message || unsent.size + message.topics.length > mostUnsent) {
        hasUnsentTooMany = true
        unsent = new Set()
      } else for (const topic of message.topics) unsent.add(topic)
      resend ??= setTimeout(sendAgain, resendAfterMs).unref()
    }
  }

  function sendAgain(): void {
    resend = undefined
    const message: Message = hasUnsentTooMany ? { missed: true } : { topics: [...unsent] }
    unsent = new Set()
    hasUnsentTooMany = false
    void send(message)
  }

  await bus.subscribe<Message>(channel, tell)
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
