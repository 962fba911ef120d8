import { z } from 'zod'
import type { Service } from '../../kernel/foundation/service.ts'
import { Timestamp } from '../../kernel/foundation/shapes.ts'
import { type Failure, invalid } from '../../kernel/lib/errors.ts'
import { isId } from '../../kernel/lib/ids.ts'
import { type Sql, violatedConstraint } from '../../kernel/stores/database.ts'

const Uuid = z.string().refine(isId, 'Must be an ID')
/** Far above what any model reads or writes: a higher count is a mistake that would corrupt the totals. */
const TokenCount = z.int().min(0).max(1_000_000_000)
export const isTokenCount = (value: unknown): value is number => TokenCount.safeParse(value).success
/** Ten million USD. */
const Cost = z.int().min(0).max(10_000_000_000_000)
const Word = z
  .string()
  .min(1)
  .max(200)
  .refine((text) => !text.includes('\0'), 'Must not contain NUL')

const UsageRecord = z.strictObject({
  /** Makes recording idempotent: an event with a known ID is ignored. */
  id: Uuid,
  organization_id: Uuid,
  end_user_id: Uuid.nullable(),
  site_id: Uuid.nullable(),
  thread_id: Uuid.nullable(),
  prompt_tokens: TokenCount,
  completion_tokens: TokenCount,
  /** Whether the tokens were estimated, because the provider didn't report them. */
  is_estimated: z.boolean(),
  /** Null if the model has no price. */
  cost_micro_usd: Cost.nullable(),
  model: Word,
  finish_reason: Word,
  created_at: Timestamp,
})
export type UsageRecord = z.infer<typeof UsageRecord>

/** The kind of jobs that report usage to the billing provider. */
export const billingUsage = 'billing_usage'
/** Usage of this time is reported in one batch. */
const reportAfterSeconds = 10

/** Placeholder in the totals for usage that doesn't belong to a site. */
export const noSite = '00000000-0000-0000-0000-000000000000'

/**
 * An end user's usage is summed per day, and per span of this many days, counted from 1970-01-01. What the spans save:
 * docs/decisions/0031-which-speedups-stay.md.
 */
export const spanDays = 8

export function checkUsage(event: UsageRecord): void {
  const issue = UsageRecord.safeParse(event).error?.issues[0]
  if (issue) throw invalid(issue.path.join('.'), issue.message)
}

/** Serializes transactions that rewrite an organization's events: two could lock the same rows in different orders. */
export const lockEvents = (sql: Sql) =>
  sql`select pg_advisory_xact_lock(hashtextextended('usage_events:' || current_organization(), 0))`

/** Adds one organization's events in a transaction of their own. Returns how many events were new. */
export async function recordUsage(
  { database }: Pick<Service, 'database'>,
  recorded: UsageRecord | readonly UsageRecord[],
): Promise<number> {
  const events = [recorded].flat()
  const [first] = events
  if (!first) return 0
  for (const event of events) {
    checkUsage(event)
    if (event.organization_id !== first.organization_id) {
      throw invalid('organization_id', 'All events must belong to the same organization')
    }
  }
  // The statement is passed on as it is, so that the commit travels with it.
  return countAdded(database.asOrg(first.organization_id, (sql) => insertEvents(sql, events)))
}

/** Adds events of the transaction's organization in the caller's transaction. Returns how many events were new. */
export async function addUsage(sql: Sql, events: readonly UsageRecord[]): Promise<number> {
  for (const event of events) checkUsage(event)
  return events.length > 0 ? countAdded(insertEvents(sql, events)) : 0
}

async function countAdded(inserting: Promise<{ added: number }[]>): Promise<number> {
  try {
    const [row] = await inserting
    return row?.added ?? 0
  } catch (error) {
    throw refusals[violatedConstraint(error) ?? '']?.() ?? error
  }
}

/**
 * Adds events and updates the totals atomically, in one statement. Each table is written in key order, so that
 * concurrent writers can't deadlock. End users and sites are locked first, as when one is deleted: the foreign key
 * rejects events of an end user who was erased in the meantime, and events of a site that was deleted in the meantime
 * are recorded without a site. If the usage is to be reported, a job is requested in the same statement.
 */
