import type { OrgCaller } from '../../kernel/foundation/caller.ts'
import { type Paged, readWithin, takePage } from '../../kernel/foundation/cursors.ts'
import type { Input, Output } from '../../kernel/foundation/operation.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { notFound } from '../../kernel/lib/errors.ts'
import { isId } from '../../kernel/lib/ids.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { readTotals } from '../../kernel/stores/list-totals.ts'
import type * as contract from './contract.ts'
import { type Range, rangeOf, wholeSpans } from './ranges.ts'
import { findRanking } from './rankings.ts'
import { lockEvents, noSite, spanDays } from './record.ts'

type Totals = Output<typeof contract.getUsageStats>
type DayTotals = Totals & { date: string }
type EndUserUsageList = Output<typeof contract.listEndUserUsage>
type Reading = Pick<Service, 'database' | 'clock'>

export async function getDailyUsage(
  service: Reading,
  { organization }: OrgCaller,
  input: Input<typeof contract.getDailyUsage>,
): Promise<Output<typeof contract.getDailyUsage>> {
  const days = await readDays(service, organization.id, input)
  return days.map(({ total_prompt_tokens, total_completion_tokens, ...day }) => day)
}

export async function getUsageStats(
  service: Reading,
  { organization }: OrgCaller,
  input: Input<typeof contract.getUsageStats>,
): Promise<Totals> {
  const days = await readDays(service, organization.id, input)
  const sum = (name: keyof Totals) => days.reduce((total, day) => total + day[name], 0)
  return {
    total_requests: sum('total_requests'),
    total_prompt_tokens: sum('total_prompt_tokens'),
    total_completion_tokens: sum('total_completion_tokens'),
    total_tokens: sum('total_tokens'),
    total_cost_micro_usd: sum('total_cost_micro_usd'),
  }
}

/** Above the first entry of a ranking. */
const mostTokens = Number.POSITIVE_INFINITY
const top = [mostTokens, noSite] as const

interface RankingPage {
  limit: number
  offset: number
  cursor: readonly [number, string]
}

export async function listSiteUsage(
  { database, clock }: Reading,
  { organization }: OrgCaller,
  { limit, offset, cursor: [tokens, after] = top, ...input }: Input<typeof contract.listSiteUsage>,
): Promise<Paged<Output<typeof contract.listSiteUsage>>> {
  const { start, end } = rangeOf(input, clock())
  const [answer] = await database.asOrg(
    organization.id,
    (sql) => sql<Output<typeof contract.listSiteUsage>>`
      with used as (
        select site_id, sum(requests) as total_requests, sum(prompt_tokens) as total_prompt_tokens,
               sum(completion_tokens) as total_completion_tokens,
               sum(prompt_tokens + completion_tokens) as total_tokens, sum(cost_micro_usd) as total_cost_micro_usd
        from usage_site_days where day between ${start} and ${end} group by site_id
      ), page as (
        select nullif(used.site_id, ${noSite}) as site_id, sites.origin, total_requests, total_prompt_tokens,
               total_completion_tokens, total_tokens, total_cost_micro_usd
        from used left join sites on sites.id = used.site_id
        where (-total_tokens, used.site_id) > (-${tokens}::numeric, ${after}::uuid)
        order by total_tokens desc, used.site_id limit ${limit + 1} offset ${offset}
      )
      select (select count(*) from used) as total, coalesce((select jsonb_agg(page) from page), '[]') as sites`,
  )
  const { sites: found, total } = answer as Output<typeof contract.listSiteUsage>
  const { rows: sites, next_cursor } = takePage(found, limit, ({ total_tokens, site_id }) => [
    total_tokens,
    site_id ?? noSite,
  ])
  return { body: { sites, total }, next_cursor }
}

