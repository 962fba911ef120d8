import type { ClientMessageInput, ServerMessage } from '@inlay/protocol'
import { closeCodes, subprotocol, ticketSubprotocolPrefix } from '@inlay/protocol/values'
import { createFrameKey } from '../kept/frame-key.ts'
import { hasAlmostExpired } from './id-token.ts'
import { retryDelay } from './retry-delay.ts'
import { exchangeAddress, exchangeTicket, type Ticket, TicketRefused } from './tickets.ts'

type Ready = Extract<ServerMessage, { type: 'ready' }>
type Bye = Extract<ServerMessage, { type: 'bye' }>

export interface Problem {
  code: string
  message: string
}

export type Status =
  | { state: 'idle' }
  | { state: 'connecting' }
  | { state: 'connected' }
  /** The connection dropped and is retried automatically. */
  | { state: 'waiting'; isRestarting?: boolean }
  /** The page has to provide a fresh ID token; `problem` is why the last one was rejected. */
  | { state: 'unidentified'; problem?: Problem }
  /** Reconnecting can't succeed until something changes. */
  | ({ state: 'refused' } & Problem)

export interface Connection {
  /** Connects, or switches an open connection to this user. `canRenew`: the page can be asked for another token. */
  identify(idToken: string | undefined, canRenew: boolean): void
  /** After a refusal, when the user wants to try again. */
  retry(): void
  /** Whether the server has accepted the page, so that messages can be sent. */
  isReady(): boolean
  send(message: ClientMessageInput): void
  /** The page is leaving, or has disconnected the agent. */
  end(): void
  /** Detects a dead socket after the computer slept or changed its network. */
  check(): void
}

export interface ConnectionOptions {
  key: string
  embeddingOrigin: string
  tabId: string
  page(): { url: string; title: string; visible: boolean }
  /** For users without an ID token. */
  visitorSecret(): string
  onStatus(status: Status): void
  onReady(ready: Ready, ticket: Ticket): void
  /** Receives all other messages. A newer server may send types that this frame doesn't know. */
  onMessage(message: ServerMessage): void
}

const pongWithinMs = 5_000
/** A network or server that swallows everything must not hold up the next attempt. */
const readyWithinMs = 15_000
/** Any code except the two for leaving pages keeps the session open for the next socket. */
const comingBack = 4000

