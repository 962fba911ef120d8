import { randomBytes } from 'node:crypto'
import {
  type ClientMessage,
  closeCodes,
  goneAfterMs,
  longestSessionMs,
  pingEveryMs,
  reauthLeadMs,
  reauthWithinMs,
  type ServerMessage,
} from '@inlay/protocol'
import type { ConfirmRequests } from '../../accounts/confirmed-browsers/requests.ts'
import type { RunPage } from '../../agent/runs/run.ts'
import type { Runs, Speaker } from '../../agent/runs/runs.ts'
import type { Owner } from '../../kernel/foundation/tool-user.ts'
import { ownerOf } from '../../kernel/foundation/tool-user.ts'
import type { Clock } from '../../kernel/lib/clock.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { fingerprint } from '../../kernel/lib/secrets.ts'
import { type Refused, readDefinitions } from '../../kernel/untrusted/definitions.ts'
import { cleanLine } from '../../kernel/untrusted/page-text.ts'
import type { PageResponse } from '../../kernel/untrusted/results.ts'
import type { Hub } from '../../tools/hub/hub.ts'
import { type KeptDefinitions, type PageDefinitions, pack } from '../../tools/hub/kept-definitions.ts'
import type { LocalSource } from '../../tools/hub/local-sources.ts'
import type { Asker, CallOrder, Claim, Handover, KeptTool, PageFrame, Sight } from '../../tools/hub/messages.ts'
import type { EndOfAccess, Held, HeldAccess } from '../../visitors/tickets/ends-of-access.ts'
import { type FrameStanding, isSameFrame } from '../../visitors/tickets/frames.ts'
import { bearerOf, type TicketHolder } from '../../visitors/tickets/signed-tickets.ts'
import type { Chat, ChatClient } from '../chat/chat.ts'
import { farewellFor, type Hello, messageLimits, ProtocolError, TooSlow } from './messages.ts'
import { PageView } from './page-view.ts'
import { type Receipts, SessionCalls } from './session-calls.ts'
import { type Farewell, farewells, type RuntimeSocket } from './socket.ts'

/** Dependencies that all sessions share. */
interface SessionContext {
  clock: Clock
  hub: Hub
  chat: Chat
  runs: Pick<Runs, 'addLateResult'>
  definitions: KeptDefinitions
  receipts: Receipts
  heldAccess: HeldAccess
  confirmRequests: ConfirmRequests
  /** Throws a ProtocolError if the ticket is invalid, and another error if it can't be checked right now. */
  redeem(ticket: string, use: (holder: TicketHolder, frame: FrameStanding | undefined) => void): Promise<void>
  /** Reports that definitions were refused because the memory budget is used up. */
  outOfSpace(session: Session): void
  ended(session: Session): void
}

/** A session taken over from another node. */
export interface Taken {
  id: string
  handover: Handover
}

/** The same tolerance as for ID tokens. */
const clockSkewMs = 60_000

/**
 * One page in one tab, from its hello until it leaves: a source of the hub. It outlives its socket for a while, so that
 * pending calls survive when the page reconnects.
 */