export async function listEndUserUsage(
  { database, clock }: Reading,
  { organization }: OrgCaller,
  { limit, offset, cursor = top, ...input }: Input<typeof contract.listEndUserUsage>,
): Promise<Paged<EndUserUsageList>> {
  const range = rangeOf(input, clock())
  const page = { limit: limit + 1, offset, cursor }
  const kept = await database.asOrg(organization.id, async (sql) => {
    const span = await findRanking(sql, range, clock())
    return span === undefined ? undefined : selectRanked(sql, span, page)
  })
  // In a transaction of its own: if it takes too long, the ranking has been asked for, so that the next request finds it.
  const { users: found, total } =
    kept ?? (await database.asOrg(organization.id, (sql) => addUpEndUsers(sql, range, page)))
  const { rows: users, next_cursor } = takePage(found, limit, ({ total_tokens, end_user_id }) => [
    total_tokens,
    end_user_id,
  ])
  return { body: { users, total }, next_cursor }
}

/**
 * Ranks all end users by one sum, and reads the others for the page only. With the default memory, PostgreSQL would read
 * the rows of a large organization one by one in the order of their end users.
 */
async function addUpEndUsers(
  sql: Sql,
  { start, end }: Range,
  { limit, offset, cursor: [tokens, after] }: RankingPage,
): Promise<EndUserUsageList> {
  const { from, to } = wholeSpans({ start, end })
  // A sum of `bigint` is a `numeric`, which takes several times as long. End users never have more tokens than a double
  // counts exactly.
  const [, [ranked]] = await Promise.all([
    sql`select set_config('work_mem', '64MB', true)`,
    sql<{ total: number; ids: string[] }>`
      with used as materialized (
        select end_user_id, sum((prompt_tokens + completion_tokens)::float8) as tokens
        from usage_end_user_spans
        where days = ${spanDays} and day >= ${from} and day < ${to}
           or days = 1 and day >= ${start} and day < ${from}
           or days = 1 and day >= ${to} and day <= ${end}
        group by end_user_id
      )
      select (select count(*) from used) as total,
             array(select end_user_id from used where (-tokens, end_user_id) > (-${tokens}::float8, ${after}::uuid)
                   order by tokens desc, end_user_id limit ${limit} offset ${offset}) as ids`,
  ])
  const users = await sql<EndUserUsageList['users'][number]>`
    select end_user_id, external_id, email, preview_user_id is not null as is_preview, total_requests, total_prompt_tokens,
           total_completion_tokens, total_tokens, total_cost_micro_usd
    from end_users cross join lateral (
      select end_user_id, sum(requests) as total_requests, sum(prompt_tokens) as total_prompt_tokens,
             sum(completion_tokens) as total_completion_tokens,
             sum(prompt_tokens + completion_tokens) as total_tokens, sum(cost_micro_usd) as total_cost_micro_usd
      from usage_end_user_spans
      where end_user_id = end_users.id
        and (days = ${spanDays} and day >= ${from} and day < ${to}
          or days = 1 and day >= ${start} and day < ${from}
          or days = 1 and day >= ${to} and day <= ${end})
      group by end_user_id) used
    where id = any(${ranked?.ids})
    order by total_tokens desc, end_user_id`
  return { users, total: ranked?.total ?? 0 }
}

async function selectRanked(
  sql: Sql,
  span: string,
  { limit, offset, cursor: [tokens, after] }: RankingPage,
): Promise<EndUserUsageList> {
  const { items: total } = await readTotals(sql, [`usage_rankings/${span}`])
  const users = await readWithin(
    offset,
    total,
    () => sql<EndUserUsageList['users'][number]>`
      select end_user_id, external_id, email, preview_user_id is not null as is_preview, requests as total_requests,
             prompt_tokens as total_prompt_tokens, completion_tokens as total_completion_tokens,
             prompt_tokens + completion_tokens as total_tokens, cost_micro_usd as total_cost_micro_usd
      from (
        select end_user_id, requests, prompt_tokens, completion_tokens, cost_micro_usd, rank
        from usage_ranked_end_users
        where span = ${span} and (rank, end_user_id) > (${-Math.min(tokens, Number.MAX_SAFE_INTEGER)}::bigint, ${after}::uuid)
        order by rank, end_user_id limit ${limit} offset ${offset}
      ) ranked
      join end_users on end_users.id = end_user_id
      order by rank, end_user_id`,
  )
  return { users, total }
}

