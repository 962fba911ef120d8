import type { ServerMessage } from '@inlay/protocol'
import { type Progress, takeChunks } from './chunks.ts'
import { isActive } from './merge.ts'
import type { Refusal, ResponseOf } from './requests.ts'
import type { AgentEntry, UserEntry } from './state.ts'
import {
  addEarlier,
  type Circumstances,
  type Content,
  extendRun,
  findRun,
  meetStranger,
  type Read,
  replaceEnd,
  restRun,
  type Start,
  startRun,
} from './thread-content.ts'

/*
 * The states of the open thread, and what moves it from one to the other. Each function changes the thread after an
 * event, and returns what has to be done. It asks nobody and draws nothing itself.
 *
 * 1. Whether it was read:
 *
 *      open (new) ──▶ new ─────── started, end read ──────▶ ready
 *      open ────────▶ loading ─── end read, refused ──────▶ ready
 *
 * 2. Two requests, each at most once at the same time: reading the end, and resuming the last run.
 *
 *           ┌─────────── response ───────────┐
 *           ▼                                │
 *         idle ──── needed, and asks ────▶ asked ◀─── response, and asks again ───┐
 *                                            │                                    │
 *                                            └───────────── needed ───────────▶ again
 *
 *      A refusal leads to idle, and so do a new socket and another thread, which ignore the responses that are still on
 *      their way. Chunks without a gap lead from again to asked when resuming, because the rest isn't missing anymore.
 *
 * 3. A run, in `Content.strangers`, `Content.active` and its entry's status:
 *
 *      ──── chunks or resumed ────▶ stranger ── end read, started ──▶ active ── end, end read ──▶ ended
 *      ──── started, end read ─────────────────────────────────────────▲
 *
 *      A stranger is active too, except if its chunks arrive while resuming, because it may have ended long ago. While
 *      there is a stranger, and no message of this tab is on its way, the end is read to learn what it answers. Chunks
 *      of a run that has ended change nothing.
 */

type Asking = 'idle' | 'asked' | 'again'

export interface Thread extends Content {
  readonly id: string
  phase: 'new' | 'loading' | 'ready'
  reading: Asking
  resuming: Asking
  isLoadingEarlier: boolean
  /** Responses to requests of an earlier turn are ignored. */
  turn: number
}

type Resume = { do: 'resume'; turn: number; have: (Progress & { run_id: string }) | undefined }
export type Effect =
  | Read
  | Resume
  /** A run has ended that went on when this tab last knew of it. */
  | { do: 'report end'; run: AgentEntry }
  | { do: 'report refusal'; refusal: Refusal }

export interface Opened {
  id: string
  /** Messages that the server doesn't have yet. */
  unsent: readonly UserEntry[]
  isNew: boolean
  activeRun?: string | undefined
}

export type Told<Type extends ServerMessage['type']> = Extract<ServerMessage, { type: Type }>
type ListOfMessages = ResponseOf<'chat/message-list'>

/** Enough to know what a run answers, and what was there before it. */
const runsOfRefresh = 2
/** Each portion is drawn at once, so a larger one would make scrolling stutter. */
const runsPerPortion = 3

export const createThread = ({ id, unsent, isNew, activeRun }: Opened, turn = 0): Thread => ({
  id,
  entries: unsent,
  before: null,
  sequence: 0,
  touched: new Map(),
  progress: new Map(),
  active: new Set(activeRun ? [activeRun] : []),
  strangers: new Map(),
  decisions: new Map(),
  phase: isNew ? 'new' : 'loading',
  reading: 'idle',
  resuming: 'idle',
  isLoadingEarlier: false,
  turn,
})

/** There is a new socket, or another thread. */
export function follow(thread: Thread): Effect[] {
  thread.turn += 1
  thread.reading = thread.resuming = 'idle'
  thread.isLoadingEarlier = false
  if (thread.phase === 'new') return []
  // An answer could appear before the messages that it follows.
  return thread.phase === 'loading' ? readEnd(thread) : [...readEnd(thread), ...resume(thread)]
}

export const refresh = (thread: Thread): Effect[] => (thread.phase === 'new' ? [] : readEnd(thread, runsOfRefresh))

function readPage(thread: Thread, page: Read['page']): Effect[] {
  thread.sequence += 1
  return [{ do: 'read', turn: thread.turn, since: thread.sequence, page }]
}

function readEnd(thread: Thread, limit?: number): Effect[] {
  const isIdle = thread.reading === 'idle'
  thread.reading = isIdle ? 'asked' : 'again'
  return isIdle ? readPage(thread, limit === undefined ? {} : { limit }) : []
}

export function loadEarlier(thread: Thread): Effect[] {
  const { before } = thread
  if (before === null || thread.isLoadingEarlier) return []
  thread.isLoadingEarlier = true
  return readPage(thread, { before, limit: runsPerPortion })
}

