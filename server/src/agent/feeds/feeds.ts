import type { Service } from '../../kernel/foundation/service.ts'
import { Failure } from '../../kernel/lib/errors.ts'
import { createTurnBatch } from '../../kernel/lib/turn-batch.ts'
import type { TicketHolder } from '../../visitors/tickets/signed-tickets.ts'
import type { RunStory } from '../runs/rows.ts'
import type { RunError, RunStatus } from '../runs/run.ts'
import type { Position, RunRest, Viewer } from '../runs/runs.ts'
import { type Chunk, describeStory } from './chunks.ts'
import { createRelay, type Relay, type RelayMessage } from './relay.ts'

/**
 * Names a thread's runs among those of all organizations, as their holder may see them. A thread's ID alone would not do:
 * clients choose it, so that two organizations can have the same, and the end user who adopts a visitor's thread gets a
 * new feed, which the visitor doesn't see.
 */
export const feedOf = ({ organization_id, end_user }: TicketHolder, threadId: string): string =>
  `${organization_id}:${end_user?.id ?? 'visitor'}:${threadId}`

/** The chunks of a run on the node that works on it. */
export interface RunLog {
  append(...chunks: Chunk[]): void
  /** Discards what was shown of the run, and begins again with these chunks. */
  restart(attempt: number, chunks: Chunk[]): void
  /** The run rests, or this node no longer works on it; without a status, viewers wait for another node. */
  close(rest?: { status: RunStatus; error: RunError | null }): void
}

/** Shows runs to their viewers on all nodes. */
export interface Feeds {
  open(run: { id: string; feed: string; attempt: number }, chunks: Chunk[]): RunLog
  /** Shows a run that ended while no node worked on it, or that was taken from the node that did. */
  showEnded(
    run: { id: string; feed: string; attempt: number },
    chunks: Chunk[],
    rest: { status: RunStatus; error: RunError | null },
  ): void
  /** Shows the feed's runs from `have` on, until `end` is called. */
  watch(
    feed: string,
    viewer: Viewer,
    have: Position | undefined,
    thread: ViewedThread,
  ): { last: Promise<LastRun | undefined>; end: () => void }
  /** Tells the node that works on the run to stop it. */
  stop(runId: string): void
  onStop(handler: (runId: string) => void): void
  /** The run's rows have changed. Its viewers see it, and the node that works on the run is told. */
  changed(run: { id: string; feed: string }): void
  /** The thread is another's now. Ends when the viewers here who may no longer see it are gone. */
  claimed(feed: string): Promise<void>
  onChange(handler: (runId: string) => void): void
  close(): Promise<void>
}

/** A thread as its viewer may see it. Both functions fail if it isn't the viewer's. */
interface ViewedThread {
  check(): Promise<void>
  /** Reads the last run from the rows. */
  readLast(): Promise<RunStory | undefined>
}

/** The last run of a thread when its viewer arrived. */
type LastRun = Pick<RunStory['run'], 'id' | 'status'>

interface Log {
  id: string
  feed: string
  attempt: number
  chunks: Chunk[]
  /** How many of them were passed on. */
  passed: number
  isDirty: boolean
}

/** One viewer, and what it has of the thread's current run. */
interface Viewing {
  viewer: Viewer
  have: Position | undefined
  thread: ViewedThread
  /** Nothing is shown before the thread was read for the first time. */
  isAdmitted: boolean
  /** The last run for which the thread was checked. */
  checkedFor: { id: string; attempt: number } | undefined
  /** What is shown once the thread was checked again. */
  waiting?: (() => void)[] | undefined
  /** The last message before that: a run of this node came to rest. The rows don't have all of its chunks. */
  missed?: { log: Log; rest: RunRest } | undefined
  /** The viewer has the whole run, and it rests. */
  isResting: boolean
  /** Number of messages for the viewer so far. */
  told: number
  /** `told` when the timer last ran. */
  toldBefore: number
  end(): void
}

const watchEveryMs = 5_000
/** Nodes that watch renew it before. */
const watchedMs = 3 * watchEveryMs

type Needed = Pick<Service, 'bus' | 'changes' | 'clock' | 'log' | 'secrets'>

