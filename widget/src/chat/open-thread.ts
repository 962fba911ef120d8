import type { ServerMessage } from '@inlay/protocol'
import { addChunks, closeParts, type Progress, steeringIds, takeChunks } from './chunks.ts'
import { cutLastTurn, isActive, mergeEnd, readEntry } from './merge.ts'
import type { Refusal, Requests, ResponseOf } from './requests.ts'
import type { AgentEntry, CallDecision, Entry, EntryPart, ToolEntryPart, UserEntry } from './state.ts'

type Told<Type extends ServerMessage['type']> = Extract<ServerMessage, { type: Type }>

/** The conversation that is open: its entries, and what is known of its runs. */
export interface OpenThread {
  readonly id: string
  readonly entries: readonly Entry[]
  readonly hasEarlier: boolean
  readonly isLoading: boolean
  /** Opens another thread. `unsent` are messages that the server doesn't have yet. */
  open(thread: { id: string; unsent: readonly UserEntry[]; isNew: boolean; activeRun?: string | undefined }): void
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
  /** The server has accepted a message, or answers again in place of the run `replaces`. */
  started(run: { runId: string; isQueued: boolean; messageId?: string; replaces?: string | undefined }): void
  rate(runId: string, feedback: AgentEntry['feedback']): void
  /** Shows the decision until the server does. */
  decide(callId: string, decision: CallDecision): void
  /** The server didn't accept the decision: asks again. */
  undecide(callId: string): void
}

interface OpenThreadOptions {
  ask: Requests['ask']
  now(): number
  pageOrigin: string
  /** Whether a message or another answer is on its way to this thread, whose run isn't known yet. */
  isStarting(): boolean
  /** Whether the user's last message is being replaced. */
  isEditing(): boolean
  onChange(): void
  onAnswered(run: AgentEntry): void
  /** The thread can't be read. */
  onRefusal(refusal: Refusal): void
}

/** Enough to know what a run answers, and what was there before it. */
const runsOfRefresh = 2
/** Each portion is drawn at once, so a larger one would make scrolling stutter. */
const runsPerPortion = 3

