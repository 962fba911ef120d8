import type { Refusal } from './requests.ts'
import type { ChatSession, ChatState, OwnProblem } from './state.ts'
import { noThreads } from './thread-list.ts'

/** What the panel shows, and the problem in it. */
export interface ShownState {
  readonly state: ChatState
  subscribe: ChatSession['subscribe']
  update(changes: Partial<ChatState>): void
  /** The panel has the texts of these problems. */
  showProblem(code: OwnProblem): void
  showRefusal(refusal: Refusal): void
  /** The user does something else. */
  forgetProblem(): void
}

interface ShownStateOptions {
  schedule(callback: () => void): void
  now(): number
}

export function createShownState({ schedule, now }: ShownStateOptions): ShownState {
  let state: ChatState = {
    agent: undefined,
    threadId: '',
    title: null,
    entries: [],
    hasEarlier: false,
    isLoading: false,
    isWorking: false,
    questions: [],
    problem: undefined,
    threads: noThreads,
    draft: '',
    connectedService: undefined,
    canAdopt: false,
    elsewhere: undefined,
  }
  let isScheduled = false
  const listeners = new Set<() => void>()

  function update(changes: Partial<ChatState>): void {
    state = { ...state, ...changes }
    if (isScheduled) return
    isScheduled = true
    schedule(() => {
      isScheduled = false
      for (const listener of listeners) listener()
    })
  }

  return {
    get state() {
      return state
    },
    subscribe(onChange) {
      listeners.add(onChange)
      return () => void listeners.delete(onChange)
    },
    update,
    showProblem: (code) => update({ problem: { code, message: '' } }),
    showRefusal: ({ code, message, values, retry_after_ms: ms }) =>
      update({
        problem: { code, message, ...(values && { values }), ...(ms !== undefined && { retryAt: now() + ms }) },
      }),
    forgetProblem() {
      if (state.problem || state.connectedService) update({ problem: undefined, connectedService: undefined })
    },
  }
}
