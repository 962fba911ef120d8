import { randomBytes } from 'node:crypto'
import {
  type ClientMessage,
  closeCodes,
  goneAfterMs,
  longestCallMs,
  longestSessionMs,
  maxDefinitionBytes,
  maxMessageBytes,
  maxNameLength,
  maxRunningCalls,
  maxSchemaBytes,
  maxTitleLength,
  maxTools,
  maxUrlLength,
  pingEveryMs,
  reauthLeadMs,
  reauthWithinMs,
  type ServerMessage,
} from '@inlay/protocol'
import { WebSocket } from 'ws'
import { type Hub, ownerOf } from '../hub/hub.ts'
import { type KeptDefinitions, pack } from '../hub/kept-definitions.ts'
import type { LocalSource } from '../hub/switchboard.ts'
import type { Clock } from '../lib/clock.ts'
import { newId } from '../lib/ids.ts'
import { PassingMap } from '../lib/passing-map.ts'
import { fingerprint } from '../lib/secrets.ts'
import { createTurnBatch } from '../lib/turn-batch.ts'
import type { Asker, CallOrder, Claim, Handover, KeptTool, Owner, Sight } from '../stores/bus-messages.ts'
import type { TicketHolder } from '../tickets/signed-tickets.ts'
import type { RecentCall } from '../tool-calls/tool-calls.ts'
import { addDefinitions, type Refused } from '../untrusted/definitions.ts'
import { cleanLine } from '../untrusted/page-text.ts'

export type Hello = ClientMessage & { type: 'hello' }

/** Why the server closes a socket, and how long the page waits before it reconnects, if it may. */
export interface Farewell {
  code: (ServerMessage & { type: 'bye' })['code']
  reason: string
  retryAfterMs?: number
}

const closeCodeOf: Record<Farewell['code'], number> = {
  restarting: closeCodes.restarting,
  identity_expired: closeCodes.identityExpired,
  key_revoked: closeCodes.accessEnded,
  user_removed: closeCodes.accessEnded,
  over_limit: closeCodes.overLimit,
  protocol_error: closeCodes.protocolError,
  too_slow: closeCodes.tooSlow,
  internal_error: closeCodes.internalError,
}

/** WebSocket allows 123 bytes for a close reason. */
const maxReasonBytes = 120

/** Reasons for closes by the WebSocket library, which sends only a code. */
const frameFaults = new Map<number | undefined, string>([
  [1002, 'A frame is malformed'],
  [1007, 'A text message is not valid UTF-8'],
  [closeCodes.protocolError, 'A message has too many fragments'],
  [closeCodes.overLimit, `A message can have at most ${maxMessageBytes} bytes`],
])

const unsent = createTurnBatch<{ socket: RuntimeSocket; text: string }>((messages) => {
  for (const { socket, text } of messages) {
    if (socket.readyState !== WebSocket.OPEN) continue
    socket.send(text)
    socket.checkBacklog()
  }
})

/** A socket and its session. All sockets share their listeners, because a node may hold very many. */
export class RuntimeSocket extends WebSocket {
  session: Session | undefined
  /** The redeemed ticket, and how the socket was opened. */
  opened: { holder: TicketHolder; at: number; saidHello: boolean; isOwnFrame: boolean } | undefined
  /** Frames sent since the buffer was last empty, because small frames take far more memory than their bytes. */
  #backlog = 0
  #isTooSlow = false

  /** Sends the pong here, because the library would buffer pongs without a limit. */
  answerPing(data: Buffer): void {
    if (this.readyState !== WebSocket.OPEN) return
    this.pong(data)
    this.checkBacklog()
  }

