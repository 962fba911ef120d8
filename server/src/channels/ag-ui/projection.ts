import {
  type Event,
  EventType,
  type Interrupt,
  type Message,
  PROTOCOL_VERSION,
  type RunFinishedOutcome,
  type TokenUsage,
} from '@ag-ui/core'
import type { UIMessageChunk } from 'ai'
import type { RunError, RunStatus } from '../../agent/runs/run.ts'
import type { ViewMessage } from './request.ts'

/** What a projection needs to know about its request. */
export interface ProjectedRequest {
  threadId: string
  /** The client's name for the run. */
  runId: string
  /** The messages that the client shows. */
  view: readonly ViewMessage[]
  /** Inlay's own URL. */
  publicUrl: string
  /** The session's, empty outside a browser. Questions about tools of other origins can't be answered over AG-UI. */
  origin: string
}

interface RunPosition {
  id: string
  attempt: number
}

/** How a call looks in the log of its run. */
interface SeenCall {
  name: string
  /** Runs in the client. */
  isClients: boolean
  origin: string | undefined
  state: 'open' | 'asking' | 'done'
  /** Why the user is asked. */
  question?: string
  /** Where the user connects the account that the call needs. */
  connectUrl?: string
}

/** The texts, the calls with their arguments, and the results that the client shows. */
interface Shown {
  texts: Map<string, string>
  calls: Map<string, string>
  results: Set<string>
}

/**
 * Turns the log of a run into AG-UI events, for one request of a client. A run of ours can span several runs of AG-UI,
 * because those end at each question to the user. Each request gets the log from its beginning, so events whose effect
 * the client already shows are skipped.
 *
 * A new attempt can discard text. AG-UI can't take back text, so a snapshot then removes the run's messages from what
 * the client shows, and they are sent again.
 */
export class Projection {
  readonly #request: Omit<ProjectedRequest, 'view'>
  #view: readonly ViewMessage[]
  #shown: Shown
  #run: RunPosition | undefined
  /** Number of chunks taken of the current attempt. */
  #position = 0
  /** Number of messages in the current attempt. */
  #messages = 0
  /** The text that is being written, and how much of it the log has reached. */
  #text: { id: string; length: number; isOpen: boolean } | undefined
  /** The message that holds the calls of the current step. */
  #parent: string | undefined
  #calls = new Map<string, SeenCall>()
  #usage: readonly ReportedUsage[] = []
  #events: Event[] = []

  constructor({ view, ...request }: ProjectedRequest) {
    this.#request = request
    this.#view = view
    this.#shown = readView(view)
  }

  /** The client is gone, so what it shows no longer matters. */
  forgetView(): void {
    this.#view = []
    this.#shown = readView([])
  }

  /** `late` are results by their call that replace what the client shows of these calls. */
  start(late: ReadonlyMap<string, string> = new Map()): Event[] {
    const started: Event = { type: EventType.RUN_STARTED, ...this.#ids, protocolVersion: PROTOCOL_VERSION }
    if (late.size === 0) return [started]
    this.#view = this.#view.map((message) => {
      const content = message.role === 'tool' ? late.get(message.toolCallId ?? '') : undefined
      return content === undefined ? message : { ...message, content }
    })
    return [started, this.#snapshot()]
  }