export class Session implements LocalSource, ChatClient, Held {
  readonly id: string
  readonly owner: Owner
  holder: TicketHolder
  readonly #context: SessionContext
  readonly #tabId: string
  readonly #connectedAt: number
  readonly #calls: SessionCalls
  readonly #view = new PageView()
  readonly #definitions: PageDefinitions
  /** Fingerprint of an anonymous visitor's secret. */
  readonly #visitor: string | undefined
  #socket: RuntimeSocket | undefined
  /** What the key in the ticket is worth. */
  #frame: FrameStanding | undefined
  #isOwn = false
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
    this.#calls = new SessionCalls(this, switchboard, context.receipts)
    this.id = taken?.id ?? newId()
    this.holder = holder
    const { organization_id, end_user } = holder
    const person = { verified_email: end_user?.verified_email, end_user_id: end_user?.id, session: this.id }
    this.owner = ownerOf(organization_id, person)
    this.#tabId = cleanLine(hello.tab_id, 64)
    this.#view.update(hello, holder.origin, now)
    this.#visitor = hello.visitor_secret === undefined ? undefined : fingerprint(hello.visitor_secret)
    this.#connectedAt = taken?.handover.connectedAt ?? now
    this.#definitions = context.definitions.open({
      organizationId: organization_id,
      // Without a secret, the page is a visitor of its own.
      visitor: end_user ? undefined : (this.#visitor ?? this.id),
      gaveWay: (refused) => this.#acceptTools(refused),
    })
    this.#countRefused(this.#definitions.list(new Map((taken?.handover.tools ?? []).map((tool) => [tool.name, tool]))))
    this.#lastSeenAt = now
    // Spreads the pings of pages that reconnected simultaneously after a restart.
    this.#pingAt = now + Math.random() * pingEveryMs
    this.#expiresAt = expiryOf(holder, now)
    this.#askForTicketAt = this.#expiresAt - reauthLeadMs
    switchboard.add(this, this.#tabId)
    this.#calls.takeOver(taken?.handover.calls ?? [])
  }

  describe() {
    return {
      sourceId: this.id,
      tabId: this.#tabId,
      origin: this.holder.origin ?? '',
      title: this.#view.title,
      url: this.#view.url,
      toolCount: this.tools.size,
      connectedAt: new Date(this.#connectedAt).toISOString(),
      lastSeenAt: new Date(this.#lastSeenAt).toISOString(),
    }
  }

  speaker(): Speaker {
    const address = this.#socket?.opened?.address ?? 'unknown'
    return { holder: this.holder, visitor: this.#visitor, address, is_own_frame: this.#isOwnFrame() }
  }

  page(): RunPage {
    return { source_id: this.id, url: this.#view.url, title: this.#view.title }
  }

  receiver(): string {
    return JSON.stringify([bearerOf(this.holder), this.#tabId])
  }

  sight(): Sight {
    return this.#view.describeSight(this.#context.clock())
  }

  frame(): PageFrame {
    return { key: this.holder.frame_key ?? null, isConfirmed: this.#isOwn }
  }

  /** Replaces the page's socket. The previous one is dead, even if its close event hasn't arrived yet. */
  attach(socket: RuntimeSocket, resumed: boolean): void {
    const before = this.#socket
    if (before) {
      before.session = undefined
      before.terminate()
    }
    this.#socket = socket
    this.#frame = socket.opened?.frame
    this.#isOwn = isOwnFrame(this.holder, socket.opened)
    socket.session = this
    this.seen()
    const secret = `${this.#context.hub.switchboard.self}.${randomBytes(24).toString('base64url')}`
    this.#resumeFingerprint = fingerprint(secret)
    const { end_user, publishable_key_id } = this.holder
    this.say({
      type: 'ready',
      session: this.id,
      resume_secret: secret,
      resumed,
      user: { id: end_user?.id ?? publishable_key_id, is_anonymous: end_user === undefined },
      time: this.#context.clock(),
      expires_at: this.#expiresAt,
      limits: messageLimits,
    })
    this.#tellFrame()
    this.#calls.resend(this.#mayAsk())
  }

  #isOwnFrame(): boolean {
    return this.#socket !== undefined && this.#isOwn
  }

  /** A frame that isn't confirmed shows that there is a question, and that the user has to confirm their browser. */
  #mayAsk(): boolean {
    return this.#isOwnFrame() || (this.#socket?.opened?.isFromOurOrigin === true && this.#frame?.can_confirm === true)
  }

  canAnswer(): boolean {
    return this.#isOwnFrame()
  }

  #tellFrame(): void {
    if (!this.#socket?.opened?.isFromOurOrigin || !this.holder.end_user) return
    const { can_confirm = false, has_other_sites = false } = this.#frame ?? {}
    this.say({ type: 'frame', is_confirmed: this.#isOwn, can_confirm, has_other_sites })
  }

  /** Whether it may see what the user did in other frames at its site. */
  seesOtherFrames(): boolean {
    return this.#isOwn || this.#frame?.has_other_sites === false
  }

  /** Whether the session may have shown what this socket's frame may not see. */
  isAbove(socket: RuntimeSocket): boolean {
    if (isOwnFrame(this.holder, socket.opened)) return false
    return this.#isOwn || (this.seesOtherFrames() && socket.opened?.frame?.has_other_sites === true)
  }

  /** The frame's key was confirmed, its confirmation has ended, or the organization's sites have changed. */
  frameJudged(frame: FrameStanding | undefined): void {
    const opened = this.#socket?.opened
    if (opened) opened.frame = frame
    const wasOwn = this.#isOwn
    const isSame = isSameFrame(frame, this.#frame)
    const sawOtherFrames = this.#frame?.has_other_sites === false
    this.#frame = frame
    this.#isOwn = opened ? isOwnFrame(this.holder, opened) : wasOwn && frame?.is_confirmed !== false
    // A new session shows nothing that this one was allowed to see.
    if (wasOwn && !this.#isOwn)
      this.end({ code: 'identity_expired', reason: 'The browser is no longer confirmed', retryAfterMs: 0 })
    else if (!this.#isOwn && sawOtherFrames && frame?.has_other_sites)
      this.end({ code: 'identity_expired', reason: 'The organization has another site', retryAfterMs: 0 })
    else if (!isSame) this.#tellFrame()
    if (!wasOwn && this.#isOwn) this.#calls.resendQuestions()
  }

  asker(question: string): Asker | undefined {
    if (!this.#mayAsk()) return undefined
    const { isInFront, shownAt } = this.#view
    const isConfirmed = this.#isOwnFrame()
    return { isConfirmed, isAsking: this.#calls.isAsking(question), isVisible: isInFront === true, shownAt }
  }

  flooded(): void {
    this.end({ code: 'over_limit', reason: 'The client sends too many requests' })
  }

  /** Does nothing while the page has no socket. */
  say(message: ServerMessage): void {
    this.#socket?.say(message)
  }

  async deliver(message: ServerMessage): Promise<boolean> {
    return (await this.#socket?.deliver(message)) ?? false
  }

  comeBack(reason: string): void {
    this.sendAway(farewellFor(new TooSlow(reason)))
  }

  /** Whether the claim has the session's resume secret and the same identity. */
  isFor({ secret, bearer }: Claim): boolean {
    return fingerprint(secret) === this.#resumeFingerprint && bearer === bearerOf(this.holder)
  }

  /** Extends the session with a newer ticket. */
  renew(holder: TicketHolder): void {
    if (this.#hasEnded) return
    const { heldAccess } = this.#context
    heldAccess.release(this.holder, this)
    heldAccess.hold(holder, this)
    this.holder = holder
    this.#expiresAt = expiryOf(holder, this.#context.clock())
    this.#askForTicketAt = this.#expiresAt - reauthLeadMs
  }

  release(claim: Claim): Handover | undefined {
    if (!this.isFor(claim)) return undefined
    const handover = { connectedAt: this.#connectedAt, tools: [...this.tools.values()], calls: this.#calls.handOver() }
    this.leave()
    return handover
  }

  seen(): void {
    this.#lastSeenAt = this.#context.clock()
  }

  get tools(): ReadonlyMap<string, KeptTool> {
    return this.#definitions.tools
  }

  receive(message: ClientMessage): boolean {
    switch (message.type) {
      case 'hello':
        throw new ProtocolError('hello was already sent')
      case 'page':
        this.#view.update(message, this.holder.origin, this.#context.clock())
        break
      case 'tools/list':
        this.#setTools(undefined, message.tools)
        break
      case 'tools/changed':
        this.#setTools(message.removed, message.set)
        break
      case 'tool/approval':
        this.#calls.reportApproval(message)
        break
      case 'tool/progress':
        this.#calls.reportProgress(message)
        break
      case 'tool/result':
        return this.#calls.settle(message)
      case 'reauth':
        void this.#reauthenticate(message.ticket)
        break
      case 'frame/confirm':
        this.#requestConfirmation()
        break
      case 'bye':
        this.leave()
        break
      case 'ping':
        this.say({ type: 'pong' })
        break
      default:
        this.#context.chat.receive(this, message)
    }
    return false
  }

  call(order: CallOrder, replyTo: string): boolean {
    return this.#calls.start(order, replyTo, this.#context.clock())
  }

  cancel(callId: string, reason: string): void {
    this.#calls.cancel(callId, reason)
  }

  run(callId: string): void {
    this.#calls.run(callId)
  }

  addLateResult(call_id: string, answer: PageResponse): void {
    const { tabId, origin, url, title } = this.describe()
    // The user's page was asked, so it may answer, wherever the thread started.
    const speaker = { ...this.speaker(), is_own_frame: true }
    this.#context.runs.addLateResult({ speaker, call_id, source: { tabId, origin, url, title }, answer })
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

  accessEnded(why: EndOfAccess): void {
    if (why === 'terms_changed') this.#demandTicket()
    else this.end(farewells[why])
  }

  /** The key or identity provider has changed, so the ticket exchange must decide whether the page may stay. */
  #demandTicket(): void {
    const now = this.#context.clock()
    this.#expiresAt = Math.min(this.#expiresAt, now + reauthWithinMs)
    this.#askForTicket(now)
  }

  sweep(now: number): void {
    if (now >= this.#expiresAt) {
      this.end({ code: 'identity_expired', reason: 'The identity has expired', retryAfterMs: 0 })
    } else if (now - this.#lastSeenAt >= goneAfterMs) this.leave()
    // Nothing else may be sent to a page that leaves a lot unread.
    this.#socket?.checkBacklog()
    if (this.#hasEnded) return
    if (now >= this.#askForTicketAt) this.#askForTicket(now)
    if (now >= this.#pingAt) {
      this.#pingAt = now + pingEveryMs
      this.#socket?.ping()
    }
    this.#calls.sweep(now)
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
    const { chat, hub, ended } = this.#context
    hub.switchboard.remove(this)
    chat.left(this)
    this.#definitions.clear()
    ended(this)
    this.#calls.abandon()
    if (!this.#socket) return
    this.#socket.session = undefined
    close(this.#socket)
  }

  /** Without `removed`, in place of all tools. */
  #setTools(removed: readonly string[] | undefined, definitions: Parameters<typeof readDefinitions>[0]): void {
    const { tools, refused } = readDefinitions(definitions, this.#context.hub.builtInNames, pack)
    const outOfSpace = removed ? this.#definitions.change(removed, tools) : this.#definitions.list(tools)
    this.#acceptTools(outOfSpace, refused)
  }

  #acceptTools(outOfSpace: Refused[], refused: Refused[] = []): void {
    this.#countRefused(outOfSpace)
    this.say({ type: 'tools/accepted', count: this.tools.size, refused: [...refused, ...outOfSpace] })
  }

  #countRefused(outOfSpace: Refused[]): void {
    if (outOfSpace.length > 0) this.#context.outOfSpace(this)
  }

  #requestConfirmation(): void {
    const request = this.#socket?.opened?.isFromOurOrigin && this.#context.confirmRequests.issue(this.holder)
    if (request) this.say({ type: 'frame/request', request })
  }

  #askForTicket(now: number): void {
    this.#askForTicketAt = now + reauthWithinMs
    this.say({ type: 'reauth', before: this.#expiresAt })
  }

  async #reauthenticate(ticket: string): Promise<void> {
    try {
      await this.#context.redeem(ticket, (holder, frame) => {
        if (bearerOf(holder) !== bearerOf(this.holder)) throw new ProtocolError('The ticket is for another identity')
        this.renew(holder)
        this.frameJudged(frame)
        if (this.#hasEnded) return
        this.say({ type: 'reauthed', expires_at: this.#expiresAt })
      })
    } catch (error) {
      // The ticket couldn't be checked: the page is asked again until the session expires.
      if (!(error instanceof ProtocolError)) return
      // The page may reconnect with a valid ticket.
      this.end({ code: 'identity_expired', reason: 'The ticket is not valid for this session', retryAfterMs: 1_000 })
    }
  }
}

/**
 * Whether the other end is the chat's own frame, and not a script of the page or a program that the script gave the
 * user's ID token to. For a user, only a confirmed key shows it. A preview's token is only issued to our dashboard, and
 * what a visitor may see depends on a secret that the frame keeps to itself.
 */
function isOwnFrame({ end_user }: TicketHolder, opened: RuntimeSocket['opened']): boolean {
  if (!opened?.isFromOurOrigin) return false
  return end_user === undefined || end_user.previewer !== undefined || opened.frame?.is_confirmed === true
}

const expiryOf = ({ end_user }: TicketHolder, now: number): number =>
  Math.min(now + longestSessionMs, (end_user?.identity_expires_at ?? Number.POSITIVE_INFINITY) + clockSkewMs)
