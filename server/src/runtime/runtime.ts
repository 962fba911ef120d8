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
/** How many holders are rechecked with one transaction, and how many such transactions run at once. */
const recheckBatch = 1_000
const recheckConcurrency = 2
/** How far apart those come back who are sent away at once. */
const comeBackWithinMs = 5_000

const options = {
  noServer: true,
  clientTracking: false,
  maxPayload: maxMessageBytes,
  perMessageDeflate: false,
  // For a socket whose other side does not answer a close; the types do not know it yet.
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
  // Whoever is connected is in one of these at every moment, so that a revocation or a restart finds them.
  const connecting = new Set<Duplex>()
  const arrivals = new Set<Arrival>()
  /** Sockets without a session, because there was no hello yet or another node is asked for the session. */
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
        if (!(error instanceof ProtocolError)) log.error({ err: error }, 'a ticket could not be checked')
        throw error
      })
    },
    outOfRoom: ({ holder }: Session) =>
      refuseForRoom(holder, 'definitions', 'Pages of the organization have too many different tool definitions open.'),
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

  /** Tells the administrator that a limit was reached. */
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
      if (isBinary) throw new ProtocolError('Messages are text')
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
      if (opened.saidHello) throw new ProtocolError('ready has not been sent yet')
      if (message.type !== 'hello') throw new ProtocolError('The first message is hello')
      opened.saidHello = true
      greet(socket, opened.holder, message)
    }
  }

  /** A page that comes back goes on with its session, here or from another node; any other begins one. */
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

  /** The other node has given the session up, so if it can't begin here it ends, and its callers are told. */
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
  /** One session after the other: when very many come at once, other requests need the database too. */
  function tellRecentCalls(session: Session): void {
    tellingCalls = tellingCalls.then(async () => {
      if (sessions.get(session.id) !== session) return
      try {
        const calls = await findRecentCalls({ ...service, toolCalls }, session.holder)
        if (calls.length > 0) session.tellRecentCalls(calls)
      } catch (error) {
        log.warn({ err: error }, 'the recent calls of a user could not be read')
      }
    })
  }

  function fail(socket: RuntimeSocket, error: unknown): void {
    const farewell = describe(error)
    if (farewell.code === 'internal_error') log.error({ err: error }, 'a message on a socket could not be dealt with')
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
    fail(this as RuntimeSocket, new TooSlow('Messages are read too slowly'))
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
      fail(socket, new ProtocolError(`hello is expected within ${helloWithinMs / 1000} s`))
    }
    if (now - recheckedAt >= recheckMs) recheck()
  }

  let recheckedAt = clock()
  let isRecheckDue = false
  let isRechecking = false

  /** Checks all that is held against the database, since messages about changes may have been lost. */
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
      // Nobody is sent away for it: the next round checks them again, and their sessions expire as always.
      log.warn({ err: error }, 'the holders of tickets could not be rechecked')
    }
  }

  function judge({ holder, arrival, guest, session }: Held, standing: Standing): void {
    if (standing === 'stands') return
    if (arrival) arrival.hasEnded = true
    if (guest && guests.has(guest)) guest.endWith(farewells[standing])
    // A ticket that came meanwhile was checked by itself.
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

  /** `terms_changed` asks sessions for a ticket: the ticket exchange decides who may stay. */
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
          log.error({ err: error }, 'a changed key could not be looked up')
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
      // One page that cannot be dealt with must not end the server.
      log.error({ err: error }, 'the sockets could not be looked after')
    }
  }, sweepEveryMs)
  timer.unref()

  function refuse(socket: Duplex, error: unknown): void {
    // A socket that waited while the server began to stop has been refused already.
    if (socket.writableEnded) return
    if (!(error instanceof SocketRefused)) log.error({ err: error }, 'a socket could not be opened')
    const { status, code, message } = error instanceof SocketRefused ? error : unavailable
    // Refusals that the administrator is told of are counted there.
    if (code !== originNotAllowed && code !== overLimit) metrics.countRefusal('runtime', code)
    const headers = [
      `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
      'Connection: close',
      'Content-Type: text/plain; charset=utf-8',
      `Content-Length: ${Buffer.byteLength(message)}`,
      ...(status === 503 || status === 429 ? ['Retry-After: 5'] : []),
    ]
    // Without waiting for the other side, which might never close its end.
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
      // A store that hangs must not hold up the stop.
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

/** One of those that hold a ticket's rights. */
interface Held {
  holder: TicketHolder
  arrival?: Arrival
  guest?: RuntimeSocket
  session?: Session
}

const originNotAllowed = 'ORIGIN_NOT_ALLOWED'
const overLimit = 'OVER_LIMIT'

const voidTicket: Record<Standing, string> = {
  stands: 'What the ticket was issued for has just changed',
  key_revoked: 'The key of the ticket was revoked',
  user_removed: 'The user of the ticket was removed',
  terms_changed: 'The ticket was issued for an origin or an identity provider that is no longer allowed',
}

const farewells: Record<Exclude<Standing, 'stands'>, Farewell> = {
  key_revoked: { code: 'key_revoked', reason: 'The publishable key was revoked' },
  user_removed: { code: 'user_removed', reason: 'The person was removed' },
  terms_changed: { code: 'identity_expired', reason: 'A new ticket is needed', retryAfterMs: 0 },
}

/** Of one organization each. */
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

/** Without its store a ticket is as good as none. */
const unavailable = { status: 503, code: 'SERVICE_UNAVAILABLE', message: 'The ticket cannot be looked up now' }

const ignore = () => undefined

/** It travels in the list of subprotocols because pages can set no header, and addresses end in logs. */
function readTicket({ headers }: IncomingMessage): string {
  const offered = (headers['sec-websocket-protocol'] ?? '').split(',').map((name) => name.trim())
  if (!offered.includes(subprotocol))
    throw new SocketRefused(400, 'UNKNOWN_PROTOCOL', `The subprotocol is ${subprotocol}`)
  const ticket = offered.find((name) => name.startsWith(ticketSubprotocolPrefix))
  if (!ticket) throw new SocketRefused(401, 'INVALID_TICKET', 'A ticket is needed')
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

class TooSlow extends Error {}

function describe(error: unknown): Farewell {
  if (error instanceof TooSlow) return { code: 'too_slow', reason: error.message }
  if (error instanceof OverLimit) return { code: 'over_limit', reason: error.message }
  if (error instanceof ProtocolError) return { code: 'protocol_error', reason: error.message }
  return { code: 'internal_error', reason: 'The message could not be dealt with', retryAfterMs: goneAfterMs }
}
