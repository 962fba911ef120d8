import { newId } from '../src/kernel/lib/ids.ts'
import type { UsageRecord } from '../src/plans/usage/record.ts'
import type { TestService } from './harness.ts'

export async function addSite(app: TestService, organizationId: string): Promise<string> {
  const id = newId()
  await app.service.database.asOrg(
    organizationId,
    (sql) => sql`
      insert into sites (organization_id, id, origin, name)
      values (current_organization(), ${id}, ${originOf(id)}, 'Site')`,
  )
  return id
}

export const originOf = (siteId: string) => `https://${siteId}.example.com`

export async function addEndUser(app: TestService, organizationId: string): Promise<string> {
  const id = newId()
  await app.service.database.asOrg(
    organizationId,
    (sql) => sql`
      insert into end_users (organization_id, id, external_id, email)
      values (current_organization(), ${id}, ${`external-${id}`}, ${`${id}@example.com`})`,
  )
  return id
}

/** An event without an end user or a site by default. */
export const usageRecord = (organizationId: string, changes: Partial<UsageRecord> = {}): UsageRecord => ({
  id: newId(),
  organization_id: organizationId,
  end_user_id: null,
  site_id: null,
  thread_id: null,
  prompt_tokens: 10,
  completion_tokens: 5,
  is_estimated: false,
  cost_micro_usd: 40,
  model: 'demo-large',
  finish_reason: 'stop',
  created_at: '2026-03-10T12:00:00.000Z',
  ...changes,
})

/** Returns the sums that differ from a recount of the events. */
export function findWrongSums(app: TestService, organizationId: string) {
  return app.service.database.asOrg(
    organizationId,
    (sql) => sql`
      with sums as (
        select 'site day' as sum, day::text || ' ' || site_id as key, requests, prompt_tokens, completion_tokens,
               cost_micro_usd
        from usage_site_days
        union all
        select 'model day', day::text || ' ' || model, requests, prompt_tokens, completion_tokens, cost_micro_usd
        from usage_model_days
        union all
        select 'end user ' || days, day::text || ' ' || end_user_id, requests, prompt_tokens, completion_tokens,
               cost_micro_usd
        from usage_end_user_spans
        union all
        select 'end user', end_user_id::text, requests, prompt_tokens, completion_tokens, cost_micro_usd
        from usage_end_users
      ), events as (
        select (created_at at time zone 'UTC')::date::text as day, end_user_id, model,
               coalesce(site_id, '00000000-0000-0000-0000-000000000000') as site_id, prompt_tokens, completion_tokens,
               coalesce(cost_micro_usd, 0) as cost_micro_usd
        from usage_events
      ), recount as (
        select 'site day' as sum, day || ' ' || site_id as key, count(*) as requests,
               sum(prompt_tokens) as prompt_tokens, sum(completion_tokens) as completion_tokens,
               sum(cost_micro_usd) as cost_micro_usd
        from events group by day, site_id
        union all
        select 'model day', day || ' ' || model, count(*), sum(prompt_tokens), sum(completion_tokens),
               sum(cost_micro_usd)
        from events group by day, model
        union all
        select 'end user ' || days, (date '1970-01-01' + span * days)::text || ' ' || end_user_id, count(*),
               sum(prompt_tokens), sum(completion_tokens), sum(cost_micro_usd)
        from events, unnest('{1,8}'::int[]) days,
             lateral (select floor((day::date - date '1970-01-01') / days::numeric)::int as span) counted
        where end_user_id is not null group by days, span, end_user_id
        union all
        select 'end user', end_user_id::text, count(*), sum(prompt_tokens), sum(completion_tokens),
               sum(cost_micro_usd)
        from events where end_user_id is not null group by end_user_id
      )
      (select 'kept' as side, * from (table sums except table recount) kept)
      union all
      (select 'counted' as side, * from (table recount except table sums) counted)
      order by sum, key, side`,
  )
}