export async function listModelUsage(
  { database, clock }: Reading,
  { organization }: OrgCaller,
  { limit, offset, cursor: [tokens, after] = [mostTokens, ''], ...input }: Input<typeof contract.listModelUsage>,
): Promise<Paged<Output<typeof contract.listModelUsage>>> {
  const { start, end } = rangeOf(input, clock())
  const [answer] = await database.asOrg(
    organization.id,
    (sql) => sql<Output<typeof contract.listModelUsage>>`
      with used as (
        select model, sum(requests) as total_requests, sum(prompt_tokens) as total_prompt_tokens,
               sum(completion_tokens) as total_completion_tokens,
               sum(prompt_tokens + completion_tokens) as total_tokens, sum(cost_micro_usd) as total_cost_micro_usd
        from usage_model_days where day between ${start} and ${end} group by model
      ), page as (
        select * from used where (-total_tokens, model) > (-${tokens}::numeric, ${after}::text)
        order by total_tokens desc, model limit ${limit + 1} offset ${offset}
      )
      select (select count(*) from used) as total, coalesce((select jsonb_agg(page) from page), '[]') as models`,
  )
  const { models: found, total } = answer as Output<typeof contract.listModelUsage>
  const { rows: models, next_cursor } = takePage(found, limit, ({ total_tokens, model }) => [total_tokens, model])
  return { body: { models, total }, next_cursor }
}

export async function getEndUserStats(
  { database }: Reading,
  { organization }: OrgCaller,
  { end_user_id }: Input<typeof contract.getEndUserStats>,
): Promise<Totals> {
  const [totals] = await database.asOrg(organization.id, (sql) => selectEndUserTotals(sql, end_user_id))
  if (!totals) throw notFound('end_user', end_user_id)
  return totals
}

export async function listEndUserHistory(
  { database }: Reading,
  { organization }: OrgCaller,
  { end_user_id, limit, offset, cursor = latest }: Input<typeof contract.listEndUserHistory>,
): Promise<Paged<Output<typeof contract.listEndUserHistory>>> {
  return database.asOrg(organization.id, async (sql) => {
    const [totals] = await selectEndUserTotals(sql, end_user_id)
    if (!totals) throw notFound('end_user', end_user_id)
    const total = totals.total_requests
    const found = await readWithin(offset, total, () =>
      selectEvents(sql, end_user_id, { limit: limit + 1, offset, cursor }),
    )
    const { rows: events, next_cursor } = takePage(found, limit, ({ created_at, id }) => [created_at, id])
    return { body: { events, total }, next_cursor }
  })
}

/**
 * Removes an end user from usage data; the organization's totals stay. The caller must lock the end user first, and
 * erase their threads afterwards: deleting a thread that events still reference would update those events again.
 */
export async function eraseEndUserUsage(sql: Sql, endUserId: string): Promise<void> {
  await lockEvents(sql)
  await sql`delete from usage_end_users where end_user_id = ${endUserId}`
  await sql`delete from usage_end_user_spans where end_user_id = ${endUserId}`
  await sql`delete from usage_ranked_end_users where end_user_id = ${endUserId}`
  // In batches: a statement times out after ten seconds, and an end user can have years of events.
  while (await anonymiseEvents(sql, endUserId, 10_000));
}

