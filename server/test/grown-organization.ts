import type pg from 'pg'

/** How many rows an organization gets of what grows. Reading all of them breaks every limit of statement-plans.test.ts. */
const grown = {
  endUsers: 6_000,
  threads: 6_000,
  events: 15_000,
  toolCalls: 6_000,
  auditEvents: 3_000,
  people: 2_000,
}
/** How many of these belong to the first end user, and to their first thread. */
const grownShare = { threads: 600, runs: 2_000 }

/** The ID of the nth row of any kind. */
export const grownId = (n: number) => `00000000-0000-7000-8000-${n.toString(16).padStart(12, '0')}`
const id = (n: string) => `('00000000-0000-7000-8000-' || lpad(to_hex(${n}), 12, '0'))::uuid`
const totals = 'count(*), sum(prompt_tokens)::bigint, sum(completion_tokens)::bigint, sum(cost_micro_usd)::bigint'
const day = "(created_at at time zone 'UTC')::date"

/** The first thread has many runs. The other runs are spread over the threads. */
const threadOf = `(case when n <= ${grownShare.runs} then 1 else n end)`

/** A few are from the first of the last 90 days. */
const atOf = "(now() - interval '89 days 6 hours' + n * interval '20 minutes')"

/** `$1` is the organization. What must be unique in the installation contains its ID. */
const statements = [
  `insert into sites (organization_id, id, origin, name, is_allowed)
   select $1, ${id('n')}, 'https://site-' || n || '.example.com', 'Site ' || n, true from generate_series(1, 20) n`,
  `insert into end_users (organization_id, id, external_id, email, issuer, created_at)
   select $1, ${id('n')}, 'auth0|' || n, 'user-' || n || '@example.com', 'https://idp.example.com',
          ${atOf}
   from generate_series(1, ${grown.endUsers}) n`,
  `insert into threads (organization_id, id, end_user_id, site_id, title, status, message_count, total_tokens,
                        last_position, summary, summary_position, origin, created_at, last_message_at)
   select $1, ${id('n')}, ${id(`case when n <= ${grownShare.threads} then 1 else n end`)}, ${id('1 + n % 20')},
          'Order ' || n, case when n % 50 = 0 then 'deleted' when n % 10 = 0 then 'archived' else 'regular' end, 2, 900,
          20000, 'Orders', case n when 1 then 2 * ${grownShare.runs} - 20 else 0 end, 'https://shop.example', now() - interval '90 days', ${atOf}
   from generate_series(1, ${grown.threads}) n`,
  `insert into runs (organization_id, id, thread_id, position, status, holder, created_at, ended_at)
   select $1, ${id('n')}, ${id(threadOf)}, 2 * n, 'succeeded',
          jsonb_build_object('organization_id', $1::uuid, 'publishable_key_id', $1::uuid), t.at, t.at
   from generate_series(1, ${grown.threads}) n,
        lateral (select ${atOf} as at) t`,
  `insert into messages (organization_id, id, thread_id, position, text, run_id, step)
   select $1, ${id('n')}, ${id(threadOf)}, 2 * n - 1, 'Where is my order?', ${id('n')}, 0
   from generate_series(1, ${grown.threads}) n`,
  `insert into steps (organization_id, run_id, step, text, finish_reason)
   select $1, ${id('n')}, 0, 'It arrives on Friday.', 'stop' from generate_series(1, ${grown.threads}) n`,
  `insert into tool_calls (organization_id, id, run_id, step, position, name, model_call_id, args, state, decision, result)
   select $1, ${id('n')}, ${id('n')}, 0, 0, 'find_orders', 'call', '{}', 'succeeded', 'not_needed', 'sample'
   from generate_series(1, ${grown.threads}) n`,
  `insert into model_calls (organization_id, id, run_id, step, purpose, model, reserved_tokens, estimated_prompt_tokens,
                            prompt_tokens, completion_tokens, is_estimated, settled_at)
   select $1, ${id('n')}, ${id('n')}, 0, 'step', 'demo-large', 1000, 100, 100, 20, false, now()
   from generate_series(1, ${grown.threads}) n`,
  `insert into feedback (organization_id, run_id, thread_id, rating, comment, updated_at)
   select $1, ${id('n')}, ${id(threadOf)}, 'up', 'Good', now() - n * interval '1 minute'
   from generate_series(1, ${grown.threads}) n`,
  `insert into usage_events (organization_id, id, end_user_id, site_id, thread_id, prompt_tokens, completion_tokens,
                             cost_micro_usd, model, finish_reason, created_at)
   select $1, ${id('n')}, ${id(`case when n % 10 = 0 then 1 else 1 + n % ${grown.endUsers} end`)}, ${id('1 + n % 20')},
          ${id(`1 + n % ${grown.threads}`)}, 1000, 100, 40, 'model-' || n % 4, 'stop', now() - (n % 90) * interval '1 day'
   from generate_series(1, ${grown.events}) n`,
  `insert into usage_site_days (organization_id, day, site_id, requests, prompt_tokens, completion_tokens, cost_micro_usd)
   select $1, ${day}, site_id, ${totals} from usage_events where organization_id = $1 group by 2, 3`,
  `insert into usage_model_days (organization_id, day, model, requests, prompt_tokens, completion_tokens, cost_micro_usd)
   select $1, ${day}, model, ${totals} from usage_events where organization_id = $1 group by 2, 3`,
  `insert into usage_end_user_spans
     (organization_id, days, day, end_user_id, requests, prompt_tokens, completion_tokens, cost_micro_usd)
   select $1, days, usage_span_start(${day}, days), end_user_id, ${totals}
   from usage_events cross join unnest('{1,8}'::int[]) days where organization_id = $1 group by 2, 3, 4`,
  `insert into usage_end_users (organization_id, end_user_id, requests, prompt_tokens, completion_tokens, cost_micro_usd)
   select $1, end_user_id, ${totals} from usage_events where organization_id = $1 group by 2`,
  `insert into budget_periods (organization_id, scope, subject, period, starts_on)
   select $1, 'end_user', ${id('n')}, 'month', date_trunc('month', now()) - n % 30 * interval '1 month'
   from generate_series(1, ${grown.endUsers}) n`,
  `insert into end_user_budgets (organization_id, end_user_id, day_tokens)
   select $1, ${id('n')}, 1000000 from generate_series(1, ${grown.endUsers}) n`,
  `insert into end_user_consents (organization_id, connector_id, end_user_id)
   select $1, ${id('1 + n % 5')}, ${id('n')} from generate_series(1, ${grown.endUsers}) n`,
  `insert into confirmed_browsers (organization_id, id, end_user_id, browser_fingerprint, how, issuer, expires_at)
   select $1, ${id('n')}, ${id('n')}, 'browser', 'provider', 'https://idp.example.com', now() + interval '90 days'
   from generate_series(1, ${grown.endUsers}) n`,
  `insert into frame_keys (organization_id, end_user_id, thumbprint, browser_id)
   select $1, ${id('n')}, 'thumbprint', ${id('n')} from generate_series(1, ${grown.endUsers}) n`,
  `insert into tool_call_records (organization_id, at, id, user_id, source_type, source, tool, arguments_hash, approval,
                                  governance, outcome, duration_ms)
   select $1, now() - n * interval '2 minutes', ${id('n')}, ${id(`1 + n % ${grown.endUsers}`)}, 'page',
          'https://site-1.example.com', 'tool-' || n % 30, '', 'allowed', 'none',
          case when n % 40 = 0 then 'failed' else 'succeeded' end, 20
   from generate_series(1, ${grown.toolCalls}) n`,
  `insert into tool_call_contents (organization_id, call_id, arguments, result, at, expires_at, end_user_id, user_id)
   select $1, ${id('n')}, '{}', '{}', now() - n * interval '2 minutes', now() + interval '30 days',
          ${id(`1 + n % ${grown.endUsers}`)}, ${id(`1 + n % ${grown.endUsers}`)}
   from generate_series(1, ${grown.toolCalls}) n`,
  // Without a valid hash. Finding that out reads as much as finding a valid one.
  `with chain as (update audit_chains set length = length + ${grown.auditEvents} where organization_id = $1 returning length)
   insert into audit_events (organization_id, id, sequence, actor, action, target, data, created_at, hash, key_id)
   select $1, ${id('n')}, length - n + 1, 'admin@demo.test', 'skill.updated', 'target-' || n % 100, '{}',
          now() - n * interval '1 minute', sha256(n::text::bytea), 'sha256'
   from chain, generate_series(1, ${grown.auditEvents}) n`,
  `insert into users (id, issuer, subject, email, name)
   select uuid_in(md5($1::uuid::text || n)::cstring), 'local', $1::uuid::text || n, 'person-' || n || '@' || $1::uuid::text || '.example', 'Person ' || n
   from generate_series(1, ${grown.people}) n`,
  `insert into members (organization_id, id, user_id, role)
   select $1, ${id('n')}, uuid_in(md5($1::uuid::text || n)::cstring), 'member' from generate_series(1, ${grown.people}) n`,
  `insert into invitations (organization_id, id, email, role, invited_by, expires_at)
   select $1, ${id('n')}, 'invited-' || n || '@example.com', 'member', 'admin@demo.test', now() + (n % 14 - 7) * interval '1 day'
   from generate_series(1, ${grown.people}) n`,
  `insert into former_members (organization_id, id, user_id, email, ended_by)
   select $1, ${id('n')}, ${id('n')}, 'former-' || n || '@example.com', 'member' from generate_series(1, ${grown.people}) n`,
  `insert into directories (organization_id, id, name, type, domain)
   select $1, ${id('1')}, 'Okta', 'okta', $1::uuid::text || '.example'`,
  `insert into directory_users (organization_id, directory_id, id, user_name, email)
   select $1, ${id('1')}, ${id('n')}, 'person-' || n, 'person-' || n || '@' || $1::uuid::text || '.example'
   from generate_series(1, ${grown.people}) n`,
  `insert into directory_groups (organization_id, directory_id, id, display_name)
   select $1, ${id('1')}, ${id('n')}, 'Group ' || n from generate_series(1, 50) n`,
  `insert into directory_group_members (organization_id, directory_id, group_id, user_id)
   select $1, ${id('1')}, ${id('1 + n % 50')}, ${id('n')} from generate_series(1, ${grown.people}) n`,
  `insert into directory_former_addresses (organization_id, user_id, email)
   select $1, ${id('n')}, 'former-' || n || '@example.com' from generate_series(1, ${grown.people}) n`,
  `insert into directory_leavers (organization_id, email)
   select $1, 'left-' || n || '@example.com' from generate_series(1, ${grown.people}) n`,
  `insert into github_deliveries (organization_id, delivery_id) select $1, n from generate_series(1, ${grown.people}) n`,
  `insert into billing_deliveries (organization_id, id) select $1, n from generate_series(1, ${grown.people}) n`,
  `insert into unreported_usage (organization_id, id, refusal, created_at)
   select $1, ${id('n')}, 'refused', now() from generate_series(1, ${grown.people}) n`,
  'delete from list_totals where organization_id = $1',
  `insert into list_totals (organization_id, list, items, messages, tokens)
   select $1, 'threads/' || status, count(*), sum(message_count), sum(total_tokens)
   from threads where organization_id = $1 group by status`,
  `insert into list_totals (organization_id, list, items)
   select $1, 'end_users', count(*) from end_users where organization_id = $1 and merged_into is null`,
  `insert into list_totals (organization_id, list, items)
   select $1, 'end_users/' || issuer, count(*) from end_users
   where organization_id = $1 and merged_into is null and preview_user_id is null group by issuer`,
]

/**
 * Gives an organization as much as a large one has after months. The client is a superuser's, because the rows satisfy
 * foreign keys and triggers, which would take most of the time.
 */
export async function growOrganization(client: pg.Client, organizationId: string): Promise<void> {
  await client.query("set session_replication_role = replica; set synchronous_commit = off; set work_mem = '64MB'")
  for (const text of statements) await client.query(text, [organizationId])
}

/** Its ID is after those of all others. */
export const lastOrganization = 'ffffffff-ffff-7fff-bfff-ffffffffffff'

/** Other organizations, each with a job that isn't due. */
export async function addOrganizations(client: pg.Client): Promise<void> {
  await client.query(`
    set session_replication_role = replica;
    insert into organizations (id, name, slug)
    select case when n = 1 then '${lastOrganization}'::uuid else gen_random_uuid() end, 'Company ' || n, 'company-' || n
    from generate_series(1, ${grown.people}) n;
    insert into jobs (organization_id, kind, due_at)
    select id, 'budget_expiry', now() + interval '1 day' from organizations on conflict do nothing`)
}