/** The response to `asked`. */
export function read(thread: Thread, asked: Read, response: ListOfMessages, circumstances: Circumstances): Effect[] {
  if (asked.turn !== thread.turn) return []
  const { before } = asked.page
  if (before !== undefined) {
    thread.isLoadingEarlier = false
    // Otherwise the entries were replaced meanwhile.
    if (before === thread.before) addEarlier(thread, response, circumstances.pageOrigin)
    return []
  }
  const { phase, reading } = thread
  thread.reading = 'idle'
  const ended = replaceEnd(thread, response, asked, circumstances)
  if (!ended) return readEnd(thread)
  thread.phase = 'ready'
  return [
    ...ended.map((run): Effect => ({ do: 'report end', run })),
    ...(phase === 'loading' ? resume(thread) : []),
    ...(reading === 'again' ? readEnd(thread, runsOfRefresh) : askAboutStrangers(thread, circumstances)),
  ]
}

export function readRefused(thread: Thread, { turn, since, page }: Read, refusal: Refusal): Effect[] {
  if (turn !== thread.turn) return []
  if (page.before !== undefined) thread.isLoadingEarlier = false
  else {
    thread.reading = 'idle'
    // The first message may have started the thread meanwhile.
    if (refusal.code === 'RESOURCE_NOT_FOUND' && [...thread.touched.values()].some((at) => at > since))
      return readEnd(thread)
    if (thread.phase === 'loading') thread.phase = 'ready'
  }
  return [{ do: 'report refusal', refusal }]
}

const askAboutStrangers = (thread: Thread, { isStarting }: Circumstances): Effect[] =>
  thread.strangers.size > 0 && thread.reading === 'idle' && !isStarting ? readEnd(thread, runsOfRefresh) : []

function resume(thread: Thread): Effect[] {
  const isIdle = thread.resuming === 'idle'
  thread.resuming = isIdle ? 'asked' : 'again'
  if (!isIdle) return []
  const last = thread.entries.findLast(({ role }) => role === 'assistant')
  const known = last && thread.progress.get(last.id)
  return [{ do: 'resume', turn: thread.turn, have: last && known && { run_id: last.id, ...known } }]
}

/** `runId` is the run that is active, if there is one. */
export function resumed(
  thread: Thread,
  { turn }: Resume,
  runId: string | undefined,
  circumstances: Circumstances,
): Effect[] {
  if (turn !== thread.turn) return []
  const { resuming } = thread
  thread.resuming = 'idle'
  const effects: Effect[] = []
  if (runId !== undefined) {
    thread.active.add(runId)
    if (!findRun(thread, runId)) {
      meetStranger(thread, runId, circumstances.now)
      effects.push(...askAboutStrangers(thread, circumstances))
    }
  }
  return resuming === 'again' ? [...effects, ...resume(thread)] : effects
}

export function resumeRefused(thread: Thread, { turn }: Resume): Effect[] {
  if (turn === thread.turn) thread.resuming = 'idle'
  return []
}

export function receiveChunks(thread: Thread, message: Told<'chat/chunk'>, circumstances: Circumstances): Effect[] {
  const { thread_id, run_id } = message
  if (thread_id !== thread.id) return []
  const taken = takeChunks(thread.progress.get(run_id), message)
  if (taken.kind === 'ignore') return []
  if (taken.kind === 'gap') return resume(thread)
  const known = findRun(thread, run_id)
  // While resuming, the run may have ended long ago.
  if (!known && thread.resuming === 'idle') thread.active.add(run_id)
  if (thread.resuming === 'again') thread.resuming = 'asked'
  const run = known ?? meetStranger(thread, run_id, circumstances.now)
  extendRun(thread, run, taken, circumstances.pageOrigin)
  return known ? [] : askAboutStrangers(thread, circumstances)
}

export function receiveEnd(thread: Thread, message: Told<'chat/end'>): Effect[] {
  const { thread_id, run_id, attempt, n, status } = message
  if (thread_id !== thread.id) return []
  const have = thread.progress.get(run_id)
  const run = findRun(thread, run_id)
  if (have && attempt < have.attempt) return []
  if (!run || !have || attempt > have.attempt || n !== have.n)
    // The thread may have been read meanwhile.
    return have || run?.status !== status ? resume(thread) : []
  const effects: Effect[] = restRun(thread, run, message) ? [{ do: 'report end', run: { ...run, status } }] : []
  // The run ended before it read them.
  const hasQueued = thread.entries.some((entry) => entry.role === 'user' && entry.delivery === 'queued')
  return hasQueued && !isActive({ status }) ? [...effects, ...readEnd(thread, runsOfRefresh)] : effects
}

/** The server has accepted a message, or answers again. */
export function started(thread: Thread, start: Start, circumstances: Circumstances): Effect[] {
  if (thread.phase === 'new') thread.phase = 'ready'
  startRun(thread, start, circumstances.now)
  return askAboutStrangers(thread, circumstances)
}
