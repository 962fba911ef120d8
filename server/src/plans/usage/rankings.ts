import type { Service } from '../../kernel/foundation/service.ts'
import type { Job, JobKind } from '../../kernel/jobs/jobs.ts'
import { requestJob } from '../../kernel/jobs/requests.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { readTotals } from '../../kernel/stores/list-totals.ts'
import { dayOf, daysBefore, lengthOf, type Range, wholeSpans } from './ranges.ts'
import { lockEvents, spanDays } from './record.ts'

/** Keeps a ranking of end users by usage up to date for as long as it is read. The key is the ranking's span. */
export const usageRanking = 'usage_ranking'

/** With fewer end users, adding up their usage for each request takes less than 50 ms. */
export const manyEndUsers = 2_000
/** A ranking that is older isn't read. */
const freshMs = 10 * 60_000
const sumEverySeconds = 5 * 60
/** How often a reader's request is noted. */
const askAgainMs = 10 * 60_000
/** A ranking that nobody asks for isn't kept up to date, but changing its old rows is faster than adding all of them. */
const inUseMs = 30 * 60_000
const storedMs = 7 * 24 * 60 * 60_000
const endUsersAtOnce = 5_000
const deletedAtOnce = 10_000

/** The lengths of the kept ranges in days, as the dashboard offers them. Beside these, the current month is kept. */
const keptLengths = [7, 30, 90, 365]

/** Rankings are kept for ranges that end today: a number of days, or the current month. */
function spanOf(range: Range, today: string): string | undefined {
  if (range.end !== today) return undefined
  const length = lengthOf(range)
  if (keptLengths.includes(length)) return String(length)
  return range.start === firstOfMonth(today) ? 'month' : undefined
}

const rangeOfSpan = (span: string, today: string): Range => ({
  start: span === 'month' ? firstOfMonth(today) : daysBefore(today, Number(span) - 1),
  end: today,
})

const firstOfMonth = (day: string) => `${day.slice(0, 8)}01`

interface Ranking {
  asked_at: string
  start_date: string | null
  end_date: string | null
  summed_at: string | null
}

const selectRanking = (sql: Sql, span: string) => sql<Ranking>`
  select asked_at, start_date, end_date, summed_at from usage_rankings where span = ${span}`

const isSince = (time: string | null | undefined, earliest: number): boolean =>
  time !== null && time !== undefined && Date.parse(time) >= earliest

const isOf = ({ start_date, end_date }: Ranking, { start, end }: Range): boolean =>
  start_date === start && end_date === end

/**
 * The span of the kept ranking of a range. Undefined if the range has to be added up: it isn't kept, or not yet, or the
 * organization is small. Notes that the ranking was asked for.
 */
export async function findRanking(sql: Sql, range: Range, now: number): Promise<string | undefined> {
  const span = spanOf(range, dayOf(now))
  if (span === undefined) return undefined
  const [endUsers, [ranking]] = await Promise.all([readTotals(sql, ['end_users']), selectRanking(sql, span)])
  if (endUsers.items < manyEndUsers) return undefined
  if (!isSince(ranking?.asked_at, now - askAgainMs)) {
    await sql`
      insert into usage_rankings as ranking (organization_id, span, asked_at)
      values (current_organization(), ${span}, ${new Date(now).toISOString()})
      on conflict (organization_id, span) do update set asked_at = greatest(ranking.asked_at, excluded.asked_at)`
    await requestJob(sql, usageRanking, { key: span })
  }
  return ranking && isOf(ranking, range) && isSince(ranking.summed_at, now - freshMs) ? span : undefined
}

export const rankingUsage = ({ clock }: Pick<Service, 'clock'>): JobKind => ({
  name: usageRanking,
  atOnce: 2,
  atOnceInOrganization: 1,
  longestMs: 60 * 60_000,
  async run(job) {
    const span = job.key
    const now = clock()
    const [ranking] = await job.transaction((sql) => selectRanking(sql, span))
    if (!ranking || !isSince(ranking.asked_at, now - storedMs)) return drop(job, span, now)
    if (!isSince(ranking.asked_at, now - inUseMs)) return { again: { inSeconds: storedMs / 1000 } }
    const range = rangeOfSpan(span, dayOf(now))
    await rank(job, range, ranking.summed_at !== null && isOf(ranking, range))
    return job.settle(async (sql) => {
      await sql`
        update usage_rankings set start_date = ${range.start}, end_date = ${range.end},
          summed_at = ${new Date(now).toISOString()} where span = ${span}`
      return { again: { inSeconds: sumEverySeconds } }
    })
  },
})

