import type { ClientMessageInput, ServerMessage } from '../../../server/src/runtime/protocol.ts'
import { maxMessageBytes } from '../../../server/src/runtime/protocol-values.ts'
import { onlyReads, type PageTool } from '../channel.ts'
import { bytesOf } from './tool-messages.ts'

type ToolCall = Extract<ServerMessage, { type: 'tool/call' }>
type Outcome = Omit<Extract<ClientMessageInput, { type: 'tool/result' }>, 'type' | 'call_id'>

export interface Call {
  id: string
  tool: PageTool
  args: Record<string, unknown>
  /** The name of the client that calls, where the server knows it. */
  client: string | undefined
  state: 'asking' | 'running' | 'done' | 'failed' | 'declined' | 'cancelled'
  /** What went wrong. */
  message?: string
  /** What was answered, in case that the answer was lost on its way. */
  outcome?: Outcome
  /** What an approval is for: this very definition. */
  subject: string
}

export type Decision = 'once' | 'always' | 'no'

/** A tool that runs without asking, in exactly this definition. */
export interface Permission {
  subject: string
  tool: PageTool
}

export interface CallsOptions {
  findTool(name: string): PageTool | undefined
  run(call: Call): void
  stop(call: Call): void
  send(message: ClientMessageInput): void
  onChange(): void
}

const rememberedCalls = 200
/** Well within the deadline of a call. */
export const sayStillAskingMs = 20_000

/** The calls of this page's tools, from their arrival to their result; nothing that may change something runs unasked. */
export class Calls {
  readonly #options: CallsOptions
  readonly #approved = new Map<string, PageTool>()
  readonly #calls = new Map<string, Call>()

  constructor(options: CallsOptions) {
    this.#options = options
  }

  /** The newest last. */
  get list(): Call[] {
    return [...this.#calls.values()]
  }

  /** The calls that wait for the user, the oldest first. */
  get waiting(): Call[] {
    return this.list.filter(({ state }) => state === 'asking')
  }

  get permissions(): Permission[] {
    return [...this.#approved].map(([subject, tool]) => ({ subject, tool }))
  }

  receive({ call_id: id, name, args, definition_hash, client_name: client }: ToolCall): void {
    const known = this.#calls.get(id)
    const tool = this.#options.findTool(name)
    if (known) {
      // Sent once more after a drop: the tool must not run again.
      if (known.outcome) this.#answer(known)
    } else if (!tool) {
      const error = { code: 'unknown_tool' as const, message: `This page has no tool ${name}` }
      this.#options.send({ type: 'tool/result', call_id: id, error })
    } else {
      const subject = `${definition_hash} ${JSON.stringify(tool)}`
      const isFree = onlyReads(tool) || this.#approved.has(subject)
      const call: Call = { id, tool, args, client, subject, state: isFree ? 'running' : 'asking' }
      this.#keep(call)
      if (isFree) this.#options.run(call)
      this.#options.onChange()
    }
  }

  decide(id: string, decision: Decision): void {
    const call = this.#calls.get(id)
    if (call?.state !== 'asking') return
    if (decision === 'no') {
      this.#end(call, 'declined', { error: { code: 'declined', message: 'The user declined the call' } })
      return
    }
    if (decision === 'always') this.#approved.set(call.subject, call.tool)
    // Others that wait for the same approval have it now.
    const cleared = this.list.filter((other) => other === call || this.#isNowFree(other))
    for (const each of cleared) each.state = 'running'
    for (const each of cleared) this.#options.run(each)
    this.#options.onChange()
  }

  /** Takes a standing permission back: the next call of the tool asks again. */
  revoke(subject: string): void {
    if (this.#approved.delete(subject)) this.#options.onChange()
  }

  finish(id: string, text: string): void {
    const outcome = { result: readResult(text) }
    const call = this.#calls.get(id)
    if (call?.state !== 'running') return
    if (bytesOf(outcome) < maxMessageBytes - 1024) this.#end(call, 'done', outcome)
    else this.fail(id, 'The result is larger than a message may be')
  }

  fail(id: string, message: string): void {
    const call = this.#calls.get(id)
    if (call?.state !== 'running') return
    call.message = message.slice(0, 1000)
    this.#end(call, 'failed', { error: { code: 'failed', message: call.message } })
  }

  /** Nobody waits for the result any more. */
  cancel(id: string, reason: string): void {
    const call = this.#calls.get(id)
    if (call?.state !== 'running' && call?.state !== 'asking') return
    if (call.state === 'running') this.#options.stop(call)
    call.state = 'cancelled'
    call.message = reason
    this.#options.onChange()
  }

  /** Another session, and maybe another user: nothing of the last one counts. */
  startOver(): void {
    for (const { id } of this.list) this.cancel(id, 'The page has a new connection')
    this.#calls.clear()
    this.#approved.clear()
    this.#options.onChange()
  }

  sayStillAsking(): void {
    for (const { id, state } of this.list) {
      if (state === 'asking') {
        this.#options.send({ type: 'tool/progress', call_id: id, message: 'Waiting for the user to approve' })
      }
    }
  }

  #isNowFree = ({ state, subject }: Call) => state === 'asking' && this.#approved.has(subject)

  #end(call: Call, state: Call['state'], outcome: Outcome): void {
    call.state = state
    call.outcome = outcome
    this.#answer(call)
    this.#options.onChange()
  }

  #answer({ id, outcome }: Call): void {
    this.#options.send({ type: 'tool/result', call_id: id, ...outcome })
  }

  #keep(call: Call): void {
    this.#calls.set(call.id, call)
    if (this.#calls.size <= rememberedCalls) return
    const oldest = this.list.find(({ state }) => state !== 'asking' && state !== 'running')
    if (oldest) this.#calls.delete(oldest.id)
  }
}

/** Pages return anything, and browsers hand it on as JSON or as it is. */
export function readResult(text: string): unknown {
  if (text === 'undefined') return null
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
