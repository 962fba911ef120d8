import { type IncomingMessage, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { type RawData, type ServerOptions, WebSocketServer } from 'ws'
import type { Activity } from '../diagnostics/activity.ts'
import { splitAddress } from '../http.ts'
import { OverLimit } from '../hub/definitions.ts'
import type { Hub } from '../hub/hub.ts'
import type { Foundation } from '../service.ts'
import { redeemTicket, type TicketHolder } from '../tickets/tickets.ts'
import {
  ClientMessage,
  closeCodes,
  goneAfterMs,
  helloWithinMs,
  maxMessageBytes,
  subprotocol,
  ticketSubprotocolPrefix,
} from './protocol.ts'
import { bearerOf, type Farewell, type Hello, ProtocolError, RuntimeSocket, Session, type Taken } from './session.ts'

/** The sockets of widgets. */
export interface Runtime {
  /** Answers refusals as HTTP, before there is a socket. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void>
  /** Sends everybody elsewhere; whoever comes from now on is told to come back later. */
  drain(): void
  /** Pings, and ends what has been silent or has expired. Runs by itself every second. */
  sweep(): void
  close(): Promise<void>
}

const sweepEveryMs = 1_000
/** How far apart those come back who are sent away at once. */
const comeBackWithinMs = 5_000

const options = {
  noServer: true,
  clientTracking: false,
  maxPayload: maxMessageBytes,
  perMessageDeflate: false,
  // For a socket whose other side does not answer a close; the types do not know it yet.
  closeTimeout: 2_000,
  WebSocket: RuntimeSocket,
  handleProtocols: () => subprotocol,
} satisfies ServerOptions<typeof RuntimeSocket> & { closeTimeout: number }

class Refused extends Error {
  readonly status: number
  readonly code: string

  constructor(status: number, code: string, message: string) {
    super(message)
    this.status = status
    this.code = code
  }
}

export async function createRuntime(foundation: Foundation, hub: Hub, activity: Activity): Promise<Runtime> {
  const { changes, clock, config, database, log, metrics } = foundation
  const server = new WebSocketServer<typeof RuntimeSocket>(options)
  const sessions = new Map<string, Session>()
  const guests = new Set<RuntimeSocket>()
  /** Tickets that are being looked at: what ends meanwhile must not slip through. */
  const arrivals = new Set<{ holder: TicketHolder; hasEnded: boolean }>()
  let isDraining = false

  const context = { clock, hub, redeem: admit, ended: (session: Session) => void sessions.delete(session.id) }

  /** Lets in whoever the ticket is for, before anything else can happen. */
  async function admit(ticket: string, letIn: (holder: TicketHolder) => void): Promise<void> {
    const holder = await redeemTicket(foundation, ticket)
    if (!holder) throw new Refused(401, 'INVALID_TICKET', 'The ticket is unknown, used or expired')
    const arrival = { holder, hasEnded: false }
    arrivals.add(arrival)
    try {
      if (!(await isLive(holder)) || arrival.hasEnded) {
        throw new Refused(401, 'INVALID_TICKET', 'The key of the ticket was revoked, or its person removed')
      }
      letIn(holder)
    } finally {
      arrivals.delete(arrival)
    }
  }

  async function isLive({ organization_id, publishable_key_id, end_user }: TicketHolder): Promise<boolean> {
    const endUserId = end_user?.id ?? null
    const [row] = await database.asOrg(
      organization_id,
      (sql) => sql<{ is_live: boolean }>`
        select exists (select from publishable_keys where id = ${publishable_key_id} and revoked_at is null)
           and (${endUserId}::uuid is null or exists (select from end_users where id = ${endUserId})) as is_live`,
    )
    return row?.is_live ?? false
  }

  function requireRunning(): void {
    if (isDraining) throw new Refused(503, 'SERVICE_UNAVAILABLE', restarting.reason)
  }

  /** A browser says where a socket comes from: the page that the ticket was for, or our own frame in it. */
  function checkOrigin(holder: TicketHolder, { headers: { origin } }: IncomingMessage): void {
    if (origin === holder.origin || origin === config.publicUrl) return
    const seen = origin?.slice(0, 300)
    activity.refused(holder.organization_id, {
      surface: 'ticket',
      step: 'socket_origin',
      code: originNotAllowed,
      message: 'The ticket was used from another origin than it was issued for. Each page gets a ticket of its own.',
      expected: holder.origin ?? 'no origin',
      seen: seen ?? 'no origin',
      origin: seen,
      publishable_key_id: holder.publishable_key_id,
    })
    throw new Refused(403, originNotAllowed, 'The ticket is for another origin')
  }

  function welcome(socket: RuntimeSocket, holder: TicketHolder): void {
    socket.guest = { holder, since: clock() }
    guests.add(socket)
    socket.on('message', onMessage)
    socket.on('pong', onPong)
    socket.on('close', onClose)
    socket.on('error', onFault)
  }

  function onMessage(this: unknown, data: RawData, isBinary: boolean): void {
    const socket = this as RuntimeSocket
    try {
      if (isBinary) throw new ProtocolError('Messages are text')
      receive(socket, readMessage(data))
    } catch (error) {
      fail(socket, error)
    }
  }

  function receive(socket: RuntimeSocket, message: ClientMessage): void {
    const { guest, session } = socket
    if (session) {
      session.seen()
      session.receive(message)
    } else if (guest && message.type === 'hello') {
      socket.guest = undefined
      guests.delete(socket)
      greet(socket, guest.holder, message)
    } else if (socket.readyState === RuntimeSocket.OPEN) {
      throw new ProtocolError(guest ? 'The first message is hello' : 'ready has not been sent yet')
    }
  }

  /** A page that comes back goes on with its session, here or from another node; any other begins one. */
  function greet(socket: RuntimeSocket, holder: TicketHolder, hello: Hello): void {
    const claim = { session: '', secret: '', ...hello.resume, bearer: bearerOf(holder) }
    const here = sessions.get(claim.session)
    const [node] = claim.secret.split('.')
    if (here?.isFor(claim)) {
      here.renew(holder)
      here.attach(socket, true)
    } else if (!node || here || node === hub.switchboard.self) begin(socket, holder, hello)
    else
      hub.switchboard
        .claim(node, claim)
        .then((handover) => begin(socket, holder, hello, handover && { id: claim.session, handover }))
        .catch((error) => fail(socket, error))
  }

  function begin(socket: RuntimeSocket, holder: TicketHolder, hello: Hello, taken?: Taken): void {
    const session = new Session(context, holder, hello, taken)
    sessions.set(session.id, session)
    if (socket.readyState === RuntimeSocket.OPEN) session.attach(socket, taken !== undefined)
  }

  function fail(socket: RuntimeSocket, error: unknown): void {
    const farewell = describe(error)
    if (farewell.code === 'internal_error') log.error({ err: error }, 'a message on a socket could not be dealt with')
    metrics.countRefusal('runtime', farewell.code)
    if (socket.session) socket.session.end(farewell)
    else socket.endWith(farewell)
  }

  function onPong(this: unknown): void {
    ;(this as RuntimeSocket).session?.seen()
  }

  /** The library has closed the socket for its frames; such a page is not waited for. */
  function onFault(this: unknown): void {
    ;(this as RuntimeSocket).session?.leave()
  }

  function onClose(this: unknown, code: number): void {
    const socket = this as RuntimeSocket
    guests.delete(socket)
    const { session } = socket
    socket.session = undefined
    if (code === closeCodes.normal || code === closeCodes.goingAway) session?.leave()
    else session?.dropped()
  }

  function sweep(): void {
    const now = clock()
    for (const session of sessions.values()) session.sweep(now)
    for (const socket of guests) {
      if (now - (socket.guest?.since ?? 0) < helloWithinMs) continue
      fail(socket, new ProtocolError(`hello is expected within ${helloWithinMs / 1000} s`))
    }
  }

  const withKey = (id: string) => (holder: TicketHolder) => holder.publishable_key_id === id

  function endWhere(matches: (holder: TicketHolder) => boolean, farewell: Farewell): void {
    for (const arrival of arrivals) if (matches(arrival.holder)) arrival.hasEnded = true
    for (const socket of guests) if (socket.guest && matches(socket.guest.holder)) socket.endWith(farewell)
    for (const session of sessions.values()) if (matches(session.holder)) session.end(farewell)
  }

  /** The ticket exchange finds out who may stay. */
  function demandTickets(matches: (holder: TicketHolder) => boolean): void {
    for (const session of sessions.values()) if (matches(session.holder)) session.demandTicket()
  }

  function* holders(): Iterable<TicketHolder> {
    for (const { holder } of sessions.values()) yield holder
    for (const { guest } of guests) if (guest) yield guest.holder
    for (const { holder } of arrivals) yield holder
  }

  async function keyChanged(id: string): Promise<void> {
    const one = [...holders()].find(withKey(id))
    if (!one) return
    if (await isLive({ ...one, end_user: undefined })) demandTickets(withKey(id))
    else endWhere(withKey(id), { code: 'key_revoked', reason: 'The publishable key was revoked' })
  }

  const endWatch = changes.watch({
    changed(topic) {
      const [kind, id = ''] = topic.split(':')
      if (kind === 'key')
        keyChanged(id).catch((error) => {
          log.error({ err: error }, 'a changed key could not be looked up')
          demandTickets(withKey(id))
        })
      else if (kind === 'end-user')
        endWhere(({ end_user }) => end_user?.id === id, { code: 'user_removed', reason: 'The person was removed' })
      else if (kind === 'provider') demandTickets(({ organization_id }) => organization_id === id)
    },
    missed: () => undefined,
  })

  metrics.countSockets(() => sessions.size + guests.size)
  const timer = setInterval(() => {
    try {
      sweep()
    } catch (error) {
      // One page that cannot be dealt with must not end the server.
      log.error({ err: error }, 'the sockets could not be looked after')
    }
  }, sweepEveryMs)
  timer.unref()

  function refuse(socket: Duplex, error: unknown): void {
    if (!(error instanceof Refused)) log.error({ err: error }, 'a socket could not be opened')
    const { status, code, message } = error instanceof Refused ? error : unavailable
    // What is kept is counted there.
    if (code !== originNotAllowed) metrics.countRefusal('runtime', code)
    const headers = [
      `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
      'Connection: close',
      'Content-Type: text/plain; charset=utf-8',
      `Content-Length: ${Buffer.byteLength(message)}`,
      ...(status === 503 ? ['Retry-After: 5'] : []),
    ]
    socket.end([...headers, '', message].join('\r\n'))
  }

  return {
    async upgrade(request, socket, head) {
      socket.on('error', ignore)
      try {
        if (splitAddress(request.url ?? '').path !== '/runtime') throw new Refused(404, 'NOT_FOUND', 'Not found')
        requireRunning()
        await admit(readTicket(request), (holder) => {
          requireRunning()
          checkOrigin(holder, request)
          server.handleUpgrade(request, socket, head, (opened) => welcome(opened, holder))
        })
      } catch (error) {
        refuse(socket, error)
      }
    },
    sweep,
    drain() {
      isDraining = true
      const farewell = () => ({ ...restarting, retryAfterMs: Math.floor(Math.random() * comeBackWithinMs) })
      for (const session of sessions.values()) session.sendAway(farewell())
      for (const socket of guests) socket.endWith(farewell())
    },
    async close() {
      clearInterval(timer)
      for (const session of sessions.values()) session.leave()
      for (const socket of guests) socket.terminate()
      endWatch()
    },
  }
}

const originNotAllowed = 'ORIGIN_NOT_ALLOWED'

const restarting = { code: 'restarting', reason: 'The server is restarting' } as const

/** Without its store a ticket is as good as none. */
const unavailable = { status: 503, code: 'SERVICE_UNAVAILABLE', message: 'The ticket cannot be looked up now' }

const ignore = () => undefined

/** It travels in the list of subprotocols because pages can set no header, and addresses end in logs. */
function readTicket({ headers }: IncomingMessage): string {
  const offered = (headers['sec-websocket-protocol'] ?? '').split(',').map((name) => name.trim())
  if (!offered.includes(subprotocol)) throw new Refused(400, 'UNKNOWN_PROTOCOL', `The subprotocol is ${subprotocol}`)
  const ticket = offered.find((name) => name.startsWith(ticketSubprotocolPrefix))
  if (!ticket) throw new Refused(401, 'INVALID_TICKET', 'A ticket is needed')
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
    throw new ProtocolError('A message is not JSON')
  }
}

function describe(error: unknown): Farewell {
  if (error instanceof OverLimit) return { code: 'over_limit', reason: error.message }
  if (error instanceof ProtocolError) return { code: 'protocol_error', reason: error.message }
  return { code: 'internal_error', reason: 'The message could not be dealt with', retryAfterMs: goneAfterMs }
}
