import type { ServerMessage } from '@inlay/protocol'
import { type OrgCaller, trailOf } from '../../kernel/foundation/caller.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { notFound } from '../../kernel/lib/errors.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import type { Database } from '../../kernel/stores/database.ts'
import type * as contract from './contract.ts'
import type { ToolCallRecorder } from './recorder.ts'
import { type CallPosition, selectRecords, type ToolCallRecord } from './records.ts'

type Recorded = Pick<Service, 'database'> & { toolCalls: ToolCallRecorder }

const lastId = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
const firstTime = new Date(0).toISOString()
const lastTime = '9999-12-31T23:59:59.999Z'

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
  const records = await database.asOrg(organization.id, (sql) =>
    selectRecords(sql, {
      before: cursor === undefined ? end : earlier(readCursor(cursor), end),
      notBefore: start_date,
      user_id: user_id ?? null,
      tool: tool ?? null,
      outcome: outcome ?? null,
      limit: limit + 1,
    }),
  )
  const tool_calls = records.slice(0, limit)
  const last = records.length > limit ? tool_calls.at(-1) : undefined
  return { tool_calls, next_cursor: last ? `${Date.parse(last.at)}_${last.id}` : null }
}

export async function getToolCallContents(
  { database, toolCalls }: Recorded,
  caller: OrgCaller,
  { id }: Input<typeof contract.getToolCallContents>,
): Promise<Output<typeof contract.getToolCallContents>> {
  const organizationId = caller.organization.id
  await toolCalls.flush(organizationId)
  return database.asOrg(organizationId, async (sql) => {
    const [contents] = await sql<Output<typeof contract.getToolCallContents>>`
      select call_id as id, arguments, result, expires_at from tool_call_contents
      where call_id = ${id} and expires_at > now()`
    if (!contents) throw notFound('tool_call_contents', id)
    await recordAudit(sql, trailOf(caller), 'tool_call.contents_read', id)
    return contents
  })
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
  const records = await database.asOrg(
    organization_id,
    (sql) => sql<StoredRecent>`
      select call.* from unnest(${ids}::uuid[]) as caller (user_id) cross join lateral (
        select id, at, tool, client_name, outcome, failure_code from tool_call_records
        where user_id = caller.user_id and (
          source_type = 'page' and source = ${origin ?? null} or source_type = 'connector'
          and (user_id = ${endUserId} or approval in ('allowed', 'always_allowed', 'declined')))
        order by at desc, id desc limit ${mostRecentCalls}) call
      order by at desc, id desc limit ${mostRecentCalls}`,
  )
  return records.toReversed().map(({ id, at, tool, client_name, outcome, failure_code }) => ({
    call_id: id,
    at: Date.parse(at),
    name: tool,
    ...(client_name !== null && { client_name }),
    outcome,
    ...(failure_code !== null && { failure_code }),
  }))
}

type StoredRecent = Pick<ToolCallRecord, 'id' | 'at' | 'tool' | 'client_name' | 'outcome' | 'failure_code'>

async function findMembers({ asOrg }: Database, organizationId: string, email: string): Promise<string[]> {
  const members = await asOrg(
    organizationId,
    (sql) => sql<{ id: string }>`
      select u.id from members m join users u on u.id = m.user_id where u.email = ${email} and u.email_verified`,
  )
  return members.map(({ id }) => id)
}

const isBefore = (a: CallPosition, b: CallPosition): boolean => (a.at === b.at ? a.id < b.id : a.at < b.at)

const earlier = (a: CallPosition, b: CallPosition): CallPosition => (isBefore(a, b) ? a : b)

function readCursor(cursor: string): CallPosition {
  const [at = '', id = ''] = cursor.split('_')
  return { at: new Date(Number(at)).toISOString(), id }
}
