import { QueueFull, Turns } from '../../lib/shares/fair-queue.ts'

export const defaultConnections = 10

const visitors = ' visitors'

/** The lane of an organization's anonymous visitors. */
export const visitorsOf = (organizationId: string): string => organizationId + visitors

/**
 * How many of the connections a lane can have at the same time. Neither an organization nor all visitors can have all of
 * them, because their transactions may wait for locks that they hold themselves.
 */
function sharesOf(connections: number) {
  return {
    lane: Math.max(1, Math.floor(connections * 0.7)),
    visitorsOfOrganization: Math.max(1, Math.floor(connections * 0.2)),
    visitors: Math.max(1, Math.floor(connections * 0.5)),
  }
}

/** Hands out the right to use a connection, in turns of organizations, of their visitors, and of the service's tasks. */
export class ConnectionTurns {
  readonly #all: Turns
  /** Visitors need a place here first. */
  readonly #visitors: Turns

  constructor(connections: number, waiting: number) {
    const shares = sharesOf(connections)
    this.#all = new Turns({ atATime: connections, perLane: shares.lane, waiting })
    this.#visitors = new Turns({ atATime: shares.visitors, perLane: shares.visitorsOfOrganization, waiting })
  }

  /** Returns undefined if the lane has a turn now. */
  enter(lane: string): Promise<void> | undefined {
    if (!lane.endsWith(visitors)) return this.#all.enter(lane)
    const turn = this.#visitors.enter(lane)
    return turn ? this.#follow(turn, lane) : this.#enterAsVisitor(lane)
  }

  leave(lane: string): void {
    this.#all.leave(lane)
    if (lane.endsWith(visitors)) this.#visitors.leave(lane)
  }

  refuseOlder(since: number): void {
    const error = new QueueFull('The transaction has waited too long for a connection')
    this.#all.refuseOlder(since, error)
    this.#visitors.refuseOlder(since, error)
  }

  async #follow(turn: Promise<void>, lane: string): Promise<void> {
    await turn
    await this.#enterAsVisitor(lane)
  }

  #enterAsVisitor(lane: string): Promise<void> | undefined {
    return this.#all.enter(lane)?.catch((error) => {
      this.#visitors.leave(lane)
      throw error
    })
  }
}