/** Counts the usage of end users as that of others: the one at the same place in `kept`. */
export async function moveEndUserUsage(sql: Sql, gone: readonly string[], kept: readonly string[]): Promise<void> {
  await lockEvents(sql)
  while (await moveEvents(sql, gone, kept, 10_000));
  await sql`
    with moved as (
      delete from usage_end_users where end_user_id = any(${gone}::uuid[])
      returning end_user_id, requests, prompt_tokens, completion_tokens, cost_micro_usd
    )
    insert into usage_end_users as total
      (organization_id, end_user_id, requests, prompt_tokens, completion_tokens, cost_micro_usd)
    select current_organization(), pair.kept, requests, prompt_tokens, completion_tokens, cost_micro_usd
    from moved join unnest(${gone}::uuid[], ${kept}::uuid[]) as pair (gone, kept) on pair.gone = end_user_id
    order by pair.kept
    on conflict (organization_id, end_user_id) do update set
      requests = total.requests + excluded.requests,
      prompt_tokens = total.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = total.completion_tokens + excluded.completion_tokens,
      cost_micro_usd = total.cost_micro_usd + excluded.cost_micro_usd`
  await sql`
    with moved as (
      delete from usage_end_user_spans where end_user_id = any(${gone}::uuid[])
      returning days, day, end_user_id, requests, prompt_tokens, completion_tokens, cost_micro_usd
    )
    insert into usage_end_user_spans as total
      (organization_id, days, day, end_user_id, requests, prompt_tokens, completion_tokens, cost_micro_usd)
    select current_organization(), days, day, pair.kept, requests, prompt_tokens, completion_tokens, cost_micro_usd
    from moved join unnest(${gone}::uuid[], ${kept}::uuid[]) as pair (gone, kept) on pair.gone = end_user_id
    order by days, day, pair.kept
    on conflict (organization_id, days, day, end_user_id) do update set
      requests = total.requests + excluded.requests,
      prompt_tokens = total.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = total.completion_tokens + excluded.completion_tokens,
      cost_micro_usd = total.cost_micro_usd + excluded.cost_micro_usd`
  await sql`
    with moved as (
      delete from usage_ranked_end_users where end_user_id = any(${gone}::uuid[])
      returning span, end_user_id, requests, prompt_tokens, completion_tokens, cost_micro_usd
    )
    insert into usage_ranked_end_users as total
      (organization_id, span, end_user_id, requests, prompt_tokens, completion_tokens, cost_micro_usd)
    select current_organization(), span, pair.kept, requests, prompt_tokens, completion_tokens, cost_micro_usd
    from moved join unnest(${gone}::uuid[], ${kept}::uuid[]) as pair (gone, kept) on pair.gone = end_user_id
    order by span, pair.kept
    on conflict (organization_id, end_user_id, span) do update set
      requests = total.requests + excluded.requests,
      prompt_tokens = total.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = total.completion_tokens + excluded.completion_tokens,
      cost_micro_usd = total.cost_micro_usd + excluded.cost_micro_usd`
}

async function moveEvents(sql: Sql, gone: readonly string[], kept: readonly string[], most: number): Promise<number> {
  const [row] = await sql<{ changed: number }>`
    with changed as (
      update usage_events set end_user_id = pair.kept
      from unnest(${gone}::uuid[], ${kept}::uuid[]) as pair (gone, kept)
      where end_user_id = pair.gone
        and (created_at, id) in (
          select created_at, id from usage_events where end_user_id = any(${gone}::uuid[]) limit ${most})
      returning id
    )
    select count(*) as changed from changed`
  return row?.changed ?? 0
}

/** Detaches a site's usage from the site. The caller must lock the site first, so that no usage is added meanwhile. */
export async function moveUsageOffSite(sql: Sql, siteId: string): Promise<void> {
  await lockEvents(sql)
  while (await detachEvents(sql, siteId, 10_000));
  // Locks rows in the same order as recordUsage, so that the two can't deadlock.
  await sql`
    with moved as (
      delete from usage_site_days where site_id = ${siteId}
      returning day, requests, prompt_tokens, completion_tokens, cost_micro_usd
    )
    insert into usage_site_days as kept
      (organization_id, day, site_id, requests, prompt_tokens, completion_tokens, cost_micro_usd)
    select current_organization(), day, ${noSite}, requests, prompt_tokens, completion_tokens, cost_micro_usd
    from moved order by day
    on conflict (organization_id, day, site_id) do update set
      requests = kept.requests + excluded.requests,
      prompt_tokens = kept.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = kept.completion_tokens + excluded.completion_tokens,
      cost_micro_usd = kept.cost_micro_usd + excluded.cost_micro_usd`
}

