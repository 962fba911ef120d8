import { type ClientMessage, longestCallMs, maxRunningCalls, maxTitleLength, type ServerMessage } from '@inlay/protocol'
import type { Switchboard } from '../hub/switchboard.ts'
import { PassingMap } from '../lib/passing-map.ts'
import type { CallOrder, Handover } from '../stores/bus-messages.ts'
import { cleanLine } from '../untrusted/page-text.ts'

type RunningCall = Handover['calls'][number]

/** The part of a session that its calls need. */
interface Page {
  readonly id: string
  say(message: ServerMessage): void
}

/** The calls that a page is running or asks its user about, and the nodes that wait for their results. */
export class SessionCalls {
  readonly #page: Page
  readonly #switchboard: Switchboard
  readonly #calls = new PassingMap<RunningCall>()

  constructor(page: Page, switchboard: Switchboard) {
    this.#page = page
    this.#switchboard = switchboard
  }

  /** Returns false if the page is already running too many calls. */
  start(order: CallOrder, replyTo: string, now: number): boolean {
    if (this.#calls.size >= maxRunningCalls) return false
    this.#calls.set(order.call_id, { order, replyTo, startedAt: now })
    this.#page.say(describeOrder(order))
    return true
  }

  cancel(callId: string, reason: string): void {
    if (this.#calls.delete(callId)) this.#page.say({ type: 'tool/cancel', call_id: callId, reason })
  }

  run(callId: string): void {
    const call = this.#calls.get(callId)
    if (!call) return
    // A connector's tool doesn't run in the page, so the page's part ends here.
    if (call.order.question) this.#calls.delete(callId)
    this.#page.say({ type: 'tool/run', call_id: callId })
  }

  isAsking(question: string): boolean {
    return Array.from(this.#calls).some(([, { order }]) => order.question?.key === question)
  }

  /** The call may have ended while the page was disconnected. */
  reportApproval({ call_id, state, approval }: ClientMessage & { type: 'tool/approval' }): void {
    const call = this.#calls.get(call_id)
    if (!call) this.#page.say({ type: 'tool/cancel', call_id, reason: 'The call has ended' })
    else if (state === 'asking') {
      // The caller's node already counts the time of a question.
      if (!call.order.question) this.#switchboard.asking(call.replyTo, call_id)
    } else this.#switchboard.allowed(call.replyTo, call_id, this.#page.id, approval)
  }

  reportProgress({ call_id, progress, total, message }: ClientMessage & { type: 'tool/progress' }): void {
    const call = this.#calls.get(call_id)
    if (!call) return
    this.#switchboard.progress(call.replyTo, call_id, {
      progress,
      ...(total !== undefined && { total }),
      ...(message !== undefined && { message: cleanLine(message, maxTitleLength) }),
    })
  }

  /** Ignores results for calls that this page isn't running. */
  settle({ call_id, result, error, approval }: ClientMessage & { type: 'tool/result' }): void {
    const call = this.#calls.get(call_id)
    // Only `tool/approval` allows a question, and an error declines it; a result must not count as approval.
    if (!call || (call.order.question && !error)) return
    this.#calls.delete(call_id)
    this.#switchboard.settled(call.replyTo, call_id, error ? { error, approval } : { result, approval })
  }

  /** Sends the calls again, because the page may have lost them with its previous socket. */
  resend(mayAsk: boolean): void {
    for (const [callId, { order, replyTo }] of this.#calls) {
      if (!order.question || mayAsk) this.#page.say(describeOrder(order))
      else {
        this.#calls.delete(callId)
        this.#switchboard.left(replyTo, callId)
      }
    }
  }

  sweep(now: number): void {
    for (const [callId, { startedAt, replyTo }] of this.#calls) {
      // Only reached if the cancel message of the caller's node was lost.
      if (now - startedAt > longestCallMs) this.cancel(callId, 'The deadline has passed')
      else if (!this.#switchboard.isAlive(replyTo)) {
        this.cancel(callId, 'The caller disconnected')
        // If that node was only unreachable, its caller doesn't have to wait for the deadline.
        this.#switchboard.left(replyTo, callId)
      }
    }
  }

  /** Continues the calls of a session that another node has handed over. */
  takeOver(calls: readonly RunningCall[]): void {
    for (const call of calls) {
      this.#calls.set(call.order.call_id, call)
      this.#switchboard.moved(call.replyTo, call.order.call_id)
    }
  }

  /** Returns the calls and forgets them, because they continue on another node. */
  handOver(): RunningCall[] {
    const calls = Array.from(this.#calls, ([, call]) => call)
    this.#calls.clear()
    return calls
  }

  /** Tells the callers that the page has left without a result. */
  abandon(): void {
    for (const [callId, { replyTo }] of this.#calls) this.#switchboard.left(replyTo, callId)
    this.#calls.clear()
  }
}

function describeOrder({ question, ...order }: CallOrder): ServerMessage {
  if (!question) return { type: 'tool/call', ...order }
  const { name, ...rest } = order
  const { connector, title, description } = question
  return { type: 'tool/ask', ...rest, connector, tool: { name, description, ...(title !== undefined && { title }) } }
}
