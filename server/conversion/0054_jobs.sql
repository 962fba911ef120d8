-- Background work, written with the change that needs it: see server/src/kernel/jobs. A node takes a job by giving it a
-- lease; after a crash, another node takes it when the lease ends.
create table jobs (
  -- The largest UUID for work that belongs to no organization, such as mail. That's why there is no foreign key; the
  -- erasure of an organization deletes its jobs like its other rows.
  organization_id uuid not null,
  kind text not null check (char_length(kind) between 1 and 50),
  key text not null default '' check (char_length(key) <= 200),
  -- When a node may take it. While a node runs it, the end of the lease. Infinity after it failed for good.
  due_at timestamptz not null default now(),
  -- Different for each claim, so that a node that lost its lease can't end the job of the next one.
  lease uuid,
  -- When it's due once more, because it was requested while it ran.
  again_at timestamptz,
  -- Attempts since the last one that succeeded, including the running one.
  attempts integer not null default 0,
  last_error text,
  primary key (organization_id, kind, key)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
create index jobs_due on jobs (organization_id, due_at);
create index jobs_soonest on jobs (due_at);
create index jobs_failing on jobs (kind) where attempts >= 3;

-- The only policies in addition to the tenant policy: any node finds what is due, and works inside the organization.
create policy worker on jobs using ((select current_setting('inlay.task', true)) = 'jobs');
-- A tenant's transaction may leave work that belongs to no organization, but never sees it.
create policy without_organization on jobs for insert
  with check (organization_id = 'ffffffff-ffff-ffff-ffff-ffffffffffff');

-- What other background work looked for in all organizations becomes a job of each. The owner of the schema reads all
-- rows for once; row-level security is forced again afterwards.
alter table organizations no force row level security;
alter table members no force row level security;
alter table invitations no force row level security;
alter table tool_call_contents no force row level security;
alter table conversation_retention no force row level security;
alter table sign_in_domains no force row level security;
alter table sign_in_providers no force row level security;
insert into jobs (organization_id, kind, key, due_at)
  select id, 'budget_expiry', '', now() + random() * interval '1 day' from organizations
  union all select organization_id, 'invitation_expiry', '', min(expires_at) from invitations group by 1
  union all select organization_id, 'contents_expiry', '', min(expires_at) from tool_call_contents group by 1
  union all select organization_id, 'conversation_erasure', '', now() from conversation_retention
  union all select organization_id, 'membership_notices', '', now() from members where notice_due group by 1
  union all select organization_id, 'domain_check', id::text, coalesce(checked_at, verified_at) + interval '1 day'
    from sign_in_domains where verified_at is not null
  union all select organization_id, 'sign_in_plan_check', '', now() from sign_in_providers where is_open
  union all select 'ffffffff-ffff-ffff-ffff-ffffffffffff', 'mail', id::text, due_at from mail_outbox;
alter table mail_outbox drop column due_at, drop column attempts, drop column leased_until;

drop policy expired on budget_periods;
drop policy expiry on invitations;
drop policy expired on tool_call_contents;
drop policy erasing on conversation_retention;
drop policy notices on members;
drop index budget_periods_age, invitations_by_expiry, tool_call_contents_expiry;
create index budget_periods_age on budget_periods (organization_id, period, starts_on);
create index invitations_by_expiry on invitations (organization_id, expires_at);
create index tool_call_contents_expiry on tool_call_contents (organization_id, expires_at);
