import type { Service } from '../../kernel/foundation/service.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { explainEndOfAccess } from '../../visitors/tickets/ends-of-access.ts'
import { findStanding } from '../../visitors/tickets/standing.ts'
import { describeStory } from '../feeds/chunks.ts'
import { type Feeds, feedOf } from '../feeds/feeds.ts'
import { loadTokenizer } from '../models/tokens/tokenizer.ts'
import { type RunRow, selectStory } from '../runs/rows.ts'
import type { RunError } from '../runs/run.ts'
import type { Runs, Speaker } from '../runs/runs.ts'
import { lockThread } from '../runs/speakers.ts'
import type { NodeRuns } from './node-runs.ts'
import { endRunning, lockActiveRun, stopWaiting } from './run-writes.ts'
import { RunFailed, type Work } from './work.ts'

const accessEnded: RunError = { code: 'ACCESS_ENDED', message: explainEndOfAccess('user_removed') }

interface Needs extends Pick<Service, 'clock' | 'config' | 'database'> {
  feeds: Feeds
  nodeRuns: NodeRuns
}

interface Ends extends Pick<Runs, 'stop' | 'end' | 'endAccess' | 'endAllOf'> {
  /** Tells all viewers about a run that ended while no node worked on it. Its row no longer has the holder. */
  showRested(run: RunRow): Promise<void>
}

/** Ends runs: for their users, and when their access ends. */
export function createEnds(service: Needs): Ends {
  const { database, feeds, nodeRuns } = service
  const now = () => new Date(service.clock()).toISOString()

  async function stop(speaker: Speaker, threadId: string): Promise<void> {
    const active = await database.asHolder(speaker.holder, async (sql) => {
      await lockThread(sql, speaker, threadId)
      const run = await lockActiveRun(sql, threadId)
      if (run?.status === 'running') {
        await sql`update runs set stop_requested_at = now() where id = ${run.id} and stop_requested_at is null`
      } else if (run) await stopWaiting(sql, run, now())
      return run
    })
    if (active?.status === 'running') feeds.stop(active.id)
    else if (active) await showRested(active)
  }

  async function end(speaker: Speaker, threadId: string): Promise<void> {
    await loadTokenizer()
    const ended = await database.asHolder(speaker.holder, async (sql) => {
      await lockThread(sql, speaker, threadId)
      const run = await lockActiveRun(sql, threadId)
      if (run?.status === 'running') await endRunning(sql, run, now())
      else if (run) await stopWaiting(sql, run, now())
      return run
    })
    if (!ended) return
    feeds.stop(ended.id)
    await showRested(ended)
  }

  const endAccess = (organizationId: string, endUserId?: string) =>
    endMany(organizationId, endUserId, async (sql, { holder }) => {
      const [standing] = await findStanding(sql, service.config, [holder])
      return standing !== 'stands'
    })

  const endAllOf = (organizationId: string, endUserId: string) => endMany(organizationId, endUserId, async () => true)

  /** Ends runs of an end user, or of everyone, each in a transaction of its own. */
  async function endMany(
    organizationId: string,
    endUserId: string | undefined,
    mustEnd: (sql: Sql, run: RunRow) => Promise<boolean>,
  ): Promise<void> {
    const threads = await database.asOrg(
      organizationId,
      (sql) => sql<{ id: string }>`
        select distinct threads.id from threads join runs on thread_id = threads.id
        where (${endUserId ?? null}::uuid is null or end_user_id = ${endUserId ?? null}) and runs.status in ('running', 'waiting') order by threads.id`,
    )
    if (threads.length > 0) await loadTokenizer()
    for (const { id } of threads) {
      const work = await endActive(organizationId, id, mustEnd)
      if (!work) continue
      // Its text isn't all saved yet, so it ends by itself. In this moment it may have begun to wait.
      work.lease.end(new RunFailed(accessEnded.code, accessEnded.message))
      await nodeRuns.ended(work)
      await endActive(organizationId, id, mustEnd)
    }
  }

  /** Ends the thread's run if it must end, or returns the work on it if that is here. */
  async function endActive(
    organizationId: string,
    threadId: string,
    mustEnd: (sql: Sql, run: RunRow) => Promise<boolean>,
  ): Promise<Work | undefined> {
    const ended = await database.asOrg(organizationId, async (sql) => {
      const run = await lockActiveRun(sql, threadId)
      if (!run || !(await mustEnd(sql, run))) return undefined
      const work = nodeRuns.workOn(run.id)
      if (run.status === 'running' && work) return { run, work }
      if (run.status === 'running') await endRunning(sql, run, now(), accessEnded)
      else await stopWaiting(sql, run, now(), accessEnded)
      return { run }
    })
    if (!ended || ended.work) return ended?.work
    feeds.stop(ended.run.id)
    await showRested(ended.run)
    return undefined
  }

  async function showRested({ id, thread_id, holder }: RunRow): Promise<void> {
    const story = await database.asOrg(holder.organization_id, (sql) => selectStory(sql, id))
    if (!story) return
    const { attempt, status, error } = story.run
    feeds.showEnded({ id, feed: feedOf(holder, thread_id), attempt }, describeStory(story), { status, error })
  }

  return { stop, end, endAccess, endAllOf, showRested }
}
