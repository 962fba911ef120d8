-- Installations of the operator's GitHub app. An installation belongs to the organization whose administrator installed
-- it, and to no other.
create table github_installations (
  organization_id uuid primary key references organizations (id) on delete cascade,
  -- Installations of an app that the operator has replaced don't count.
  app_id bigint not null,
  installation_id bigint not null,
  account text not null,
  installed_by text not null,
  installed_at timestamptz(3) not null default now()
);
create unique index github_installations_installation on github_installations (installation_id);
-- Beside the wall of after_each.sql: a webhook finds the organization of its installation.
create policy webhook on github_installations for select using (current_setting('inlay.task', true) = 'code_sync');

-- The commit that a synced skill's text was read from; null until the next sync of skills that were synced before.
alter table organization_skills add column source_commit text;

-- Since when a payment is overdue; the plan is kept for a while. Null in any other state.
alter table subscriptions add column past_due_since timestamptz(3);
-- The owner of the schema changes all rows for once; after_each.sql closes the wall again.
alter table subscriptions no force row level security;
update subscriptions set past_due_since = updated_at where status = 'past_due';
-- Usage that the billing provider doesn't take is deleted after a while.
alter table unreported_usage add column recorded_at timestamptz(3) not null default now();
create index unreported_usage_recorded on unreported_usage (recorded_at);

-- The directory whose request was refused.
alter table refusals add column directory_id uuid;