export async function createFeeds(service: Needed): Promise<Feeds> {
  const { clock } = service
  const logs = new Map<string, Log>()
  const viewings = new Map<string, Set<Viewing>>()
  /** Other nodes that watch a feed, and until when. */
  const watchers = new Map<string, Map<string, number>>()
  const stopHandlers = new Set<(runId: string) => void>()
  const changeHandlers = new Set<(runId: string) => void>()
  const relay: Relay = await createRelay(service, receive)

  /** Passes chunks on once per turn of the event loop, because a model often sends several tokens at once. */
  const dirty = createTurnBatch<Log>((changed) => {
    for (const log of changed) passOn(log)
  })

  function markDirty(log: Log): void {
    if (log.isDirty) return
    log.isDirty = true
    dirty.add(log)
  }

  function passOn(log: Log): void {
    log.isDirty = false
    const { id, feed, attempt, passed } = log
    if (passed === log.chunks.length) return
    const chunks = log.chunks.slice(passed)
    log.passed = log.chunks.length
    deliver(feed, { id, attempt }, passed, chunks, attempt === 1)
    for (const node of watchersOf(feed)) {
      relay.send(node, { kind: 'chunks', feed, run: { id, attempt }, n: passed, chunks })
    }
  }

  function* watchersOf(feed: string): Iterable<string> {
    const nodes = watchers.get(feed)
    if (!nodes) return
    for (const [node, until] of nodes) {
      if (until > clock()) yield node
      else nodes.delete(node)
    }
    if (nodes.size === 0) watchers.delete(feed)
  }

  /**
   * A run that was continued, or that another node works on, is shown after the thread was checked: it may have become
   * another's before, and the message about it may be lost.
   */
  function deliver(
    feed: string,
    run: { id: string; attempt: number },
    n: number,
    chunks: readonly Chunk[],
    isKnown = false,
  ): void {
    for (const viewing of viewings.get(feed) ?? []) {
      const show = () => give(feed, viewing, run, n, chunks)
      const { isAdmitted, checkedFor, have } = viewing
      if (isKnown || !isAdmitted || (checkedFor?.id === run.id && checkedFor.attempt >= run.attempt)) {
        showInOrder(viewing, show)
        continue
      }
      viewing.checkedFor = run
      if (have?.run_id === run.id) viewing.isResting = false
      if (viewing.waiting) viewing.waiting.push(show)
      else {
        viewing.waiting = [show]
        void check(feed, viewing)
      }
    }
  }

  function showInOrder(viewing: Viewing, show: () => void): void {
    if (viewing.waiting) viewing.waiting.push(show)
    else show()
  }

  async function check(feed: string, viewing: Viewing): Promise<void> {
    const { thread, checkedFor } = viewing
    try {
      await thread.check()
    } catch (error) {
      Object.assign(viewing, { waiting: undefined, checkedFor: undefined })
      cannotRead(viewing, error)
      return
    }
    // Another run began meanwhile.
    if (viewing.checkedFor !== checkedFor) return check(feed, viewing)
    const waiting = viewing.waiting ?? []
    viewing.waiting = undefined
    if (viewings.get(feed)?.has(viewing)) for (const show of waiting) show()
  }

  /** Gives a viewer what it doesn't have yet. A batch from 0 replaces what it has. */
  function give(
    feed: string,
    viewing: Viewing,
    run: { id: string; attempt: number },
    n: number,
    chunks: readonly Chunk[],
  ): void {
    const { viewer, have, isAdmitted, isResting } = viewing
    if (have?.run_id === run.id && run.attempt < have.attempt) return
    const isSame = have?.run_id === run.id && have.attempt === run.attempt
    // The rows may have shown it in other chunks.
    if (isSame && isResting) return
    const known = isSame ? have.n : 0
    if (n + chunks.length <= known) return
    if (!isAdmitted) {
      viewing.told += 1
      viewing.missed = undefined
      return
    }
    if (n > known) {
      catchUp(feed, viewing)
      return
    }
    const { id, attempt } = run
    Object.assign(viewing, { have: { run_id: id, attempt, n: n + chunks.length }, isResting: false })
    viewing.told += 1
    viewer.chunks({ id, attempt }, known, chunks.slice(known - n))
  }

  const localLog = (feed: string): Log | undefined => logs.values().find((log) => log.feed === feed)

  /** Gives a viewer the chunks that it lacks of a run that goes on, here or on another node. */
  function catchUp(feed: string, viewing: Viewing): void {
    const log = localLog(feed)
    if (log) give(feed, viewing, log, 0, log.chunks.slice(0, log.passed))
    else relay.broadcast({ kind: 'watch', feed, have: viewing.have })
  }

  function tellRested(feed: string, rest: RunRest, log?: Log): void {
    for (const viewing of viewings.get(feed) ?? []) showInOrder(viewing, () => tellViewer(viewing, rest, log))
  }

  function tellViewer(viewing: Viewing, rest: RunRest, log?: Log): void {
    const { have, isAdmitted, viewer } = viewing
    if (have?.run_id === rest.id && have.attempt > rest.attempt) return
    viewing.told += 1
    if (!isAdmitted) {
      viewing.missed = log && { log, rest }
      return
    }
    const isComplete = have?.run_id === rest.id && have.attempt === rest.attempt && have.n === rest.n
    if (isComplete) {
      viewing.isResting = true
      viewer.rested(rest)
    } else void readAgain(viewing)
  }

  /** Shows a new viewer what it lacks of the thread's last run. */
  async function admit(feed: string, viewing: Viewing): Promise<LastRun | undefined> {
    const story = await viewing.thread.readLast()
    const hasMissedSome = viewing.told > 0
    viewing.isAdmitted = true
    viewing.checkedFor ??= story?.run
    catchUp(feed, viewing)
    const log = localLog(feed)
    // What this node works on is newer than the rows, and ends by itself.
    if (log) return { id: log.id, status: 'running' }
    const { missed } = viewing
    viewing.missed = undefined
    // Unless the user has continued the run meanwhile, which makes a new attempt of it.
    if (missed && missed.rest.id === story?.run.id && missed.rest.attempt === story.run.attempt) {
      give(feed, viewing, missed.log, 0, missed.log.chunks)
      tellViewer(viewing, missed.rest)
      return missed.rest
    }
    if (hasMissedSome) return (await showLast(viewing))?.run
    showRest(viewing, story)
    return story?.run
  }

  /** Shows the thread's last run from the rows, if no node works on it. */
  async function showLast(viewing: Viewing): Promise<RunStory | undefined> {
    const { told } = viewing
    const story = await viewing.thread.readLast()
    // What the viewer was told meanwhile is newer than the rows.
    if (viewing.told === told) showRest(viewing, story)
    return story
  }

  function showRest(viewing: Viewing, story: RunStory | undefined): void {
    if (!story) viewing.isResting = true
    // A log that is still open ends by itself.
    if (!story || story.run.status === 'running' || logs.has(story.run.id)) return
    const { id, attempt, status, error } = story.run
    const { have, viewer } = viewing
    if (have?.run_id === id && (have.attempt > attempt || (have.attempt === attempt && viewing.isResting))) return
    const chunks = describeStory(story)
    const n = chunks.length
    Object.assign(viewing, { have: { run_id: id, attempt, n }, isResting: true })
    viewing.told += 1
    viewer.chunks({ id, attempt }, 0, chunks)
    viewer.rested({ id, attempt, n, status, error })
  }

  const readAgain = (viewing: Viewing) => showLast(viewing).catch((error) => cannotRead(viewing, error))

  function cannotRead(viewing: Viewing, error: unknown): void {
    // The thread was deleted, or is no longer the viewer's.
    if (error instanceof Failure && error.envelope.status === 404) {
      tellGone(viewing)
      viewing.end()
    } else {
      service.log.warn({ err: error }, 'Could not read a run for its viewers; trying again soon')
      viewing.isResting = false
    }
  }

  function tellGone(viewing: Viewing): void {
    const { have, isResting, viewer } = viewing
    if (isResting) return
    viewing.isResting = true
    if (!have) return
    const { run_id: id, attempt, n } = have
    viewer.rested({ id, attempt, n, status: 'stopped', error: null })
  }

  /** For viewers of a run that may have changed hands, or ended, without a message that arrived here. */
  function seek(feed: string, viewing: Viewing): void {
    if (!viewing.isAdmitted) return
    catchUp(feed, viewing)
    void readAgain(viewing)
  }

  function receive(message: RelayMessage, from: string): void {
    switch (message.kind) {
      case 'watch':
        for (const log of logs.values()) if (log.feed === message.feed) showTo(from, log, message.have)
        break
      case 'working':
        for (const feed of message.feeds) {
          const [viewing] = viewings.get(feed) ?? []
          if (viewing) relay.send(from, { kind: 'watch', feed, have: viewing.have })
        }
        break
      case 'chunks':
        deliver(message.feed, message.run, message.n, message.chunks)
        break
      case 'rested':
        tellRested(message.feed, message.rest)
        break
      case 'stop':
        for (const handler of stopHandlers) handler(message.runId)
        break
      case 'changed':
        showChange(message.feed, message.runId)
        break
      case 'claimed':
        void readForAll(message.feed)
    }
  }

  const readForAll = (feed: string) =>
    Promise.all([...(viewings.get(feed) ?? [])].filter(({ isAdmitted }) => isAdmitted).map(readAgain))

  function showChange(feed: string, runId: string): void {
    for (const handler of changeHandlers) handler(runId)
    for (const viewing of viewings.get(feed) ?? []) {
      if (viewing.isAdmitted) void readAgain(viewing)
      // The rows are newer.
      else viewing.missed = undefined
    }
  }

  function showTo(node: string, log: Log, have: Position | undefined): void {
    const { id, feed, attempt, chunks, passed } = log
    const nodes = watchers.get(feed) ?? new Map<string, number>()
    watchers.set(feed, nodes.set(node, clock() + watchedMs))
    const known = have?.run_id === id && have.attempt === attempt && have.n <= passed ? have.n : 0
    if (known < passed) {
      const missing = chunks.slice(known, passed)
      relay.send(node, { kind: 'chunks', feed, run: { id, attempt }, n: known, chunks: missing })
    }
  }

  // Messages can be lost, so nodes repeat what they work on, and look for runs that they hear nothing of.
  const timer = setInterval(() => {
    const feeds = Array.from(logs.values(), ({ feed }) => feed)
    if (feeds.length > 0) relay.broadcast({ kind: 'working', feeds })
    const local = new Set(feeds)
    for (const [feed, set] of viewings) {
      if (local.has(feed)) continue
      for (const viewing of set) {
        if (!viewing.isResting && viewing.told === viewing.toldBefore) seek(feed, viewing)
        viewing.toldBefore = viewing.told
      }
    }
  }, watchEveryMs)
  timer.unref()

  const endWatch = service.changes.watch({
    changed: () => undefined,
    missed() {
      for (const [feed, set] of viewings) for (const viewing of set) seek(feed, viewing)
    },
  })

  return {
    open({ id, feed, attempt }, chunks) {
      const log: Log = { id, feed, attempt, chunks, passed: 0, isDirty: false }
      logs.set(id, log)
      relay.broadcast({ kind: 'working', feeds: [feed] })
      markDirty(log)
      return {
        append(...added) {
          log.chunks.push(...added)
          markDirty(log)
        },
        restart(attempt, chunks) {
          Object.assign(log, { attempt, chunks, passed: 0 })
          markDirty(log)
        },
        close(rest) {
          if (rest) passOn(log)
          // Unless this node has begun to work on the run again.
          if (logs.get(id) === log) logs.delete(id)
          if (!rest) {
            for (const viewing of viewings.get(feed) ?? []) seek(feed, viewing)
            return
          }
          const told = { id, attempt: log.attempt, n: log.chunks.length, ...rest }
          tellRested(feed, told, log)
          for (const node of watchersOf(feed)) relay.send(node, { kind: 'rested', feed, rest: told })
        },
      }
    },

    showEnded({ id, feed, attempt }, chunks, rest) {
      const told = { id, attempt, n: chunks.length, ...rest }
      deliver(feed, { id, attempt }, 0, chunks)
      tellRested(feed, told)
      // To all nodes, because none has asked for a run that no node works on.
      relay.broadcast({ kind: 'chunks', feed, run: { id, attempt }, n: 0, chunks })
      relay.broadcast({ kind: 'rested', feed, rest: told })
    },

    watch(feed, viewer, have, thread) {
      const set = viewings.get(feed) ?? new Set()
      const end = () => {
        set.delete(viewing)
        if (set.size === 0 && viewings.get(feed) === set) viewings.delete(feed)
      }
      const fresh = { isAdmitted: false, checkedFor: undefined, isResting: false, told: 0, toldBefore: 0 }
      const viewing: Viewing = { viewer, have, thread, ...fresh, end }
      viewings.set(feed, set.add(viewing))
      return { last: admit(feed, viewing), end }
    },

    stop(runId) {
      for (const handler of stopHandlers) handler(runId)
      relay.broadcast({ kind: 'stop', runId })
    },
    onStop: (handler) => void stopHandlers.add(handler),
    changed({ id: runId, feed }) {
      showChange(feed, runId)
      relay.broadcast({ kind: 'changed', feed, runId })
    },
    async claimed(feed) {
      relay.broadcast({ kind: 'claimed', feed })
      await readForAll(feed)
    },
    onChange: (handler) => void changeHandlers.add(handler),
    async close() {
      clearInterval(timer)
      endWatch()
      await relay.close()
    },
  }
}
