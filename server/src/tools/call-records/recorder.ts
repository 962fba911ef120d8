import { createHmac, hash } from 'node:crypto'
import { type Approval, longestCallMs } from '@inlay/protocol'
import type { Service } from '../../kernel/foundation/service.ts'
import type { Relayed, ToolCall } from '../../kernel/foundation/tool.ts'
import type { ToolUser } from '../../kernel/foundation/tool-user.ts'
import { Failure, isUnavailable, serviceUnavailable } from '../../kernel/lib/errors.ts'
import { newId } from '../../kernel/lib/ids.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import { canonicalJson } from '../../kernel/stores/audit/chain.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { cleanText } from '../../kernel/untrusted/page-text.ts'
import { type CallContents, type ContentsDays, describeContents, writeContents } from './contents.ts'
import { insertRecords, type StoredCall } from './records.ts'

/**
 * Records tool calls without delaying them: in memory first, then in the database every few seconds. If the database is unreachable and the memory limit is reached, new calls are refused, so no record is lost.
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

interface Pending {
  record: StoredCall
  /** Undefined unless the organization keeps contents. */
  contents: CallContents | undefined
  /** Weight in the memory limits: one per record, plus contents by their size. */
  weight: number
}

interface Queue {
  /** Oldest first. A record stays until it is written, so that nothing is lost while the database is unreachable. */
  pending: Pending[]
  /** Unique per organization, so that hashes can't be compared between organizations. */
  argumentsKey: string
  /** Records that couldn't be written, and that the audit trail doesn't have yet. */
  lost: number
  /** Weight of what is pending, plus running calls, which reserve room for their records. */
  held: number
  writing: Promise<boolean>
  /** A write that hasn't started yet, which further requests share. */
  nextWrite: Promise<boolean> | undefined
}

/** The audit event that says that records couldn't be written. */
export const lostAction = 'tool_calls.lost'

const mostAtOnce = 1_000
/** Contents that one transaction writes, in the unit of a record's weight, about 3 MB. */
const mostWeightAtOnce = 8_000
/** Approximate memory per record. */
const bytesPerRecord = 400
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
      queue = { pending: [], argumentsKey, lost: 0, held: 0, writing, nextWrite: undefined }
      queues.set(organizationId, queue)
    }
    queue.held += 1
    held += 1
    return queue
  }

  function add(organizationId: string, queue: Queue, record: StoredCall, contents: CallContents | undefined): void {
    const weight = 1 + (contents ? Math.ceil(sizeOf(contents) / bytesPerRecord) : 0)
    queue.pending.push({ record, contents, weight })
    // `enter` has already reserved a weight of 1.
    queue.held += weight - 1
    held += weight - 1
    if (queue.pending.length % mostAtOnce === 0) void write(organizationId, queue)
  }

  /** Writes the records that exist now. Returns false if the database is unreachable. */
  async function writePending(organizationId: string, queue: Queue): Promise<boolean> {
    let most = mostAtOnce
    for (let left = queue.pending.length; left > 0; ) {
      const some = takeSome(queue.pending, Math.min(most, left))
      try {
        await database.asOrg(organizationId, (sql) => writeSome(sql, organizationId, some, queue.lost))
        queue.lost = 0
        most = mostAtOnce
      } catch (error) {
        const details = { err: error, organization_id: organizationId, count: some.length }
        if (isUnavailable(error)) {
          log.warn(details, 'Could not record tool calls; retrying')
          return false
        }
        // Finds the record that can't be written, so that it takes no others with it.
        most = Math.ceil(some.length / 2)
        if (some.length > 1) continue
        log.error(details, 'A tool call record was lost')
        queue.lost += 1
      }
      queue.pending.splice(0, some.length)
      left -= some.length
      const weight = some.reduce((sum, one) => sum + one.weight, 0)
      queue.held -= weight
      held -= weight
    }
    if (queue.held + queue.lost === 0) queues.delete(organizationId)
    return true
  }

  function write(organizationId: string, queue: Queue): Promise<boolean> {
    if (queue.nextWrite) return queue.nextWrite
    queue.nextWrite = queue.writing.then(() => {
      queue.nextWrite = undefined
      return writePending(organizationId, queue)
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
    const isWanted = users === undefined || queue?.pending.some(({ record }) => users.includes(record.user_id))
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
      { organizationId, id: user_id, email, email_verified, member, endUserId, client_id, client_name },
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
        // Contents are deleted with their end user. A member may be one too; a visitor isn't.
        const asMember = member && { memberId: member.user.id, verifiedEmail: email_verified ? email : undefined }
        const person = endUserId === undefined ? asMember : { endUserId }
        add(
          organizationId,
          queue,
          record,
          days > 0 && person ? describeContents(record, person, days, args, result) : undefined,
        )
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

const sizeOf = ({ arguments: args, result }: CallContents) => 2 * (args.length + (result?.length ?? 0))

/** The oldest records, as many as one transaction should write. */
function takeSome(pending: readonly Pending[], most: number): Pending[] {
  let weight = 0
  const end = pending.findIndex((one, index) => {
    weight += one.weight
    return index > 0 && (index >= most || weight > mostWeightAtOnce)
  })
  return pending.slice(0, end === -1 ? most : end)
}

/** Writes nothing twice, because an earlier attempt may have been committed before its connection broke. */
async function writeSome(sql: Sql, organizationId: string, some: readonly Pending[], lost: number): Promise<void> {
  await insertRecords(
    sql,
    some.map(({ record }) => record),
  )
  const contents = some.flatMap((one) => one.contents ?? [])
  if (contents.length > 0) await writeContents(sql, contents)
  if (lost > 0) await recordAudit(sql, { organizationId, actor: 'hub' }, lostAction, organizationId, { count: lost })
}
