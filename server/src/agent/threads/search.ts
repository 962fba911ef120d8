import { serviceUnavailable } from '../../kernel/lib/errors.ts'
import { createFairQueue, QueueFull } from '../../kernel/lib/shares/fair-queue.ts'
import type { Sql } from '../../kernel/stores/database.ts'

/** A search reads texts instead of an index, because row-level security keeps PostgreSQL from using one for words. */
const searchedThreads = 10_000
/** Number of threads per statement, because statements time out. */
const threadsAtOnce = 1_000
/** Always searched, however long it takes. */
const searchedFirst = 500
const mostWords = 10

/** Runs a few searches at a time, so that they leave connections for everything else. */
function createTurns(perLane: number) {
  const queue = createFairQueue({ atATime: 2, perLane, waiting: 100 })
  return async <T>(lane: string, search: () => Promise<T>): Promise<T> => {
    try {
      return await queue(lane, search)
    } catch (error) {
      throw error instanceof QueueFull ? serviceUnavailable('Too many searches are running', error) : error
    }
  }
}

/** Searches of members. Organizations take turns. */
export const inTurn = createTurns(2)
/** Searches of end users and visitors, which must not delay those of members. An organization takes one place. */
export const inTurnOfUsers = createTurns(1)

interface Wanted {
  statuses: string[]
  /** Whether to search in messages too, not only in titles. */
  withContents: boolean
  /** Only the threads of one user. */
  owner?: ThreadOwner
  /** Only threads below this one. */
  after?: ThreadPosition
  /** How long to search. */
  withinMs?: number
}

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

/** A place in the order of threads, latest first. */
export interface ThreadPosition {
  active_at: string
  id: string
}

/** Above the latest thread. */
export const top: ThreadPosition = { active_at: 'infinity', id: 'ffffffff-ffff-ffff-ffff-ffffffffffff' }

/**
 * Finds the threads with all of the words in their title or in one message, latest first. `end` is the last thread that it
 * searched, if there are more.
 */
export async function searchThreads(
  sql: Sql,
  search: string,
  { statuses, withContents, owner, after = top, withinMs = Number.POSITIVE_INFINITY }: Wanted,
): Promise<{ found: ThreadPosition[]; end?: ThreadPosition }> {
  const { endUserId = null, visitor = null, origin = null, frameKey = null, isAnyOrigin = true } = owner ?? {}
  const words = search.split(/\s+/).slice(0, mostWords).map(anyCase)
  const found: ThreadPosition[] = []
  const startedAt = performance.now()
  let last = after
  for (let searched = 0; searched < searchedThreads; ) {
    const elapsedMs = performance.now() - startedAt
    const leftMs = withinMs - elapsedMs
    if (searched > 0 && leftMs <= 0) break
    const atOnce = searched > 0 ? Math.min(threadsAtOnce, Math.ceil((searched * leftMs) / elapsedMs)) : searchedFirst
    const some = await sql<ThreadPosition & { is_found: boolean; searched: number }>`
      select id, active_at, is_found, searched from (
        select id, active_at, count(*) over () as searched,
               lead(id) over (order by active_at desc, id desc) is null as is_last,
               title ~ all(${words}) or ${withContents}::boolean and (
                 first_words ~ all(${words})
                 or exists (
                   select from messages
                   where thread_id = thread.id and replaced_at is null and text ~ all(${words}))
                 or exists (
                   select from runs join steps on run_id = runs.id
                   where runs.organization_id = (select current_organization()) and thread_id = thread.id
                     and replaced_at is null and text ~ all(${words}))) as is_found
        from (
          select latest.* from unnest(${statuses}::text[]) wanted (status) cross join lateral (
            select id, title, first_words, case when last_message_at is null then created_at else last_message_at end as active_at from threads
            where status = wanted.status
              and (case when last_message_at is null then created_at else last_message_at end, id) < (${last.active_at}::timestamptz, ${last.id}::uuid)
              and (${isAnyOrigin}::boolean or origin is not distinct from ${origin}
                   and (frame_key is not distinct from ${frameKey} or (select has_one_site())))
              and case when ${owner === undefined}::boolean then true
                  when ${endUserId}::uuid is not null then end_user_id = ${endUserId}
                  else end_user_id is null and visitor_fingerprint = ${visitor} and visitor_expires_at > now() end
            order by case when last_message_at is null then created_at else last_message_at end desc, id desc limit ${atOnce}
          ) latest order by active_at desc, id desc limit ${atOnce}
        ) as thread
      ) as judged where is_found or is_last order by active_at desc, id desc`
    found.push(...some.filter(({ is_found }) => is_found))
    last = some.at(-1) ?? last
    searched += some.at(-1)?.searched ?? 0
    if ((some.at(-1)?.searched ?? 0) < atOnce) return { found }
  }
  return { found, end: last }
}

/** A regular expression for a word in any case. PostgreSQL's own comparison only knows ASCII in some locales. */
const anyCase = (word: string): string =>
  [...word]
    .map((character) => {
      const cases = new Set([character, character.toLowerCase(), character.toUpperCase()])
      const single = [...cases].filter((each) => [...each].length === 1)
      if (single.length > 1) return `[${single.join('')}]`
      return /[\p{L}\p{M}\p{N}]/u.test(character) ? character : `\\${character}`
    })
    .join('')