/** Keeps one socket to the runtime open, and reconnects when it drops. */
export function createConnection(options: ConnectionOptions): Connection {
  const frameKey = createFrameKey(exchangeAddress())
  let idToken: string | undefined
  let canRenew = false
  let socket: WebSocket | undefined
  let ready: Ready | undefined
  let bye: Bye | undefined
  let resume: { session: string; secret: string } | undefined
  let userId: string | undefined
  let failures = 0
  /** The server has said that it restarts. */
  let isRestarting = false
  let timer: ReturnType<typeof setTimeout> | undefined
  let pongTimer: ReturnType<typeof setTimeout> | undefined
  /** Incremented by each new attempt; results of earlier attempts are ignored. */
  let turn = 0

  const send = (message: ClientMessageInput) => {
    if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message))
  }

  const forgetPing = () => {
    clearTimeout(pongTimer)
    pongTimer = undefined
  }

  const drop = (closeCode: number = closeCodes.normal) => {
    turn += 1
    clearTimeout(timer)
    forgetPing()
    socket?.close(closeCode)
    socket = undefined
    ready = undefined
    bye = undefined
  }

  const retry = (ms = retryDelay(failures)) => {
    failures += 1
    clearTimeout(timer)
    options.onStatus({ state: 'waiting', isRestarting })
    timer = setTimeout(() => void open(), ms)
  }

  const refuse = (code: string, message: string) => {
    drop()
    options.onStatus({ state: 'refused', code, message })
  }

  const takeTicket = () =>
    exchangeTicket(
      {
        publishable_key: options.key,
        embedding_origin: options.embeddingOrigin,
        ...(idToken !== undefined && { id_token: idToken }),
      },
      frameKey,
    )

  const refuseTicket = (error: unknown) => {
    if (!(error instanceof TicketRefused)) return retry()
    const { code, message } = error
    // The provider's keys or the server's settings may have changed, so another token may be accepted.
    if (code === 'TOKEN_EXPIRED' || (code === 'INVALID_TOKEN' && canRenew))
      return options.onStatus({ state: 'unidentified', problem: { code, message } })
    refuse(code, message)
  }

  async function open(): Promise<void> {
    drop(comingBack)
    const mine = turn
    timer = setTimeout(reopen, readyWithinMs)
    options.onStatus(failures === 0 ? { state: 'connecting' } : { state: 'waiting', isRestarting })
    try {
      const ticket = await takeTicket()
      if (mine === turn) connect(ticket)
    } catch (error) {
      if (mine !== turn) return
      clearTimeout(timer)
      refuseTicket(error)
    }
  }

  /** The last attempt or connection got no response. */
  function reopen(): void {
    failures += 1
    void open()
  }

  function connect(ticket: Ticket): void {
    const mine = turn
    if (ticket.userId !== userId) resume = undefined
    userId = ticket.userId
    const opened = new WebSocket(runtimeAddress(), [subprotocol, ticketSubprotocolPrefix + ticket.ticket])
    socket = opened
    const visitor = idToken === undefined && { visitor_secret: options.visitorSecret() }
    opened.onopen = () =>
      send({ type: 'hello', tab_id: options.tabId, ...options.page(), ...visitor, ...(resume && { resume }) })
    // Messages of our own server aren't validated, because a parser would be most of the code that a visitor loads.
    opened.onmessage = ({ data }) => mine === turn && receive(JSON.parse(data), ticket)
    opened.onclose = ({ code, reason }) => mine === turn && closed(code, reason)
  }

  function receive(message: ServerMessage, ticket: Ticket): void {
    if (message.type === 'ready') {
      ready = message
      clearTimeout(timer)
      failures = 0
      isRestarting = false
      resume = { session: message.session, secret: message.resume_secret }
      options.onStatus({ state: 'connected' })
      options.onReady(message, ticket)
    } else if (message.type === 'reauth') {
      if (idToken !== undefined && hasAlmostExpired(idToken)) options.onStatus({ state: 'unidentified' })
      else void renew()
    } else if (message.type === 'reauthed') options.onStatus({ state: 'connected' })
    else if (message.type === 'bye') bye = message
    else if (message.type === 'pong') forgetPing()
    else options.onMessage(message)
  }

  function closed(code: number, reason: string): void {
    const farewell = bye
    drop()
    isRestarting = farewell?.code === 'restarting'
    if (farewell?.retry_after_ms !== undefined) retry(farewell.retry_after_ms + retryDelay(failures))
    else if (code === closeCodes.identityExpired) options.onStatus({ state: 'unidentified' })
    else if (farewell) refuse(farewell.code, farewell.reason)
    else if (lastingCodes.has(code)) refuse(`CLOSED_${code}`, reason)
    else retry()
  }

  /** Keeps the connection for the same user; another user gets a new session. */
  async function renew(): Promise<void> {
    const mine = turn
    const token = idToken
    const isVoid = () => mine !== turn || token !== idToken
    try {
      const ticket = await takeTicket()
      if (isVoid()) return
      if (ticket.userId === userId) return send({ type: 'reauth', ticket: ticket.ticket })
      send({ type: 'bye' })
      drop()
      connect(ticket)
    } catch (error) {
      if (isVoid()) return
      if (error instanceof TicketRefused) refuseTicket(error)
      else timer = setTimeout(() => void renew(), retryDelay(failures++))
    }
  }

  return {
    send,
    isReady: () => ready !== undefined,
    identify(token, isRenewable) {
      idToken = token
      canRenew = isRenewable
      failures = 0
      void (ready ? renew() : open())
    },
    retry() {
      failures = 0
      void open()
    },
    end() {
      send({ type: 'bye' })
      drop()
      resume = undefined
      options.onStatus({ state: 'idle' })
    },
    check() {
      if (!ready || pongTimer !== undefined) return
      send({ type: 'ping' })
      pongTimer = setTimeout(reopen, pongWithinMs)
    },
  }
}

const lastingCodes = new Set<number>([
  closeCodes.unsupportedData,
  closeCodes.protocolError,
  closeCodes.overLimit,
  closeCodes.accessEnded,
])

function runtimeAddress(): URL {
  const address = new URL('/runtime', location.href)
  address.protocol = address.protocol.replace('http', 'ws')
  return address
}
