import type { OpenThread } from './open-thread.ts'
import type { Requests } from './requests.ts'
import type { ShownState } from './shown-state.ts'
import type { ChatSession } from './state.ts'

/** What the user does about an answer of the agent. */
export interface Answers extends Pick<ChatSession, 'regenerate' | 'stop' | 'decide' | 'rate'> {
  /** Whether another answer was asked for and hasn't begun. */
  isRegenerating(): boolean
  /** Another user is there. */
  startOver(): void
}

interface AnswersOptions {
  ask: Requests['ask']
  thread: OpenThread
  shown: ShownState
}

/** The question is no longer open, whatever was decided. */
const goneQuestions = new Set(['ALREADY_DECIDED', 'QUESTION_EXPIRED', 'RESOURCE_NOT_FOUND'])
const maxCommentLength = 2_000

export function createAnswers({ ask, thread, shown }: AnswersOptions): Answers {
  const { forgetProblem, showRefusal } = shown
  let isRegenerating = false

  return {
    isRegenerating: () => isRegenerating,
    startOver() {
      isRegenerating = false
    },

    regenerate() {
      forgetProblem()
      if (isRegenerating) return
      isRegenerating = true
      const { id } = thread
      const replaces = thread.entries.findLast(({ role }) => role === 'assistant')?.id
      ask(
        { type: 'chat/send', thread_id: id, trigger: 'regenerate-message' },
        {
          kind: 'once',
          onResponse(response) {
            isRegenerating = false
            if (response.type === 'chat/start' && id === thread.id)
              thread.started({ runId: response.run_id, isQueued: false, replaces })
          },
          onRefusal(refusal) {
            isRegenerating = false
            showRefusal(refusal)
            if (id === thread.id) thread.refresh()
          },
        },
      )
    },

    stop() {
      forgetProblem()
      ask(
        { type: 'chat/abort', thread_id: thread.id },
        { kind: 'read', onResponse: () => undefined, onRefusal: showRefusal },
      )
    },

    decide(callId, { isApproved, editedArgs, always }) {
      forgetProblem()
      const { id } = thread
      thread.decide(callId, { isApproved, ...(editedArgs && { editedArgs }) })
      ask(
        {
          type: 'chat/decide',
          call_id: callId,
          approved: isApproved,
          ...(isApproved && editedArgs && { edited_args: editedArgs }),
          always: always !== undefined,
          ...(always && { scope: always }),
        },
        {
          kind: 'keep',
          onResponse: () => undefined,
          onRefusal(refusal) {
            if (refusal.code !== 'ALREADY_DECIDED') showRefusal(refusal)
            if (id !== thread.id) return
            thread.undecide(callId)
            if (goneQuestions.has(refusal.code)) thread.refresh()
          },
        },
      )
    },

    rate(messageId, rating, comment) {
      forgetProblem()
      const { id } = thread
      const before = thread.entries.find((entry) => entry.id === messageId)
      thread.rate(messageId, rating)
      ask(
        {
          type: 'chat/feedback',
          message_id: messageId,
          rating,
          ...(comment && { comment: comment.slice(0, maxCommentLength) }),
        },
        {
          kind: 'keep',
          onResponse: () => undefined,
          onRefusal(refusal) {
            showRefusal(refusal)
            if (id === thread.id && before?.role === 'assistant') thread.rate(messageId, before.feedback)
          },
        },
      )
    },
  }
}
