import { createConfirmRequests } from '../../accounts/confirmed-browsers/requests.ts'
import type { Runs } from '../../agent/runs/runs.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { ToolCallRecorder } from '../../tools/call-records/recorder.ts'
import { findRecentCalls } from '../../tools/call-records/tool-calls.ts'
import type { Hub } from '../../tools/hub/hub.ts'
import { KeptDefinitions } from '../../tools/hub/kept-definitions.ts'
import type { HeldAccess } from '../../visitors/tickets/ends-of-access.ts'
import type { FrameStanding } from '../../visitors/tickets/frames.ts'
import { bearerOf, type TicketHolder, type Tickets } from '../../visitors/tickets/signed-tickets.ts'
import type { Chat } from '../chat/chat.ts'
import { closeFailed, type Hello, ProtocolError } from './messages.ts'
import type { Places } from './places.ts'
import { Session, type Taken } from './session.ts'
import { createReceipts } from './session-calls.ts'
import { RuntimeSocket } from './socket.ts'
import { admit, recordOverLimit, SocketRefused } from './ticket-admission.ts'

type GreetingService = Service & {
  tickets: Tickets
  hub: Hub
  chat: Chat
  runs: Runs
  toolCalls: ToolCallRecorder
  heldAccess: HeldAccess
  guests: Set<RuntimeSocket>
  sessions: Map<string, Session>
}

/** Returns a function that gives a socket its session after hello. A new session takes one of the `tabs`. */
export function createGreeting(service: GreetingService, tabs: Places) {
  const { chat, clock, guests, heldAccess, hub, log, runs, secrets, sessions } = service

  const context = {
    clock,
    hub,
    chat,
    runs,
    heldAccess,
    definitions: new KeptDefinitions(),
    receipts: createReceipts(secrets),
    confirmRequests: createConfirmRequests(service),
    async redeem(ticket: string, letIn: (holder: TicketHolder, frame: FrameStanding | undefined) => void) {
      await admit(service, ticket, letIn).catch((error) => {
        if (error instanceof SocketRefused) throw new ProtocolError(error.message)
        if (!(error instanceof ProtocolError)) log.error({ err: error }, 'Could not check a ticket')
        throw error
      })
    },
    outOfSpace({ holder }: Session) {
      const message = 'The organization’s open pages have too many different tool definitions.'
      recordOverLimit(service, holder, 'definitions', message)
    },
    ended(session: Session) {
      sessions.delete(session.id)
      heldAccess.release(session.holder, session)
      tabs.free(session.holder)
    },
  }

  /** Resumes the page's session, from this or another node, or begins a new one. */
  function greet(socket: RuntimeSocket, holder: TicketHolder, hello: Hello): void {
    const claim = { session: '', secret: '', ...hello.resume, bearer: bearerOf(holder) }
    const here = sessions.get(claim.session)
    const [node] = claim.secret.split('.')
    if (here?.isFor(claim) && here.isAbove(socket)) {
      here.leave()
      begin(socket, holder, hello)
    } else if (here?.isFor(claim)) {
      here.receive({ ...hello, type: 'page' })
      guests.delete(socket)
      here.renew(holder)
      here.attach(socket, true)
    } else if (!node || here || node === hub.switchboard.self) begin(socket, holder, hello)
    else
      hub.switchboard
        .claim(node, claim)
        .then((handover) => takeOver(socket, holder, hello, handover && { id: claim.session, handover }))
        .catch((error) => closeFailed(service, socket, error))
  }

  /** The other node has released the session. If it can't continue here, its pending calls fail. */
  function takeOver(socket: RuntimeSocket, holder: TicketHolder, hello: Hello, taken: Taken | undefined): void {
    let hasBegun = false
    try {
      hasBegun = socket.readyState === RuntimeSocket.OPEN && begin(socket, holder, hello, taken)
    } finally {
      if (!hasBegun)
        for (const { order, replyTo } of taken?.handover.calls ?? []) hub.switchboard.left(replyTo, order.call_id)
    }
  }

  function begin(socket: RuntimeSocket, holder: TicketHolder, hello: Hello, taken?: Taken): boolean {
    const full = tabs.findFull(holder)
    if (full) {
      recordOverLimit(service, holder, 'tabs', full)
      socket.endWith({ code: 'over_limit', reason: full })
      return false
    }
    const session = new Session(context, holder, hello, taken)
    tabs.take(holder)
    sessions.set(session.id, session)
    heldAccess.hold(holder, session)
    guests.delete(socket)
    session.attach(socket, taken !== undefined)
    if (!taken && holder.end_user && session.seesOtherFrames()) tellRecentCalls(session)
    return true
  }

  let tellingCalls = Promise.resolve()
  /** Reads for one session at a time, so that a burst of connections leaves the database to other requests. */
  function tellRecentCalls(session: Session): void {
    tellingCalls = tellingCalls.then(async () => {
      if (sessions.get(session.id) !== session) return
      try {
        const calls = await findRecentCalls(service, session.holder)
        if (calls.length > 0) session.say({ type: 'calls/recent', calls })
      } catch (error) {
        log.warn({ err: error }, 'Could not read an end user’s recent calls')
      }
    })
  }

  return greet
}
