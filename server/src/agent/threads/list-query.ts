import type { Sql } from '../../kernel/stores/database.ts'

/** A place in the order of threads, latest first. */
export interface ThreadPosition {
  active_at: string
  id: string
}

/** Above the latest thread. */
export const top: ThreadPosition = { active_at: 'infinity', id: 'ffffffff-ffff-ffff-ffff-ffffffffffff' }

/** A user of the organization's web application, and where they are. */
export interface ThreadOwner {
  endUserId: string | null
  /** Without an end user: fingerprint of the visitor's secret. */
  visitor: string | null
  /** Only threads that began here, in this frame if pages of other sites could claim the origin. */
  origin: string | null
  frameKey: string | null
  isAnyOrigin: boolean
}

/** The end user, wherever they are. */
export const anywhereOf = (endUserId: string): ThreadOwner => ({
  endUserId,
  visitor: null,
  origin: null,
  frameKey: null,
  isAnyOrigin: true,
})

interface Wanted {
  statuses: readonly string[]
  /** Only the threads of one user. */
  owner?: ThreadOwner | undefined
  /** Only threads below this one. */
  after?: ThreadPosition
  limit: number
  offset?: number
}

/**
 * Finds threads, latest first. A statement for all of them, for those of an end user and for those of a visitor, because
 * each has an index.
 */
export function selectLatest(
  sql: Sql,
  { statuses, owner, after: { active_at, id } = top, limit, offset = 0 }: Wanted,
): Promise<ThreadPosition[]> {
  const most = offset + limit
  if (!owner) {
    return sql<ThreadPosition>`
      select latest.* from unnest(${statuses}::text[]) wanted (status) cross join lateral (
        select id, case when last_message_at is null then created_at else last_message_at end as active_at from threads
        where status = wanted.status
          and (case when last_message_at is null then created_at else last_message_at end, id) < (${active_at}::timestamptz, ${id}::uuid)
        order by active_at desc, id desc limit ${most}
      ) latest order by active_at desc, id desc limit ${limit} offset ${offset}`
  }
  const { endUserId, visitor, origin, frameKey, isAnyOrigin } = owner
  if (endUserId !== null) {
    return sql<ThreadPosition>`
      select latest.* from unnest(${statuses}::text[]) wanted (status) cross join lateral (
        select id, case when last_message_at is null then created_at else last_message_at end as active_at from threads
        where end_user_id = ${endUserId} and status = wanted.status
          and (case when last_message_at is null then created_at else last_message_at end, id) < (${active_at}::timestamptz, ${id}::uuid)
          and (${isAnyOrigin}::boolean or origin is not distinct from ${origin}
               and (frame_key is not distinct from ${frameKey} or (select has_one_site())))
        order by active_at desc, id desc limit ${most}
      ) latest order by active_at desc, id desc limit ${limit} offset ${offset}`
  }
  return sql<ThreadPosition>`
    select id, case when last_message_at is null then created_at else last_message_at end as active_at from threads
    where end_user_id is null and visitor_fingerprint = ${visitor} and visitor_expires_at > now()
      and status = any(${statuses})
      and (case when last_message_at is null then created_at else last_message_at end, id) < (${active_at}::timestamptz, ${id}::uuid)
      and (${isAnyOrigin}::boolean or origin is not distinct from ${origin}
           and (frame_key is not distinct from ${frameKey} or (select has_one_site())))
    order by active_at desc, id desc limit ${limit} offset ${offset}`
}
