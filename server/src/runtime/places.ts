import type { TicketHolder } from '../tickets/signed-tickets.ts'

/**
 * Maximum number of tabs on one node: per end user, per key for visitors, per organization, and in total. The visitors'
 * limit is lower than the organization's, so that a public key can't use up the room of signed-in end users.
 */
export const maxTabs = { user: 50, visitors: 20_000, organization: 30_000, node: 50_000 }

/** Twice as many, because a tab may reconnect before the server notices that its previous socket is dead. */
export const maxSockets = {
  user: 2 * maxTabs.user,
  visitors: 2 * maxTabs.visitors,
  organization: 2 * maxTabs.organization,
  node: 2 * maxTabs.node,
}

type Limits = typeof maxTabs

/** Counts tabs or sockets per end user, key and organization, and reports when a limit is reached. */
export class Places {
  readonly #limits: Limits
  readonly #noun: string
  readonly #taken = new Map<string, number>()

  constructor(noun: string, limits: Limits) {
    this.#noun = noun
    this.#limits = limits
  }

  /** Undefined if there is room, otherwise a message that names the limit. */
  findFull(holder: TicketHolder): string | undefined {
    for (const { key, limit, whose } of this.#countersOf(holder)) {
      const most = this.#limits[limit]
      if ((this.#taken.get(key) ?? 0) >= most) return `${whose} already has ${most} ${this.#noun} on this server`
    }
    return undefined
  }

  take(holder: TicketHolder): void {
    for (const { key } of this.#countersOf(holder)) this.#taken.set(key, (this.#taken.get(key) ?? 0) + 1)
  }

  free(holder: TicketHolder): void {
    for (const { key } of this.#countersOf(holder)) {
      const rest = (this.#taken.get(key) ?? 0) - 1
      if (rest > 0) this.#taken.set(key, rest)
      else this.#taken.delete(key)
    }
  }

  #countersOf({ end_user, publishable_key_id, organization_id }: TicketHolder) {
    return [
      end_user
        ? { limit: 'user' as const, key: `user ${end_user.id}`, whose: 'This user' }
        : { limit: 'visitors' as const, key: `key ${publishable_key_id}`, whose: 'This key, counting only visitors,' },
      { limit: 'organization' as const, key: `organization ${organization_id}`, whose: 'The organization' },
      { limit: 'node' as const, key: 'node', whose: 'Inlay' },
    ]
  }
}
