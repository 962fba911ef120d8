import { createHmac, timingSafeEqual } from 'node:crypto'
import { type ClientMessage, longestCallMs, maxRunningCalls, maxTitleLength, type ServerMessage } from '@inlay/protocol'
import { PassingMap } from '../../kernel/lib/passing-map.ts'
import type { Secrets } from '../../kernel/lib/secrets.ts'
import { cleanLine } from '../../kernel/untrusted/page-text.ts'
import type { PageResponse } from '../../kernel/untrusted/results.ts'
import type { CallOrder, Handover } from '../../tools/hub/messages.ts'
import type { Switchboard } from '../../tools/hub/switchboard.ts'

type RunningCall = Handover['calls'][number]

/** The part of a session that its calls need. */
interface Page {
  readonly id: string
  say(message: ServerMessage): void
  /** Whether the user can answer questions about tools that don't run in the page. */
  canAnswer(): boolean
  /** Identifies the user and the tab, also in later sessions. */
  receiver(): string
  /** Takes a result that the call's caller no longer waits for. */
  addLateResult(callId: string, answer: PageResponse): void
}

/** Prove that a call was sent to a page, or to an earlier session of the same user and tab. */
export interface Receipts {
  write(receiver: string, callId: string): string
  isValid(receipt: string, receiver: string, callId: string): boolean
}

/** Receipts are signed values, so that they're still valid after a restart and on other nodes. */
export function createReceipts(secrets: Secrets): Receipts {
  const keys = secrets.derive('receipts of tool calls').map(({ key }) => key)
  const sign = (key: Buffer, receiver: string, callId: string) =>
    createHmac('sha256', key)
      .update(JSON.stringify([receiver, callId]))
      .digest()
  return {
    write: (receiver, callId) => sign(keys[0] as Buffer, receiver, callId).toString('base64url'),
    isValid(receipt, receiver, callId) {
      const given = Buffer.from(receipt, 'base64url')
      return keys.some((key) => given.length === 32 && timingSafeEqual(given, sign(key, receiver, callId)))
    },
  }
}

/** The agent continues a run on another node, so a page completes its calls even if their node is gone. */
const outlivesCaller = ({ approval_id }: CallOrder): boolean => approval_id !== undefined

/** The calls that a page is running or asks its user about, and the nodes that wait for their results. */
export class SessionCalls {
  readonly #page: Page
  readonly #switchboard: Switchboard
  readonly #receipts: Receipts
  readonly #calls = new PassingMap<RunningCall>()

  constructor(page: Page, switchboard: Switchboard, receipts: Receipts) {
    this.#page = page
    this.#switchboard = switchboard
    this.#receipts = receipts
  }

  /** Returns false if the page is already running too many calls. */
  start(order: CallOrder, replyTo: string, now: number): boolean {
    if (this.#calls.size >= maxRunningCalls) return false
    this.#calls.set(order.call_id, { order, replyTo, startedAt: now })
    this.#send(order)
    return true
  }

  #send(order: CallOrder): void {
    const message = describeOrder(order, this.#page.canAnswer())
    const isReceipted = message.type === 'tool/call' && outlivesCaller(order)
    const receipt = () => this.#receipts.write(this.#page.receiver(), order.call_id)
    this.#page.say(isReceipted ? { ...message, receipt: receipt() } : message)
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
    else if (call.order.question && !this.#page.canAnswer()) return
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

  /**
   * Ignores results for calls that this page isn't running, unless it has a receipt from an earlier session. Returns
   * whether the page was running the call.
   */
  settle({ call_id, result, error, approval, receipt }: ClientMessage & { type: 'tool/result' }): boolean {
    const call = this.#calls.get(call_id)
    const answer = error ? { error, approval } : { result, approval }
    if (!call) {
      const isOwn = receipt && this.#receipts.isValid(receipt, this.#page.receiver(), call_id)
      if (isOwn) this.#page.addLateResult(call_id, answer)
      return false
    }
    const { order, replyTo } = call
    // Only `tool/approval` allows a question, and an error declines it; a result must not count as approval.
    if (order.question && !error) return false
    this.#calls.delete(call_id)
    if (outlivesCaller(order)) void this.#settleSurely(replyTo, call_id, answer)
    else this.#switchboard.settled(replyTo, call_id, answer)
    return true
  }

  async #settleSurely(replyTo: string, callId: string, answer: PageResponse): Promise<void> {
    const isSettled = await this.#switchboard.settleIfWaiting(replyTo, callId, answer)
    if (!isSettled) this.#page.addLateResult(callId, answer)
  }

  /** Sends the calls again, because the page may have lost them with its previous socket. */
  resend(mayAsk: boolean): void {
    for (const [callId, { order, replyTo }] of this.#calls) {
      if (!order.question || mayAsk) this.#send(order)
      else {
        this.#calls.delete(callId)
        this.#switchboard.left(replyTo, callId)
      }
    }
  }

  /** With their arguments, which a frame only gets once it's confirmed. */
  resendQuestions(): void {
    for (const [, { order }] of this.#calls) if (order.question) this.#send(order)
  }

  sweep(now: number): void {
    for (const [callId, { order, startedAt, replyTo }] of this.#calls) {
      // Only reached if the cancel message of the caller's node was lost.
      if (now - startedAt > longestCallMs) this.cancel(callId, 'The deadline has passed')
      else if (!outlivesCaller(order) && !this.#switchboard.isAlive(replyTo)) {
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

function describeOrder({ question, ...order }: CallOrder, canAnswer: boolean): ServerMessage {
  if (!question) return { type: 'tool/call', ...order }
  const { name, args, ...rest } = order
  const { connector, title, description } = question
  const shown = canAnswer ? { args } : { args: {}, is_hidden: true }
  return {
    type: 'tool/ask',
    ...rest,
    ...shown,
    connector,
    tool: { name, description, ...(title !== undefined && { title }) },
  }
}
