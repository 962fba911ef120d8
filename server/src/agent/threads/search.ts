import { serviceUnavailable } from '../../kernel/lib/errors.ts'
import { createFairQueue, QueueFull } from '../../kernel/lib/shares/fair-queue.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { selectLatest, type ThreadOwner, type ThreadPosition, top } from './list-query.ts'

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

/**
 * Finds the threads with all of the words in their title or in one message, latest first. `end` is the last thread that it
 * searched, if there are more.
 */
export async function searchThreads(
  sql: Sql,
  search: string,
  { statuses, withContents, owner, after = top, withinMs = Number.POSITIVE_INFINITY }: Wanted,
): Promise<{ found: ThreadPosition[]; end?: ThreadPosition }> {
  const words = search.split(/\s+/).slice(0, mostWords).map(anyCase)
  const found: ThreadPosition[] = []
  const startedAt = performance.now()
  let last = after
  for (let searched = 0; searched < searchedThreads; ) {
    const elapsedMs = performance.now() - startedAt
    const leftMs = withinMs - elapsedMs
    if (searched > 0 && leftMs <= 0) break
    const atOnce = searched > 0 ? Math.min(threadsAtOnce, Math.ceil((searched * leftMs) / elapsedMs)) : searchedFirst
    const candidates = await selectLatest(sql, { statuses, owner, after: last, limit: atOnce })
    const matches = await selectMatches(sql, idsOf(candidates), words, withContents)
    found.push(...candidates.filter(({ id }) => matches.has(id)))
    last = candidates.at(-1) ?? last
    searched += candidates.length
    if (candidates.length < atOnce) return { found }
  }
  return { found, end: last }
}

async function selectMatches(
  sql: Sql,
  ids: readonly string[],
  words: readonly string[],
  withContents: boolean,
): Promise<Set<string>> {
  const rows = await sql<{ id: string }>`
    select id from threads thread where id = any(${ids}) and (
      title ~ all(${words}) or ${withContents}::boolean and (
        first_words ~ all(${words})
        or exists (
          select from messages where thread_id = thread.id and replaced_at is null and text ~ all(${words}))
        or exists (
          select from runs join steps on run_id = runs.id
          where runs.organization_id = (select current_organization()) and thread_id = thread.id
            and replaced_at is null and text ~ all(${words}))))`
  return new Set(idsOf(rows))
}

export const idsOf = (rows: readonly { id: string }[]): string[] => rows.map(({ id }) => id)

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
