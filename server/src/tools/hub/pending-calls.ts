import { type Approval, answerWithinMs, callDeadlineMs, longestCallMs } from '@inlay/protocol'
import { CallerGone, type ToolCall } from '../../kernel/foundation/tool.ts'
import type { ToolUser } from '../../kernel/foundation/tool-user.ts'
import { type Failure, failure } from '../../kernel/lib/errors.ts'
import { PassingMap } from '../../kernel/lib/passing-map.ts'
import type { PageResponse } from '../../kernel/untrusted/results.ts'
import type { CallFailure, CallOrder, FoundSource, HubMessage, Outcome, Progress } from './messages.ts'

/** Reasons why a call has no result. The tool may or may not have run, so the call is never retried. */
const callFailures = {
  SOURCE_GONE: [410, 'The user closed or left the page before the tool returned a result. The call was not retried.'],
  TOOL_CHANGED: [409, 'The page has changed the tool since it was listed. List the tools again before you call it.'],
  SOURCE_BUSY: [429, 'The page is already running too many calls. Try again when some have finished.'],
  CALL_TIMED_OUT: [504, 'The page did not return a result in time.'],
  APPROVAL_TIMED_OUT: [
    504,
    `The user did not answer within ${answerWithinMs / 1000} seconds, so nothing was done. Ask the user to look at the open page, where the agent’s panel asks for approval, and call the tool again.`,
  ],
  CALL_CANCELLED: [499, 'The call was cancelled.'],
} as const satisfies Record<CallFailure, readonly [status: number, message: string]>

interface PendingCall {
  user: ToolUser
  cancel(reason: string): void
  settle(outcome: Outcome): void
  progress(progress: Progress): void
  /** The page has started to ask the user. */
  asking(): void
  allowed(approval: Approval | undefined): void
  /** The page has reconnected to another node. */
  move(node: string): void
  node: string
  sourceId: string
  deadline: number
  latest: number
  /** Why the call ends when its deadline passes. */
  late: { failure: CallFailure; reason: string }
}

const notAnswered = { failure: 'CALL_TIMED_OUT', reason: 'The deadline has passed' } as const
const notApproved = {
  failure: 'APPROVAL_TIMED_OUT',
  reason: `The question was not answered within ${answerWithinMs / 1000} seconds`,
} as const

/** Calls that were made on this node and wait for a page, here or on another node. */
export interface PendingCalls {
  all(): Iterable<PendingCall>
  get(callId: string): PendingCall | undefined
  /**
   * Delivers the call once. Throws a Failure if the page returns no result. A question resolves with an empty result
   * when the user has allowed the call.
   */
  make(
    target: FoundSource,
    user: ToolUser,
    order: Omit<CallOrder, 'deadline'>,
    call: ToolCall,
    startedAt?: number,
  ): Promise<PageResponse>
  /** Ends calls whose deadline has passed or whose node is gone. Returns whether calls wait for other nodes. */
  sweep(): boolean
  /** Ends all calls. */
  close(): void
}

interface PendingCallsOptions {
  clock(): number
  /** Whether it's this node. */
  isHere(node: string): boolean
  isAlive(node: string): boolean
  post(node: string, message: HubMessage): void
}

export function createPendingCalls({ clock, isHere, isAlive, post }: PendingCallsOptions): PendingCalls {
  const pending = new PassingMap<PendingCall>()

  return {
    *all() {
      for (const [, call] of pending) yield call
    },
    get: (callId) => pending.get(callId),

    make(target, user, order, call, startedAt = clock()) {
      const callId = order.call_id
      const { sourceId } = target.source
      return new Promise((resolve, reject) => {
        const cancel = () => {
          if (call.signal.reason instanceof CallerGone) entry.settle({ failure: 'CALL_CANCELLED' })
          else entry.cancel(reasonOf(call.signal))
        }
        const entry: PendingCall = {
          user,
          cancel(reason) {
            post(entry.node, { kind: 'cancel', sourceId, callId, reason })
            entry.settle({ failure: 'CALL_CANCELLED' })
          },
          node: target.node,
          sourceId,
          deadline: startedAt + callDeadlineMs,
          latest: startedAt + longestCallMs,
          late: notAnswered,
          settle(outcome) {
            pending.delete(callId)
            call.signal.removeEventListener('abort', cancel)
            if ('failure' in outcome) reject(callFailure(outcome.failure))
            else resolve(outcome)
          },
          progress(progress) {
            // Progress doesn't extend the user's time to answer.
            if (entry.late === notAnswered) entry.deadline = Math.min(clock() + callDeadlineMs, entry.latest)
            call.progress(progress)
          },
          asking() {
            // Counted from the start, because a page that reconnects reports again that it's asking.
            entry.deadline = startedAt + answerWithinMs
            entry.late = notApproved
            call.progress({ progress: 0, message: 'Waiting for the user to approve' })
          },
          allowed(approval) {
            entry.late = notAnswered
            entry.progress({ progress: 0, message: 'The user has approved' })
            if (order.question) entry.settle({ result: undefined, approval })
          },
          move(node) {
            entry.node = node
          },
        }
        if (isCancelled(call)) return reject(callFailure('CALL_CANCELLED'))
        pending.set(callId, entry)
        call.signal.addEventListener('abort', cancel)
        if (order.question) entry.asking()
        post(entry.node, { kind: 'call', sourceId, owner: user.owner, order: { ...order, deadline: entry.deadline } })
      })
    },

    sweep() {
      const now = clock()
      let waitsForOthers = false
      for (const [callId, { node, sourceId, deadline, late, settle }] of pending) {
        waitsForOthers ||= !isHere(node)
        if (now >= deadline) {
          post(node, { kind: 'cancel', sourceId, callId, reason: late.reason })
          settle({ failure: late.failure })
        } else if (!isAlive(node)) settle({ failure: 'SOURCE_GONE' })
      }
      return waitsForOthers
    },

    close() {
      for (const [callId, { node, sourceId, settle }] of pending) {
        post(node, { kind: 'cancel', sourceId, callId, reason: 'The server is restarting' })
        settle({ failure: 'SOURCE_GONE' })
      }
    },
  }
}

export const isCancelled = ({ signal, mayStillCall }: ToolCall): boolean => signal.aborted || mayStillCall?.() === false

const reasonOf = ({ reason }: AbortSignal): string => (typeof reason === 'string' ? reason : 'The caller cancelled')

export function callFailure(code: CallFailure): Failure {
  const [status, message] = callFailures[code]
  return failure(status, code, message)
}