  /** Emits `slow` once if the client doesn't read fast enough. */
  checkBacklog(): void {
    const bytes = this.bufferedAmount
    this.#backlog = bytes === 0 ? 0 : this.#backlog + 1
    if (this.#isTooSlow || (bytes <= maxBufferedBytes && this.#backlog <= maxBufferedFrames)) return
    this.#isTooSlow = true
    this.emit('slow')
  }

  /** Batches all messages of one turn of the event loop, as HTTP responses are. */
  say(message: ServerMessage): void {
    if (this.readyState !== WebSocket.OPEN) return
    unsent.add({ socket: this, text: JSON.stringify(message) })
  }

  endWith({ code, reason, retryAfterMs }: Farewell): void {
    this.say({ type: 'bye', code, reason, ...(retryAfterMs !== undefined && { retry_after_ms: retryAfterMs }) })
    this.close(
      closeCodeOf[code],
      Buffer.from(reason)
        .subarray(0, maxReasonBytes)
        .toString()
        .replace(/\uFFFD+$/, ''),
    )
  }

  override close(code?: number, reason?: string | Buffer): void {
    unsent.flush()
    super.close(code, reason ?? frameFaults.get(code))
  }
}

/** Thrown when a widget violates the protocol. */
export class ProtocolError extends Error {
  override name = 'ProtocolError'
}

/** Dependencies that all sessions share. */
interface SessionContext {
  clock: Clock
  hub: Hub
  definitions: KeptDefinitions
  /** Throws a ProtocolError if the ticket is invalid, and another error if it can't be checked right now. */
  redeem(ticket: string, use: (holder: TicketHolder) => void): Promise<void>
  /** Reports that definitions were refused because the memory budget is used up. */
  outOfRoom(session: Session): void
  ended(session: Session): void
}

/** A session taken over from another node. */
export interface Taken {
  id: string
  handover: Handover
}

/** Limits of the send buffer for a client that doesn't read. */
const maxBufferedBytes = 4 * maxMessageBytes
const maxBufferedFrames = 1_000
const noTools: ReadonlyMap<string, KeptTool> = new Map()
/** The same tolerance as for ID tokens. */
const clockSkewMs = 60_000

const limits = {
  message_bytes: maxMessageBytes,
  tools: maxTools,
  schema_bytes: maxSchemaBytes,
  definition_bytes: maxDefinitionBytes,
  name_length: maxNameLength,
  running_calls: maxRunningCalls,
}

/**
 * One page in one tab, from its hello until it leaves: a source of the hub. It outlives its socket for a while, so that
 * pending calls survive when the page reconnects.
 */
export class Session implements LocalSource {
  readonly id: string
  readonly owner: Owner
  holder: TicketHolder
  tools = noTools
  readonly #context: SessionContext
  readonly #tabId: string
  readonly #connectedAt: number
  readonly #calls = new PassingMap<Handover['calls'][number]>()
  #url = ''
  #title = ''
  #isInFront: boolean | undefined
  #lastInFrontAt: number | undefined
  /** When the page last became visible. */
  #shownAt = 0
  #socket: RuntimeSocket | undefined
  #resumeFingerprint = ''
  #lastSeenAt: number
  #pingAt: number
  #expiresAt: number
  #askForTicketAt: number
  #hasEnded = false

