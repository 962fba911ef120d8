import type { Service } from '../foundation/service.ts'
import { parseTopic } from '../stores/bus-messages.ts'
import { recheckMs } from '../stores/changes.ts'
import type { TicketHolder } from '../tickets/signed-tickets.ts'
import { checkStanding, type Standing } from '../tickets/standing.ts'
import type { Arrival } from './admission.ts'
import type { Session } from './session.ts'
import type { Farewell, RuntimeSocket } from './socket.ts'

/** Ticket holders rechecked per transaction, and concurrent transactions. */
const recheckBatch = 1_000
const recheckConcurrency = 2

const farewells: Record<Exclude<Standing, 'stands'>, Farewell> = {
  key_revoked: { code: 'key_revoked', reason: 'The publishable key was revoked' },
  user_removed: { code: 'user_removed', reason: 'The end user was deleted' },
  member_left: { code: 'user_removed', reason: 'The member’s access has ended' },
  user_deactivated: { code: 'user_removed', reason: 'The organization’s directory has deactivated the user' },
  terms_changed: { code: 'identity_expired', reason: 'A new ticket is needed', retryAfterMs: 0 },
}

/** A ticket holder in one of its stages: arrival, socket without a session, or session. */
interface Held {
  holder: TicketHolder
  arrival?: Arrival
  guest?: RuntimeSocket
  session?: Session
}

type RevocationService = Service & {
  arrivals: Set<Arrival>
  guests: Set<RuntimeSocket>
  sessions: Map<string, Session>
}

/** Ends the access of ticket holders whose key, end user, identity provider or membership has changed. */
export function watchRevocations(service: RevocationService) {
  const { arrivals, changes, clock, guests, log, sessions } = service
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
      const batches = batchesOf(held(), recheckBatch)
      const work = async () => {
        for (let batch = batches.pop(); batch; batch = batches.pop()) await recheckTogether(batch)
      }
      await Promise.all(Array.from({ length: recheckConcurrency }, work))
    }
    isRechecking = false
  }

  async function recheckTogether(batch: Held[]): Promise<void> {
    const holders = batch.map(({ holder }) => holder)
    try {
      const standings = await checkStanding(service, holders[0]?.organization_id ?? '', holders)
      for (const [index, one] of batch.entries()) judge(one, standings[index] ?? 'stands')
    } catch (error) {
      // The sockets stay open: the next round checks them again, and their sessions still expire.
      log.warn({ err: error }, 'Could not recheck ticket holders; retrying in the next round')
    }
  }

  function judge({ holder, arrival, guest, session }: Held, standing: Standing): void {
    if (standing === 'stands') return
    if (arrival) arrival.hasEnded = true
    if (guest && guests.has(guest)) guest.endWith(farewells[standing])
    // A session that renewed its ticket in the meantime has been checked with the new one.
    if (!session || session.holder !== holder) return
    if (standing === 'terms_changed') session.demandTicket()
    else session.end(farewells[standing])
  }

  const withKey = (id: string) => (holder: TicketHolder) => holder.publishable_key_id === id

  function* held(): Iterable<Held> {
    for (const arrival of arrivals) yield { holder: arrival.holder, arrival }
    for (const guest of guests) if (guest.opened) yield { holder: guest.opened.holder, guest }
    for (const session of sessions.values()) yield { holder: session.holder, session }
  }

  /** `terms_changed` asks sessions for a new ticket, so that the ticket exchange decides whether they may stay. */
  function judgeWhere(matches: (holder: TicketHolder) => boolean, standing: Standing): void {
    for (const one of held()) if (matches(one.holder)) judge(one, standing)
  }

  /** For changes that may or may not concern the holders. */
  function recheckWhere(matches: (holder: TicketHolder) => boolean): void {
    const matching = [...held()].filter(({ holder }) => matches(holder))
    for (const batch of batchesOf(matching, recheckBatch)) void recheckTogether(batch)
  }

  async function keyChanged(id: string): Promise<void> {
    for (const { holder } of held()) {
      if (holder.publishable_key_id !== id) continue
      const [standing] = await checkStanding(service, holder.organization_id, [{ ...holder, end_user: undefined }])
      return judgeWhere(withKey(id), standing === 'key_revoked' ? standing : 'terms_changed')
    }
  }

  const ofEndUser = (id: string) => (holder: TicketHolder) => holder.end_user?.id === id

  /** The tickets of one end user can have different verified addresses. */
  async function endUserChanged(id: string): Promise<void> {
    const holders = [...held()].map(({ holder }) => holder).filter(ofEndUser(id))
    const [first] = holders
    if (!first) return
    const standings = await checkStanding(service, first.organization_id, holders)
    const standingOf = new Map(holders.map((holder, index) => [holder, standings[index]]))
    // An arrival may have become a session in the meantime.
    for (const one of held()) judge(one, standingOf.get(one.holder) ?? 'stands')
  }

  const stop = changes.watch({
    changed(topic) {
      const [kind, id] = parseTopic(topic)
      if (kind === 'key')
        keyChanged(id).catch((error) => {
          log.error({ err: error }, 'Could not look up a changed key; asking its pages for new tickets')
          judgeWhere(withKey(id), 'terms_changed')
        })
      else if (kind === 'end-user')
        endUserChanged(id).catch((error) => {
          log.error({ err: error }, 'Could not look up a changed end user; ending their sessions')
          judgeWhere(ofEndUser(id), 'user_removed')
        })
      else if (kind === 'user') recheckWhere(({ end_user }) => end_user?.previewer?.user_id === id)
      else if (kind === 'grant') judgeWhere(({ end_user }) => end_user?.previewer?.grant_id === id, 'member_left')
      else if (kind === 'session')
        judgeWhere(({ end_user }) => end_user?.previewer?.sign_in?.session === id, 'member_left')
      else if (kind === 'identity-provider')
        judgeWhere(({ organization_id }) => organization_id === id, 'terms_changed')
    },
    missed: recheck,
  })

  return {
    stop,
    /** Changes that no message has announced take effect this way. */
    recheckIfDue(now: number): void {
      if (now - recheckedAt >= recheckMs) recheck()
    },
  }
}

/** Each batch belongs to one organization. */
function batchesOf(all: Iterable<Held>, size: number): Held[][] {
  const batches: Held[][] = []
  const open = new Map<string, Held[]>()
  for (const one of all) {
    const { organization_id } = one.holder
    let batch = open.get(organization_id)
    if (!batch || batch.length === size) {
      batch = []
      open.set(organization_id, batch)
      batches.push(batch)
    }
    batch.push(one)
  }
  return batches
}