async function detachEvents(sql: Sql, siteId: string, most: number): Promise<number> {
  const [row] = await sql<{ changed: number }>`
    with changed as (
      update usage_events set site_id = null
      where (created_at, id) in (select created_at, id from usage_events where site_id = ${siteId} limit ${most})
      returning id
    )
    select count(*) as changed from changed`
  return row?.changed ?? 0
}

async function anonymiseEvents(sql: Sql, endUserId: string, most: number): Promise<number> {
  const [row] = await sql<{ changed: number }>`
    with changed as (
      update usage_events set end_user_id = null, thread_id = null
      where (created_at, id) in (
        select created_at, id from usage_events where end_user_id = ${endUserId} limit ${most})
      returning id
    )
    select count(*) as changed from changed`
  return row?.changed ?? 0
}

/** After the latest event. */
const latest = ['infinity', 'ffffffff-ffff-ffff-ffff-ffffffffffff'] as const

interface EventPage {
  limit: number
  offset: number
  cursor: readonly [string, string]
}

const selectEvents = (sql: Sql, endUserId: string, { limit, offset, cursor: [at, id] }: EventPage) => sql<
  Output<typeof contract.listEndUserHistory>['events'][number]
>`
  select id, end_user_id, site_id, prompt_tokens, completion_tokens, prompt_tokens + completion_tokens as total_tokens,
         is_estimated, cost_micro_usd, model, finish_reason, created_at
  from usage_events where end_user_id = ${endUserId} and (created_at, id) < (${at}::timestamptz, ${id}::uuid)
  order by created_at desc, id desc limit ${limit} offset ${offset}`

const selectEndUserTotals = (sql: Sql, endUserId: string) => sql<Totals>`
  select coalesce(requests, 0) as total_requests, coalesce(prompt_tokens, 0) as total_prompt_tokens,
         coalesce(completion_tokens, 0) as total_completion_tokens,
         coalesce(prompt_tokens + completion_tokens, 0) as total_tokens,
         coalesce(cost_micro_usd, 0) as total_cost_micro_usd
  from end_users left join usage_end_users on end_user_id = id where id = ${endUserId}`

async function readDays(
  { database, clock }: Reading,
  organizationId: string,
  { site_id, ...asked }: Input<typeof contract.getDailyUsage>,
): Promise<DayTotals[]> {
  const range = rangeOf(asked, clock())
  if (site_id === undefined) return database.asOrg(organizationId, (sql) => selectDays(sql, range))
  if (!isId(site_id)) throw notFound('site', site_id)
  return database.asOrg(organizationId, async (sql) => {
    const [site] = await sql`select from sites where id = ${site_id}`
    if (!site) throw notFound('site', site_id)
    return selectDays(sql, range, site_id)
  })
}

const selectDays = (sql: Sql, { start, end }: Range, siteId: string | null = null) => sql<DayTotals>`
  select day as date, coalesce(requests, 0) as total_requests, coalesce(prompt_tokens, 0) as total_prompt_tokens,
         coalesce(completion_tokens, 0) as total_completion_tokens,
         coalesce(prompt_tokens + completion_tokens, 0) as total_tokens,
         coalesce(cost_micro_usd, 0) as total_cost_micro_usd
  from (select ${start}::date + number as day from generate_series(0, ${end}::date - ${start}::date) number) days
  left join (
    select day, sum(requests) as requests, sum(prompt_tokens) as prompt_tokens,
           sum(completion_tokens) as completion_tokens, sum(cost_micro_usd) as cost_micro_usd
    from usage_site_days
    where day between ${start} and ${end} and site_id = coalesce(${siteId}, site_id)
    group by day
  ) used using (day)
  order by day`