  /** `n` is the position of the first chunk. A batch from 0 replaces the log so far, and has all finished steps. */
  take(run: RunPosition, n: number, chunks: readonly UIMessageChunk[]): Event[] {
    const isOlder = run.id === this.#run?.id && run.attempt < this.#run.attempt
    if (n === 0 && !isOlder) this.#begin(run, chunks)
    if (run.id === this.#run?.id && run.attempt === this.#run.attempt) {
      for (const chunk of chunks.slice(Math.max(0, this.#position - n))) this.#project(chunk)
      this.#position = Math.max(this.#position, n + chunks.length)
    }
    return this.#flush()
  }

  /** Calls that wait for the user. */
  get questions(): string[] {
    return this.#callsWhere(({ state }) => state === 'asking')
  }

  /** Calls that the client has to run. */
  get pendingCalls(): string[] {
    return this.#callsWhere(({ state, isClients }) => state === 'open' && isClients)
  }

  has(callId: string): boolean {
    return this.#calls.has(callId)
  }

  end(status: RunStatus, error: RunError | null): Event[] {
    this.#closeText()
    const usage = this.#describeUsage()
    if (status === 'failed') {
      const { code, message } = error ?? { code: 'INTERNAL_ERROR', message: 'The agent failed. Try again.' }
      this.#events.push({ type: EventType.RUN_ERROR, message, code, ...(usage.length > 0 && { usage }) })
    } else {
      const outcome = this.#outcome(status)
      this.#events.push({ type: EventType.RUN_FINISHED, ...this.#ids, outcome, ...(usage.length > 0 && { usage }) })
    }
    return this.#flush()
  }

  /** Ends the stream for a reason that isn't the run's. */
  fail(code: string, message: string): Event[] {
    this.#closeText()
    this.#events.push({ type: EventType.RUN_ERROR, message, code })
    return this.#flush()
  }

  get #ids(): { threadId: string; runId: string } {
    const { threadId, runId } = this.#request
    return { threadId, runId }
  }

  #begin(run: RunPosition, chunks: readonly UIMessageChunk[]): void {
    this.#closeText()
    this.#run = run
    this.#position = 0
    this.#messages = 0
    this.#parent = undefined
    this.#calls = new Map()
    this.#usage = []
    if (this.#hasDiscardedText(run, chunks)) this.#removeMessages(run)
  }

  /** Whether the client shows text of the run that isn't in its log. */
  #hasDiscardedText(run: RunPosition, chunks: readonly UIMessageChunk[]): boolean {
    const shown = [...this.#shown.texts].filter(([id]) => isOfRun(id, run))
    if (shown.length === 0) return false
    const log = new Projection({ ...this.#request, view: [] })
    log.take(run, 0, chunks)
    return shown.some(([id, text]) => !(log.#shown.texts.get(id) ?? '').startsWith(text))
  }

  #removeMessages(run: RunPosition): void {
    this.#view = withoutRun(this.#view, run)
    this.#shown = readView(this.#view)
    this.#events.push(this.#snapshot())
  }

  #snapshot(): Event {
    return { type: EventType.MESSAGES_SNAPSHOT, messages: [...this.#view] as object[] as Message[] }
  }

  #project(chunk: UIMessageChunk): void {
    switch (chunk.type) {
      case 'start-step':
        this.#closeText()
        this.#parent = undefined
        return
      case 'text-start':
        this.#closeText()
        this.#parent = this.#newMessageId()
        this.#text = { id: this.#parent, length: 0, isOpen: false }
        return
      case 'text-delta':
        this.#write(chunk.delta)
        return
      case 'text-end':
        this.#closeText()
        return
      case 'tool-input-available':
        this.#call(chunk)
        return
      case 'tool-approval-request':
        this.#ask(chunk.toolCallId, chunk.reason)
        return
      case 'tool-approval-response':
        // The id of an approval is the id of its call.
        this.#decide(chunk.approvalId)
        return
      case 'data-connect':
        this.#connect(chunk.id ?? '', chunk.data)
        return
      case 'tool-output-available':
        this.#settle(chunk.toolCallId, chunk.output)
        return
      case 'tool-output-error':
        this.#settle(chunk.toolCallId, chunk.errorText)
        return
      case 'tool-output-denied':
        this.#settle(chunk.toolCallId, 'The user declined the call. Nothing was done.')
        return
      case 'start':
      case 'finish':
      case 'message-metadata':
        this.#readUsage(chunk.messageMetadata)
        return
      // Other chunks have no counterpart that clients show.
      default:
    }
  }

  #newMessageId(): string {
    this.#messages += 1
    return `${this.#run?.id}.${this.#messages}`
  }

  #write(delta: string): void {
    const text = this.#text
    if (!text) return
    const shown = this.#shown.texts.get(text.id) ?? ''
    const added = delta.slice(Math.max(0, shown.length - text.length))
    text.length += delta.length
    if (added === '') return
    this.#shown.texts.set(text.id, shown + added)
    const last = this.#events.at(-1)
    if (last?.type === EventType.TEXT_MESSAGE_CONTENT && last.messageId === text.id) {
      last.delta += added
      return
    }
    if (!text.isOpen) {
      this.#events.push({ type: EventType.TEXT_MESSAGE_START, messageId: text.id, role: 'assistant' })
    }
    text.isOpen = true
    this.#events.push({ type: EventType.TEXT_MESSAGE_CONTENT, messageId: text.id, delta: added })
  }

  #closeText(): void {
    if (this.#text?.isOpen) this.#events.push({ type: EventType.TEXT_MESSAGE_END, messageId: this.#text.id })
    this.#text = undefined
  }

  #call({ toolCallId, toolName, input, toolMetadata }: CallChunk): void {
    if (this.#calls.has(toolCallId)) return
    this.#closeText()
    this.#parent ??= this.#newMessageId()
    const { kind, name, origin } = (toolMetadata ?? {}) as { kind?: string; name?: string; origin?: string | null }
    const isClients = kind === 'client'
    // The client knows its own tools by the names that it gave them.
    const toolCallName = isClients ? (name ?? toolName) : toolName
    this.#calls.set(toolCallId, { name: toolCallName, isClients, origin: origin ?? undefined, state: 'open' })
    const args = JSON.stringify(input ?? {})
    const shown = this.#shown.calls.get(toolCallId) ?? ''
    // A connection can break between the events of a call.
    if (shown.length >= args.length) return
    this.#shown.calls.set(toolCallId, args)
    this.#events.push(
      { type: EventType.TOOL_CALL_START, toolCallId, toolCallName, parentMessageId: this.#parent },
      { type: EventType.TOOL_CALL_ARGS, toolCallId, delta: args.slice(shown.length) },
      { type: EventType.TOOL_CALL_END, toolCallId },
    )
  }

  #ask(id: string, question: string | undefined): void {
    const call = this.#calls.get(id)
    if (call?.state !== 'open') return
    call.state = 'asking'
    if (question) call.question = question
  }

  #decide(id: string): void {
    const call = this.#calls.get(id)
    if (call?.state === 'asking') call.state = 'open'
  }

  #connect(id: string, data: unknown): void {
    const call = this.#calls.get(id)
    const { path } = (data ?? {}) as { path?: string }
    if (call && path) call.connectUrl = this.#request.publicUrl + path
  }

