import type { Approval, ClientMessageInput, ServerMessage } from '@inlay/protocol'
import { maxMessageBytes } from '@inlay/protocol/values'
import { onlyReads, type PageTool } from '../channel.ts'
import { bytesOf } from './tool-messages.ts'

type ToolCall = Extract<ServerMessage, { type: 'tool/call' }>
type ToolAsk = Extract<ServerMessage, { type: 'tool/ask' }>
type RecentCalls = Extract<ServerMessage, { type: 'calls/recent' }>
type Outcome = Omit<Extract<ClientMessageInput, { type: 'tool/result' }>, 'type' | 'call_id' | 'approval'>

export interface Call {
  id: string
  tool: PageTool
  /** Set if the tool runs at a tool server: the user is asked here, but the page learns nothing about the call. */
  connector: Connector | undefined
  args: Record<string, unknown>
  /** Name of the calling client, if the server knows it. */
  client: string | undefined
  /** `allowed`: the user allowed the call, but the server hasn't confirmed yet that the caller is still waiting. */
  state: 'asking' | 'allowed' | 'running' | 'done' | 'failed' | 'declined' | 'cancelled'
  /** The reason for a failure or cancellation. */
  message?: string
  /** Set for a call of the agent: its result is still wanted in the page's next session. */
  receipt?: string
  /** The result that was sent, kept in case it was lost. */
  outcome?: Outcome
  /** The arguments arrive once the user has confirmed this browser. */
  isHidden?: boolean
  /** When the result was first sent, from `performance.now()`. */
  endedAt?: number
  /** Identifies the exact definition that an approval applies to. */
  subject: string
  /** Whether the user has allowed the same call of the same client before. */
  isRepeated: boolean
  /** Arrival time, from `performance.now()`. */
  receivedAt: number
  /** Undefined until the user has decided. */
  approval?: Approval
}

/** A call from before this page was loaded. */
export type RecordedCall = RecentCalls['calls'][number]

type Connector = ToolAsk['connector']

export type Decision = 'once' | 'always' | 'no'

/** A tool that runs without asking, as long as its definition doesn't change. */
export interface Permission {
  subject: string
  tool: PageTool
  connector: Connector | undefined
}

export interface CallsOptions {
  findTool(name: string): PageTool | undefined
  /** The call may run now, in the page or at the tool server. */
  run(call: Call): void
  stop(call: Call): void
  send(message: ClientMessageInput): void
  /** A call ended before the user answered, or before the answer took effect. */
  onWithdrawn(call: Call): void
  /** A call was answered. */
  onEnd?(call: Call, state: 'done' | 'failed' | 'declined'): void
  onChange(): void
}

const rememberedCalls = 200
/** Results that are sent again in a new session, because they may have been lost with the last one. */
const repeatedResults = 16
/** A result that was sent this long before the connection dropped has arrived. */
const arrivedAfterMs = 15_000

/**
 * Tracks calls of this page's tools, from arrival to result, and questions about tools that run at tool servers. A tool
 * that may change something never runs without approval.
 */
export class Calls {
  readonly #options: CallsOptions
  readonly #approved = new Map<string, Pick<Permission, 'tool' | 'connector'>>()
  readonly #calls = new Map<string, Call>()
  #earlier: RecordedCall[] = []
  #droppedAt = 0

  constructor(options: CallsOptions) {
    this.#options = options
  }

