import { newId } from '../kept/ids.ts'
import { decide, undecide } from './decisions.ts'
import { cutLastTurn } from './merge.ts'
import type { Refusal, Requests } from './requests.ts'
import type { AgentEntry, CallDecision, Entry, UserEntry } from './state.ts'
import { type Circumstances, changeMessage, put, rateRun, type Start } from './thread-content.ts'
import {
  createThread,
  type Effect,
  follow,
  loadEarlier,
  type Opened,
  read,
  readRefused,
  receiveChunks,
  receiveEnd,
  refresh,
  resumed,
  resumeRefused,
  started,
  type Told,
} from './thread-state.ts'

/** The conversation that is open: its entries, and what is known of its runs. */
export interface OpenThread {
  readonly id: string
  readonly entries: readonly Entry[]
  readonly hasEarlier: boolean
  readonly isLoading: boolean
  /** Opens another thread. */
  open(thread: Opened): void
  /** Reads the thread and follows it, on a new socket or after it was opened. */
  follow(): void
  /** Reads what has changed at the end. */
  refresh(): void
  loadEarlier(): void
  receiveChunks(message: Told<'chat/chunk'>): void
  receiveEnd(message: Told<'chat/end'>): void
  addMessage(entry: UserEntry): void
  /** Takes the user's last message and its answer out. */
  cutLastTurn(): void
  changeMessage(id: string, delivery: UserEntry['delivery']): void
  removeEntry(id: string): void
  started(start: Start): void
  rate(runId: string, feedback: AgentEntry['feedback']): void
  /** Shows the decision until the server does. */
  decide(callId: string, decision: CallDecision): void
  /** The server didn't accept the decision: asks again. */
  undecide(callId: string): void
}

interface OpenThreadOptions {
  ask: Requests['ask']
  circumstances(): Circumstances
  onChange(): void
  onAnswered(run: AgentEntry): void
  /** The thread can't be read. */
  onRefusal(refusal: Refusal): void
}

/** Carries out what `thread-state.ts` says has to be done. */
export function createOpenThread(options: OpenThreadOptions): OpenThread {
  const { ask, circumstances } = options
  let thread = createThread({ id: newId(), unsent: [], isNew: true })

  function change(event: () => readonly Effect[]): void {
    const { entries, before, phase } = thread
    const effects = event()
    if (thread.entries !== entries || thread.before !== before || thread.phase !== phase) options.onChange()
    for (const effect of effects) carryOut(effect)
  }

  /** Changes only entries, so that nothing has to be done. */
  const alter = (work: () => void) =>
    change(() => {
      work()
      return []
    })
  const replaceEntries = (next: (entries: readonly Entry[]) => readonly Entry[]) =>
    alter(() => {
      thread.entries = next(thread.entries)
    })

  function carryOut(effect: Effect): void {
    switch (effect.do) {
      case 'report end':
        options.onAnswered(effect.run)
        break
      case 'report refusal':
        options.onRefusal(effect.refusal)
        break
      case 'read':
        ask(
          { type: 'chat/messages', thread_id: thread.id, ...effect.page },
          {
            kind: 'read',
            onResponse: (response) =>
              response.type === 'chat/message-list' && change(() => read(thread, effect, response, circumstances())),
            onRefusal: (refusal) => change(() => readRefused(thread, effect, refusal)),
          },
        )
        break
      case 'resume':
        ask(
          { type: 'chat/resume', thread_id: thread.id, ...(effect.have && { have: effect.have }) },
          {
            kind: 'read',
            onResponse(response) {
              const runId = response.type === 'chat/start' ? response.run_id : undefined
              change(() => resumed(thread, effect, runId, circumstances()))
            },
            onRefusal: () => change(() => resumeRefused(thread, effect)),
          },
        )
    }
  }

  return {
    get id() {
      return thread.id
    },
    get entries() {
      return thread.entries
    },
    get hasEarlier() {
      return thread.before !== null
    },
    get isLoading() {
      return thread.phase === 'loading'
    },
    open: (opened) =>
      alter(() => {
        thread = createThread(opened, thread.turn + 1)
      }),
    follow: () => change(() => follow(thread)),
    refresh: () => change(() => refresh(thread)),
    loadEarlier: () => change(() => loadEarlier(thread)),
    receiveChunks: (message) => change(() => receiveChunks(thread, message, circumstances())),
    receiveEnd: (message) => change(() => receiveEnd(thread, message)),
    started: (start) => change(() => started(thread, start, circumstances())),
    addMessage: (entry) => alter(() => put(thread, entry)),
    changeMessage: (id, delivery) => alter(() => changeMessage(thread, id, delivery)),
    cutLastTurn: () => replaceEntries(cutLastTurn),
    removeEntry: (id) => replaceEntries((entries) => entries.filter((entry) => entry.id !== id)),
    rate: (runId, feedback) => alter(() => rateRun(thread, runId, feedback)),
    decide: (callId, decision) => replaceEntries((entries) => decide(thread.decisions, entries, callId, decision)),
    undecide: (callId) => replaceEntries((entries) => undecide(thread.decisions, entries, callId)),
  }
}