  #settle(id: string, output: unknown): void {
    const call = this.#calls.get(id)
    if (!call) return
    call.state = 'done'
    if (this.#shown.results.has(id)) return
    this.#shown.results.add(id)
    const text = typeof output === 'string' ? output : JSON.stringify(output ?? null)
    const content = call.connectUrl === undefined ? text : `${text}\n\nConnect: ${call.connectUrl}`
    const messageId = `${this.#run?.id}.${id}`
    this.#events.push({ type: EventType.TOOL_CALL_RESULT, messageId, toolCallId: id, content, role: 'tool' })
  }

  #callsWhere(matches: (call: SeenCall) => boolean): string[] {
    return [...this.#calls].filter(([, call]) => matches(call)).map(([id]) => id)
  }

  #outcome(status: RunStatus): RunFinishedOutcome {
    if (status === 'stopped') return { type: 'cancelled' }
    if (status !== 'waiting') return { type: 'success' }
    const interrupts = this.questions.map((id) => this.#describeInterrupt(id, this.#calls.get(id) as SeenCall))
    if (interrupts.length > 0) return { type: 'interrupt', interrupts }
    return { type: 'success', pendingToolCallIds: this.pendingCalls }
  }

  #describeInterrupt(id: string, { name, question, origin }: SeenCall): Interrupt {
    const message = question ?? `The agent wants to use ${name}.`
    const isOwn = origin === this.#request.origin
    return {
      id,
      reason: 'approval',
      message: isOwn ? message : `${message} Approve it in the agent’s panel.`,
      toolCallId: id,
      responseSchema,
    }
  }

  /** The last chunk has all tokens of the run. */
  #readUsage(metadata: unknown): void {
    const { usage } = (metadata ?? {}) as { usage?: ReportedUsage[] }
    if (usage) this.#usage = usage
  }

  #describeUsage(): TokenUsage[] {
    return this.#usage.map(({ model, prompt_tokens, completion_tokens }) => ({
      model,
      inputTokens: prompt_tokens,
      outputTokens: completion_tokens,
      totalTokens: prompt_tokens + completion_tokens,
    }))
  }

  #flush(): Event[] {
    const events = this.#events
    this.#events = []
    return events
  }
}

type CallChunk = Extract<UIMessageChunk, { type: 'tool-input-available' }>

/** The tokens that the run used of one model. */
interface ReportedUsage {
  model: string
  prompt_tokens: number
  completion_tokens: number
}

/** Whether a message of the client is one of the run's. */
const isOfRun = (messageId: string, { id }: RunPosition): boolean => messageId.startsWith(`${id}.`)

function readView(view: readonly ViewMessage[]): Shown {
  const shown: Shown = { texts: new Map(), calls: new Map(), results: new Set() }
  for (const { id, role, content, toolCallId, toolCalls = [] } of view) {
    if (role === 'tool' && toolCallId !== undefined) shown.results.add(toolCallId)
    if (role !== 'assistant') continue
    if (typeof content === 'string') shown.texts.set(id, content)
    for (const call of toolCalls) shown.calls.set(call.id, call.function?.arguments ?? '')
  }
  return shown
}

/** Also without the results that the client gave to the run's calls. */
function withoutRun(view: readonly ViewMessage[], run: RunPosition): readonly ViewMessage[] {
  const calls = view.filter(({ id }) => isOfRun(id, run)).flatMap(({ toolCalls = [] }) => toolCalls.map(({ id }) => id))
  return view.filter(({ id, toolCallId = '' }) => !isOfRun(id, run) && !calls.includes(toolCallId))
}

/** The payload of a resume entry. */
const responseSchema = {
  type: 'object',
  properties: {
    approved: { type: 'boolean', description: 'Whether the call may be made' },
    editedArgs: { type: 'object', description: 'Replaces the call’s arguments' },
  },
  required: ['approved'],
  additionalProperties: false,
}
