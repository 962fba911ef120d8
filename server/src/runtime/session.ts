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
import { type KeptDefinitions, type KeptTool, pack } from '../hub/kept-definitions.ts'
import type { Asker, CallOrder, Claim, Handover, LocalSource, Owner, Sight } from '../hub/switchboard.ts'
import type { Clock } from '../lib/clock.ts'
import { newId } from '../lib/ids.ts'
import { PassingMap } from '../lib/passing-map.ts'
import { fingerprint } from '../lib/secrets.ts'
import type { TicketHolder } from '../tickets/signed-tickets.ts'
import type { RecentCall } from '../tool-calls/tool-calls.ts'
import { addDefinitions, type Refused } from '../untrusted/definitions.ts'
import { cleanLine } from '../untrusted/page-text.ts'

export type Hello = ClientMessage & { type: 'hello' }

/** Why a socket is closed, and when the page may come back, if it may. */
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

/** The protocol allows 123; letters may take several. */
const maxReasonBytes = 120

/** What the library closes for by itself, saying no more than the code. */
const frameFaults = new Map<number | undefined, string>([
  [1002, 'A frame is malformed'],
  [1007, 'A text is not UTF-8'],
  [closeCodes.protocolError, 'A message has too many fragments'],
  [closeCodes.overLimit, `A message may have ${maxMessageBytes} bytes`],
])

let unsent: { socket: RuntimeSocket; text: string }[] = []

function sendAll(): void {
  const messages = unsent
  unsent = []
  for (const { socket, text } of messages) {
    if (socket.readyState !== WebSocket.OPEN) continue
    socket.send(text)
    socket.checkBacklog()
  }
}

/** A socket, and what it belongs to. Its listeners are shared with all others: there may be very many sockets. */
export class RuntimeSocket extends WebSocket {
  session: Session | undefined
  /** The ticket that it was opened with. */
  opened: { holder: TicketHolder; at: number; saidHello: boolean; isOwnFrame: boolean } | undefined
  /** Frames since the network last took everything; small ones cost far more memory than their bytes. */
  #backlog = 0
  #isTooSlow = false

  /** Pings are answered here and not by the library, which would buffer answers without a limit. */
  answerPing(data: Buffer): void {
    if (this.readyState !== WebSocket.OPEN) return
    this.pong(data)
    this.checkBacklog()
  }

  /** Emits `slow`, once, when too much waits for the other side to read it. */
  checkBacklog(): void {
    const bytes = this.bufferedAmount
    this.#backlog = bytes === 0 ? 0 : this.#backlog + 1
    if (this.#isTooSlow || (bytes <= maxBufferedBytes && this.#backlog <= maxBufferedFrames)) return
    this.#isTooSlow = true
    this.emit('slow')
  }

  /** What is said in one turn of the event loop leaves together, after it, as answers over HTTP do. */
  say(message: ServerMessage): void {
    if (this.readyState !== WebSocket.OPEN) return
    if (unsent.length === 0) setImmediate(sendAll)
    unsent.push({ socket: this, text: JSON.stringify(message) })
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
    sendAll()
    super.close(code, reason ?? frameFaults.get(code))
  }
}

/** Thrown at a widget that does not keep to the protocol. */
export class ProtocolError extends Error {
  override name = 'ProtocolError'
}

/** What a session works with: the same for all of them. */
interface SessionContext {
  clock: Clock
  hub: Hub
  definitions: KeptDefinitions
  /** Throws a ProtocolError when the ticket is not good, and another error when that can't be told now. */
  redeem(ticket: string, use: (holder: TicketHolder) => void): Promise<void>
  /** Definitions were left out because the node has no room for them. */
  outOfRoom(session: Session): void
  ended(session: Session): void
}

/** A session that another node had. */
export interface Taken {
  id: string
  handover: Handover
}

/** What may wait for a socket that is not read. */
const maxBufferedBytes = 4 * maxMessageBytes
const maxBufferedFrames = 1_000
const noTools: ReadonlyMap<string, KeptTool> = new Map()
/** As everywhere else where an identity's expiry is checked. */
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
 * One page in one tab, from its hello until it leaves: a source of the hub. It outlives its socket for a while, so that a
 * page that comes back finds its calls, and their callers their results.
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
  /** When the page last came into view. */
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
    // Those who came at once, after a restart, are not pinged at once.
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

