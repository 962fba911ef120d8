import { createHmac, hash } from 'node:crypto'
import type { z } from 'zod'
import type { OrgCaller } from '../access.ts'
import { recordAudit } from '../audit/audit.ts'
import { canonicalJson } from '../audit/chain.ts'
import { Failure, isUnavailable } from '../errors.ts'
import { cleanText } from '../hub/page-text.ts'
import { newId } from '../lib/ids.ts'
import type { Foundation } from '../service.ts'
import type { Database } from '../stores/database.ts'
import type { ToolCallRecord as Shape } from './contract.ts'

export type ToolCallRecord = z.input<typeof Shape>

/**
 * Records tool calls without holding them up. Records are collected in memory and written about once a second, in batches
 * with one audit event each, because audit events of an organization are written one after the other.
 */
export interface ToolCallRecorder {
  /** Runs a call, which fills in what it learns, and records how it ended. */
  follow<Result>(
    caller: OrgCaller,
    wanted: { tool_name: string; args: Record<string, unknown> },
    run: (record: ToolCallRecord) => Promise<Result>,
  ): Promise<Result>
  /** Tries once to write everything that was recorded before. */
  flush(): Promise<void>
  close(): Promise<void>
}

/** What is kept until it is written. A batch stays as it is until its write has succeeded. */
interface Queue {
  records: ToolCallRecord[]
  batch?: Batch | undefined
  /** Calls without a record since the last batch. */
  lost: number
}

interface Batch {
  id: string
  records: ToolCallRecord[]
  lost: number
}

/** The audit event of a batch: its target is the batch's id. */
export const recordedAction = 'tool_calls.recorded'

const flushEveryMs = 1_000
const batchSize = 1_000
/** What a node keeps while the database is away: about 10 MB of an organization, 50 MB in all. */
const mostWaiting = { organization: 20_000, node: 100_000 }

type Needed = Pick<Foundation, 'database' | 'secrets' | 'clock' | 'log'>

export function createToolCallRecorder(
  { database, secrets, clock, log }: Needed,
  limits = mostWaiting,
): ToolCallRecorder {
  const argumentsKey = secrets.derive('tool call arguments')[0]?.key as Buffer
  const queues = new Map<string, Queue>()
  let waiting = 0

  function add(organizationId: string, record: ToolCallRecord): void {
    const queue = queues.getOrInsertComputed(organizationId, () => ({ records: [], lost: 0 }))
    if (queue.records.length >= limits.organization || waiting >= limits.node) {
      queue.lost += 1
      return
    }
    queue.records.push(record)
    waiting += 1
  }

  async function writeAll(): Promise<void> {
    for (const [organizationId, queue] of [...queues]) {
      while (queue.batch || queue.records.length > 0) {
        queue.batch ??= takeBatch(queue)
        const { id, records, lost } = queue.batch
        try {
          await writeBatch(database, organizationId, queue.batch)
        } catch (error) {
          const details = { err: error, organization_id: organizationId, batch_id: id, count: records.length }
          if (isUnavailable(error)) {
            log.warn(details, 'tool calls are not recorded yet and will be tried again')
            // At the end of the line, so that an organization whose writes time out doesn't hold up the others.
            queues.delete(organizationId)
            queues.set(organizationId, queue)
            return
          }
          log.error(details, 'tool calls could not be recorded')
          queue.lost += records.length + lost
        }
        queue.batch = undefined
        waiting -= records.length
      }
      if (queue.lost === 0) queues.delete(organizationId)
    }
  }

  let writing = Promise.resolve()
  let turns = 0
  const flush = () => {
    turns += 1
    writing = writing.then(writeAll).finally(() => {
      turns -= 1
    })
    return writing
  }
  const timer = setInterval(() => {
    if (turns === 0) void flush()
  }, flushEveryMs)
  timer.unref()

  return {
    async follow({ organization, user, token }, { tool_name, args }, run) {
      const started = performance.now()
      const record: ToolCallRecord = {
        id: newId(),
        at: new Date(clock()).toISOString(),
        user_id: user.id,
        user_email: user.email,
        client_id: token.client_id ?? null,
        source_type: null,
        source: null,
        tool: cleanText(tool_name),
        definition_hash: null,
        arguments_hash: hashArguments(argumentsKey, organization.id, args),
        approval: 'unknown',
        governance: 'none',
        outcome: 'failed',
        failure_code: null,
        duration_ms: 0,
      }
      try {
        return await run(record)
      } catch (error) {
        describeFailure(record, error)
        throw error
      } finally {
        record.duration_ms = Math.round(performance.now() - started)
        add(organization.id, record)
      }
    },
    flush,
    async close() {
      clearInterval(timer)
      await flush()
      if (waiting > 0) log.error({ count: waiting }, 'the server stopped before these tool calls were recorded')
    },
  }
}

