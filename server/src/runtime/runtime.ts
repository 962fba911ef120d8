import { type IncomingMessage, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import {
  ClientMessage,
  closeCodes,
  goneAfterMs,
  helloWithinMs,
  maxMessageBytes,
  subprotocol,
  ticketSubprotocolPrefix,
} from '@inlay/protocol'
import { type RawData, type ServerOptions, WebSocketServer } from 'ws'
import type { Service } from '../foundation/service.ts'
import { splitAddress } from '../http/connections.ts'
import type { Hub } from '../hub/hub.ts'
import { KeptDefinitions } from '../hub/kept-definitions.ts'
import { recheckMs } from '../stores/changes.ts'
import type { TicketHolder, Tickets } from '../tickets/signed-tickets.ts'
import { checkStanding, type Standing } from '../tickets/standing.ts'
import type { ToolCallRecorder } from '../tool-calls/recorder.ts'
import { findRecentCalls } from '../tool-calls/tool-calls.ts'
import { OverLimit } from '../untrusted/definitions.ts'
import { maxSockets, maxTabs, Places } from './places.ts'
import { bearerOf, type Farewell, type Hello, ProtocolError, RuntimeSocket, Session, type Taken } from './session.ts'

/** Handles the widgets' sockets. */
export interface Runtime {
  /** Opens a socket, or refuses it with an HTTP response. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void>
  /** Closes all sockets so that their pages reconnect, and refuses new ones with 503. */
  drain(): void
  /** Pings pages, and ends silent and expired sessions. Runs every second. */
  sweep(): void
  close(): Promise<void>
}

const sweepEveryMs = 1_000
/** Ticket holders rechecked per transaction, and concurrent transactions. */
const recheckBatch = 1_000
const recheckConcurrency = 2
/** Pages closed by a drain reconnect at random times within this period. */
const comeBackWithinMs = 5_000

const options = {
  noServer: true,
  clientTracking: false,
  maxPayload: maxMessageBytes,
  perMessageDeflate: false,
  // For clients that don't complete the close handshake. Missing in the library's types.
  closeTimeout: 2_000,
  autoPong: false,
  WebSocket: RuntimeSocket,
  handleProtocols: () => subprotocol,
} satisfies ServerOptions<typeof RuntimeSocket> & { closeTimeout: number }

class SocketRefused extends Error {
  readonly status: number
  readonly code: string

  constructor(status: number, code: string, message: string) {
    super(message)
    this.status = status
    this.code = code
  }
}

export async function createRuntime(
  service: Service,
  tickets: Tickets,
  hub: Hub,
  toolCalls: ToolCallRecorder,
): Promise<Runtime> {
  const { activity, changes, clock, config, log, metrics } = service
  const server = new WebSocketServer<typeof RuntimeSocket>(options)
  const definitions = new KeptDefinitions()
  const places = { sockets: new Places('sockets open', maxSockets), tabs: new Places('tabs open', maxTabs) }
  // Every connection is always in one of these, so that revocations and restarts reach it.
  const connecting = new Set<Duplex>()
  const arrivals = new Set<Arrival>()
  /** Sockets without a session: before hello, or while another node hands over the session. */
  const guests = new Set<RuntimeSocket>()
  const sessions = new Map<string, Session>()
  let isDraining = false

  const context = {
    clock,
    hub,
    definitions,
    async redeem(ticket: string, letIn: (holder: TicketHolder) => void) {
      await admit(ticket, letIn).catch((error) => {
        if (error instanceof SocketRefused) throw new ProtocolError(error.message)
        if (!(error instanceof ProtocolError)) log.error({ err: error }, 'Could not check a ticket')
        throw error
      })
    },
    outOfRoom: ({ holder }: Session) =>
      refuseForRoom(holder, 'definitions', 'The organization’s open pages have too many different tool definitions.'),
    ended(session: Session) {
      sessions.delete(session.id)
      places.tabs.free(session.holder)
    },
  }

  /** Admits the ticket's holder atomically: no revocation can slip in between. */
  async function admit(ticket: string, letIn: (holder: TicketHolder) => void): Promise<void> {
    const holder = await tickets.redeem(ticket)
    if (!holder) throw new SocketRefused(401, 'INVALID_TICKET', 'The ticket is unknown, used or expired')
    const arrival: Arrival = { holder, hasEnded: false }
    arrivals.add(arrival)
    try {
      const [standing = 'stands'] = await checkStanding(service, holder.organization_id, [holder])
      if (standing !== 'stands' || arrival.hasEnded)
        throw new SocketRefused(401, 'INVALID_TICKET', voidTicket[standing])
      letIn(holder)
    } finally {
      arrivals.delete(arrival)
    }
  }

  /** Records for the administrator that a limit was reached. */
  function refuseForRoom(holder: TicketHolder, step: string, message: string): void {
    const { organization_id, publishable_key_id, origin } = holder
    activity.refused(organization_id, { surface: 'ticket', step, code: overLimit, message, origin, publishable_key_id })
  }

  function requirePlace(holder: TicketHolder): void {
    const full = places.sockets.findFull(holder)
    if (!full) return
    refuseForRoom(holder, 'sockets', full)
    throw new SocketRefused(429, overLimit, full)
  }

  function requireRunning(): void {
    if (isDraining) throw new SocketRefused(503, 'SERVICE_UNAVAILABLE', restarting.reason)
  }

  /** The `Origin` header must be the ticket's origin or that of our own frame. */
  function checkOrigin(holder: TicketHolder, { headers: { origin } }: IncomingMessage): void {
    if (origin === holder.origin || origin === config.publicUrl) return
    const seen = origin?.slice(0, 300)
    activity.refused(holder.organization_id, {
      surface: 'ticket',
      step: 'socket_origin',
      code: originNotAllowed,
      message:
        'The ticket was used from another origin than the one it was issued for. Each page needs its own ticket.',
      expected: holder.origin ?? 'no origin',
      seen: seen ?? 'no origin',
      origin: seen,
      publishable_key_id: holder.publishable_key_id,
    })
    throw new SocketRefused(403, originNotAllowed, 'The ticket is for another origin')
  }

  function welcome(socket: RuntimeSocket, holder: TicketHolder, { headers }: IncomingMessage): void {
    socket.opened = { holder, at: clock(), saidHello: false, isOwnFrame: headers.origin === config.publicUrl }
    places.sockets.take(holder)
    guests.add(socket)
    socket.on('message', onMessage)
    socket.on('ping', onPing)
    socket.on('pong', onPong)
    socket.on('slow', onSlow)
    socket.on('close', onClose)
    socket.on('error', onFault)
  }

  function onMessage(this: unknown, data: RawData, isBinary: boolean): void {
    const socket = this as RuntimeSocket
    try {
      if (isBinary) throw new ProtocolError('Messages must be text')
      receive(socket, readMessage(data))
    } catch (error) {
      fail(socket, error)
    }
  }

  function receive(socket: RuntimeSocket, message: ClientMessage): void {
    const { opened, session } = socket
    if (session) {
      session.seen()
      session.receive(message)
    } else if (opened && socket.readyState === RuntimeSocket.OPEN) {
      if (opened.saidHello) throw new ProtocolError('Wait for ready before you send more messages')
      if (message.type !== 'hello') throw new ProtocolError('The first message must be hello')
      opened.saidHello = true
      greet(socket, opened.holder, message)
    }
  }

  /** Resumes the page's session, from this or another node, or begins a new one. */
  function greet(socket: RuntimeSocket, holder: TicketHolder, hello: Hello): void {
    const claim = { session: '', secret: '', ...hello.resume, bearer: bearerOf(holder) }
    const here = sessions.get(claim.session)
    const [node] = claim.secret.split('.')
    if (here?.isFor(claim)) {
      here.receive({ ...hello, type: 'page' })
      guests.delete(socket)
      here.renew(holder)
      here.attach(socket, true)
    } else if (!node || here || node === hub.switchboard.self) begin(socket, holder, hello)
    else
      hub.switchboard
        .claim(node, claim)
        .then((handover) => takeOver(socket, holder, hello, handover && { id: claim.session, handover }))
        .catch((error) => fail(socket, error))
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
    const full = places.tabs.findFull(holder)
    if (full) {
      refuseForRoom(holder, 'tabs', full)
      socket.endWith({ code: 'over_limit', reason: full })
      return false
    }
    const session = new Session(context, holder, hello, taken)
    places.tabs.take(holder)
    sessions.set(session.id, session)
    guests.delete(socket)
    session.attach(socket, taken !== undefined)
    if (!taken && holder.end_user?.verified_email) tellRecentCalls(session)
    return true
  }

  let tellingCalls = Promise.resolve()
  /** Reads for one session at a time, so that a burst of connections leaves the database to other requests. */
  function tellRecentCalls(session: Session): void {
    tellingCalls = tellingCalls.then(async () => {
      if (sessions.get(session.id) !== session) return
      try {
        const calls = await findRecentCalls({ ...service, toolCalls }, session.holder)
        if (calls.length > 0) session.tellRecentCalls(calls)
      } catch (error) {
        log.warn({ err: error }, 'Could not read an end user’s recent calls')
      }
    })
  }

  function fail(socket: RuntimeSocket, error: unknown): void {
    const farewell = describe(error)
    if (farewell.code === 'internal_error') log.error({ err: error }, 'Could not handle a message on a socket')
    metrics.countRefusal('runtime', farewell.code)
    if (socket.session) socket.session.end(farewell)
    else socket.endWith(farewell)
  }

  function onPing(this: unknown, data: Buffer): void {
    const socket = this as RuntimeSocket
    socket.session?.seen()
    socket.answerPing(data)
  }

  function onSlow(this: unknown): void {
    fail(this as RuntimeSocket, new TooSlow('The client reads messages too slowly'))
  }

  function onPong(this: unknown): void {
    ;(this as RuntimeSocket).session?.seen()
  }

  /** The library closed the socket because of an invalid frame, so the session can't be resumed. */
  function onFault(this: unknown): void {
    ;(this as RuntimeSocket).session?.leave()
  }

  function onClose(this: unknown, code: number): void {
    const socket = this as RuntimeSocket
    guests.delete(socket)
    const { opened, session } = socket
    if (opened) places.sockets.free(opened.holder)
    socket.session = undefined
    if (code === closeCodes.normal || code === closeCodes.goingAway) session?.leave()
    else session?.dropped()
  }

  function sweep(): void {
    const now = clock()
    for (const session of sessions.values()) session.sweep(now)
    for (const socket of guests) {
      const { opened } = socket
      if (!opened || opened.saidHello || now - opened.at < helloWithinMs) continue
      fail(socket, new ProtocolError(`No hello within ${helloWithinMs / 1000} seconds`))
    }
    if (now - recheckedAt >= recheckMs) recheck()
  }

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

  async function keyChanged(id: string): Promise<void> {
    for (const { holder } of held()) {
      if (holder.publishable_key_id !== id) continue
      const [standing] = await checkStanding(service, holder.organization_id, [{ ...holder, end_user: undefined }])
      return judgeWhere(withKey(id), standing === 'key_revoked' ? standing : 'terms_changed')
    }
  }

  const endWatch = changes.watch({
    changed(topic) {
      const [kind, id = ''] = topic.split(':')
      if (kind === 'key')
        keyChanged(id).catch((error) => {
          log.error({ err: error }, 'Could not look up a changed key; asking its pages for new tickets')
          judgeWhere(withKey(id), 'terms_changed')
        })
      else if (kind === 'end-user') judgeWhere(({ end_user }) => end_user?.id === id, 'user_removed')
      else if (kind === 'provider') judgeWhere(({ organization_id }) => organization_id === id, 'terms_changed')
    },
    missed: recheck,
  })

  metrics.countSockets(() => sessions.size + guests.size)
  const timer = setInterval(() => {
    try {
      sweep()
    } catch (error) {
      // An error in one session must not crash the server.
      log.error({ err: error }, 'Could not check the open sockets')
    }
  }, sweepEveryMs)
  timer.unref()

  function refuse(socket: Duplex, error: unknown): void {
    // `drain` may have refused the socket already.
    if (socket.writableEnded) return
    if (!(error instanceof SocketRefused)) log.error({ err: error }, 'Could not open a socket')
    const { status, code, message } = error instanceof SocketRefused ? error : unavailable
    // `activity.refused` has already counted these two.
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

  return {
    async upgrade(request, socket, head) {
      socket.on('error', ignore)
      connecting.add(socket)
      try {
        if (splitAddress(request.url ?? '').path !== '/runtime') throw new SocketRefused(404, 'NOT_FOUND', 'Not found')
        requireRunning()
        await admit(readTicket(request), (holder) => {
          requireRunning()
          checkOrigin(holder, request)
          requirePlace(holder)
          server.handleUpgrade(request, socket, head, (opened) => welcome(opened, holder, request))
        })
      } catch (error) {
        refuse(socket, error)
      } finally {
        connecting.delete(socket)
      }
    },
    sweep,
    drain() {
      isDraining = true
      const farewell = () => ({ ...restarting, retryAfterMs: Math.floor(Math.random() * comeBackWithinMs) })
      for (const session of sessions.values()) session.sendAway(farewell())
      for (const socket of guests) socket.endWith(farewell())
      // A hanging store must not delay the shutdown.
      for (const socket of connecting) refuse(socket, new SocketRefused(503, 'SERVICE_UNAVAILABLE', restarting.reason))
    },
    async close() {
      clearInterval(timer)
      for (const session of sessions.values()) session.leave()
      for (const socket of guests) socket.terminate()
      endWatch()
    },
  }
}

/** A redeemed ticket that is being checked. */
interface Arrival {
  holder: TicketHolder
  hasEnded: boolean
}

/** A ticket holder in one of its stages: arrival, socket without a session, or session. */
interface Held {
  holder: TicketHolder
  arrival?: Arrival
  guest?: RuntimeSocket
  session?: Session
}

const originNotAllowed = 'ORIGIN_NOT_ALLOWED'
const overLimit = 'OVER_LIMIT'

const voidTicket: Record<Standing, string> = {
  stands: 'The ticket’s key or identity has just changed',
  key_revoked: 'The ticket’s publishable key was revoked',
  user_removed: 'The ticket’s end user was deleted',
  terms_changed: 'The ticket was issued for an origin or an identity provider that is no longer allowed',
}

const farewells: Record<Exclude<Standing, 'stands'>, Farewell> = {
  key_revoked: { code: 'key_revoked', reason: 'The publishable key was revoked' },
  user_removed: { code: 'user_removed', reason: 'The end user was deleted' },
  terms_changed: { code: 'identity_expired', reason: 'A new ticket is needed', retryAfterMs: 0 },
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

const restarting = { code: 'restarting', reason: 'The server is restarting' } as const

/** Response when the stores that check tickets are unavailable. */
const unavailable = {
  status: 503,
  code: 'SERVICE_UNAVAILABLE',
  message: 'The ticket can’t be checked right now. Try again later.',
}

const ignore = () => undefined

/** Sent as a subprotocol, because browsers can't set headers on a WebSocket and URLs end up in logs. */
function readTicket({ headers }: IncomingMessage): string {
  const offered = (headers['sec-websocket-protocol'] ?? '').split(',').map((name) => name.trim())
  if (!offered.includes(subprotocol))
    throw new SocketRefused(400, 'UNKNOWN_PROTOCOL', `The request must offer the subprotocol ${subprotocol}`)
  const ticket = offered.find((name) => name.startsWith(ticketSubprotocolPrefix))
  if (!ticket) throw new SocketRefused(401, 'INVALID_TICKET', 'The request has no ticket')
  return ticket.slice(ticketSubprotocolPrefix.length)
}

function readMessage(data: RawData): ClientMessage {
  const read = ClientMessage.safeParse(parse(String(data)))
  if (read.success) return read.data
  const [issue] = read.error.issues
  const problem = `${issue?.path.join('.') || 'message'}: ${issue?.message}`
  throw issue?.code === 'too_big' || issue?.code === 'too_small' ? new OverLimit(problem) : new ProtocolError(problem)
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new ProtocolError('A message is not valid JSON')
  }
}

class TooSlow extends Error {}

function describe(error: unknown): Farewell {
  if (error instanceof TooSlow) return { code: 'too_slow', reason: error.message }
  if (error instanceof OverLimit) return { code: 'over_limit', reason: error.message }
  if (error instanceof ProtocolError) return { code: 'protocol_error', reason: error.message }
  return { code: 'internal_error', reason: 'The server could not handle the message', retryAfterMs: goneAfterMs }
}