export function createOpenThread(options: OpenThreadOptions): OpenThread {
  const { ask, pageOrigin } = options
  let id = ''
  let entries: readonly Entry[] = []
  /** Position before the first entry; null if the thread begins there. */
  let before: number | null = null
  let isNew = true
  let isLoading = false
  let isLoadingEarlier = false
  let isReading = false
  let isReadNeeded = false
  let isResuming = false
  let isResumeNeeded = false
  /** Responses to requests of an earlier turn are ignored. */
  let turn = 0
  /** Counts changes and requests, to tell which is newer. */
  let sequence = 0
  const touched = new Map<string, number>()
  const progress = new Map<string, Progress>()
  /** Runs that go on or wait, as far as this tab knows. */
  const active = new Set<string>()
  /** Runs that began elsewhere, so that the message that they answer isn't known. */
  const strangers = new Map<string, number>()
  const decisions = new Map<string, { decision: CallDecision; asked: ToolEntryPart; shown: ToolEntryPart }>()

  const touch = (entryId: string) => {
    sequence += 1
    touched.set(entryId, sequence)
  }
  const change = (next: readonly Entry[]) => {
    entries = next
    options.onChange()
  }
  const find = (entryId: string) => entries.findLastIndex((entry) => entry.id === entryId)
  const findRun = (runId: string): AgentEntry | undefined => {
    const entry = entries[find(runId)]
    return entry?.role === 'assistant' ? entry : undefined
  }
  const put = (entry: Entry) => {
    const index = find(entry.id)
    change(index < 0 ? [...entries, entry] : entries.with(index, entry))
  }
  const newRun = (runId: string): AgentEntry => ({
    role: 'assistant',
    id: runId,
    createdAt: new Date(options.now()).toISOString(),
    status: 'running',
    error: null,
    parts: [],
    feedback: null,
  })

  /** Ends what the user has decided on and the server hasn't shown yet. */
  function showDecisions(parts: readonly EntryPart[]): readonly EntryPart[] {
    if (decisions.size === 0) return parts
    return parts.map((part) => {
      const made = part.kind === 'tool' && part.state === 'asking' && decisions.get(part.callId)
      if (!made) return part
      const shown = showDecision(part, made.decision)
      decisions.set(part.callId, { ...made, asked: part, shown })
      return shown
    })
  }

  function reset(): void {
    turn += 1
    isReading = isReadNeeded = isResuming = isResumeNeeded = isLoadingEarlier = false
  }

  function resume(): void {
    if (isResuming) {
      isResumeNeeded = true
      return
    }
    isResuming = true
    isResumeNeeded = false
    const mine = turn
    const last = entries.findLast(({ role }) => role === 'assistant')
    const known = last && progress.get(last.id)
    const have = last && known && { run_id: last.id, attempt: known.attempt, n: known.n }
    ask(
      { type: 'chat/resume', thread_id: id, ...(have && { have }) },
      {
        kind: 'read',
        onResponse(response) {
          if (mine !== turn) return
          isResuming = false
          if (response.type === 'chat/start') {
            active.add(response.run_id)
            if (!findRun(response.run_id)) meetStranger(newRun(response.run_id))
          }
          if (isResumeNeeded) resume()
        },
        onRefusal() {
          if (mine === turn) isResuming = false
        },
      },
    )
  }

  function readEnd(limit?: number): void {
    if (isReading) {
      isReadNeeded = true
      return
    }
    isReading = true
    isReadNeeded = false
    const mine = turn
    sequence += 1
    const since = sequence
    ask(
      { type: 'chat/messages', thread_id: id, ...(limit !== undefined && { limit }) },
      {
        kind: 'read',
        onResponse(response) {
          if (mine !== turn || response.type !== 'chat/message-list') return
          isReading = false
          const wasLoading = isLoading
          receiveEndOfThread(response, since, limit)
          // Otherwise an answer could appear before the messages that it follows.
          if (wasLoading) resume()
          if (isReadNeeded) readEnd(runsOfRefresh)
          else lookForStrangers()
        },
        onRefusal(refusal) {
          if (mine !== turn) return
          isReading = false
          // The first message may have started the thread meanwhile.
          if (refusal.code === 'RESOURCE_NOT_FOUND' && [...touched.values()].some((at) => at > since)) {
            readEnd()
            return
          }
          isLoading = false
          options.onChange()
          options.onRefusal(refusal)
        },
      },
    )
  }

  function receiveEndOfThread(response: ResponseOf<'chat/message-list'>, since: number, limit?: number): void {
    const page = response.messages.map((message) => readEntry(message, pageOrigin))
    const listed = new Map(page.flatMap((entry) => (entry.role === 'assistant' ? [[entry.id, entry.status]] : [])))
    const isNewer = (entry: Entry) => {
      const isTouched = (touched.get(entry.id) ?? 0) > since
      if (entry.role === 'user') return isTouched
      // Without progress, nothing is known of the run except that it exists.
      if (!progress.has(entry.id)) return isTouched && !listed.has(entry.id)
      return isTouched || listed.get(entry.id) === 'running'
    }
    const hasEarlier = response.before !== null
    const merged = mergeEnd(entries, { entries: page, hasEarlier }, isNewer)
    if (!merged && limit !== undefined) {
      readEnd()
      return
    }
    const known = new Map(entries.map((entry) => [entry.id, entry]))
    const next = merged ?? mergeEnd(entries, { entries: page, hasEarlier: false }, isNewer) ?? []
    if (next[0]?.id === page[0]?.id) before = response.before
    isLoading = false
    isNew = false
    for (const entry of next) {
      if (entry.role !== 'assistant' || known.get(entry.id) === entry) continue
      progress.delete(entry.id)
      if (isActive(entry)) active.add(entry.id)
      else settle(entry)
    }
    for (const [runId, seen] of strangers) if (seen < since || listed.has(runId)) strangers.delete(runId)
    const shown = options.isEditing() ? cutLastTurn(next) : next
    change(
      shown.map((entry) => {
        if (entry.role === 'user' || !isActive(entry) || decisions.size === 0) return entry
        return { ...entry, parts: showDecisions(entry.parts) }
      }),
    )
  }

  /** A run of which only the chunks arrived: it answers a message of another tab, or one that is on its way. */
  function meetStranger(run: AgentEntry): void {
    touch(run.id)
    strangers.set(run.id, sequence)
    put(run)
    lookForStrangers()
  }

  function lookForStrangers(): void {
    if (strangers.size > 0 && !isReading && !options.isStarting()) readEnd(runsOfRefresh)
  }

  function settle(run: AgentEntry): void {
    if (active.delete(run.id)) options.onAnswered(run)
  }

  return {
    get id() {
      return id
    },
    get entries() {
      return entries
    },
    get hasEarlier() {
      return before !== null
    },
    get isLoading() {
      return isLoading
    },

    open(thread) {
      reset()
      for (const known of [touched, progress, active, strangers, decisions]) known.clear()
      if (thread.activeRun) active.add(thread.activeRun)
      id = thread.id
      isNew = thread.isNew
      isLoading = !isNew
      before = null
      change(thread.unsent)
    },

    follow() {
      reset()
      if (isNew) return
      readEnd()
      if (!isLoading) resume()
    },

    refresh() {
      if (!isNew) readEnd(runsOfRefresh)
    },

    loadEarlier() {
      if (before === null || isLoadingEarlier) return
      isLoadingEarlier = true
      const mine = turn
      const position = before
      ask(
        { type: 'chat/messages', thread_id: id, before: position, limit: runsPerPortion },
        {
          kind: 'read',
          onResponse(response) {
            if (mine !== turn || response.type !== 'chat/message-list') return
            isLoadingEarlier = false
            // The entries were replaced meanwhile.
            if (before !== position) return
            before = response.before
            const known = new Set(entries.map((entry) => entry.id))
            const earlier = response.messages.filter((message) => !known.has(message.id))
            change([...earlier.map((message) => readEntry(message, pageOrigin)), ...entries])
          },
          onRefusal(refusal) {
            if (mine !== turn) return
            isLoadingEarlier = false
            options.onRefusal(refusal)
          },
        },
      )
    },

    receiveChunks(message) {
      if (message.thread_id !== id) return
      const step = takeChunks(progress.get(message.run_id), message)
      if (step.kind === 'ignore') return
      if (step.kind === 'gap') return resume()
      isResumeNeeded = false
      progress.set(message.run_id, step.progress)
      touch(message.run_id)
      const known = findRun(message.run_id)
      // A run that has ended doesn't change: the server shows the last one again after `resume`.
      if (known && !isActive(known)) return
      const run = known ?? newRun(message.run_id)
      const parts = addChunks(step.kind === 'replace' ? [] : run.parts, step.chunks, pageOrigin)
      if (step.chunks.some(({ type }) => type === 'steering-message')) {
        const entered = new Set(steeringIds(parts))
        entries = entries.filter((entry) => !entered.has(entry.id))
      }
      const next: AgentEntry = { ...run, parts: showDecisions(parts), status: 'running', error: null }
      if (known) return put(next)
      // It may have ended long ago.
      if (!isResuming) active.add(run.id)
      meetStranger(next)
    },

    receiveEnd({ thread_id, run_id, attempt, n, status, error }) {
      if (thread_id !== id) return
      const have = progress.get(run_id)
      const run = findRun(run_id)
      if (have && attempt < have.attempt) return
      if (!run || !have || attempt > have.attempt || n !== have.n) {
        // The thread may have been read meanwhile.
        if (have || run?.status !== status) resume()
        return
      }
      touch(run_id)
      const isOver = !isActive({ status })
      const next = { ...run, status, error, parts: isOver ? closeParts(run.parts, status) : run.parts }
      put(next)
      if (!isOver) active.add(run_id)
      else {
        settle(next)
        // The run ended before it read them.
        if (entries.some((entry) => entry.role === 'user' && entry.delivery === 'queued')) readEnd(runsOfRefresh)
      }
    },

    addMessage(entry) {
      touch(entry.id)
      put(entry)
    },

    cutLastTurn: () => change(cutLastTurn(entries)),

    changeMessage(messageId, delivery) {
      const entry = entries[find(messageId)]
      if (entry?.role !== 'user' || entry.delivery === delivery) return
      touch(messageId)
      put({ ...entry, delivery })
    },

    removeEntry: (entryId) => change(entries.filter((entry) => entry.id !== entryId)),

    started({ runId, isQueued, messageId, replaces }) {
      isNew = false
      if (messageId !== undefined) this.changeMessage(messageId, isQueued ? 'queued' : 'delivered')
      if (!isQueued) {
        strangers.delete(runId)
        const known = findRun(runId)
        if (!known || isActive(known)) active.add(runId)
        if (!known) touch(runId)
        const others = entries.filter((entry) => entry.id !== runId && entry.id !== replaces)
        const asked = others.findLastIndex((entry) => entry.id === messageId)
        change(others.toSpliced(asked < 0 ? others.length : asked + 1, 0, known ?? newRun(runId)))
      }
      lookForStrangers()
    },

    rate(runId, feedback) {
      const run = findRun(runId)
      if (!run) return
      touch(runId)
      put({ ...run, feedback })
    },

    decide(callId, decision) {
      for (const entry of entries) {
        if (entry.role === 'user' || !isActive(entry)) continue
        const asked = entry.parts.find((part) => part.kind === 'tool' && part.callId === callId)
        if (asked?.kind !== 'tool') continue
        decisions.set(callId, { decision, asked, shown: asked })
        put({ ...entry, parts: showDecisions(entry.parts) })
      }
    },

    undecide(callId) {
      const made = decisions.get(callId)
      decisions.delete(callId)
      const run = made && entries.find((entry) => entry.role === 'assistant' && entry.parts.includes(made.shown))
      if (!made || run?.role !== 'assistant') return
      put({ ...run, parts: run.parts.map((part) => (part === made.shown ? made.asked : part)) })
    },
  }
}

const showDecision = (part: ToolEntryPart, { isApproved, editedArgs }: CallDecision): ToolEntryPart => ({
  ...part,
  state: isApproved ? 'running' : 'declined',
  editedInput: isApproved ? editedArgs : undefined,
  inputSchema: undefined,
})
