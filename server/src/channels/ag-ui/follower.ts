import type { Event } from '@ag-ui/core'
import type { UIMessageChunk } from 'ai'
import { explainEnd, unknownOutcome } from '../../agent/feeds/chunks.ts'
import { selectLateResults } from '../../agent/runs/late-results.ts'
import type { RunError, RunStatus } from '../../agent/runs/run.ts'
import type { Position, Runs, Speaker, Viewer } from '../../agent/runs/runs.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { Failure, notFound, serviceUnavailable } from '../../kernel/lib/errors.ts'
import type { ConnectLinks } from '../../tools/consent/end-user-consents.ts'
import { type EndOfConversation, explainEndOfAccess } from '../../visitors/tickets/ends-of-access.ts'
import type { Attendance } from './attendance.ts'
import { Projection } from './projection.ts'
import type { RunRequest } from './request.ts'
import type { EventStream } from './stream.ts'

type Needs = Pick<Service, 'log' | 'config' | 'database'> & {
  runs: Runs
  attendance: Attendance
  links: ConnectLinks
}

/** Nodes respond to each other within a few milliseconds. */
const arrivalMs = 5_000
const tooLate = 'The server that works on this run doesn’t respond. Try again later.'

/** The same request may have arrived twice, or the user has decided elsewhere. */
function ignoreDecided(error: unknown): void {
  if (!(error instanceof Failure && error.envelope.code === 'ALREADY_DECIDED')) throw error
}

interface RunRest {
  status: RunStatus
  error: RunError | null
}

/** One request of a client: passes on its message and its answers, and shows it the run until that rests. */
export class Follower implements Viewer {
  readonly #service: Needs
  readonly #speaker: Speaker
  #request: RunRequest
  readonly #stream: EventStream
  readonly #projection: Projection
  /** Names the thread among those of all organizations. */
  readonly #thread: string
  /** Answers that were passed on, and which the log may not show yet. */
  readonly #decided = new Set<string>()
  readonly #settled = new Set<string>()
  /** The run to show. */
  #runId: string | undefined
  readonly #arrival = Promise.withResolvers<void>()
  #early: Event[] = []
  #rest: RunRest | undefined
  #endWatch: (() => void) | undefined
  #state: 'beginning' | 'streaming' | 'lost' | 'ended' = 'beginning'
  #cancelLoss: (() => void) | undefined

