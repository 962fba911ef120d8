import { createHmac, hash } from 'node:crypto'
import { type Approval, longestCallMs } from '@inlay/protocol'
import type { Service } from '../foundation/service.ts'
import type { Relayed, ToolCall } from '../foundation/tool.ts'
import type { ToolUser } from '../foundation/tool-user.ts'
import { Failure, isUnavailable, serviceUnavailable } from '../lib/errors.ts'
import { newId } from '../lib/ids.ts'
import { recordAudit } from '../stores/audit/audit.ts'
import { canonicalJson } from '../stores/audit/chain.ts'
import type { Database } from '../stores/database.ts'
import { cleanText } from '../untrusted/page-text.ts'
import { Batch, recordedAction, type StoredCall } from './batch.ts'
import { type CallContents, type ContentsDays, describeContents, writeContents } from './contents.ts'

/**
 * Records tool calls without delaying them: in memory first, then in batches every few seconds, each with one audit
 * event. If the database is unreachable and the memory limit is reached, new calls are refused, so no record is lost.
 */
export interface ToolCallRecorder {
  /** Runs a call and records how it ended. `run` adds details to the record. Without an `id`, the record gets one. */
  follow<Result>(
    user: ToolUser,
    wanted: {
      tool_name: string
      args: Record<string, unknown>
      id?: string | undefined
      governed?: ToolCall['governed']
    },
    run: (record: StoredCall) => Promise<Result>,
  ): Promise<Result>
  /** Tries once to write the pending records of one or all organizations, or only if some of them are of these users. */
  flush(organizationId?: string, users?: readonly string[]): Promise<void>
  close(): Promise<void>
}

/** Batches waiting to be written, oldest first. A batch is immutable from its first write attempt on. */
interface Queue {
  batches: Batch[]
  /** Whether calls can still be added to the last batch. */
  isOpen: boolean
  /** Unique per organization, so that hashes can't be compared between organizations. */
  argumentsKey: string
  /** Records lost since the last successful batch. */
  lost: number
  /** Weight of the batches plus running calls, which reserve room for their records. */
  held: number
  writing: Promise<boolean>
  /** A write that hasn't started yet, which further requests share. */
  nextWrite: Promise<boolean> | undefined
}

const flushEveryMs = 5_000
/** Maximum weight of unwritten records on a node, while the database is unreachable. */
const mostWaiting = { organization: 20_000, node: 100_000 }

type Needed = Pick<Service, 'database' | 'secrets' | 'clock' | 'log'>

export function createToolCallRecorder(
  { database, secrets, clock, log }: Needed,
  contentsDays: ContentsDays,
  limits = mostWaiting,
): ToolCallRecorder {
  const serverKey = secrets.derive('tool call arguments')[0]?.key as Buffer
  const queues = new Map<string, Queue>()
  /** Total of `held` over all queues. */
  let held = 0

  const isFull = (queue: Queue | undefined) =>
    held >= limits.node || (queue !== undefined && queue.held >= limits.organization)

  /** Reserves room for a record. */
  function enter(organizationId: string): Queue {
    let queue = queues.get(organizationId)
    if (isFull(queue))
      throw serviceUnavailable('Tool calls can’t be recorded right now, so none are started. Try again later.')
    if (!queue) {
      const argumentsKey = createHmac('sha256', serverKey).update(organizationId).digest('base64url')
      const writing = Promise.resolve(true)
      queue = { batches: [], isOpen: false, argumentsKey, lost: 0, held: 0, writing, nextWrite: undefined }
      queues.set(organizationId, queue)
    }
    queue.held += 1
    held += 1
    return queue
  }

  function add(organizationId: string, queue: Queue, record: StoredCall, contents: CallContents | undefined): void {
    let batch = queue.isOpen ? queue.batches.at(-1) : undefined
    if (!batch?.hasRoomFor(record)) {
      const isFollowing = batch !== undefined
      batch = new Batch(newId())
      queue.batches.push(batch)
      queue.isOpen = true
      if (isFollowing) void write(organizationId, queue)
    }
    // `enter` has already reserved a weight of 1.
    const more = batch.add(record, contents) - 1
    queue.held += more
    held += more
  }

  /** Writes the batches that exist now. Returns false if the database is unreachable. */
  async function writeBatches(organizationId: string, queue: Queue): Promise<boolean> {
    for (let left = queue.batches.length; left > 0; left -= 1) {
      const [batch] = queue.batches as [Batch]
      if (queue.batches.length === 1) queue.isOpen = false
      batch.lost += queue.lost
      queue.lost = 0
      try {
        await writeBatch(database, organizationId, batch)
      } catch (error) {
        const details = { err: error, organization_id: organizationId, batch_id: batch.id, count: batch.count }
        if (isUnavailable(error)) {
          log.warn(details, 'Could not record tool calls; retrying')
          return false
        }
        log.error(details, 'Tool call records were lost')
        queue.lost += batch.count + batch.lost
      }
      queue.batches.shift()
      batch.release()
      queue.held -= batch.weight
      held -= batch.weight
    }
    if (queue.held + queue.lost === 0) queues.delete(organizationId)
    return true
  }

  function write(organizationId: string, queue: Queue): Promise<boolean> {
    if (queue.nextWrite) return queue.nextWrite
    queue.nextWrite = queue.writing.then(() => {
      queue.nextWrite = undefined
      return writeBatches(organizationId, queue)
    })
    queue.writing = queue.nextWrite
    return queue.writing
  }

  async function writeAll(): Promise<void> {
    for (const [organizationId, queue] of [...queues]) {
      if (await write(organizationId, queue)) continue
      // Moves the queue to the end, so that an organization whose writes time out doesn't block the others.
      queues.delete(organizationId)
      queues.set(organizationId, queue)
      return
    }
  }

  async function flush(organizationId?: string, users?: readonly string[]): Promise<void> {
    if (organizationId === undefined) return writeAll()
    const queue = queues.get(organizationId)
    const isWanted = users === undefined || queue?.batches.some((batch) => users.some((id) => batch.users.has(id)))
    if (queue && isWanted) await write(organizationId, queue)
  }

  let isWriting = false
  const timer = setInterval(async () => {
    if (isWriting) return
    isWriting = true
    await writeAll()
    isWriting = false
  }, flushEveryMs)
  timer.unref()

  return {
    async follow(
      { organizationId, id: user_id, email, client_id, client_name },
      { tool_name, args, id, governed },
      run,
    ) {
      const started = performance.now()
      if (isFull(queues.get(organizationId))) await flush(held >= limits.node ? undefined : organizationId)
      const days = contentsDays.cached(organizationId) ?? (await contentsDays.load(organizationId))
      const queue = enter(organizationId)
      const record: StoredCall = {
        id: id ?? newId(),
        at: clock(),
        user_id,
        user_email: email,
        client_id: client_id ?? null,
        client_name: client_name ?? null,
        source_type: null,
        source: null,
        tool: cleanText(tool_name),
        definition_hash: null,
        arguments_hash: hashArguments(queue.argumentsKey, args),
        approval: 'unknown',
        approval_at: null,
        governance: 'none',
        outcome: 'failed',
        failure_code: null,
        duration_ms: 0,
      }
      let result: unknown
      try {
        const returned = await run(record)
        result = returned
        return returned
      } catch (error) {
        describeFailure(record, error)
        throw error
      } finally {
        governed?.(record.governance)
        record.duration_ms = Math.round(performance.now() - started)
        // Contents are deleted with the end user that has the address.
        const isKept = days > 0 && email !== ''
        add(organizationId, queue, record, isKept ? describeContents(record, days, args, result) : undefined)
      }
    },
    flush,
    async close() {
      clearInterval(timer)
      await writeAll()
      if (held > 0)
        log.error({ count: held }, 'Tool call records were lost: the server stopped before they were written')
    },
  }
}

