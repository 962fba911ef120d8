import { createHmac, hash } from 'node:crypto'
import { type Approval, longestCallMs } from '@inlay/protocol'
import type { OrgCaller } from '../foundation/caller.ts'
import type { Service } from '../foundation/service.ts'
import type { Relayed } from '../foundation/tool.ts'
import { Failure, isUnavailable, serviceUnavailable } from '../lib/errors.ts'
import { newId } from '../lib/ids.ts'
import { recordAudit } from '../stores/audit/audit.ts'
import { canonicalJson } from '../stores/audit/chain.ts'
import type { Database } from '../stores/database.ts'
import { cleanText } from '../untrusted/page-text.ts'
import { Batch, recordedAction, type StoredCall } from './batch.ts'
import { type CallContents, type ContentsDays, describeContents, writeContents } from './contents.ts'

/**
 * Records tool calls without holding them up: in memory first, then in batches every few seconds, each with one audit
 * event. While the database is away and the memory for records is used up, new calls are refused, so none is lost.
 */
export interface ToolCallRecorder {
  /** Runs a call, which fills in what it learns, and records how it ended. */
  follow<Result>(
    caller: OrgCaller,
    wanted: { tool_name: string; args: Record<string, unknown> },
    run: (record: StoredCall) => Promise<Result>,
  ): Promise<Result>
  /** Tries once to write what was recorded before, of one organization or of all. */
  flush(organizationId?: string): Promise<void>
  close(): Promise<void>
}

/** What waits to be written, the oldest first. A batch stays as it is from its first write until it has succeeded. */
interface Queue {
  batches: Batch[]
  /** Whether calls may still be added to the last batch. */
  isOpen: boolean
  /** Differs between organizations, so that nobody can compare what they do. */
  argumentsKey: string
  /** Records that could not be written, since the last batch that could. */
  lost: number
  /** The weight of the batches, and calls that run: those must find room when they end. */
  held: number
  writing: Promise<boolean>
  /** A write that has not begun: whoever wants another one waits for this one. */
  nextWrite: Promise<boolean> | undefined
}

const flushEveryMs = 5_000
/** What a node keeps while the database is away. */
const mostWaiting = { organization: 20_000, node: 100_000 }

type Needed = Pick<Service, 'database' | 'secrets' | 'clock' | 'log'>

export function createToolCallRecorder(
  { database, secrets, clock, log }: Needed,
  contentsDays: ContentsDays,
  limits = mostWaiting,
): ToolCallRecorder {
  const serverKey = secrets.derive('tool call arguments')[0]?.key as Buffer
  const queues = new Map<string, Queue>()
  /** Of all queues together. */
  let held = 0

  const isFull = (queue: Queue | undefined) =>
    held >= limits.node || (queue !== undefined && queue.held >= limits.organization)

  /** Reserves room for a record. */
  function enter(organizationId: string): Queue {
    let queue = queues.get(organizationId)
    if (isFull(queue)) throw serviceUnavailable('Tool calls can’t be recorded at the moment, so none is started')
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
    // One was reserved when the call started.
    const more = batch.add(record, contents) - 1
    queue.held += more
    held += more
  }

  /** Writes the batches that exist now. Returns false if the database is away. */
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
          log.warn(details, 'tool calls are not recorded yet and will be tried again')
          return false
        }
        log.error(details, 'tool calls could not be recorded')
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
      // At the end of the line, so that an organization whose writes time out doesn't hold up the others.
      queues.delete(organizationId)
      queues.set(organizationId, queue)
      return
    }
  }

  async function flush(organizationId?: string): Promise<void> {
    if (organizationId === undefined) return writeAll()
    const queue = queues.get(organizationId)
    if (queue) await write(organizationId, queue)
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
    async follow({ organization, user, token }, { tool_name, args }, run) {
      const started = performance.now()
      if (isFull(queues.get(organization.id))) await flush(held >= limits.node ? undefined : organization.id)
      const days = contentsDays.cached(organization.id) ?? (await contentsDays.load(organization.id))
      const queue = enter(organization.id)
      const record: StoredCall = {
        id: newId(),
        at: clock(),
        user_id: user.id,
        user_email: user.email,
        client_id: token.client_id ?? null,
        client_name: token.client_name ?? null,
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
        record.duration_ms = Math.round(performance.now() - started)
        add(organization.id, queue, record, days > 0 ? describeContents(record, days, args, result) : undefined)
      }
    },
    flush,
    async close() {
      clearInterval(timer)
      await writeAll()
      if (held > 0) log.error({ count: held }, 'the server stopped before these tool calls were recorded')
    },
  }
}

/**
 * Keyed, since arguments are often easy to guess: an order's number, an address. SHA-512/256 needs no HMAC around it, as
 * what follows the key can't be extended; an HMAC takes four times as long.
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
    // The connection may have broken after an earlier commit of the same batch.
    if (written.length === 0) return
    if (batch.contents.length > 0) await writeContents(sql, batch.contents)
    const data = { count, hash: hash('sha256', records), ...(lost > 0 && { lost }) }
    await recordAudit(sql, { organizationId, actor: 'hub' }, recordedAction, id, data)
  })
}
