import type { Outgoing } from './kept.ts'
import type { Entry, UserEntry } from './state.ts'

/*
 * Where a message of the user is. It's in the outbox of this tab until the server has accepted it, and the outbox
 * survives a reload. Afterwards, the server knows best: each list of messages that it sends replaces what is here.
 *
 *   event                   waiting      sending     refused      queued        delivered
 *   ─────────────────────   ──────────   ─────────   ──────────   ───────────   ───────────
 *   connected               sending      ·           ·            ·             ·
 *   connection lost         ·            waiting     ·            ·             ·
 *   accepted                             delivered
 *   accepted during a run                queued
 *   refused                              refused
 *   sent again                                       sending
 *   edited                  a new one                a new one    not allowed   a new one
 *   the run reads it                                              in the run
 *   stopped                 ·            ·           ·            ·             ·
 *   the run ends            ·            ·           ·            listed        ·
 *   reloaded                waiting      waiting     refused      listed        listed
 *
 *   ·        nothing changes
 *   listed   as the server's list says: queued, delivered, or in a run
 *   (empty)  can't happen
 *
 * Messages in the outbox are in the order in which they're sent, one at a time: `sending` only says that there is a
 * connection. While offline, a message that is sent again or edited waits. `session.test.ts` tests this table.
 */

type Delivery = UserEntry['delivery']

export const deliveryInOutbox = ({ isRefused }: Outgoing, isConnected: boolean): Delivery =>
  isRefused ? 'refused' : isConnected ? 'sending' : 'waiting'

export const deliveryOnServer = (isQueued: boolean): Delivery => (isQueued ? 'queued' : 'delivered')

/** Whether the server doesn't have the message yet, as far as is known. */
export const isUnsent = (entry: Entry): boolean =>
  entry.role === 'user' && entry.delivery !== 'queued' && entry.delivery !== 'delivered'