  /** The page has this socket from now on; another one that it had is dead, whether that was noticed or not. */
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

  /** A page's script can open a socket with the user's token too, but a browser says where a socket comes from. */
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

  /** Whether somebody with this ticket and this secret is the page that the session is for. */
  isFor({ secret, bearer }: Claim): boolean {
    return fingerprint(secret) === this.#resumeFingerprint && bearer === bearerOf(this.holder)
  }

  /** With a ticket that is newer than the session's. */
  renew(holder: TicketHolder): void {
    this.holder = holder
    this.#expiresAt = expiryOf(holder, this.#context.clock())
    this.#askForTicketAt = this.#expiresAt - reauthLeadMs
  }

  release(claim: Claim): Handover | undefined {
    if (!this.isFor(claim)) return undefined
    const calls = Array.from(this.#calls, ([, call]) => call)
    const tools = [...this.tools.values()]
    // They go on elsewhere: nobody must hear that they failed.
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
        throw new ProtocolError('hello was said before')
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
    // The page has nothing more to answer about a tool that runs elsewhere.
    if (call.order.question) this.#calls.delete(callId)
    this.#say({ type: 'tool/run', call_id: callId })
  }

  /** A page that was reloaded or left without a word is not waited for when its tab shows another one. */
  tabOpened(tabId: string): void {
    if (!this.#socket && tabId === this.#tabId) this.leave()
  }

  /** The socket is gone, and nobody said why. */
  dropped(): void {
    this.#socket = undefined
    this.seen()
  }

  /** The key or the provider has changed: the ticket exchange finds out whether the page may stay. */
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
      // Its caller's node would have ended it long ago, if the message had arrived.
      if (now - startedAt > longestCallMs) this.cancel(callId, 'The deadline has passed')
      else if (!switchboard.isAlive(replyTo)) {
        this.cancel(callId, 'The caller is gone')
        // If that node was only cut off, its caller need not wait for the deadline.
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

  /** For a server that stops: the session can be taken up elsewhere as long as this node is there. */
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

  /** The page may ask about a call that has ended while its socket was away. */
  #reportApproval({ call_id, state, approval }: ClientMessage & { type: 'tool/approval' }): void {
    const call = this.#calls.get(call_id)
    if (!call) this.#say({ type: 'tool/cancel', call_id, reason: 'The call has ended' })
    else if (state === 'asking') {
      // The caller's node knows that a question is one.
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

  /** A result for another session's call, for one that has ended or for none at all is nobody's. */
  #settle({ call_id, result, error, approval }: ClientMessage & { type: 'tool/result' }): void {
    const call = this.#calls.get(call_id)
    // A question is answered by `tool/approval` or an error: there is no result that could stand for the user's consent.
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
        if (bearerOf(holder) !== bearerOf(this.holder)) throw new ProtocolError('The ticket is for somebody else')
        this.renew(holder)
        this.#say({ type: 'reauthed', expires_at: this.#expiresAt })
      })
    } catch (error) {
      // The page is asked for another ticket soon, until the session expires.
      if (!(error instanceof ProtocolError)) return
      // With a better one the page may come back.
      this.end({ code: 'identity_expired', reason: 'The ticket is not good for this session', retryAfterMs: 1_000 })
    }
  }

  #say(message: ServerMessage): void {
    this.#socket?.say(message)
  }
}

/** What has to be the same in every ticket of a session. The verified address decides who sees the page. */
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

/** Without what is nobody's business, on the origin that the ticket is for. */
function readUrl(text: string, origin: string | undefined): string {
  const url = URL.parse(text)
  if (!url || !/^https?:$/.test(url.protocol)) throw new ProtocolError('url is not the address of a page')
  if (origin !== undefined && url.origin !== origin) throw new ProtocolError('url is of another origin than the ticket')
  const shown = `${url.origin}${url.pathname}${url.search}`
  return shown.length > maxUrlLength ? `${url.origin}/` : shown
}