async function drop(job: Job, span: string, now: number) {
  while (await job.transaction((sql) => deleteSome(sql, span))) job.signal.throwIfAborted()
  return job.settle(async (sql) => {
    await sql`
      delete from usage_rankings where span = ${span} and asked_at < ${new Date(now - storedMs).toISOString()}`
    return 'done'
  })
}

async function deleteSome(sql: Sql, span: string): Promise<boolean> {
  const deleted = await sql`
    delete from usage_ranked_end_users where ctid = any(array(
      select ctid from usage_ranked_end_users
      where organization_id = (select current_organization()) and span = ${span} limit ${deletedAtOnce}))
    returning span`
  return deleted.length > 0
}

/** Adds up the range. Within a day, only the usage of those who have some since yesterday can have changed. */
async function rank(job: Job, range: Range, isOfToday: boolean): Promise<void> {
  const changedSince = isOfToday ? daysBefore(range.end, 1) : null
  let last: string | undefined = '00000000-0000-0000-0000-000000000000'
  if (!isOfToday)
    await job.transaction((sql) => sql`update usage_rankings set summed_at = null where span = ${job.key}`)
  while (last !== undefined) {
    job.signal.throwIfAborted()
    const after: string = last
    last = await job.transaction(async (sql) => {
      // So that no end user is erased or merged at the same time.
      await lockEvents(sql)
      const found = await (changedSince === null ? selectAll(sql, after) : selectChanged(sql, after, changedSince))
      const ids = found.map(({ id }) => id)
      if (ids.length > 0) await rankEndUsers(sql, job.key, range, ids)
      return ids.length < endUsersAtOnce ? undefined : ids.at(-1)
    })
  }
}

const selectAll = (sql: Sql, after: string) => sql<{ id: string }>`
  select end_user_id as id from usage_end_users where end_user_id > ${after}
  order by end_user_id limit ${endUsersAtOnce}`

const selectChanged = (sql: Sql, after: string, since: string) => sql<{ id: string }>`
  select distinct end_user_id as id from usage_end_user_spans
  where days = 1 and day >= ${since} and end_user_id > ${after} order by end_user_id limit ${endUsersAtOnce}`

/** The spans and days that a range consists of. */
function piecesOf(range: Range): { days: number; day: string }[] {
  const { from, to } = wholeSpans(range)
  const pieces: { days: number; day: string }[] = []
  for (let day = range.start; day <= range.end; ) {
    const days = day >= from && day < to ? spanDays : 1
    pieces.push({ days, day })
    day = daysBefore(day, -days)
  }
  return pieces
}

/** Writes only the rows that have changed. */
function rankEndUsers(sql: Sql, span: string, range: Range, ids: readonly string[]) {
  const pieces = piecesOf(range)
  return sql`
    with sums as materialized (
      select end_user_id, sum(requests)::bigint as requests, sum(prompt_tokens)::bigint as prompt_tokens,
             sum(completion_tokens)::bigint as completion_tokens, sum(cost_micro_usd)::bigint as cost_micro_usd
      from unnest(${pieces.map(({ days }) => days)}::int[], ${pieces.map(({ day }) => day)}::date[]) piece (days, day)
      cross join lateral (
        select end_user_id, requests, prompt_tokens, completion_tokens, cost_micro_usd from usage_end_user_spans used
        where used.days = piece.days and used.day = piece.day and end_user_id = any(${ids}::uuid[]) offset 0) used
      group by end_user_id
    ), gone as (
      delete from usage_ranked_end_users ranked where span = ${span} and end_user_id = any(${ids}::uuid[])
        and not exists (select from sums where sums.end_user_id = ranked.end_user_id)
    )
    insert into usage_ranked_end_users
      (organization_id, span, end_user_id, requests, prompt_tokens, completion_tokens, cost_micro_usd)
    select current_organization(), ${span}, end_user_id, requests, prompt_tokens, completion_tokens, cost_micro_usd
    from sums where not exists (
      select from usage_ranked_end_users ranked
      where ranked.end_user_id = sums.end_user_id and span = ${span}
        and (ranked.requests, ranked.prompt_tokens, ranked.completion_tokens, ranked.cost_micro_usd)
          = (sums.requests, sums.prompt_tokens, sums.completion_tokens, sums.cost_micro_usd))
    on conflict (organization_id, end_user_id, span) do update set
      requests = excluded.requests, prompt_tokens = excluded.prompt_tokens,
      completion_tokens = excluded.completion_tokens, cost_micro_usd = excluded.cost_micro_usd`
}
