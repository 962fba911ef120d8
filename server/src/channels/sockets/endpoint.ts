import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import {
  type ClientMessage,
  closeCodes,
  goneAfterMs,
  helloWithinMs,
  maxMessageBytes,
  subprotocol,
} from '@inlay/protocol'
import { type RawData, type ServerOptions, WebSocketServer } from 'ws'
import type { Runs } from '../../agent/runs/runs.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { splitAddress } from '../../kernel/http/connections.ts'
import type { ToolCallRecorder } from '../../tools/call-records/recorder.ts'
import type { Hub } from '../../tools/hub/hub.ts'
import type { HeldAccess } from '../../visitors/tickets/ends-of-access.ts'
import type { FrameStanding } from '../../visitors/tickets/frames.ts'
import type { TicketHolder, Tickets } from '../../visitors/tickets/signed-tickets.ts'
import type { Chat } from '../chat/chat.ts'
import { createGreeting } from './greeting.ts'
import { Inbox } from './inbox.ts'
import { closeFailed, ProtocolError, readMessage, TooSlow } from './messages.ts'
import { Places } from './places.ts'
import type { Session } from './session.ts'
import { RuntimeSocket } from './socket.ts'
import { admit, checkOrigin, readTicket, refuse, requirePlace, SocketRefused } from './ticket-admission.ts'

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

const restarting = { code: 'restarting', reason: 'The server is restarting' } as const

const refusedForRestart = () => new SocketRefused(503, 'SERVICE_UNAVAILABLE', restarting.reason)

export async function createRuntime(
  service: Service,
  tickets: Tickets,
  heldAccess: HeldAccess,
  hub: Hub,
  chat: Chat,
  runs: Runs,
  toolCalls: ToolCallRecorder,
): Promise<Runtime> {
  const { clock, config, log, metrics } = service
  const server = new WebSocketServer<typeof RuntimeSocket>(options)
  const places = { sockets: new Places('sockets'), tabs: new Places('tabs') }
  // Every connection is always in one of these, so that restarts reach it.
  const connecting = new Set<Duplex>()
  /** Sockets without a session: before hello, or while another node hands over the session. */
  const guests = new Set<RuntimeSocket>()
  const sessions = new Map<string, Session>()
  let isDraining = false

  const parts = { ...service, tickets, heldAccess, hub, chat, runs, toolCalls, guests, sessions }
  const greet = createGreeting(parts, places.tabs)
  const inbox = new Inbox(handle)

  function requireRunning(): void {
    if (isDraining) throw refusedForRestart()
  }

  function welcome(
    socket: RuntimeSocket,
    holder: TicketHolder,
    frame: FrameStanding | undefined,
    request: IncomingMessage,
  ): void {
    const isFromOurOrigin = request.headers.origin === config.publicUrl
    const address = service.clientAddress(request)
    socket.opened = { holder, frame, address, at: clock(), saidHello: false, isFromOurOrigin }
    places.sockets.take(holder)
    guests.add(socket)
    heldAccess.hold(holder, socket)
    socket.on('message', onMessage)
    socket.on('ping', onPing)
    socket.on('pong', onPong)
    socket.on('slow', onSlow)
    socket.on('close', onClose)
    socket.on('error', onFault)
  }

  function onMessage(this: unknown, data: RawData, isBinary: boolean): void {
    inbox.receive(this as RuntimeSocket, data, isBinary)
  }

  /** Returns what the message has cost; see messageRates. */
  function handle(socket: RuntimeSocket, data: RawData, isBinary: boolean): number {
    try {
      if (isBinary) throw new ProtocolError('Messages must be text')
      const message = readMessage(data)
      return receive(socket, message) ? 0 : costOf(message, data)
    } catch (error) {
      closeFailed(service, socket, error)
      return 0
    }
  }

  /** Returns whether the server had asked for the message. */
  function receive(socket: RuntimeSocket, message: ClientMessage): boolean {
    const { opened, session } = socket
    if (session) {
      session.seen()
      return session.receive(message)
    }
    if (opened && socket.readyState === RuntimeSocket.OPEN) {
      if (opened.saidHello) throw new ProtocolError('Wait for ready before you send more messages')
      if (message.type !== 'hello') throw new ProtocolError('The first message must be hello')
      opened.saidHello = true
      greet(socket, opened.holder, message)
    }
    return false
  }

  function onPing(this: unknown, data: Buffer): void {
    const socket = this as RuntimeSocket
    socket.session?.seen()
    socket.answerPing(data)
  }

  function onSlow(this: unknown): void {
    closeFailed(service, this as RuntimeSocket, new TooSlow('The client reads messages too slowly'))
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
    inbox.closed(socket, () => closed(socket, code))
  }

  function closed(socket: RuntimeSocket, code: number): void {
    guests.delete(socket)
    const { opened, session } = socket
    if (opened) {
      places.sockets.free(opened.holder)
      heldAccess.release(opened.holder, socket)
    }
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
      closeFailed(service, socket, new ProtocolError(`No hello within ${helloWithinMs / 1000} seconds`))
    }
    heldAccess.recheckIfDue(now)
  }

  metrics.countSockets(() => sessions.size + guests.size)
  let sweptAt = Date.now()
  const timer = setInterval(() => {
    const isLate = Date.now() - sweptAt > goneAfterMs / 2
    sweptAt = Date.now()
    // A process that was suspended couldn't hear its pages, so it gives them the whole time again.
    if (isLate) for (const session of sessions.values()) session.seen()
    try {
      sweep()
    } catch (error) {
      // An error in one session must not crash the server.
      log.error({ err: error }, 'Could not check the open sockets')
    }
  }, sweepEveryMs)
  timer.unref()

  return {
    async upgrade(request, socket, head) {
      socket.on('error', ignore)
      connecting.add(socket)
      try {
        if (splitAddress(request.url ?? '').path !== '/runtime') throw new SocketRefused(404, 'NOT_FOUND', 'Not found')
        requireRunning()
        await admit(parts, readTicket(request), (holder, frame) => {
          requireRunning()
          checkOrigin(service, holder, request)
          requirePlace(service, places.sockets, holder)
          server.handleUpgrade(request, socket, head, (opened) => welcome(opened, holder, frame, request))
        })
      } catch (error) {
        refuse(service, socket, error)
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
      for (const socket of connecting) refuse(service, socket, refusedForRestart())
    },
    async close() {
      clearInterval(timer)
      for (const session of sessions.values()) session.leave()
      for (const socket of guests) socket.terminate()
    },
  }
}

function costOf(message: ClientMessage, data: RawData): number {
  const definitions =
    message.type === 'tools/list' ? message.tools.length : message.type === 'tools/changed' ? message.set.length : 0
  return 1 + Math.floor(sizeOf(data) / 1024) + definitions
}

/** Text messages arrive as one buffer. */
const sizeOf = (data: RawData): number => (data instanceof Buffer ? data.length : 0)

const ignore = () => undefined
