import { z } from 'zod'
import { type OrgCaller, trailOf } from '../../kernel/foundation/caller.ts'
import { check } from '../../kernel/foundation/input.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { text } from '../../kernel/foundation/shapes.ts'
import { failure, notFound } from '../../kernel/lib/errors.ts'
import { recordAudit } from '../../kernel/stores/audit/audit.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { areContentsVisible } from '../settings/settings.ts'
import type * as contract from './contract.ts'

type FeedbackList = Output<typeof contract.listFeedback>

export interface NewFeedback {
  /** The run, which is the agent's message. */
  runId: string
  /** Whose thread it must be: an end user's, or else a visitor's. */
  endUserId: string | null
  /** Fingerprint of the visitor's secret. */
  visitor: string | null
  /** Where the thread must have begun, if a script may be at the other end. */
  place?: { origin: string | null; frameKey: string | null } | undefined
  /** Null to take the feedback back. */
  rating: 'up' | 'down' | null
  comment: string | null
}

const Comment = z.strictObject({ comment: text(2_000).nullable() })

/** How often a user can change what they think of one message. */
const mostChanges = 50

type Opinion = Pick<NewFeedback, 'rating' | 'comment'>

/**
 * Saves what a user thinks of a message in a thread of their own, instead of what they thought before. A review ends if
 * there is something that its reviewer hasn't read.
 */
export async function saveFeedback(
  sql: Sql,
  { runId, endUserId, visitor, place, rating, ...written }: NewFeedback,
): Promise<void> {
  const comment = check(Comment, written).comment?.trim() || null
  // As every transaction that locks a run, it locks the thread first.
  const [run] = await sql<{ thread_id: string }>`
    select thread_id from runs join threads on threads.id = thread_id
    where runs.id = ${runId} and threads.status <> 'deleted'
      and (${place === undefined}::boolean or threads.origin is not distinct from ${place?.origin ?? null}::text
           and (threads.frame_key is not distinct from ${place?.frameKey ?? null}::text or (select has_one_site())))
      and case when ${endUserId}::uuid is not null then end_user_id = ${endUserId}
          else end_user_id is null and visitor_fingerprint = ${visitor} and visitor_expires_at > now() end
    for no key update of threads`
  if (!run) throw notFound('message', runId)
  const [before = { rating: null, comment: null }] = await sql<Opinion>`
    select rating, comment from feedback where run_id = ${runId}`
  if (before.rating === rating && before.comment === comment) return
  const [counted] = await sql`
    update runs set feedback_changes = feedback_changes + 1
    where id = ${runId} and feedback_changes < ${mostChanges} returning id`
  if (!counted) throw failure(429, 'TOO_MANY_RATINGS', 'You have changed this rating too often.')
  if (rating === null) {
    await sql`delete from feedback where run_id = ${runId}`
    return
  }
  const isRead = before.rating === rating && (comment === null || before.comment === comment)
  await sql`
    insert into feedback (organization_id, run_id, thread_id, rating, comment)
    values (current_organization(), ${runId}, ${run.thread_id}, ${rating}, ${comment})
    on conflict (organization_id, run_id) do update set
      rating = excluded.rating, comment = excluded.comment, updated_at = now(),
      reviewed_at = case when ${isRead}::boolean then feedback.reviewed_at end,
      reviewed_by = case when ${isRead}::boolean then feedback.reviewed_by end`
}

export async function listFeedback(
  { database }: Service,
  caller: OrgCaller,
  { limit, cursor, rating, since, thread_id, reviewed }: Input<typeof contract.listFeedback>,
): Promise<FeedbackList> {
  const before = cursor === undefined ? undefined : readCursor(cursor)
  return database.asOrg(caller.organization.id, async (sql) => {
    const contents_visible = await areContentsVisible(sql)
    const found = await sql<FeedbackList['feedback'][number]>`
      select run_id as message_id, thread_id, threads.end_user_id,
             (select coalesce(nullif(email, ''), external_id) from end_users u where u.id = threads.end_user_id)
               as end_user_name,
             exists (select from end_users u where u.id = threads.end_user_id and preview_user_id is not null)
               as is_preview,
             rating,
             case when ${contents_visible}::boolean then comment end as comment,
             feedback.created_at, feedback.updated_at, reviewed_at, reviewed_by
      from feedback join threads on threads.id = thread_id
      where (${rating}::text is null or rating = ${rating})
        and (${since}::timestamptz is null or feedback.updated_at >= ${since})
        and (${thread_id}::uuid is null or thread_id = ${thread_id})
        and (${reviewed}::boolean is null or (reviewed_at is not null) = ${reviewed})
        and (${before?.at}::timestamptz is null or (feedback.updated_at, run_id) < (${before?.at}, ${before?.id}::uuid))
      order by feedback.updated_at desc, run_id desc limit ${limit + 1}`
    const feedback = found.slice(0, limit)
    const last = found.length > limit ? feedback.at(-1) : undefined
    const comments = feedback.filter(({ comment }) => comment !== null).length
    if (comments > 0)
      await recordAudit(sql, trailOf(caller), 'feedback.comments_read', caller.organization.id, { comments })
    const next_cursor = last ? `${Date.parse(last.updated_at)}_${last.message_id}` : null
    return { feedback, contents_visible, next_cursor }
  })
}

export async function updateFeedback(
  { database }: Service,
  caller: OrgCaller,
  { id, reviewed }: Input<typeof contract.updateFeedback>,
): Promise<Output<typeof contract.updateFeedback>> {
  const reviewer = reviewed ? caller.actor : null
  return database.asOrg(caller.organization.id, async (sql) => {
    const [review] = await sql<Output<typeof contract.updateFeedback>>`
      update feedback set reviewed_at = case when ${reviewed}::boolean then now() end, reviewed_by = ${reviewer}
      where run_id = ${id} returning run_id as message_id, reviewed_at, reviewed_by`
    if (!review) throw notFound('feedback', id)
    await recordAudit(sql, trailOf(caller), reviewed ? 'feedback.reviewed' : 'feedback.unreviewed', id, {})
    return review
  })
}

function readCursor(cursor: string): { at: string; id: string } {
  const [at = '', id = ''] = cursor.split('_')
  return { at: new Date(Number(at)).toISOString(), id }
}
