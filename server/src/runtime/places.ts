import type { TicketHolder } from '../tickets/signed-tickets.ts'

/**
 * How many tabs one node holds. A visitor is somebody who is not signed in: anybody who reads a page's source has its
 * key, so visitors leave room in their organization for its signed-in users.
 */
export const maxTabs = { user: 50, visitors: 20_000, organization: 30_000, node: 50_000 }

/** A tab that comes back opens its next socket before the server notices that the last one is dead. */
export const maxSockets = {
  user: 2 * maxTabs.user,
  visitors: 2 * maxTabs.visitors,
  organization: 2 * maxTabs.organization,
  node: 2 * maxTabs.node,
}

type Limits = typeof maxTabs

/** Counts what each user, key and organization holds, and says when a limit is reached. */
export class Places {
  readonly #limits: Limits
  readonly #noun: string
  readonly #taken = new Map<string, number>()

  constructor(noun: string, limits: Limits) {
    this.#noun = noun
    this.#limits = limits
  }

  /** Undefined when there is room, otherwise a sentence that names the limit. */
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
        : { limit: 'visitors' as const, key: `key ${publishable_key_id}`, whose: 'This key, without a sign-in,' },
      { limit: 'organization' as const, key: `organization ${organization_id}`, whose: 'The organization' },
      { limit: 'node' as const, key: 'node', whose: 'Inlay' },
    ]
  }
}
