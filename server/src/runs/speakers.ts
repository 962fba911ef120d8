import { notFound } from '../lib/errors.ts'
import { isId } from '../lib/ids.ts'
import type { Sql } from '../stores/database.ts'
import { selectThreadRow, type ThreadRow } from './rows.ts'
import type { Speaker } from './runs.ts'

/** Threads of others don't exist. */
export async function requireThread(sql: Sql, speaker: Speaker, id: string): Promise<void> {
  if (!(await ownsThread(sql, speaker, id))) throw notFound('thread', id)
}

/** The same for a thread that may not exist yet, because a message can start it. */
export async function requireNotOthers(sql: Sql, speaker: Speaker, id: string): Promise<void> {
  const thread = await selectThreadRow(sql, id)
  if (thread && !isOwnThread(speaker, thread)) throw notFound('thread', id)
}

/**
 * Transactions that lock a run lock its thread first, so that they never wait for each other. Threads of others aren't
 * locked. The owner is checked again with the lock, because the thread may have been adopted meanwhile.
 */
export async function lockThread(sql: Sql, speaker: Speaker, id: string): Promise<void> {
  await requireThread(sql, speaker, id)
  await sql`select from threads where id = ${id} for no key update`
  await requireThread(sql, speaker, id)
}

export const ownsThread = async (sql: Sql, speaker: Speaker, id: string): Promise<boolean> =>
  isOwnThread(speaker, isId(id) ? await selectThreadRow(sql, id) : undefined)

/** The part of a thread that decides who it belongs to. */
export type OwnedThread = Pick<ThreadRow, 'end_user_id' | 'origin' | 'visitor_fingerprint'>

export function isOwnThread({ holder, visitor, is_own_frame }: Speaker, thread: OwnedThread | undefined): boolean {
  if (!thread || !(is_own_frame || thread.origin === (holder.origin ?? null))) return false
  if (holder.end_user) return thread.end_user_id === holder.end_user.id
  return visitor !== undefined && thread.end_user_id === null && thread.visitor_fingerprint === visitor
}