/** Keyed, since arguments are often easy to guess: an order's number, an address. */
const hashArguments = (key: Buffer, organizationId: string, args: Record<string, unknown>): string =>
  createHmac('sha256', key).update(`${organizationId}\n`).update(canonicalJson(args)).digest('base64url')

const outcomes: Record<string, ToolCallRecord['outcome']> = {
  CALL_REFUSED: 'refused',
  CALL_CANCELLED: 'cancelled',
  CALL_TIMED_OUT: 'timed_out',
}

function describeFailure(record: ToolCallRecord, error: unknown): void {
  const code = error instanceof Failure ? String(error.envelope.data?.code ?? error.envelope.code) : 'INTERNAL_ERROR'
  const outcome = outcomes[code] ?? 'failed'
  // A call that already has an outcome has run, so the refusal is about its result.
  if (outcome === 'refused') record.governance = record.outcome === 'failed' ? 'refused' : 'result_refused'
  record.outcome = outcome
  record.failure_code = code
}

function takeBatch(queue: Queue): Batch {
  const records = queue.records.splice(0, batchSize).sort((a, b) => (a.id < b.id ? -1 : 1))
  const { lost } = queue
  queue.lost = 0
  return { id: newId(), records, lost }
}

async function writeBatch({ asOrg }: Database, organizationId: string, { id, records, lost }: Batch): Promise<void> {
  await asOrg(organizationId, async (sql) => {
    const [written] = await sql<{ count: number }>`
      with written as (
        insert into tool_calls (organization_id, batch_id, id, at, user_id, user_email, client_id, source_type, source, tool,
                                definition_hash, arguments_hash, approval, governance, outcome, failure_code, duration_ms)
        select current_organization(), ${id}::uuid, id, at, user_id, user_email, client_id, source_type, source, tool,
               definition_hash, arguments_hash, approval, governance, outcome, failure_code, duration_ms
        from jsonb_to_recordset(${JSON.stringify(records)}::jsonb) as r (
          id uuid, at timestamptz, user_id uuid, user_email text, client_id text, source_type text, source text, tool text,
          definition_hash text, arguments_hash text, approval text, governance text, outcome text, failure_code text,
          duration_ms integer)
        on conflict (organization_id, id) do nothing
        returning 1)
      select count(*) as count from written`
    // The connection may have broken after an earlier commit of the same batch.
    if (written?.count === 0) return
    await recordAudit(sql, { organizationId, actor: 'hub' }, recordedAction, id, {
      count: records.length,
      first_id: records[0]?.id,
      last_id: records.at(-1)?.id,
      hash: hashRecords(records),
      ...(lost > 0 && { lost }),
    })
  })
}

/**
 * SHA-256 over the records in the order of their ids, one line of canonical JSON each. Members that are null are left out,
 * so that a column which is added later doesn't change the hashes of earlier records.
 */
export function hashRecords(records: readonly ToolCallRecord[]): string {
  const lines = records.map((record) =>
    canonicalJson(Object.fromEntries(Object.entries(record).filter(([, value]) => value !== null))),
  )
  return hash('sha256', lines.join('\n'), 'hex')
}
