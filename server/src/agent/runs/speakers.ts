import { notFound } from '../../kernel/lib/errors.ts'
import { isId } from '../../kernel/lib/ids.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { selectThreadRow, type ThreadRow } from './rows.ts'
import type { Speaker } from './runs.ts'

/** Threads of others don't exist. */
export async function requireThread(sql: Sql, speaker: Speaker, id: string): Promise<void> {
  if (!(await ownsThread(sql, speaker, id))) throw notFound('thread', id)
}

/** The same for a thread that may not exist yet, because a message can start it. */
export async function requireNotOthers(sql: Sql, speaker: Speaker, id: string): Promise<void> {
  const thread = await selectThreadRow(sql, id)
  if (thread && !(await isOwnThread(sql, speaker, thread))) throw notFound('thread', id)
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

/**
 * A conversation that began without a frame, or in one that isn't confirmed, may be that of a program that claims the
 * site. When the user continues it in a confirmed frame, it becomes that frame's, and loses its standing permissions.
 * Returns whether it was another's until now. The thread must be locked.
 */
export async function claimThread(sql: Sql, { holder, is_own_frame }: Speaker, id: string): Promise<boolean> {
  if (!is_own_frame || holder.frame_key === undefined) return false
  const claimed = await sql`
    update threads set frame_key = ${holder.frame_key}, allowed_tools = '{}', allowed_choices = '[]'
    where id = ${id} and frame_key is distinct from ${holder.frame_key} and not (select has_one_site())
      and not exists (
        select from frame_keys where organization_id = current_organization()
          and end_user_id = threads.end_user_id and thumbprint = threads.frame_key)
    returning id`
  return claimed.length > 0
}

export const ownsThread = async (sql: Sql, speaker: Speaker, id: string): Promise<boolean> =>
  isOwnThread(sql, speaker, isId(id) ? await selectThreadRow(sql, id) : undefined)

/** The part of a thread that decides who it belongs to. */
export type OwnedThread = Pick<ThreadRow, 'end_user_id' | 'origin' | 'frame_key' | 'visitor_fingerprint'>

export async function isOwnThread(sql: Sql, speaker: Speaker, thread: OwnedThread | undefined): Promise<boolean> {
  const { holder, visitor } = speaker
  if (!thread) return false
  const isOwners = holder.end_user
    ? thread.end_user_id === holder.end_user.id
    : visitor !== undefined && thread.end_user_id === null && thread.visitor_fingerprint === visitor
  return isOwners && (speaker.is_own_frame || beganHere(sql, speaker, thread))
}

/** Whether the thread began at the speaker's origin, in the speaker's frame if the origin may only be claimed. */
async function beganHere(sql: Sql, { holder }: Speaker, { origin, frame_key }: OwnedThread): Promise<boolean> {
  if (origin !== (holder.origin ?? null)) return false
  return frame_key === (holder.frame_key ?? null) || hasOneSite(sql)
}

async function hasOneSite(sql: Sql): Promise<boolean> {
  const [row] = await sql<{ has_one_site: boolean }>`select has_one_site()`
  return row?.has_one_site === true
}
