import { selectMessages } from '../../agent/threads/messages.ts'
import { type OrgCaller, trailOf } from '../../kernel/foundation/caller.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { selectContents } from '../../tools/call-records/contents.ts'
import type { ToolCallRecorder } from '../../tools/call-records/recorder.ts'
import { listToolCalls } from '../../tools/call-records/tool-calls.ts'
import { getEndUser } from '../../visitors/end-users/end-users.ts'
import type * as contract from './contract.ts'

type Line = Output<typeof contract.exportEndUser>
type Needs = Service & { toolCalls: ToolCallRecorder }
type Pages = AsyncGenerator<Line[]>
type Row = Record<string, unknown>

const rowsAtOnce = 100
/** Few, because messages are complete and can be long. */
const messagesAtOnce = 10

const firstId = '00000000-0000-0000-0000-000000000000'

/** Reads page by page, so that memory stays bounded whatever the end user has done. */
export async function exportEndUser(
  service: Needs,
  caller: OrgCaller,
  { id }: Input<typeof contract.exportEndUser>,
): Promise<AsyncIterable<Line[]>> {
  const profile = await getEndUser(service, caller, { id })
  await service.database.asOrg(caller.organization.id, (sql) =>
    recordAudit(sql, trailOf(caller), 'end_user.exported', id),
  )
  return writePages(service, caller, profile)
}

async function* writePages(service: Needs, caller: OrgCaller, profile: { id: string }): Pages {
  const read = <T>(work: (sql: Sql) => Promise<T>) => service.database.asOrg(caller.organization.id, work)
  yield [{ kind: 'profile', data: profile }]
  yield await read((sql) => selectAll(sql, profile.id))
  for await (const { id, ...thread } of readThreads(read, profile.id)) {
    yield [{ kind: 'thread', data: { id, ...thread } }]
    yield* readMessages(read, id)
    yield* readFeedback(read, id)
  }
  yield* readUsage(read, profile.id)
  yield* readToolCalls(service, caller, profile.id)
  yield* readContents(read, profile.id)
}

type Read = <T>(work: (sql: Sql) => Promise<T>) => Promise<T>

const linesOf = (kind: Line['kind'], rows: readonly Row[]): Line[] => rows.map((data) => ({ kind, data }))

/** The kinds of which an end user has few rows. */
async function selectAll(sql: Sql, id: string): Promise<Line[]> {
  const [totals, budgets, periods, accounts, browsers] = await Promise.all([
    sql<Row>`
      select requests, prompt_tokens, completion_tokens, cost_micro_usd from usage_end_users where end_user_id = ${id}`,
    sql<Row>`
      select day_tokens, month_tokens, day_cost_micro_usd, month_cost_micro_usd
      from end_user_budgets where end_user_id = ${id}`,
    sql<Row>`
      select period, starts_on, tokens, cost_micro_usd, warned_at
      from budget_periods where end_user_id = ${id} order by period, starts_on`,
    sql<Row>`
      select c.name as connector, c.server_url, a.created_at
      from end_user_consents a join connectors c on c.id = a.connector_id where a.end_user_id = ${id} order by c.name`,
    sql<Row>`
      select how, created_at, last_used_at, expires_at from confirmed_browsers
      where end_user_id = ${id} order by created_at, id`,
  ])
  return [
    ...linesOf('usage_totals', totals),
    ...linesOf('budget', budgets),
    ...linesOf('budget_period', periods),
    ...linesOf('connected_account', accounts),
    ...linesOf('confirmed_browser', browsers),
  ]
}

/** `allowed_tools` and `allowed_choices` are the user's permissions, with hashes of the tools that they allowed. */
async function* readThreads(read: Read, endUserId: string): AsyncGenerator<Row & { id: string }> {
  for (let after = firstId; ; ) {
    const page = await read(
      (sql) => sql<Row & { id: string }>`
        select id, title, first_words, summary, status, origin, origins, allowed_tools, allowed_choices, site_id, message_count, total_tokens,
               last_message_at, created_at, updated_at
        from threads where end_user_id = ${endUserId} and id > ${after} order by id limit ${rowsAtOnce}`,
    )
    yield* page
    if (page.length < rowsAtOnce) return
    after = page.at(-1)?.id ?? after
  }
}

/** With the agent's replies, its tool calls and the messages that the user edited. */
async function* readMessages(read: Read, threadId: string): Pages {
  const wanted = { limit: messagesAtOnce, withReplaced: true, withContents: true, maxResultLength: null }
  for (let after = 0; ; ) {
    const page = await read((sql) => selectMessages(sql, threadId, { ...wanted, after }))
    yield page.map(({ message }) => ({ kind: 'message', data: { thread_id: threadId, ...message } }))
    if (page.length < messagesAtOnce) return
    after = page.at(-1)?.position ?? after
  }
}

/** Apart from the messages, because ratings stay when a conversation is erased. */
async function* readFeedback(read: Read, threadId: string): Pages {
  for (let after = firstId; ; ) {
    const page = await read(
      (sql) => sql<Row & { run_id: string }>`
        select run_id, thread_id, rating, comment, created_at, updated_at
        from feedback where thread_id = ${threadId} and run_id > ${after} order by run_id limit ${rowsAtOnce}`,
    )
    yield linesOf('feedback', page)
    if (page.length < rowsAtOnce) return
    after = page.at(-1)?.run_id ?? after
  }
}

async function* readUsage(read: Read, endUserId: string): Pages {
  for (let after = { created_at: '-infinity', id: firstId }; ; ) {
    const page = await read(
      (sql) => sql<Row & typeof after>`
        select id, thread_id, site_id, model, prompt_tokens, completion_tokens, cost_micro_usd, is_estimated, finish_reason,
               created_at
        from usage_events
        where end_user_id = ${endUserId} and (created_at, id) > (${after.created_at}::timestamptz, ${after.id}::uuid)
        order by created_at, id limit ${rowsAtOnce}`,
    )
    yield linesOf('usage_event', page)
    if (page.length < rowsAtOnce) return
    after = page.at(-1) ?? after
  }
}

async function* readToolCalls(service: Needs, caller: OrgCaller, user_id: string): Pages {
  for (let cursor: string | undefined; ; ) {
    const { tool_calls, next_cursor } = await listToolCalls(service, caller, {
      format: 'json',
      limit: rowsAtOnce,
      user_id,
      ...(cursor !== undefined && { cursor }),
    })
    yield linesOf('tool_call', tool_calls)
    if (next_cursor === null) return
    cursor = next_cursor
  }
}

async function* readContents(read: Read, endUserId: string): Pages {
  for (let after = firstId; ; ) {
    const page = await read((sql) => selectContents(sql, endUserId, after, rowsAtOnce))
    yield linesOf('tool_call_contents', page)
    if (page.length < rowsAtOnce) return
    after = page.at(-1)?.call_id ?? after
  }
}
