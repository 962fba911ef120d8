import type { JobKind } from '../../kernel/jobs/jobs.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { conversationErasure, eraseEverySeconds } from '../settings/settings.ts'

const rowsAtOnce = 500

/**
 * Erases conversations that are older than their organization keeps them, regularly. With a run go its messages, steps
 * and calls. The thread stays with its counts, and so does the usage.
 */
export const erasingConversations: JobKind = {
  name: conversationErasure,
  atOnce: 2,
  longestMs: 60 * 60_000,
  async run(job) {
    // In batches, because there may be many rows.
    for (const eraseSome of [eraseRuns, eraseUnanswered, eraseComments]) {
      while (await job.transaction(eraseSome)) job.signal.throwIfAborted()
    }
    return job.settle(async (sql) => {
      const limit = await findLimit(sql)
      return limit === undefined ? 'done' : { again: { inSeconds: eraseEverySeconds } }
    })
  },
}

/** The time before which everything is erased. Undefined if the organization keeps everything. */
async function findLimit(sql: Sql): Promise<string | undefined> {
  const [limit] = await sql<{ before: string }>`
    select now() - days * interval '1 day' as before from conversation_retention`
  return limit?.before
}

/** Runs that have ended, and runs that wait for an answer which can't be given anymore. */
async function eraseRuns(sql: Sql): Promise<boolean> {
  const before = await findLimit(sql)
  const old = await sql<{ id: string; thread_id: string }>`
    select id, thread_id from runs where ended_at < ${before}
    union all
    select id, thread_id from runs
    where status = 'waiting' and created_at < ${before} and not exists (
      select from tool_calls where run_id = runs.id and state = 'asking' and expires_at > now())
    limit ${rowsAtOnce}`
  const threadIds = await lockThreads(sql, old)
  const free = await sql<{ id: string }>`
    select id from runs where id = any(${idsOf(old)}) and thread_id = any(${threadIds}) and status <> 'running'
    for update skip locked`
  await sql`delete from runs where id = any(${idsOf(free)})`
  return free.length > 0
}

/** Messages that no run has answered. */
async function eraseUnanswered(sql: Sql): Promise<boolean> {
  const before = await findLimit(sql)
  const old = await sql<{ id: string; thread_id: string }>`
    select id, thread_id from messages where run_id is null and created_at < ${before} limit ${rowsAtOnce}`
  const threadIds = await lockThreads(sql, old)
  const free = await sql<{ id: string }>`
    select id from messages where id = any(${idsOf(old)}) and thread_id = any(${threadIds}) and run_id is null
    for update skip locked`
  await sql`delete from messages where id = any(${idsOf(free)})`
  return free.length > 0
}

async function eraseComments(sql: Sql): Promise<boolean> {
  const before = await findLimit(sql)
  const erased = await sql`
    update feedback set comment = null where run_id in (
      select run_id from feedback where comment is not null and updated_at < ${before} limit ${rowsAtOnce})
    returning run_id`
  return erased.length > 0
}

/** Erases everything that a thread without an active run contains. The caller must lock the thread. */
export async function eraseContents(sql: Sql, threadId: string): Promise<void> {
  // In batches: a statement times out after eight seconds, and deleting a run deletes all of its rows.
  while (await eraseSomeRuns(sql, threadId));
  await sql`delete from messages where thread_id = ${threadId}`
  await sql`update feedback set comment = null where thread_id = ${threadId}`
  await forgetWords(sql, [threadId])
}

async function eraseSomeRuns(sql: Sql, threadId: string): Promise<boolean> {
  const runs = await sql<{ id: string }>`
    select id from runs where thread_id = ${threadId} order by id limit ${rowsAtOnce}`
  await sql`delete from runs where id = any(${idsOf(runs)})`
  return runs.length > 0
}

const idsOf = (rows: readonly { id: string }[]): string[] => rows.map(({ id }) => id)

/**
 * Locks the threads of old rows, and erases what they repeat of them: the title and the summary. Whatever is in use is
 * skipped until the next time, so that this never waits for a lock and can't deadlock.
 */
async function lockThreads(sql: Sql, old: readonly { thread_id: string }[]): Promise<string[]> {
  const threads = await sql<{ id: string }>`
    select id from threads where id = any(${old.map(({ thread_id }) => thread_id)})
    order by id for no key update skip locked`
  await forgetWords(sql, idsOf(threads))
  return idsOf(threads)
}

const forgetWords = (sql: Sql, threadIds: string[]) => sql`
  update threads set title = null, first_words = null, summary = null, summary_position = 0
  where id = any(${threadIds})`
