import { type IncomingMessage, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { subprotocol, ticketSubprotocolPrefix } from '@inlay/protocol'
import type { Service } from '../../kernel/foundation/service.ts'
import { recordRefusal } from '../../organizations/diagnostics/refusals.ts'
import type { Held, HeldAccess } from '../../visitors/tickets/ends-of-access.ts'
import { type FrameStanding, isSameFrame } from '../../visitors/tickets/frames.ts'
import { judgeArrival } from '../../visitors/tickets/judge-holders.ts'
import type { TicketHolder, Tickets } from '../../visitors/tickets/signed-tickets.ts'
import type { Standing } from '../../visitors/tickets/standing.ts'
import type { Places } from './places.ts'

/** Thrown when a socket isn't opened, with the HTTP response. */
export class SocketRefused extends Error {
  readonly status: number
  readonly code: string

  constructor(status: number, code: string, message: string) {
    super(message)
    this.status = status
    this.code = code
  }
}

const originNotAllowed = 'ORIGIN_NOT_ALLOWED'
const overLimit = 'OVER_LIMIT'

const voidTicket: Record<Standing, string> = {
  stands: 'The ticket’s key or identity has just changed',
  key_revoked: 'The ticket’s publishable key was revoked',
  user_removed: 'The ticket’s end user was deleted',
  member_left: 'The ticket was for a member whose access has ended',
  user_deactivated: 'The organization’s directory has deactivated the ticket’s user',
  terms_changed: 'The ticket was issued for an origin or an identity provider that is no longer allowed',
}

/** Response when the stores that check tickets are unavailable. */
const unavailable = {
  status: 503,
  code: 'SERVICE_UNAVAILABLE',
  message: 'The ticket can’t be checked right now. Try again later.',
}

/** Sent as a subprotocol, because browsers can't set headers on a WebSocket and URLs end up in logs. */
export function readTicket({ headers }: IncomingMessage): string {
  const offered = (headers['sec-websocket-protocol'] ?? '').split(',').map((name) => name.trim())
  if (!offered.includes(subprotocol))
    throw new SocketRefused(400, 'UNKNOWN_PROTOCOL', `The request must offer the subprotocol ${subprotocol}`)
  const ticket = offered.find((name) => name.startsWith(ticketSubprotocolPrefix))
  if (!ticket) throw new SocketRefused(401, 'INVALID_TICKET', 'The request has no ticket')
  return ticket.slice(ticketSubprotocolPrefix.length)
}

/** Admits the ticket's holder atomically: no revocation and no confirmation can slip in between. */
export async function admit(
  service: Service & { tickets: Tickets; heldAccess: HeldAccess },
  ticket: string,
  letIn: (holder: TicketHolder, frame: FrameStanding | undefined) => void,
): Promise<void> {
  const { tickets, heldAccess } = service
  const holder = await tickets.redeem(ticket)
  if (!holder) throw new SocketRefused(401, 'INVALID_TICKET', 'The ticket is unknown, used or expired')
  let hasEnded = false
  let judged: { frame: FrameStanding | undefined } | undefined
  const arrival: Held = {
    accessEnded: () => (hasEnded = true),
    frameJudged: (frame) => (judged = { frame }),
  }
  heldAccess.hold(holder, arrival)
  try {
    const { standing, frame } = await judgeArrival(service, holder)
    if (standing !== 'stands' || hasEnded) throw new SocketRefused(401, 'INVALID_TICKET', voidTicket[standing])
    // What was found at the same time may be older or newer. The frame comes again with another ticket.
    if (judged && !isSameFrame(judged.frame, frame)) throw new SocketRefused(401, 'INVALID_TICKET', voidTicket.stands)
    letIn(holder, frame)
  } finally {
    heldAccess.release(holder, arrival)
  }
}

/** The `Origin` header must be the ticket's origin or that of our own frame. */
export function checkOrigin(service: Service, holder: TicketHolder, { headers: { origin } }: IncomingMessage): void {
  if (origin === holder.origin || origin === service.config.publicUrl) return
  const seen = origin?.slice(0, 300)
  recordRefusal(service, holder.organization_id, {
    surface: 'ticket',
    step: 'socket_origin',
    code: originNotAllowed,
    message: 'The ticket was used from another origin than the one it was issued for. Each page needs its own ticket.',
    expected: holder.origin ?? 'no origin',
    seen: seen ?? 'no origin',
    origin: seen,
    publishable_key_id: holder.publishable_key_id,
  })
  throw new SocketRefused(403, originNotAllowed, 'The ticket is for another origin')
}

/** Checks that the holder may open another socket. */
export function requirePlace(service: Service, sockets: Places, holder: TicketHolder): void {
  const full = sockets.findFull(holder)
  if (!full) return
  recordOverLimit(service, holder, 'sockets', full)
  throw new SocketRefused(429, overLimit, full)
}

/** Records for the administrator that a limit was reached. */
export function recordOverLimit(
  service: Service,
  { organization_id, publishable_key_id, origin }: TicketHolder,
  step: 'sockets' | 'tabs' | 'definitions',
  message: string,
): void {
  recordRefusal(service, organization_id, {
    surface: 'ticket',
    step,
    code: overLimit,
    message,
    origin,
    publishable_key_id,
  })
}

/** Responds to a request whose socket isn't opened. */
export function refuse({ log, metrics }: Service, socket: Duplex, error: unknown): void {
  // `drain` may have refused the socket already.
  if (socket.writableEnded) return
  if (!(error instanceof SocketRefused)) log.error({ err: error }, 'Could not open a socket')
  const { status, code, message } = error instanceof SocketRefused ? error : unavailable
  // `recordRefusal` has already counted these two.
  if (code !== originNotAllowed && code !== overLimit) metrics.countRefusal('runtime', code)
  const headers = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'Connection: close',
    'Content-Type: text/plain; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(message)}`,
    ...(status === 503 || status === 429 ? ['Retry-After: 5'] : []),
  ]
  // Doesn't wait for the client, which might never close its end.
  socket.once('finish', () => socket.destroy())
  socket.end([...headers, '', message].join('\r\n'))
}
