-- What administrators decide about their agent's conversations, and what users think of its answers.
alter table agent_settings
  -- {tool: auto | ask | never}
  add column tool_policies jsonb not null default '{}',
  -- [[origin, …], …]: origins that trust each other.
  add column origin_groups jsonb not null default '[]',
  add column is_anonymous_enabled boolean not null default false,
  add column anonymous_runs_per_minute smallint not null default 6 check (anonymous_runs_per_minute between 1 and 60),
  add column are_contents_visible boolean not null default false;

-- For how many days organizations keep conversations; without a row, forever. A table of its own, because the task that
-- erases them sees these rows of all organizations, and must not see any other setting.
create table conversation_retention (
  organization_id uuid primary key references organizations (id) on delete cascade,
  days smallint not null check (days between 1 and 3650)
);
-- Beside the wall of after_each.sql.
create policy erasing on conversation_retention for select using (current_setting('inlay.task', true) = 'retention');

-- For the search for what is to be erased.
create index runs_ended on runs (organization_id, ended_at) where ended_at is not null;

-- The user's rating of a run, one for each run. A thread has one user, so there is no other user who could rate it.
create table feedback (
  organization_id uuid not null references organizations (id) on delete cascade,
  -- Without a foreign key, because the rating stays when the conversation is erased.
  run_id uuid not null,
  thread_id uuid not null,
  rating text not null check (rating in ('up', 'down')),
  comment text check (char_length(comment) between 1 and 2000),
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  primary key (organization_id, run_id),
  foreign key (organization_id, thread_id) references threads (organization_id, id) on delete cascade
);
create index feedback_newest on feedback (organization_id, updated_at, run_id);
create index feedback_of_thread on feedback (organization_id, thread_id);
create index feedback_comments on feedback (organization_id, updated_at) where comment is not null;