function insertEvents(sql: Sql, events: readonly UsageRecord[]): Promise<{ added: number }[]> {
  const column = (name: keyof UsageRecord) => events.map((event) => event[name])
  return sql<{ added: number }>`
    with given as (
      select distinct on (event.id) event.*, place.id as known_site_id from unnest(
        ${column('id')}::uuid[], ${column('end_user_id')}::uuid[], ${column('site_id')}::uuid[],
        ${column('thread_id')}::uuid[], ${column('prompt_tokens')}::int[], ${column('completion_tokens')}::int[],
        ${column('is_estimated')}::boolean[], ${column('cost_micro_usd')}::bigint[],
        ${column('model')}::text[], ${column('finish_reason')}::text[], ${column('created_at')}::timestamptz[]
      ) with ordinality as event (id, end_user_id, site_id, thread_id, prompt_tokens, completion_tokens,
                                  is_estimated, cost_micro_usd, model, finish_reason, created_at, position)
      left join (
        select id from end_users where id = any(${column('end_user_id')}) order by id for key share
      ) person on person.id = event.end_user_id
      left join (
        select id from sites where id = any(${column('site_id')}) order by id for key share
      ) place on place.id = event.site_id
      order by event.id, position
    ), added as (
      insert into usage_events (organization_id, id, end_user_id, site_id, thread_id, prompt_tokens, completion_tokens,
                                is_estimated, cost_micro_usd, model, finish_reason, created_at)
      select current_organization(), id, end_user_id, known_site_id, thread_id, prompt_tokens, completion_tokens,
             is_estimated, cost_micro_usd, model, finish_reason, created_at
      from given order by id
      on conflict (organization_id, created_at, id) do nothing
      returning id, created_at, end_user_id, coalesce(site_id, ${noSite}) as site_id, (created_at at time zone 'UTC')::date as day,
                model, prompt_tokens, completion_tokens, coalesce(cost_micro_usd, 0) as cost_micro_usd
    ), unreported as (
      insert into unreported_usage (organization_id, id, created_at)
      select organization.id, added.id, added.created_at
      from added join organizations organization on organization.id = current_organization() and reports_usage
      returning id
    ), site_days as (
      insert into usage_site_days as kept
        (organization_id, day, site_id, requests, prompt_tokens, completion_tokens, cost_micro_usd)
      select current_organization(), day, site_id,
             count(*), sum(prompt_tokens), sum(completion_tokens), sum(cost_micro_usd)
      from added group by day, site_id order by day, site_id
      on conflict (organization_id, day, site_id) do update set
        requests = kept.requests + excluded.requests,
        prompt_tokens = kept.prompt_tokens + excluded.prompt_tokens,
        completion_tokens = kept.completion_tokens + excluded.completion_tokens,
        cost_micro_usd = kept.cost_micro_usd + excluded.cost_micro_usd
    ), model_days as (
      insert into usage_model_days as kept
        (organization_id, day, model, requests, prompt_tokens, completion_tokens, cost_micro_usd)
      select current_organization(), day, model,
             count(*), sum(prompt_tokens), sum(completion_tokens), sum(cost_micro_usd)
      from added group by day, model order by day, model
      on conflict (organization_id, day, model) do update set
        requests = kept.requests + excluded.requests,
        prompt_tokens = kept.prompt_tokens + excluded.prompt_tokens,
        completion_tokens = kept.completion_tokens + excluded.completion_tokens,
        cost_micro_usd = kept.cost_micro_usd + excluded.cost_micro_usd
    ), end_user_totals as (
      insert into usage_end_users as kept
        (organization_id, end_user_id, requests, prompt_tokens, completion_tokens, cost_micro_usd)
      select current_organization(), end_user_id,
             count(*), sum(prompt_tokens), sum(completion_tokens), sum(cost_micro_usd)
      from added where end_user_id is not null group by end_user_id order by end_user_id
      on conflict (organization_id, end_user_id) do update set
        requests = kept.requests + excluded.requests,
        prompt_tokens = kept.prompt_tokens + excluded.prompt_tokens,
        completion_tokens = kept.completion_tokens + excluded.completion_tokens,
        cost_micro_usd = kept.cost_micro_usd + excluded.cost_micro_usd
    ), end_user_spans as (
      insert into usage_end_user_spans as kept
        (organization_id, days, day, end_user_id, requests, prompt_tokens, completion_tokens, cost_micro_usd)
      select current_organization(), span, usage_span_start(day, span), end_user_id,
             count(*), sum(prompt_tokens), sum(completion_tokens), sum(cost_micro_usd)
      from added cross join unnest(${[1, spanDays]}::int[]) span where end_user_id is not null
      group by span, usage_span_start(day, span), end_user_id
      order by span, usage_span_start(day, span), end_user_id
      on conflict (organization_id, days, day, end_user_id) do update set
        requests = kept.requests + excluded.requests,
        prompt_tokens = kept.prompt_tokens + excluded.prompt_tokens,
        completion_tokens = kept.completion_tokens + excluded.completion_tokens,
        cost_micro_usd = kept.cost_micro_usd + excluded.cost_micro_usd
    )
    select count(*) as added, (
      select request_jobs(current_organization(), ${billingUsage}, '{""}', now() + make_interval(secs => ${reportAfterSeconds}))
      where exists (select from unreported)
    ) from added`
}

const tooMuch = () => invalid('prompt_tokens', 'The total would exceed 9007199254740991')
const tooExpensive = () => invalid('cost_micro_usd', 'The total would exceed 9007199254740991')

/** Errors that only the database can detect, by the name of the violated constraint. */
const refusals: Record<string, () => Failure> = {
  usage_events_organization_id_fkey: () => invalid('organization_id', 'Unknown organization'),
  usage_events_end_user: () => invalid('end_user_id', 'Unknown end user'),
  usage_events_thread: () => invalid('thread_id', 'Unknown thread'),
  usage_site_days_exact: tooMuch,
  usage_model_days_exact: tooMuch,
  usage_end_users_exact: tooMuch,
  usage_site_days_cost_exact: tooExpensive,
  usage_model_days_cost_exact: tooExpensive,
  usage_end_users_cost_exact: tooExpensive,
}
