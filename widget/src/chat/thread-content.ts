import { addChunks, closeParts, type Progress, steeringIds, type takeChunks } from './chunks.ts'
import { type Decisions, showDecisions } from './decisions.ts'
import { deliveryOnServer } from './delivery.ts'
import { cutLastTurn, isActive, mergeEnd, readEntry } from './merge.ts'
import type { ResponseOf } from './requests.ts'
import type { AgentEntry, Entry, UserEntry } from './state.ts'

/** The entries of a conversation, and what this tab knows of them. The functions below change it. */
export interface Content {
  /** Entries and their parts are replaced by new objects, so that the panel sees which have changed. */
  entries: readonly Entry[]
  /** Position before the first entry; null if the thread begins there. */
  before: number | null
  /** Counts changes and requests, to tell which is newer. */
  sequence: number
  /** When each entry last changed in this tab, as a `sequence`. */
  readonly touched: Map<string, number>
  /** How much of each run has arrived in chunks. */
  readonly progress: Map<string, Progress>
  /** Runs that go on or wait, as far as this tab knows. */
  readonly active: Set<string>
  /** Runs that appeared here, at this `sequence`, while the message that they answer isn't known. */
  readonly strangers: Map<string, number>
  readonly decisions: Decisions
}

type ListOfMessages = ResponseOf<'chat/message-list'>

const newRun = (id: string, createdAt: string): AgentEntry => ({
  role: 'assistant',
  id,
  createdAt,
  status: 'running',
  error: null,
  parts: [],
  feedback: null,
})

const find = ({ entries }: Content, entryId: string) => entries.findLast(({ id }) => id === entryId)

export function findRun(content: Content, runId: string): AgentEntry | undefined {
  const entry = find(content, runId)
  return entry?.role === 'assistant' ? entry : undefined
}

function touch(content: Content, id: string): void {
  content.sequence += 1
  content.touched.set(id, content.sequence)
}

/** Replaces the entry, or adds it at the end. */
export function put(content: Content, entry: Entry): void {
  touch(content, entry.id)
  const { entries } = content
  const index = entries.findLastIndex(({ id }) => id === entry.id)
  content.entries = index < 0 ? [...entries, entry] : entries.with(index, entry)
}

export function changeMessage(content: Content, id: string, delivery: UserEntry['delivery']): void {
  const entry = find(content, id)
  if (entry?.role === 'user' && entry.delivery !== delivery) put(content, { ...entry, delivery })
}

export function rateRun(content: Content, id: string, feedback: AgentEntry['feedback']): void {
  const run = findRun(content, id)
  if (run) put(content, { ...run, feedback })
}

/** A run of which only the chunks arrive: it answers a message of another tab, or one that is on its way. */
export function meetStranger(content: Content, runId: string, now: string): AgentEntry {
  const run = newRun(runId, now)
  put(content, run)
  content.strangers.set(runId, content.sequence)
  return run
}

export interface Start {
  runId: string
  isQueued: boolean
  messageId?: string
  replaces?: string | undefined
}

/** The server has accepted a message, or answers again in place of the run `replaces`. */
export function startRun(content: Content, { runId, isQueued, messageId, replaces }: Start, now: string): void {
  if (messageId !== undefined) changeMessage(content, messageId, deliveryOnServer(isQueued))
  if (isQueued) return
  content.strangers.delete(runId)
  const known = findRun(content, runId)
  if (!known || isActive(known)) content.active.add(runId)
  if (!known) touch(content, runId)
  const others = content.entries.filter(({ id }) => id !== runId && id !== replaces)
  const asked = others.findLastIndex(({ id }) => id === messageId)
  content.entries = others.toSpliced(asked < 0 ? others.length : asked + 1, 0, known ?? newRun(runId, now))
}

type Taken = Extract<ReturnType<typeof takeChunks>, { chunks: unknown }>

/** Adds to a run what has arrived of it. */
export function extendRun(content: Content, run: AgentEntry, taken: Taken, pageOrigin: string): void {
  const { kind, chunks, progress } = taken
  content.progress.set(run.id, progress)
  touch(content, run.id)
  // A run that has ended doesn't change: the server shows the last one again after `resume`.
  if (!isActive(run)) return
  const parts = addChunks(kind === 'replace' ? [] : run.parts, chunks, pageOrigin)
  if (chunks.some(({ type }) => type === 'steering-message')) {
    const entered = new Set(steeringIds(parts))
    content.entries = content.entries.filter(({ id }) => !entered.has(id))
  }
  put(content, { ...run, parts, status: 'running', error: null })
  content.entries = showDecisions(content.decisions, content.entries)
}

/** Ends a run, or lets it wait. Returns whether this tab saw it end. */
export function restRun(content: Content, run: AgentEntry, { status, error }: Pick<AgentEntry, 'status' | 'error'>) {
  const isOver = !isActive({ status })
  put(content, { ...run, status, error, parts: isOver ? closeParts(run.parts, status) : run.parts })
  if (isOver) return content.active.delete(run.id)
  content.active.add(run.id)
  return false
}

/** A request for a part of the thread. `since` is its `sequence` at the time of the request. Without `before`, it's the end that is read. */
export type Read = { do: 'read'; turn: number; since: number; page: { before?: number; limit?: number } }

export interface Circumstances {
  pageOrigin: string
  now: string
  /** Whether a message or another answer is on its way to this thread, whose run isn't known yet. */
  isStarting: boolean
  /** Whether the user's last message is being replaced. */
  isEditing: boolean
}

/** Replaces the end by what the server has. Returns the runs that have ended, or undefined if a gap would be left. */
export function replaceEnd(
  content: Content,
  response: ListOfMessages,
  { since, page: { limit } }: Read,
  { pageOrigin, isEditing }: Circumstances,
): AgentEntry[] | undefined {
  const { active, progress, strangers, touched } = content
  const page = response.messages.map((message) => readEntry(message, pageOrigin))
  const listed = new Map(page.flatMap((entry) => (entry.role === 'assistant' ? [[entry.id, entry.status]] : [])))
  const isNewer = ({ role, id }: Entry) => {
    const isTouched = (touched.get(id) ?? 0) > since
    if (role === 'user') return isTouched
    // Without progress, nothing is known of the run except that it exists.
    if (!progress.has(id)) return isTouched && !listed.has(id)
    return isTouched || listed.get(id) === 'running'
  }
  const merge = (hasEarlier: boolean) => mergeEnd(content.entries, { entries: page, hasEarlier }, isNewer)
  const merged = merge(response.before !== null)
  if (!merged && limit !== undefined) return undefined
  const entries = merged ?? merge(false) ?? []
  if (entries[0]?.id === page[0]?.id) content.before = response.before
  const former = new Set(content.entries)
  const ended: AgentEntry[] = []
  for (const entry of entries) {
    if (entry.role === 'user' || former.has(entry)) continue
    progress.delete(entry.id)
    if (isActive(entry)) active.add(entry.id)
    else if (active.delete(entry.id)) ended.push(entry)
  }
  for (const [runId, seen] of strangers) if (seen < since || listed.has(runId)) strangers.delete(runId)
  content.entries = showDecisions(content.decisions, isEditing ? cutLastTurn(entries) : entries)
  return ended
}

export function addEarlier(content: Content, response: ListOfMessages, pageOrigin: string): void {
  const known = new Set(content.entries.map(({ id }) => id))
  const earlier = response.messages.filter(({ id }) => !known.has(id))
  content.before = response.before
  content.entries = [...earlier.map((message) => readEntry(message, pageOrigin)), ...content.entries]
}
