import { maxChatMessageLength } from '@inlay/protocol'
import type { Service } from '../../kernel/foundation/service.ts'
import { failure, invalid } from '../../kernel/lib/errors.ts'
import { isId, newId } from '../../kernel/lib/ids.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import type { AnonymousLimits } from '../../plans/budgets/anonymous.ts'
import type { HeldAccess } from '../../visitors/tickets/ends-of-access.ts'
import { type Feeds, feedOf } from '../feeds/feeds.ts'
import { countAhead } from '../models/tokens/tokenizer.ts'
import { leaseSeconds } from '../runs/leases.ts'
import { type RunRow, type RunStory, takePosition } from '../runs/rows.ts'
import type { RunHolder, RunPage } from '../runs/run.ts'
import type { NewMessage, Runs, Speaker } from '../runs/runs.ts'
import { claimThread, lockThread, requireNotOthers, requireThread } from '../runs/speakers.ts'
import type { AgentSettingsReader } from '../settings/agent-settings.ts'
import { readRows } from './loop.ts'
import type { NodeRuns } from './node-runs.ts'
import {
  addMessage,
  findFreeRun,
  findOrStartThread,
  lockActiveRun,
  lockRunOf,
  type NewRun,
  replaceLast,
  requireSpace,
  stillAnswering,
  type ThreadCounts,
  tooManyRuns,
} from './run-writes.ts'
import type { RunParts } from './work.ts'

/** How many messages can wait while a run is going on. */
const mostQueued = 5

interface Needs extends Pick<Service, 'clock' | 'database'> {
  agentSettings: AgentSettingsReader
  anonymous: AnonymousLimits
  feeds: Feeds
  heldAccess: HeldAccess
  nodeRuns: NodeRuns
  parts: RunParts
  holderOf(speaker: Speaker): RunHolder
}

/** Starts runs for messages of users, and passes on messages to runs that go on. */
export function createStarts(service: Needs): Pick<Runs, 'send' | 'regenerate'> {
  const { database, feeds, heldAccess, holderOf, nodeRuns, parts } = service
  const now = () => new Date(service.clock()).toISOString()

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
    if (started) nodeRuns.begin(organization_id, started, changes === heldAccess.changeCount() ? rows : undefined)
    return sent
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
    nodeRuns.begin(organization_id, started)
    return { run_id: id }
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
      active.status === 'waiting'
        ? await nodeRuns.claim(sql, { ...active, holder: holderOf(speaker), page, client })
        : undefined
    return { run_id: active.id, is_queued: true, started, rows: undefined }
  }

  async function insertRun(
    sql: Sql,
    speaker: Speaker,
    { id, threadId, position, page, client }: NewRun,
  ): Promise<RunStory> {
    const [run] = await sql<RunRow>`
      insert into runs (organization_id, id, thread_id, position, status, node, epoch, lease_until, holder, page, client)
      values (current_organization(), ${id}, ${threadId}, ${position}, 'running', ${nodeRuns.node}, 1,
              now() + make_interval(secs => ${leaseSeconds}), ${JSON.stringify(holderOf(speaker))},
              ${page && JSON.stringify(page)}, ${client && JSON.stringify(client)})
      returning id, thread_id, position, status, attempt, epoch, holder, page, client, worked_ms, error, created_at`
    // Its messages are read when the work begins.
    return { run: run as RunRow, messages: [], steps: [], calls: [] }
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

  return { send, regenerate }
}

function checkMessage({ id, thread_id, text, skill }: NewMessage): void {
  if (!isId(id)) throw invalid('id', 'Must be a UUID')
  if (!isId(thread_id)) throw invalid('thread_id', 'Must be a UUID')
  if (text.trim() === '') throw invalid('text', 'Must not be empty')
  if (text.length > maxChatMessageLength) throw invalid('text', `Must have at most ${maxChatMessageLength} characters`)
  if (text.includes('\0')) throw invalid('text', 'Must not contain NUL')
  if (skill?.includes('\0')) throw invalid('skill', 'Must not contain NUL')
}