  constructor(context: SessionContext, holder: TicketHolder, hello: Hello, taken?: Taken) {
    const now = context.clock()
    const { switchboard } = context.hub
    this.#context = context
    this.id = taken?.id ?? newId()
    this.holder = holder
    this.owner = ownerOfHolder(holder, this.id)
    this.#tabId = cleanLine(hello.tab_id, 64)
    this.#show(hello)
    this.#connectedAt = taken?.handover.connectedAt ?? now
    this.#keepTools(taken?.handover.tools ?? [])
    for (const call of taken?.handover.calls ?? []) this.#calls.set(call.order.call_id, call)
    this.#lastSeenAt = now
    // Spreads the pings of pages that reconnected simultaneously after a restart.
    this.#pingAt = now + Math.random() * pingEveryMs
    this.#expiresAt = expiryOf(holder, now)
    this.#askForTicketAt = this.#expiresAt - reauthLeadMs
    switchboard.add(this, this.#tabId)
    for (const [callId, { replyTo }] of this.#calls) switchboard.moved(replyTo, callId)
  }

  describe() {
    return {
      sourceId: this.id,
      tabId: this.#tabId,
      origin: this.holder.origin ?? '',
      title: this.#title,
      url: this.#url,
      toolCount: this.tools.size,
      connectedAt: new Date(this.#connectedAt).toISOString(),
      lastSeenAt: new Date(this.#lastSeenAt).toISOString(),
    }
  }

  sight(): Sight {
    const inFront = this.#isInFront
    const lastInFrontAt = inFront ? this.#context.clock() : this.#lastInFrontAt
    return { ...(inFront !== undefined && { inFront }), ...(lastInFrontAt !== undefined && { lastInFrontAt }) }
  }

  /** Replaces the page's socket. The previous one is dead, even if its close event hasn't arrived yet. */
  attach(socket: RuntimeSocket, resumed: boolean): void {
    const before = this.#socket
    if (before) {
      before.session = undefined
      before.terminate()
    }
    this.#socket = socket
    socket.session = this
    this.seen()
    const secret = `${this.#context.hub.switchboard.self}.${randomBytes(24).toString('base64url')}`
    this.#resumeFingerprint = fingerprint(secret)
    const { end_user, publishable_key_id } = this.holder
    this.#say({
      type: 'ready',
      session: this.id,
      resume_secret: secret,
      resumed,
      user: { id: end_user?.id ?? publishable_key_id, is_anonymous: end_user === undefined },
      time: this.#context.clock(),
      expires_at: this.#expiresAt,
      limits,
    })
    for (const [callId, { order, replyTo }] of this.#calls) {
      if (!order.question || this.#mayAsk()) this.#say(describeOrder(order))
      else {
        this.#calls.delete(callId)
        this.#context.hub.switchboard.left(replyTo, callId)
      }
    }
  }

  /** Only our own frame may ask. A page's script could open a socket too, but the browser sends its origin. */
  #mayAsk(): boolean {
    return this.#socket?.opened?.isOwnFrame ?? false
  }

  asker(question: string): Asker | undefined {
    if (!this.#mayAsk()) return undefined
    const isAsking = Array.from(this.#calls).some(([, { order }]) => order.question?.key === question)
    return { isAsking, isVisible: this.#isInFront === true, shownAt: this.#shownAt }
  }

  tellRecentCalls(calls: RecentCall[]): void {
    this.#say({ type: 'calls/recent', calls })
  }

  /** Whether the claim has the session's resume secret and the same identity. */
  isFor({ secret, bearer }: Claim): boolean {
    return fingerprint(secret) === this.#resumeFingerprint && bearer === bearerOf(this.holder)
  }

  /** Extends the session with a newer ticket. */
  renew(holder: TicketHolder): void {
    this.holder = holder
    this.#expiresAt = expiryOf(holder, this.#context.clock())
    this.#askForTicketAt = this.#expiresAt - reauthLeadMs
  }

  release(claim: Claim): Handover | undefined {
    if (!this.isFor(claim)) return undefined
    const calls = Array.from(this.#calls, ([, call]) => call)
    const tools = [...this.tools.values()]
    // The calls continue on the other node, so `leave` must not report them as failed.
    this.#calls.clear()
    this.leave()
    return { connectedAt: this.#connectedAt, tools, calls }
  }

  seen(): void {
    this.#lastSeenAt = this.#context.clock()
  }

  receive(message: ClientMessage): void {
    switch (message.type) {
      case 'hello':
        throw new ProtocolError('hello was already sent')
      case 'page':
        this.#show(message)
        break
      case 'tools/list':
        this.#setTools(new Map(), message.tools)
        break
      case 'tools/changed':
        this.#setTools(without(this.tools, message.removed), message.set)
        break
      case 'tool/approval':
        this.#reportApproval(message)
        break
      case 'tool/progress':
        this.#reportProgress(message)
        break
      case 'tool/result':
        this.#settle(message)
        break
      case 'reauth':
        void this.#reauthenticate(message.ticket)
        break
      case 'bye':
        this.leave()
        break
      case 'ping':
        this.#say({ type: 'pong' })
    }
  }

  call(order: CallOrder, replyTo: string): boolean {
    if (this.#calls.size >= maxRunningCalls) return false
    this.#calls.set(order.call_id, { order, replyTo, startedAt: this.#context.clock() })
    this.#say(describeOrder(order))
    return true
  }

  cancel(callId: string, reason: string): void {
    if (this.#calls.delete(callId)) this.#say({ type: 'tool/cancel', call_id: callId, reason })
  }

  run(callId: string): void {
    const call = this.#calls.get(callId)
    if (!call) return
    // A connector's tool doesn't run in the page, so the page's part ends here.
    if (call.order.question) this.#calls.delete(callId)
    this.#say({ type: 'tool/run', call_id: callId })
  }

  /** Ends a page without a socket when its tab shows another page. */
  tabOpened(tabId: string): void {
    if (!this.#socket && tabId === this.#tabId) this.leave()
  }

  /** The socket was lost without a close message. The page may reconnect. */
  dropped(): void {
    this.#socket = undefined
    this.seen()
  }

  /** The key or identity provider has changed, so the ticket exchange must decide whether the page may stay. */
  demandTicket(): void {
    const now = this.#context.clock()
    this.#expiresAt = Math.min(this.#expiresAt, now + reauthWithinMs)
    this.#askForTicket(now)
  }

  sweep(now: number): void {
    if (now >= this.#expiresAt) {
      this.end({ code: 'identity_expired', reason: 'The identity has expired', retryAfterMs: 0 })
    } else if (now - this.#lastSeenAt >= goneAfterMs) this.leave()
    if (this.#hasEnded) return
    if (now >= this.#askForTicketAt) this.#askForTicket(now)
    if (now >= this.#pingAt) {
      this.#pingAt = now + pingEveryMs
      this.#socket?.ping()
    }
    const { switchboard } = this.#context.hub
    for (const [callId, { startedAt, replyTo }] of this.#calls) {
      // Only reached if the cancel message of the caller's node was lost.
      if (now - startedAt > longestCallMs) this.cancel(callId, 'The deadline has passed')
      else if (!switchboard.isAlive(replyTo)) {
        this.cancel(callId, 'The caller disconnected')
        // If that node was only unreachable, its caller doesn't have to wait for the deadline.
        switchboard.left(replyTo, callId)
      }
    }
  }

  end(farewell: Farewell): void {
    this.#finish((socket) => socket.endWith(farewell))
  }

  leave(): void {
    this.#finish((socket) => socket.close(closeCodes.normal))
  }

  /** Closes the socket but keeps the session, so that another node can take it over until this one stops. */
  sendAway(farewell: Farewell): void {
    this.#socket?.endWith(farewell)
  }

  #finish(close: (socket: RuntimeSocket) => void): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    const { hub, ended } = this.#context
    hub.switchboard.remove(this)
    this.#keepTools([])
    ended(this)
    for (const [callId, { replyTo }] of this.#calls) hub.switchboard.left(replyTo, callId)
    this.#calls.clear()
    if (!this.#socket) return
    this.#socket.session = undefined
    close(this.#socket)
  }

  #show({ url, title, visible }: { url: string; title: string; visible?: boolean | undefined }): void {
    this.#url = readUrl(url, this.holder.origin)
    this.#title = cleanLine(title, maxTitleLength)
    const now = this.#context.clock()
    if (this.#isInFront) this.#lastInFrontAt = now
    if (visible && !this.#isInFront) this.#shownAt = now
    this.#isInFront = visible ?? this.#isInFront
  }

  #setTools(known: ReadonlyMap<string, KeptTool>, definitions: Parameters<typeof addDefinitions>[1]): void {
    const { tools, refused } = addDefinitions(known, definitions, this.#context.hub.builtInNames, pack)
    refused.push(...this.#keepTools(tools.values()))
    this.#say({ type: 'tools/accepted', count: this.tools.size, refused })
  }

  #keepTools(wanted: Iterable<KeptTool>): Refused[] {
    const { definitions, outOfRoom } = this.#context
    const { tools, refused } = definitions.replace(this.owner.organization_id, this.tools, wanted)
    this.tools = tools
    if (refused.length > 0) outOfRoom(this)
    return refused
  }

  /** The call may have ended while the page was disconnected. */
  #reportApproval({ call_id, state, approval }: ClientMessage & { type: 'tool/approval' }): void {
    const call = this.#calls.get(call_id)
    if (!call) this.#say({ type: 'tool/cancel', call_id, reason: 'The call has ended' })
    else if (state === 'asking') {
      // The caller's node already counts the time of a question.
      if (!call.order.question) this.#context.hub.switchboard.asking(call.replyTo, call_id)
    } else this.#context.hub.switchboard.allowed(call.replyTo, call_id, this.id, approval)
  }

  #reportProgress({ call_id, progress, total, message }: ClientMessage & { type: 'tool/progress' }): void {
    const call = this.#calls.get(call_id)
    if (!call) return
    this.#context.hub.switchboard.progress(call.replyTo, call_id, {
      progress,
      ...(total !== undefined && { total }),
      ...(message !== undefined && { message: cleanLine(message, maxTitleLength) }),
    })
  }

  /** Ignores results for calls that this session isn't running. */
  #settle({ call_id, result, error, approval }: ClientMessage & { type: 'tool/result' }): void {
    const call = this.#calls.get(call_id)
    // Only `tool/approval` allows a question, and an error declines it; a result must not count as approval.
    if (!call || (call.order.question && !error)) return
    this.#calls.delete(call_id)
    this.#context.hub.switchboard.settled(call.replyTo, call_id, error ? { error, approval } : { result, approval })
  }

  #askForTicket(now: number): void {
    this.#askForTicketAt = now + reauthWithinMs
    this.#say({ type: 'reauth', before: this.#expiresAt })
  }

  async #reauthenticate(ticket: string): Promise<void> {
    try {
      await this.#context.redeem(ticket, (holder) => {
        if (bearerOf(holder) !== bearerOf(this.holder)) throw new ProtocolError('The ticket is for another identity')
        this.renew(holder)
        this.#say({ type: 'reauthed', expires_at: this.#expiresAt })
      })
    } catch (error) {
      // The ticket couldn't be checked: the page is asked again until the session expires.
      if (!(error instanceof ProtocolError)) return
      // The page may reconnect with a valid ticket.
      this.end({ code: 'identity_expired', reason: 'The ticket is not valid for this session', retryAfterMs: 1_000 })
    }
  }

  #say(message: ServerMessage): void {
    this.#socket?.say(message)
  }
}

/** The fields that all tickets of a session must share. The verified address decides who sees the page. */
export const bearerOf = ({ organization_id, publishable_key_id, origin, end_user }: TicketHolder): string =>
  JSON.stringify([
    organization_id,
    publishable_key_id,
    origin ?? null,
    end_user?.id ?? null,
    end_user?.verified_email?.toLowerCase() ?? null,
  ])

const ownerOfHolder = ({ organization_id, end_user }: TicketHolder, session: string): Owner =>
  ownerOf(organization_id, { verified_email: end_user?.verified_email, end_user_id: end_user?.id, session })

const expiryOf = ({ end_user }: TicketHolder, now: number): number =>
  Math.min(now + longestSessionMs, (end_user?.identity_expires_at ?? Number.POSITIVE_INFINITY) + clockSkewMs)

function describeOrder({ question, ...order }: CallOrder): ServerMessage {
  if (!question) return { type: 'tool/call', ...order }
  const { name, ...rest } = order
  const { connector, title, description } = question
  return { type: 'tool/ask', ...rest, connector, tool: { name, description, ...(title !== undefined && { title }) } }
}

function without(tools: ReadonlyMap<string, KeptTool>, names: readonly string[]): Map<string, KeptTool> {
  const rest = new Map(tools)
  for (const name of names) rest.delete(name)
  return rest
}

/** Checks that the URL has the ticket's origin, and removes its fragment and credentials. */
function readUrl(text: string, origin: string | undefined): string {
  const url = URL.parse(text)
  if (!url || !/^https?:$/.test(url.protocol)) throw new ProtocolError('url is not an HTTP or HTTPS URL')
  if (origin !== undefined && url.origin !== origin) throw new ProtocolError('url doesn’t match the ticket’s origin')
  const shown = `${url.origin}${url.pathname}${url.search}`
  return shown.length > maxUrlLength ? `${url.origin}/` : shown
}