/**
 * Keyed, because arguments such as an order number are often easy to guess. SHA-512/256 isn't vulnerable to length
 * extension, so it doesn't need an HMAC, which takes four times as long.
 */
const hashArguments = (key: string, args: Record<string, unknown>): string =>
  hash('sha512-256', `${key}\n${canonicalJson(args)}`, 'base64url')

export function describeAnswer(record: StoredCall, { isError }: Relayed, approval: Approval | undefined): void {
  const isDeclined = approval?.how === 'declined'
  record.outcome = isDeclined ? 'refused' : isError ? 'tool_error' : 'succeeded'
  if (isDeclined) record.failure_code = 'DECLINED'
  if (approval) record.approval = approval.how
  if (approval?.after_ms !== undefined) {
    record.approval_at = record.at + Math.min(approval.after_ms, longestCallMs)
  }
}

const outcomes: Record<string, StoredCall['outcome']> = {
  CALL_REFUSED: 'refused',
  CALL_CANCELLED: 'cancelled',
  CALL_TIMED_OUT: 'timed_out',
  APPROVAL_TIMED_OUT: 'timed_out',
  APPROVAL_NEEDED: 'refused',
}

function describeFailure(record: StoredCall, error: unknown): void {
  const code = error instanceof Failure ? String(error.envelope.data?.code ?? error.envelope.code) : 'INTERNAL_ERROR'
  const outcome = outcomes[code] ?? 'failed'
  // A call that already has an outcome has run, so the refusal is about its result.
  if (code === 'CALL_REFUSED') record.governance = record.outcome === 'failed' ? 'refused' : 'result_refused'
  record.outcome = outcome
  record.failure_code = code
}

async function writeBatch({ asOrg }: Database, organizationId: string, batch: Batch): Promise<void> {
  const records = await batch.compress()
  const { id, count, lost } = batch
  const [firstAt, lastAt] = [batch.firstAt, batch.lastAt].map((ms) => new Date(ms).toISOString())
  await asOrg(organizationId, async (sql) => {
    const written = await sql`
      with batch as (
        insert into tool_call_batches (organization_id, id, first_at, last_at, count, records)
        values (current_organization(), ${id}, ${firstAt}, ${lastAt}, ${count}, ${records})
        on conflict (organization_id, id) do nothing
        returning organization_id, id)
      insert into tool_call_users (organization_id, batch_id, user_id)
      select batch.organization_id, batch.id, user_id from batch, unnest(${[...batch.users].sort()}::uuid[]) as user_id
      returning user_id`
    // An earlier attempt may have committed this batch before its connection broke.
    if (written.length === 0) return
    if (batch.contents.length > 0) await writeContents(sql, batch.contents)
    const data = { count, hash: hash('sha256', records), ...(lost > 0 && { lost }) }
    await recordAudit(sql, { organizationId, actor: 'hub' }, recordedAction, id, data)
  })
}
