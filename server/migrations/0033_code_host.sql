-- A registration stores what GitHub returned. GitHub may return no webhook secret.
alter table github_apps alter column webhook_secret_sealed drop not null;
alter table github_apps add column client_secret_last4 text not null default '';
alter table github_apps add column webhook_secret_last4 text;
-- The connected repository has its own table below. This column was never written.
alter table github_apps drop column repository;

-- The repository that an organization's skills are synced from, and the state of the sync.
create table github_repositories (
  organization_id uuid primary key references organizations (id) on delete cascade,
  repository_id bigint not null,
  full_name text not null,
  url text not null,
  default_branch text not null,
  installation_id bigint not null,
  connected_by text not null,
  connected_at timestamptz(3) not null default now(),
  -- Grows with every request for a sync, so that one that arrives during a sync isn't lost.
  requests integer not null default 1,
  due_at timestamptz(3) not null default now(),
  -- Until then, GitHub refuses requests: its rate limit.
  blocked_until timestamptz(3),
  -- The node that syncs holds a lease. A higher epoch makes the writes of its former holders fail.
  lease_epoch integer not null default 0,
  leased_until timestamptz(3),
  -- Failures since the last success, for the time until the next attempt.
  failures integer not null default 0,
  last_sync jsonb,
  synced_at timestamptz(3),
  synced_commit text
);
create index github_repositories_due on github_repositories (due_at);
-- Beside the wall of after_each.sql: a node finds out which organizations have a sync to do, and does it inside.
create policy due on github_repositories for select
  using (current_setting('inlay.task', true) = 'code_sync' and due_at <= now());

-- Webhooks that were processed. GitHub delivers some twice.
create table github_deliveries (
  organization_id uuid not null references organizations (id) on delete cascade,
  delivery_id text not null,
  received_at timestamptz(3) not null default now(),
  primary key (organization_id, delivery_id)
);

-- The file that a skill is synced from. All three are null for skills that were written here.
alter table organization_skills add column source_repository_id bigint;
alter table organization_skills add column source_path text;
alter table organization_skills add column source_sha text;
create unique index organization_skills_source on organization_skills (organization_id, source_repository_id, source_path);
