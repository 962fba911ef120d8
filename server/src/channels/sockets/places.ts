import type { TicketHolder } from '../../visitors/tickets/signed-tickets.ts'

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

const limits = { tabs: maxTabs, sockets: maxSockets }

/** Complete sentences, for the closed page and for the administrator. */
const fullMessages = {
  tabs: {
    user: `This user already has ${maxTabs.user} tabs open on this server`,
    visitors: `Visitors with this key already have ${maxTabs.visitors} tabs open on this server`,
    organization: `This organization already has ${maxTabs.organization} tabs open on this server`,
    node: `This Inlay server already has ${maxTabs.node} tabs open`,
  },
  sockets: {
    user: `This user already has ${maxSockets.user} sockets open on this server`,
    visitors: `Visitors with this key already have ${maxSockets.visitors} sockets open on this server`,
    organization: `This organization already has ${maxSockets.organization} sockets open on this server`,
    node: `This Inlay server already has ${maxSockets.node} sockets open`,
  },
}

/** Counts tabs or sockets per end user, key and organization, and reports when a limit is reached. */
export class Places {
  readonly #kind: 'tabs' | 'sockets'
  readonly #taken = new Map<string, number>()

  constructor(kind: 'tabs' | 'sockets') {
    this.#kind = kind
  }

  /** Undefined if there is room, otherwise a message that names the limit. */
  findFull(holder: TicketHolder): string | undefined {
    for (const { key, limit } of countersOf(holder)) {
      if ((this.#taken.get(key) ?? 0) >= limits[this.#kind][limit]) return fullMessages[this.#kind][limit]
    }
    return undefined
  }

  take(holder: TicketHolder): void {
    for (const { key } of countersOf(holder)) this.#taken.set(key, (this.#taken.get(key) ?? 0) + 1)
  }

  free(holder: TicketHolder): void {
    for (const { key } of countersOf(holder)) {
      const rest = (this.#taken.get(key) ?? 0) - 1
      if (rest > 0) this.#taken.set(key, rest)
      else this.#taken.delete(key)
    }
  }
}

const countersOf = ({ end_user, publishable_key_id, organization_id }: TicketHolder) => [
  end_user
    ? { limit: 'user' as const, key: `user ${end_user.id}` }
    : { limit: 'visitors' as const, key: `key ${publishable_key_id}` },
  { limit: 'organization' as const, key: `organization ${organization_id}` },
  { limit: 'node' as const, key: 'node' },
]
