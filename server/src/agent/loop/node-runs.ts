import type { Service } from '../../kernel/foundation/service.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { explainEndOfAccess, type HeldAccess, type HeldConversation } from '../../visitors/tickets/ends-of-access.ts'
import { describeStory } from '../feeds/chunks.ts'
import { type Feeds, feedOf } from '../feeds/feeds.ts'
import { loadTokenizer } from '../models/tokens/tokenizer.ts'
import { type Abandoned, createLeases, leaseSeconds } from '../runs/leases.ts'
import { type RunRow, type RunStory, selectStory } from '../runs/rows.ts'
import type { Run } from '../runs/run.ts'
import type { Telemetry } from '../telemetry/telemetry.ts'
import { workOn as workOnRun } from './loop.ts'
import { createRunTurns } from './run-turns.ts'
import { endRunning, lockActiveRun } from './run-writes.ts'
import { noteShown, showProgress } from './shown-calls.ts'
import { interruptedTooOften, RunFailed, type RunParts, type RunRows, type Work } from './work.ts'

interface Needs extends Pick<Service, 'clock' | 'database' | 'log'> {
  feeds: Feeds
  heldAccess: HeldAccess
  parts: RunParts
  telemetry: Telemetry | undefined
}

/** The runs that this node works on. */
export interface NodeRuns {
  /** Works on a run that this node has just claimed. */
  begin(organizationId: string, story: RunStory, rows?: RunRows): void
  /** Continues a run that waited. Must be the last statement of its transaction, followed by `begin`. */
  claim(sql: Sql, run: Pick<RunRow, 'id' | 'holder' | 'page' | 'client'>): Promise<RunStory | undefined>
  /** What a new run's row says about who works on it. */
  node: string
  workOn(runId: string): Work | undefined
  /** Resolves when the work has ended. */
  ended(work: Work): Promise<void>
  close(): Promise<void>
}

/** Begins the work on runs, takes over those that other nodes have abandoned, and hears what others change about them. */
export function createNodeRuns(service: Needs): NodeRuns {
  const { database, feeds, heldAccess, log, parts } = service
  const leases = createLeases(service, takeOver)
  const inTurn = createRunTurns()
  const working = new Map<Work, Promise<void>>()
  const workOn = (runId: string) => [...working.keys()].find(({ run }) => run.id === runId)
  feeds.onStop((runId) => leases.stop(runId))
  feeds.onChange((runId) => {
    const work = workOn(runId)
    if (work) void showCalls(work)
  })

  function begin(organizationId: string, story: RunStory, rows?: RunRows): void {
    const { id, thread_id, epoch, attempt, holder, page, client } = story.run
    const run: Run = { id, organizationId, threadId: thread_id, holder, page, client }
    const chunks = describeStory(finishedPart(story))
    const lease = leases.hold({ organizationId, threadId: thread_id, runId: id, epoch })
    const feed = feeds.open({ id, feed: feedOf(holder, thread_id), attempt }, chunks)
    const work: Work = {
      run,
      lease,
      log: feed,
      attempt,
      hasTriedSummary: false,
      isNew: epoch === 1,
      shown: new Map<string, number>(),
      startedAt: Date.now(),
      trace: service.telemetry?.startRun(run),
    }
    noteShown(work, story.calls)
    const held: HeldConversation = {
      isConversation: true,
      accessEnded: (why) => lease.end(new RunFailed('ACCESS_ENDED', explainEndOfAccess(why))),
    }
    heldAccess.hold(holder, held)
    const done = inTurn({ holder, signal: lease.signal }, (hasWaited) => {
      // What was read when the run was created is old then, and waiting isn't work.
      if (hasWaited) work.startedAt = Date.now()
      return workOnRun(parts, work, hasWaited ? undefined : rows)
    })
      .catch((error) => log.error({ err: error, run_id: id }, 'The work on a run ended unexpectedly'))
      .finally(() => {
        heldAccess.release(holder, held)
        working.delete(work)
      })
    working.set(work, done)
  }

  /** Shows what another node has stored about the run's calls. The loop would show it after the current step. */
  async function showCalls(work: Work): Promise<void> {
    const { id, organizationId } = work.run
    try {
      const story = await database.asOrg(organizationId, (sql) => selectStory(sql, id))
      if (story && working.has(work)) showProgress(work, story.calls)
    } catch (error) {
      log.warn({ err: error, run_id: id }, 'Could not show the calls of a run')
    }
  }

  async function takeOver({ organization_id, id }: Abandoned): Promise<void> {
    const [claimed] = await database.asOrg(
      organization_id,
      (sql) => sql<{ thread_id: string; epoch: number; is_stopped: boolean }>`
        update runs set node = ${leases.node}, epoch = epoch + 1, attempt = attempt + 1,
          lease_until = now() + make_interval(secs => ${leaseSeconds})
        where id = ${id} and status = 'running' and lease_until < now()
        returning thread_id, epoch, stop_requested_at is not null as is_stopped`,
    )
    if (!claimed) return
    const { thread_id, epoch, is_stopped } = claimed
    try {
      // After the claim was saved, so that a run that can't be read comes last, and not forever.
      const story = await database.asOrg(organization_id, (sql) => selectStory(sql, id))
      if (story) begin(organization_id, story)
    } catch (error) {
      if (epoch > parts.limits.beginnings) await endUnread(organization_id, thread_id, epoch)
      throw error
    }
    if (is_stopped) leases.stop(id)
  }

  /** Ends a run of which nothing but its row can be read. */
  async function endUnread(organizationId: string, threadId: string, epoch: number): Promise<void> {
    await loadTokenizer()
    const ended = await database.asOrg(organizationId, async (sql) => {
      const run = await lockActiveRun(sql, threadId)
      if (run?.epoch !== epoch) return undefined
      await endRunning(sql, run, new Date(service.clock()).toISOString(), interruptedTooOften)
      return run
    })
    if (!ended) return
    const rest = { status: 'failed' as const, error: interruptedTooOften }
    const run = { id: ended.id, feed: feedOf(ended.holder, threadId), attempt: ended.attempt + 1 }
    feeds.showEnded(run, describeStory({ run: { ...ended, ...rest }, messages: [], steps: [], calls: [] }), rest)
  }

  async function claim(sql: Sql, { id, holder, page, client }: Pick<RunRow, 'id' | 'holder' | 'page' | 'client'>) {
    await sql`
      update runs set status = 'running', node = ${leases.node}, epoch = epoch + 1, attempt = attempt + 1,
        lease_until = now() + make_interval(secs => ${leaseSeconds}), holder = ${JSON.stringify(holder)},
        page = ${page && JSON.stringify(page)}, client = ${client && JSON.stringify(client)}
      where id = ${id} and status = 'waiting'`
    return selectStory(sql, id)
  }

  return {
    begin,
    claim,
    node: leases.node,
    workOn,
    ended: async (work) => working.get(work),
    async close() {
      await leases.close()
      await Promise.all(working.values())
    },
  }
}

/** What is left of a run when its unfinished step is repeated. */
const finishedPart = ({ steps, calls, ...story }: RunStory): RunStory => ({
  ...story,
  steps: steps.filter(({ finish_reason }) => finish_reason !== null),
  calls,
})
