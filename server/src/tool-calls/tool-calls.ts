import type { ServerMessage } from '@inlay/protocol'
import type { OrgCaller } from '../foundation/caller.ts'
import type { Input, Output } from '../foundation/operation.ts'
import type { Service } from '../foundation/service.ts'
import { notFound } from '../lib/errors.ts'
import type { Database } from '../stores/database.ts'
import { batchLimits, readRecords, type ToolCallRecord } from './batch.ts'
import type * as contract from './contract.ts'
import type { ToolCallRecorder } from './recorder.ts'

/** A position between records, which are ordered by time and id. */
interface Position {
  at: string
  id: string
}

interface Search {
  /** Only records before this position, exclusive. */
  before: Position
  notBefore: string
  /** Null for all users. */
  users: readonly string[] | null
  isWanted(record: ToolCallRecord): boolean
  limit: number
}

interface Found {
  /** Newest first. */
  records: ToolCallRecord[]
  /** Where to continue; undefined if there are no more. */
  next?: Position | undefined
}

type Recorded = Pick<Service, 'database'> & { toolCalls: ToolCallRecorder }

const lastId = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
const firstTime = new Date(0).toISOString()
const lastTime = '9999-12-31T23:59:59.999Z'
/** Maximum number of batches per search. A search that reaches it returns what it has found. */
const mostBatches = 40

export async function listToolCalls(
  { database, toolCalls }: Recorded,
  { organization }: OrgCaller,
  {
    limit,
    cursor,
    user_id,
    tool,
    outcome,
    start_date = firstTime,
    end_date = lastTime,
  }: Input<typeof contract.listToolCalls>,
): Promise<Output<typeof contract.listToolCalls>> {
  await toolCalls.flush(organization.id)
  const end = { at: end_date, id: lastId }
  const { records, next } = await findCalls(database, organization.id, {
    before: cursor === undefined ? end : earlier(readCursor(cursor), end),
    notBefore: start_date,
    users: user_id === undefined ? null : [user_id],
    isWanted: (record) =>
      (user_id === undefined || record.user_id === user_id) &&
      (tool === undefined || record.tool === tool) &&
      (outcome === undefined || record.outcome === outcome),
    limit,
  })
  return { tool_calls: records, next_cursor: next ? `${Date.parse(next.at)}_${next.id}` : null }
}

export async function getToolCallContents(
  { database, toolCalls }: Recorded,
  { organization }: OrgCaller,
  { id }: Input<typeof contract.getToolCallContents>,
): Promise<Output<typeof contract.getToolCallContents>> {
  await toolCalls.flush(organization.id)
  const [contents] = await database.asOrg(
    organization.id,
    (sql) => sql<Output<typeof contract.getToolCallContents>>`
      select call_id as id, arguments, result, expires_at from tool_call_contents
      where call_id = ${id} and expires_at > now()`,
  )
  if (!contents) throw notFound('tool_call_contents', id)
  return contents
}

/** An earlier call as shown in the widget. */
export type RecentCall = (ServerMessage & { type: 'calls/recent' })['calls'][number]

const mostRecentCalls = 50

/** The end user of a page, and the page's origin. */
interface PageUser {
  organization_id: string
  origin: string | undefined
  end_user: { id: string; verified_email: string | undefined } | undefined
}

/**
 * The latest calls that the widget has shown to the page's end user, or could have: calls to pages of the same origin,
 * and calls to connectors that the agent made or that the user was asked about. Only members make other calls than the
 * agent's; they are recognized by their verified email address. Empty for visitors.
 */
export async function findRecentCalls(
  { database, toolCalls }: Recorded,
  { organization_id, origin, end_user }: PageUser,
): Promise<RecentCall[]> {
  if (!end_user) return []
  const { id: endUserId, verified_email: email } = end_user
  const memberIds = email === undefined ? [] : await findMembers(database, organization_id, email)
  const ids = [endUserId, ...memberIds]
  await toolCalls.flush(organization_id, ids)
  const { records } = await findCalls(database, organization_id, {
    before: { at: lastTime, id: lastId },
    notBefore: firstTime,
    users: ids,
    isWanted({ user_id, user_email, source_type, source, approval }) {
      const isAgents = user_id === endUserId
      if (!isAgents && !(memberIds.includes(user_id) && user_email === email)) return false
      return source_type === 'page'
        ? source === origin
        : source_type === 'connector' && (isAgents || asked.has(approval))
    },
    limit: mostRecentCalls,
  })
  return records.toReversed().map(({ id, at, tool, client_name, outcome, failure_code }) => ({
    call_id: id,
    at: Date.parse(at),
    name: tool,
    ...(client_name !== null && { client_name }),
    outcome,
    ...(failure_code !== null && { failure_code }),
  }))
}

async function findMembers({ asOrg }: Database, organizationId: string, email: string): Promise<string[]> {
  const members = await asOrg(
    organizationId,
    (sql) => sql<{ id: string }>`
      select u.id from members m join users u on u.id = m.user_id where u.email = ${email} and u.email_verified`,
  )
  return members.map(({ id }) => id)
}

const asked = new Set<string>(['allowed', 'always_allowed', 'declined'])

interface StoredBatch extends Position {
  records: Buffer
}

/**
 * Batches overlap in time, because calls on several nodes don't end in the order they started in. The search reads
 * batches in descending order of their last call; a record's position is final once no unread batch ends after it.
 */
async function findCalls({ asOrg }: Database, organizationId: string, search: Search): Promise<Found> {
  const { before, notBefore, users, isWanted, limit } = search
  let found: ToolCallRecord[] = []
  let position: Position = { at: lastTime, id: lastId }
  for (let count = 1; ; count += 1) {
    const [batch] = await asOrg(
      organizationId,
      (sql) => sql<StoredBatch>`
        select last_at as at, id, records from tool_call_batches
        where (last_at, id) < (${position.at}::timestamptz, ${position.id}::uuid)
          and last_at <= ${before.at}::timestamptz + ${batchLimits.spanMs} * interval '1 millisecond'
          and last_at >= ${notBefore}::timestamptz and first_at <= ${before.at}::timestamptz
          and (${users}::uuid[] is null or id in (
            select batch_id from tool_call_users where user_id = any (${users}::uuid[])))
        order by last_at desc, id desc limit 1`,
    )
    const isFilled = found[limit] !== undefined && (!batch || found[limit].at > batch.at)
    if (!batch || isFilled) return cut(found, limit)
    // Stops only if the position advanced; otherwise the next search would read the same batches again.
    if (count > mostBatches && batch.at < before.at) {
      const { records, next } = cut(found, limit)
      const settled = records.filter(({ at }) => at > batch.at)
      return settled.length === records.length && next
        ? { records, next }
        : { records: settled, next: { at: batch.at, id: lastId } }
    }
    const wanted = (await readRecords(batch.records)).filter(
      (record) => isBefore(record, before) && record.at >= notBefore && isWanted(record),
    )
    found = [...found, ...wanted].sort((a, b) => (isBefore(a, b) ? 1 : -1)).slice(0, limit + 1)
    position = batch
  }
}

const cut = (found: ToolCallRecord[], limit: number): Found => {
  const records = found.slice(0, limit)
  return { records, next: found.length > limit ? records.at(-1) : undefined }
}

const isBefore = (a: Position, b: Position): boolean => (a.at === b.at ? a.id < b.id : a.at < b.at)

const earlier = (a: Position, b: Position): Position => (isBefore(a, b) ? a : b)

function readCursor(cursor: string): Position {
  const [at = '', id = ''] = cursor.split('_')
  return { at: new Date(Number(at)).toISOString(), id }
}