  /** Newest last. */
  get list(): Call[] {
    return [...this.#calls.values()]
  }

  /** Calls from before this page was loaded, newest last. */
  get earlier(): RecordedCall[] {
    return this.#earlier.filter(({ call_id }) => !this.#calls.has(call_id))
  }

  /** Calls that wait for the user, oldest first. */
  get waiting(): Call[] {
    return this.list.filter(({ state }) => state === 'asking')
  }

  get permissions(): Permission[] {
    return [...this.#approved].map(([subject, permission]) => ({ subject, ...permission }))
  }

  receive({ call_id: id, name, args, definition_hash, client_name: client, approval_id, receipt }: ToolCall): void {
    const tool = this.#options.findTool(name)
    if (this.#recall(id)) return
    if (!tool) {
      const error = { code: 'unknown_tool' as const, message: `This page has no tool named ${name}` }
      this.#options.send({ type: 'tool/result', call_id: id, error })
    } else {
      const subject = `${definition_hash} ${JSON.stringify(tool)}`
      const call = { id, tool, connector: undefined, args, client, subject, ...(receipt !== undefined && { receipt }) }
      this.#begin(call, approval_id !== undefined)
    }
  }

  /** Asks the user about a tool that runs at a tool server. */
  receiveQuestion(ask: ToolAsk): void {
    const {
      call_id: id,
      tool,
      connector,
      args,
      definition_hash,
      client_name: client,
      is_hidden: isHidden = false,
    } = ask
    const known = this.#calls.get(id)
    if (known?.isHidden && !isHidden) this.#reveal(known, args)
    if (this.#recall(id)) return
    const { title, ...rest } = tool
    const subject = JSON.stringify([connector.name, connector.origin, tool.name, definition_hash])
    const shown = { ...rest, ...(title !== undefined && { title }) }
    this.#begin({ id, tool: shown, connector, args, client, subject, isHidden })
  }

  #reveal(call: Call, args: Record<string, unknown>): void {
    Object.assign(call, { args, isHidden: false, receivedAt: performance.now() })
    call.isRepeated = this.list.some((other) => other !== call && wasAllowed(other) && isSame(other, call))
    this.#options.onChange()
  }

  remember(calls: RecordedCall[]): void {
    this.#earlier = calls
    this.#options.onChange()
  }

  /** The server confirmed that the caller of an allowed call is still waiting. */
  confirm(id: string): void {
    const call = this.#calls.get(id)
    if (call?.state !== 'allowed') return
    call.state = call.connector ? 'done' : 'running'
    this.#options.run(call)
    this.#options.onChange()
  }

  decide(id: string, decision: Decision): void {
    const call = this.#calls.get(id)
    if (call?.state !== 'asking' || (call.isHidden && decision !== 'no')) return
    const after_ms = Math.round(performance.now() - call.receivedAt)
    call.approval = { how: decision === 'no' ? 'declined' : 'allowed', after_ms }
    if (decision === 'no') {
      this.#end(call, 'declined', { error: { code: 'declined', message: 'The user declined the call' } })
      return
    }
    if (decision === 'always') this.#approved.set(call.subject, { tool: call.tool, connector: call.connector })
    // The approval also applies to other calls that wait for it.
    const cleared = this.list.filter((other) => other === call || this.#isNowFree(other))
    for (const each of cleared) {
      each.state = 'allowed'
      each.approval ??= { how: 'always_allowed' }
      this.#tellApproval(each)
    }
    this.#options.onChange()
  }

  /** Revokes a standing permission: the next call of the tool asks again. */
  revoke(subject: string): void {
    if (this.#approved.delete(subject)) this.#options.onChange()
  }

  finish(id: string, text: string): void {
    const outcome = { result: readResult(text) }
    const call = this.#calls.get(id)
    if (call?.state !== 'running') return
    if (bytesOf(outcome) < maxMessageBytes - 1024) this.#end(call, 'done', outcome)
    else this.fail(id, 'The result exceeds the maximum size of a message')
  }

  fail(id: string, message: string): void {
    const call = this.#calls.get(id)
    if (call?.state !== 'running') return
    call.message = message.slice(0, 1000)
    this.#end(call, 'failed', { error: { code: 'failed', message: call.message } })
  }

  /** The result is no longer needed. */
  cancel(id: string, reason: string): void {
    const call = this.#calls.get(id)
    if (call?.state !== 'running' && call?.state !== 'asking' && call?.state !== 'allowed') return
    const isRunning = call.state === 'running'
    call.state = 'cancelled'
    call.message = reason
    if (isRunning) this.#options.stop(call)
    else this.#options.onWithdrawn(call)
    this.#options.onChange()
  }

  /** The connection was lost. */
  dropped(): void {
    this.#droppedAt = performance.now()
  }

  /** A new session may belong to another user, so nothing of the last one is kept, except for the same user's agent. */
  startOver(isSameUser = false): void {
    const kept = isSameUser ? this.list.filter(this.#isWantedLater).slice(-repeatedResults) : []
    for (const call of this.list) if (!kept.includes(call)) this.cancel(call.id, 'The page started a new session')
    this.#calls.clear()
    for (const call of kept) {
      this.#calls.set(call.id, call)
      if (call.outcome) this.#answer(call)
    }
    this.#earlier = []
    this.#approved.clear()
    this.#options.onChange()
  }

  #isNowFree = ({ state, subject }: Call) => state === 'asking' && this.#approved.has(subject)

  #isWantedLater = ({ receipt, state, endedAt = 0 }: Call) =>
    receipt !== undefined && (state === 'running' || endedAt > this.#droppedAt - arrivedAfterMs)

  /** Handles a call that the server resent after a drop: the tool must not run again. */
  #recall(id: string): boolean {
    const known = this.#calls.get(id)
    if (known?.outcome) this.#answer(known)
    else if (known) this.#tellApproval(known)
    return known !== undefined
  }

  /** `isSettled`: the server knows that the call is approved. Only the server can send messages on the socket. */
  #begin(given: Omit<Call, 'state' | 'isRepeated' | 'receivedAt'>, isSettled = false): void {
    const isApproved = this.#approved.has(given.subject)
    const mayRun = !given.connector && (isSettled || isApproved || onlyReads(given.tool))
    const state = mayRun ? 'running' : isApproved ? 'allowed' : 'asking'
    const call: Call = { ...given, isRepeated: false, receivedAt: performance.now(), state }
    if (state !== 'asking' && !isSettled) call.approval = { how: isApproved ? 'always_allowed' : 'not_needed' }
    call.isRepeated = this.list.some((other) => wasAllowed(other) && isSame(other, call))
    this.#keep(call)
    if (mayRun) this.#options.run(call)
    else this.#ask(call)
    this.#options.onChange()
  }

  /** A caller that repeats a call has given up on the first one: approving both would run the tool twice. */
  #ask(call: Call): void {
    this.#tellApproval(call)
    if (call.state !== 'asking') return
    for (const other of this.waiting) {
      if (other === call || !isSame(other, call)) continue
      other.message = 'It repeated the call'
      this.#end(other, 'cancelled', { error: { code: 'replaced', message: replacedText } })
      this.#options.onWithdrawn(other)
    }
  }

  #tellApproval({ id, state, approval }: Call): void {
    if (state !== 'asking' && state !== 'allowed') return
    this.#options.send({ type: 'tool/approval', call_id: id, state, ...(approval && { approval }) })
  }

  #end(call: Call, state: Call['state'], outcome: Outcome): void {
    call.state = state
    call.outcome = outcome
    call.endedAt = performance.now()
    this.#answer(call)
    if (state === 'done' || state === 'failed' || state === 'declined') this.#options.onEnd?.(call, state)
    this.#options.onChange()
  }

  #answer({ id, outcome, approval, receipt }: Call): void {
    const proof = receipt !== undefined && { receipt }
    this.#options.send({ type: 'tool/result', call_id: id, ...outcome, ...(approval && { approval }), ...proof })
  }

  #keep(call: Call): void {
    this.#calls.set(call.id, call)
    if (this.#calls.size <= rememberedCalls) return
    const oldest = this.list.find(({ state }) => state !== 'asking' && state !== 'allowed' && state !== 'running')
    if (oldest) this.#calls.delete(oldest.id)
  }
}

const replacedText = 'The call was repeated, so the user is only asked about the newer one. This one did not run.'

const wasAllowed = ({ state }: Call) => state === 'allowed' || state === 'running' || state === 'done'

const isSame = (one: Call, other: Call): boolean =>
  !one.isHidden &&
  !other.isHidden &&
  one.subject === other.subject &&
  one.client === other.client &&
  JSON.stringify(one.args) === JSON.stringify(other.args)

/** Pages can return anything, and browsers pass it on as JSON or unchanged. */
export function readResult(text: string): unknown {
  if (text === 'undefined') return null
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
