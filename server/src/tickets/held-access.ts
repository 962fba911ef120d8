import type { Service } from '../foundation/service.ts'
import { parseTopic, topics } from '../stores/bus-messages.ts'
import { recheckMs, TopicIndex } from '../stores/changes.ts'
import type { TicketHolder } from './signed-tickets.ts'
import { checkStanding, type Standing } from './standing.ts'

/** Something that stays open because a ticket was valid, such as a socket. */
export interface Held {
  /** The ticket's holder no longer may have it. After `terms_changed`, the ticket exchange decides. */
  accessEnded(why: EndOfAccess): void
}

export type EndOfAccess = Exclude<Standing, 'stands'>

/** Ends what ticket holders hold open when their key, end user, identity provider or membership changes. */
export interface HeldAccess {
  /** Replaces what the same holder held before: an arrival becomes a socket, and a socket a session. */
  hold(holder: TicketHolder, held: Held): void
  /** Does nothing if the holder holds something else by now. */
  release(holder: TicketHolder, held: Held): void
  /** Changes that no message has announced take effect this way. */
  recheckIfDue(now: number): void
  stop(): void
}

/** Ticket holders rechecked per transaction, and concurrent transactions. */
const recheckBatch = 1_000
const recheckConcurrency = 2

export function createHeldAccess(
  service: Pick<Service, 'changes' | 'clock' | 'config' | 'database' | 'log'>,
): HeldAccess {
  const { changes, clock, log } = service
  const held = new Map<TicketHolder, Held>()
  const holders = new TopicIndex<TicketHolder>()
  let recheckedAt = clock()
  let isRecheckDue = false
  let isRechecking = false

  /** Checks all ticket holders against the database, because change messages may have been lost. */
  function recheck(): void {
    recheckedAt = clock()
    isRecheckDue = true
    if (!isRechecking) void recheckWhileDue()
  }

  async function recheckWhileDue(): Promise<void> {
    isRechecking = true
    while (isRecheckDue) {
      isRecheckDue = false
      const batches = batchesOf(held.keys(), recheckBatch)
      const work = async () => {
        for (let batch = batches.pop(); batch; batch = batches.pop()) await recheckTogether(batch)
      }
      await Promise.all(Array.from({ length: recheckConcurrency }, work))
    }
    isRechecking = false
  }

  async function recheckTogether(batch: readonly TicketHolder[]): Promise<void> {
    try {
      await judgeTogether(batch)
    } catch (error) {
      // They stay open: the next round checks them again, and their tickets' identities still expire.
      log.warn({ err: error }, 'Could not recheck ticket holders; retrying in the next round')
    }
  }

  async function judgeTogether(batch: readonly TicketHolder[]): Promise<void> {
    const [first] = batch
    if (!first) return
    const standings = await checkStanding(service, first.organization_id, batch)
    for (const [index, holder] of batch.entries()) judge(holder, standings[index] ?? 'stands')
  }

  /** An arrival may have become a socket during the check. A session with a new ticket has been checked with that. */
  function judge(holder: TicketHolder, standing: Standing): void {
    if (standing !== 'stands') held.get(holder)?.accessEnded(standing)
  }

  const judgeAll = (topic: string, standing: Standing) => {
    for (const holder of holders.of(topic)) judge(holder, standing)
  }

  async function keyChanged(topic: string): Promise<void> {
    const [holder] = holders.of(topic)
    if (!holder) return
    const [standing] = await checkStanding(service, holder.organization_id, [{ ...holder, end_user: undefined }])
    judgeAll(topic, standing === 'key_revoked' ? standing : 'terms_changed')
  }

  const stop = changes.watch({
    changed(topic) {
      const [kind] = parseTopic(topic)
      if (kind === 'key')
        keyChanged(topic).catch((error) => {
          log.error({ err: error }, 'Could not look up a changed key; asking its pages for new tickets')
          judgeAll(topic, 'terms_changed')
        })
      else if (kind === 'end-user')
        // The tickets of one end user can have different verified addresses.
        judgeTogether(holders.of(topic)).catch((error) => {
          log.error({ err: error }, 'Could not look up a changed end user; ending their sessions')
          judgeAll(topic, 'user_removed')
        })
      else if (kind === 'user')
        for (const batch of batchesOf(holders.of(topic), recheckBatch)) void recheckTogether(batch)
      else if (kind === 'grant' || kind === 'session') judgeAll(topic, 'member_left')
      else if (kind === 'identity-provider') judgeAll(topic, 'terms_changed')
    },
    missed: recheck,
  })

  return {
    hold(holder, one) {
      if (!held.has(holder)) holders.add(holder, topicsOf(holder))
      held.set(holder, one)
    },
    release(holder, one) {
      if (held.get(holder) !== one) return
      held.delete(holder)
      holders.delete(holder, topicsOf(holder))
    },
    recheckIfDue(now) {
      if (now - recheckedAt >= recheckMs) recheck()
    },
    stop,
  }
}

function topicsOf({ organization_id, publishable_key_id, end_user }: TicketHolder): string[] {
  const found: string[] = [topics.key(publishable_key_id), topics.identityProvider(organization_id)]
  if (!end_user) return found
  const { id, previewer } = end_user
  found.push(topics.endUser(id))
  if (!previewer) return found
  found.push(topics.user(previewer.user_id))
  if (previewer.grant_id) found.push(topics.grant(previewer.grant_id))
  if (previewer.sign_in) found.push(topics.session(previewer.sign_in.session))
  return found
}

/** Each batch belongs to one organization. */
function batchesOf(all: Iterable<TicketHolder>, size: number): TicketHolder[][] {
  const batches: TicketHolder[][] = []
  const open = new Map<string, TicketHolder[]>()
  for (const holder of all) {
    let batch = open.get(holder.organization_id)
    if (!batch || batch.length === size) {
      batch = []
      open.set(holder.organization_id, batch)
      batches.push(batch)
    }
    batch.push(holder)
  }
  return batches
}
