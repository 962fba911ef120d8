import { maxChatMessageLength } from '@inlay/protocol'
import type { Service } from '../../kernel/foundation/service.ts'
import { failure, invalid } from '../../kernel/lib/errors.ts'
import { isId, newId } from '../../kernel/lib/ids.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { fitResult } from '../../kernel/untrusted/long-results.ts'
import type { AnonymousLimits } from '../../plans/budgets/anonymous.ts'
import { explainEndOfAccess, type HeldAccess, type HeldConversation } from '../../visitors/tickets/held-access.ts'
import { findStanding } from '../../visitors/tickets/standing.ts'
import { describeStory } from '../feeds/chunks.ts'
import { createFeeds, feedOf } from '../feeds/feeds.ts'
import type { Models } from '../models/models.ts'
import type { Prices } from '../models/prices.ts'
import { countAhead, loadTokenizer } from '../models/tokens/tokenizer.ts'
import { createLateResults, findLateCall, saveLateResult } from '../runs/late-results.ts'
import { type Abandoned, createLeases, leaseSeconds } from '../runs/leases.ts'
import { type RunRow, type RunStory, selectStories, selectStory, takePosition } from '../runs/rows.ts'
import type { Run, RunError, RunHolder, RunPage } from '../runs/run.ts'
import type { LateResult, NewMessage, Runs, Speaker } from '../runs/runs.ts'
import { claimThread, lockThread, requireNotOthers, requireThread } from '../runs/speakers.ts'
import { createTextSaver } from '../runs/text-saver.ts'
import type { AgentSettingsReader } from '../settings/agent-settings.ts'
import type { Telemetry } from '../telemetry/telemetry.ts'
import type { Toolbox } from '../toolbox/toolbox.ts'
import { createAnswers } from './answers.ts'
import { readRows, workOn } from './loop.ts'
import { createRunSettings } from './run-settings.ts'
import { createRunTurns } from './run-turns.ts'
import {
  addMessage,
  endRunning,
  findFreeRun,
  findOrStartThread,
  lockActiveRun,
  lockRunOf,
  type NewRun,
  replaceLast,
  requireSpace,
  stillAnswering,
  stopWaiting,
  type ThreadCounts,
  tooManyRuns,
} from './run-writes.ts'
import { noteShown, showProgress } from './shown-calls.ts'
import { addOrigins } from './tool-calls.ts'
import { interruptedTooOften, RunFailed, type RunParts, type RunRows, runLimits, type Work } from './work.ts'

interface Needs extends Service {
  models: Models
  prices: Prices
  toolbox: Toolbox
  agentSettings: AgentSettingsReader
  anonymous: AnonymousLimits
  telemetry: Telemetry | undefined
  heldAccess: HeldAccess
}

const accessEnded: RunError = { code: 'ACCESS_ENDED', message: explainEndOfAccess('user_removed') }

/** Messages that can wait while a run goes on. */
const mostQueued = 5