  constructor(service: Needs, speaker: Speaker, request: RunRequest, stream: EventStream) {
    const { threadId, runId, view } = request
    this.#service = service
    this.#speaker = speaker
    this.#request = request
    this.#stream = stream
    this.#projection = new Projection({
      threadId,
      runId,
      view,
      publicUrl: service.config.publicUrl,
      origin: speaker.holder.origin ?? '',
    })
    this.#thread = `${speaker.holder.organization_id}:${request.thread}`
  }

  /**
   * Throws if the client's message or answers are refused, before anything is sent. So does a signal that aborts until
   * then.
   */
  async begin(signal: AbortSignal): Promise<void> {
    const { decisions, results, message } = this.#request
    let late = new Map<string, string>()
    try {
      if (!message || decisions.length > 0 || results.length > 0) await this.#answer()
      if (message) await this.#say(message)
      late = await this.#findLateResults()
      signal.throwIfAborted()
    } catch (error) {
      this.#endWatch?.()
      throw error
    }
    this.#state = 'streaming'
    this.#stream.open()
    this.#service.attendance.attach(this.#thread)
    this.#stream.onClose(() => this.#closed())
    this.#stream.send([...this.#projection.start(late), ...this.#early])
    this.#early = []
    this.#endIfRested()
  }

  /** The server shuts down. The run continues, and the client can attach to it again. */
  interrupt(): void {
    const message = 'The server restarts. The agent continues; send the request again to see the rest.'
    this.#end(this.#projection.fail('SERVER_RESTARTING', message))
  }

  /** The client's access has ended. The run ends with it, unless it was started with another key or identity. */
  endAccess(why: EndOfConversation): void {
    if (this.#state !== 'streaming') return
    this.#stream.end(this.#projection.fail('ACCESS_ENDED', explainEndOfAccess(why)))
    this.#closed()
  }

  chunks(run: { id: string; attempt: number }, n: number, chunks: readonly UIMessageChunk[]): void {
    this.#runId ??= run.id
    if (run.id !== this.#runId || this.#state === 'ended') return
    this.#rest = undefined
    this.#arrival.resolve()
    const { organization_id } = this.#speaker.holder
    const events = this.#projection.take(run, n, this.#service.links.addTo(organization_id, chunks))
    if (this.#state === 'beginning') this.#early.push(...events)
    else if (this.#state === 'streaming') this.#stream.send(events)
  }

  rested({ id, status, error }: { id: string } & RunRest): void {
    this.#runId ??= id
    if (id !== this.#runId) return
    this.#rest = { status, error }
    this.#endIfRested()
  }

  async #say({ id, text }: { id: string; text: string }): Promise<void> {
    const { runs } = this.#service
    const { thread, runId, tools } = this.#request
    const { run_id } = await runs.send(this.#speaker, {
      id,
      thread_id: thread,
      text,
      page: null,
      client: { run_id: runId, origin: this.#speaker.holder.origin ?? '', tools },
    })
    this.#runId = run_id
    await this.#watch({ run_id, attempt: 1, n: 0 })
  }

  /** Looks up which calls are open first: a repeated request has answered them before. */
  async #answer(): Promise<void> {
    const { runs } = this.#service
    const { decisions, results, thread, runId, tools } = this.#request
    if (!(await this.#findThread())) return
    await this.#arrive()
    const unknown = decisions.find(({ call_id }) => !this.#projection.has(call_id))
    if (unknown) throw notFound('interrupt', unknown.call_id)
    const { questions, pendingCalls } = this.#projection
    const decided = decisions.filter(({ call_id }) => questions.includes(call_id))
    const settled = results.filter(({ call_id }) => pendingCalls.includes(call_id))
    if (decided.length + settled.length === 0) return
    for (const decision of decided) {
      await runs.decide(this.#speaker, decision).catch(ignoreDecided)
      this.#decided.add(decision.call_id)
    }
    if (settled.length === 0) return
    await runs.settleClientCalls(this.#speaker, thread, settled, {
      run_id: runId,
      origin: this.#speaker.holder.origin ?? '',
      tools,
    })
    for (const { call_id } of settled) this.#settled.add(call_id)
  }

  /** Results that have arrived since the client was told that the outcome is unknown. */
  async #findLateResults(): Promise<Map<string, string>> {
    const { view, thread } = this.#request
    const unknown = view.filter(({ role, content }) => role === 'tool' && content === unknownOutcome)
    if (unknown.length === 0) return new Map()
    const ids = unknown.map(({ toolCallId = '' }) => toolCallId)
    const { organization_id } = this.#speaker.holder
    const calls = await this.#service.database.asOrg(organization_id, (sql) => selectLateResults(sql, thread, ids))
    return new Map(calls.map((call) => [call.id, explainEnd(call)]))
  }

  /** Returns false for a thread that the client's message will start. */
  async #findThread(): Promise<boolean> {
    try {
      await this.#watch()
      return true
    } catch (error) {
      const canStart = this.#request.message && this.#request.decisions.length === 0
      if (canStart && error instanceof Failure && error.envelope.status === 404) return false
      throw error
    }
  }

  /** Shows the run from its beginning, and whether it rests. */
  async #watch(have?: Position): Promise<void> {
    this.#endWatch?.()
    this.#rest = undefined
    const { run, end } = await this.#service.runs.watch(this.#speaker, this.#request.thread, this, have)
    this.#endWatch = end
    this.#runId ??= run?.id
    // The thread may have moved on since the message of a repeated request was sent.
    if (!run || run.id !== this.#runId) this.#rest = { status: 'succeeded', error: null }
  }

  /** Resolves once the run's log is here: that of a run on another node comes after the watch has begun. */
  async #arrive(): Promise<void> {
    if (this.#rest) return
    const deadline = setTimeout(() => this.#arrival.reject(serviceUnavailable(tooLate)), arrivalMs)
    try {
      await this.#arrival.promise
    } finally {
      clearTimeout(deadline)
    }
  }

  #endIfRested(): void {
    if (!this.#rest || this.#isAnswered(this.#rest)) return
    if (this.#state === 'streaming') this.#end(this.#projection.end(this.#rest.status, this.#rest.error))
    else if (this.#state === 'lost') this.#leave()
  }

  /** Whether the run no longer waits, because this request has answered everything that it waits for. */
  #isAnswered({ status }: RunRest): boolean {
    const { questions, pendingCalls } = this.#projection
    if (status !== 'waiting' || questions.length + pendingCalls.length === 0) return false
    return questions.every((id) => this.#decided.has(id)) && pendingCalls.every((id) => this.#settled.has(id))
  }

  #end(events: Event[]): void {
    if (this.#state !== 'streaming') return
    this.#state = 'ended'
    this.#stream.end(events)
    this.#service.attendance.finish(this.#thread)
    this.#endWatch?.()
  }

  /** The client is gone. Keeps watching, because a run that rests needs no stop. What the client has sent is forgotten. */
  #closed(): void {
    if (this.#state !== 'streaming') return
    this.#state = 'lost'
    const { threadId, thread, runId } = this.#request
    this.#request = { threadId, thread, runId, message: undefined, decisions: [], results: [], tools: [], view: [] }
    this.#projection.forgetView()
    this.#cancelLoss = this.#service.attendance.lose(this.#thread, (isAbandoned) => {
      this.#leave()
      if (isAbandoned) void this.#stop()
    })
    this.#endIfRested()
  }

  #leave(): void {
    this.#state = 'ended'
    this.#cancelLoss?.()
    this.#endWatch?.()
  }

  async #stop(): Promise<void> {
    const { runs, log } = this.#service
    try {
      await runs.stop(this.#speaker, this.#request.thread)
    } catch (error) {
      // The thread is gone, and its run with it.
      if (error instanceof Failure && error.envelope.status === 404) return
      log.error({ err: error, thread_id: this.#request.thread }, 'Could not stop the run of a client that left')
    }
  }
}