export async function createRuns(service: Needs): Promise<Runs> {
  const { database, heldAccess, log } = service
  const feeds = await createFeeds(service)
  const texts = createTextSaver(service)
  const leases = createLeases(service, takeOver)
  const inTurn = createRunTurns()
  const limits = { ...runLimits, silenceMs: service.config.modelSilenceSeconds * 1000 }
  const settingsOf = createRunSettings(service.agentSettings, service.models)
  const parts: RunParts = { ...service, settingsOf, texts, limits }
  const working = new Map<Work, Promise<void>>()
  const lateResults = createLateResults(service, acceptLate)
  const now = () => new Date(service.clock()).toISOString()
  feeds.onStop((runId) => leases.stop(runId))
  feeds.onChange((runId) => {
    for (const work of working.keys()) if (work.run.id === runId) void showCalls(work)
  })

  /** Works on a run that this node has just claimed. */
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
      return workOn(parts, work, hasWaited ? undefined : rows)
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
      if (epoch > limits.beginnings) await endUnread(organization_id, thread_id, epoch)
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
      await endRunning(sql, run, now(), interruptedTooOften)
      return run
    })
    if (!ended) return
    const rest = { status: 'failed' as const, error: interruptedTooOften }
    const run = { id: ended.id, feed: feedOf(ended.holder, threadId), attempt: ended.attempt + 1 }
    feeds.showEnded(run, describeStory({ run: { ...ended, ...rest }, messages: [], steps: [], calls: [] }), rest)
  }

  /** Continues a run that waited. Must be the last statement of its transaction, followed by `begin`. */
  async function claim(sql: Sql, { id, holder, page, client }: Pick<RunRow, 'id' | 'holder' | 'page' | 'client'>) {
    await sql`
      update runs set status = 'running', node = ${leases.node}, epoch = epoch + 1, attempt = attempt + 1,
        lease_until = now() + make_interval(secs => ${leaseSeconds}), holder = ${JSON.stringify(holder)},
        page = ${page && JSON.stringify(page)}, client = ${client && JSON.stringify(client)}
      where id = ${id} and status = 'waiting'`
    return selectStory(sql, id)
  }

  function holderOf({ holder, visitor, address }: Speaker): RunHolder {
    if (holder.end_user || visitor === undefined) return holder
    const { organization_id: organizationId } = holder
    return { ...holder, subjects: service.anonymous.subjectsOf({ organizationId, address, visitor }) }
  }

  async function insertRun(
    sql: Sql,
    speaker: Speaker,
    { id, threadId, position, page, client }: NewRun,
  ): Promise<RunStory> {
    const [run] = await sql<RunRow>`
      insert into runs (organization_id, id, thread_id, position, status, node, epoch, lease_until, holder, page, client)
      values (current_organization(), ${id}, ${threadId}, ${position}, 'running', ${leases.node}, 1,
              now() + make_interval(secs => ${leaseSeconds}), ${JSON.stringify(holderOf(speaker))},
              ${page && JSON.stringify(page)}, ${client && JSON.stringify(client)})
      returning id, thread_id, position, status, attempt, epoch, holder, page, client, worked_ms, error, created_at`
    // Its messages are read when the work begins.
    return { run: run as RunRow, messages: [], steps: [], calls: [] }
  }

  async function send(speaker: Speaker, message: NewMessage) {
    checkMessage(message)
    await admit(speaker)
    const { organization_id } = speaker.holder
    const changes = heldAccess.changeCount()
    let isClaimed = false
    const { started, rows, ...sent } = await database.asHolder(speaker.holder, async (sql) => {
      const { thread_id, page, client } = message
      // Before any lock, so that messages to threads of others don't queue for one.
      await requireNotOthers(sql, speaker, thread_id)
      const look = () =>
        Promise.all([
          sql<{ run_id: string | null; thread_id: string }>`
            select run_id, thread_id from messages where id = ${message.id}`,
          lockRunOf(sql, thread_id),
        ])
      // Independent of each other if the thread exists, so that they travel together.
      const [isRunFree, thread, found] = await Promise.all([
        findFreeRun(sql, speaker),
        findOrStartThread(sql, speaker, thread_id),
        look(),
      ])
      const [[known], active] = thread.wasMissing ? await look() : found
      if (known && known.thread_id !== thread_id) {
        throw failure(409, 'MESSAGE_ID_TAKEN', 'Another thread has a message with this ID. Choose a new ID.')
      }
      if (known) {
        const run_id = known.run_id ?? active?.id ?? message.id
        return { run_id, is_queued: known.run_id === null, started: undefined, rows: undefined }
      }
      if (active && message.is_edit) {
        throw failure(409, 'RUN_ACTIVE', 'The agent is still answering. Stop it before you edit the message.')
      }
      requireSpace(thread)
      if (active?.status !== 'running' && !isRunFree) throw tooManyRuns()
      if (thread.frame_key !== speaker.holder.frame_key) isClaimed = await claimThread(sql, speaker, thread_id)
      // What it asked for may be what a program wants.
      if (isClaimed && active?.status === 'running') throw stillAnswering()
      if (active) return addToActive(sql, speaker, active, thread, message)
      if (message.is_edit) await replaceLast(sql, thread_id, { withMessages: true })
      const run = { id: newId(), threadId: thread_id, position: thread.last_position + 2, page, client }
      const { id, threadId } = run
      const created = { id, threadId, organizationId: organization_id, holder: holderOf(speaker), page, client }
      countAhead(message.text)
      const creating = Promise.all([
        insertRun(sql, speaker, run),
        addMessage(sql, thread, message, now(), run),
        readRows(sql, parts, created),
      ])
      // All of these statements have been sent, and nothing depends on their results.
      sql.commit()
      const [started, , rows] = await creating
      return { run_id: id, is_queued: false, started, rows }
    })
    if (isClaimed) await feeds.claimed(feedOf(speaker.holder, message.thread_id))
    // Otherwise the rows are read again, because they may be from before a change that the run wasn't there for.
    if (started) begin(organization_id, started, changes === heldAccess.changeCount() ? rows : undefined)
    return sent
  }

  /** Anonymous visitors can only talk to the agent where the organization allows it, and not too often. */
  async function admit({ holder, visitor, address }: Speaker): Promise<void> {
    if (holder.end_user) return
    const { organization_id, publishable_key_id } = holder
    const { anonymous } = await service.agentSettings.of(organization_id)
    if (!anonymous.is_enabled) throw failure(403, 'SIGN_IN_NEEDED', 'Sign in to talk to the assistant.')
    if (visitor === undefined) throw failure(400, 'VISITOR_SECRET_NEEDED', 'The client sent no visitor secret.')
    await service.anonymous.admit(
      { organizationId: organization_id, keyId: publishable_key_id, address, visitor },
      { runs_per_visitor: anonymous.runs_per_minute },
    )
  }

  /** A message during a run enters at its next step. One that arrives while the run waits for the user continues it. */
  async function addToActive(sql: Sql, speaker: Speaker, active: RunRow, thread: ThreadCounts, message: NewMessage) {
    const [queue] = await sql<{ count: number }>`
      select count(*) as count from messages where thread_id = ${message.thread_id} and run_id is null`
    if ((queue?.count ?? 0) >= mostQueued) {
      throw failure(429, 'TOO_MANY_MESSAGES', 'Several messages are already waiting. Wait for the agent to read them.')
    }
    await addMessage(sql, thread, message, now())
    const { page, client } = message
    const started =
      active.status === 'waiting' ? await claim(sql, { ...active, holder: holderOf(speaker), page, client }) : undefined
    return { run_id: active.id, is_queued: true, started, rows: undefined }
  }

  async function regenerate(speaker: Speaker, threadId: string, page: RunPage | null) {
    await admit(speaker)
    const { organization_id } = speaker.holder
    let isClaimed = false
    const { id, started } = await database.asHolder(speaker.holder, async (sql) => {
      await requireThread(sql, speaker, threadId)
      const [isRunFree] = await Promise.all([findFreeRun(sql, speaker), lockThread(sql, speaker, threadId)])
      const [active, [thread]] = await Promise.all([
        lockActiveRun(sql, threadId),
        sql<ThreadCounts>`select last_position, message_count from threads where id = ${threadId}`,
      ])
      if (active) throw stillAnswering()
      isClaimed = await claimThread(sql, speaker, threadId)
      if (thread) requireSpace(thread)
      const replaced = await replaceLast(sql, threadId, { withMessages: false })
      if (!replaced) throw failure(409, 'NOTHING_TO_REGENERATE', 'The thread has no answer yet.')
      if (!isRunFree) throw tooManyRuns()
      const id = newId()
      const position = await takePosition(sql, threadId)
      const started = await insertRun(sql, speaker, { id, threadId, position, page, client: null })
      await sql`update messages set run_id = ${id}, step = 1 where run_id = ${replaced}`
      return { id, started }
    })
    if (isClaimed) await feeds.claimed(feedOf(speaker.holder, threadId))
    begin(organization_id, started)
    return { run_id: id }
  }

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
      await working.get(work)
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
      const work = [...working.keys()].find((each) => each.run.id === run.id)
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

  async function settleClientCalls(...[speaker, threadId, results, client]: Parameters<Runs['settleClientCalls']>) {
    const { organization_id } = speaker.holder
    const started = await database.asHolder(speaker.holder, async (sql) => {
      await requireThread(sql, speaker, threadId)
      const [isRunFree] = await Promise.all([findFreeRun(sql, speaker), lockThread(sql, speaker, threadId)])
      const run = await lockActiveRun(sql, threadId)
      if (!run) return undefined
      if (run.status === 'waiting' && !isRunFree) throw tooManyRuns()
      for (const { call_id, content, is_error } of results) {
        if (!isId(call_id)) continue
        const result = await fitResult(sql, run.id, content)
        await sql`
          update tool_calls set state = ${is_error ? 'failed' : 'succeeded'}, result = ${result}, ended_at = now()
          where id = ${call_id} and run_id = ${run.id} and state = 'running' and tool->>'kind' = 'client'`
      }
      return run.status === 'waiting' ? claim(sql, { ...run, holder: holderOf(speaker), client }) : undefined
    })
    if (started) begin(organization_id, started)
  }

  /** Returns false if the node that made the call may still store the result itself. */
  async function acceptLate({ speaker, call_id, source, answer }: LateResult): Promise<boolean> {
    const { holder } = speaker
    const { organization_id } = holder
    const call = await database.asHolder(holder, (sql) => findLateCall(sql, speaker, call_id))
    if (!call || call.is_early) return call === undefined
    const { run_id: id, thread_id: threadId } = call
    const run: Run = { id, organizationId: organization_id, threadId, holder, page: null, client: null }
    const outcome = await service.toolbox.readLateResponse(run, call, { source, answer })
    const isSaved = await database.asHolder(holder, async (sql) => {
      const isSaved = await saveLateResult(sql, speaker, call, outcome)
      if (isSaved) await addOrigins(sql, threadId, outcome.origins)
      return isSaved
    })
    if (isSaved) feeds.changed({ id, feed: feedOf(holder, threadId) })
    // Otherwise, the call has ended or the run was taken over meanwhile: the next attempt finds out which.
    return isSaved
  }

  async function adopt(speaker: Speaker, threadId: string, visitor: string): Promise<void> {
    const { holder } = speaker
    const { organization_id, end_user } = holder
    if (!end_user) throw failure(403, 'SIGN_IN_NEEDED', 'Sign in to keep the conversation.')
    const stopped = await database.asOrg(organization_id, async (sql) => {
      const asVisitor = { ...speaker, holder: { ...holder, end_user: undefined, frame_key: undefined }, visitor }
      await lockThread(sql, asVisitor, threadId)
      const run = await lockActiveRun(sql, threadId)
      if (run?.status === 'running') {
        throw failure(409, 'RUN_ACTIVE', 'The agent is still answering. Wait for it, or stop it first.')
      }
      if (run) await stopWaiting(sql, run, now())
      await sql`
        update threads set end_user_id = ${end_user.id}, frame_key = ${holder.frame_key ?? null}, visitor_fingerprint = null, visitor_expires_at = null,
          allowed_tools = '{}', allowed_choices = '[]', updated_at = now()
        where id = ${threadId}`
      return run
    })
    if (stopped) await showRested(stopped)
  }

  /** Tells all viewers about a run that ended while no node worked on it. Its row no longer has the holder. */
  async function showRested({ id, thread_id, holder }: RunRow): Promise<void> {
    const story = await database.asOrg(holder.organization_id, (sql) => selectStory(sql, id))
    if (!story) return
    const { attempt, status, error } = story.run
    feeds.showEnded({ id, feed: feedOf(holder, thread_id), attempt }, describeStory(story), { status, error })
  }

  const watch: Runs['watch'] = async (speaker, threadId, viewer, have) => {
    const thread = {
      check: () => database.asHolder(speaker.holder, (sql) => requireThread(sql, speaker, threadId)),
      readLast: () =>
        database.asHolder(speaker.holder, async (sql) => {
          const [[last]] = await Promise.all([
            selectStories(sql, threadId, { limit: 1 }),
            requireThread(sql, speaker, threadId),
          ])
          return last
        }),
    }
    const { last, end } = feeds.watch(feedOf(speaker.holder, threadId), viewer, have, thread)
    try {
      return { run: (await last) ?? null, end }
    } catch (error) {
      end()
      throw error
    }
  }

  return {
    send,
    regenerate,
    stop,
    end,
    endAccess,
    endAllOf,
    decide: createAnswers({ ...service, feeds, claim, holderOf, begin }),
    settleClientCalls,
    addLateResult: lateResults.add,
    adopt,
    watch,
    async close() {
      await lateResults.close()
      await leases.close()
      texts.close()
      await Promise.all(working.values())
      await feeds.close()
    },
  }
}

function checkMessage({ id, thread_id, text, skill }: NewMessage): void {
  if (!isId(id)) throw invalid('id', 'Must be a UUID')
  if (!isId(thread_id)) throw invalid('thread_id', 'Must be a UUID')
  if (text.trim() === '') throw invalid('text', 'Must not be empty')
  if (text.length > maxChatMessageLength) throw invalid('text', `Must have at most ${maxChatMessageLength} characters`)
  if (text.includes('\0')) throw invalid('text', 'Must not contain NUL')
  if (skill?.includes('\0')) throw invalid('skill', 'Must not contain NUL')
}

/** What is left of a run when its unfinished step is repeated. */
const finishedPart = ({ steps, calls, ...story }: RunStory): RunStory => ({
  ...story,
  steps: steps.filter(({ finish_reason }) => finish_reason !== null),
  calls,
})
