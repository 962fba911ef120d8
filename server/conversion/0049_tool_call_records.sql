-- A row per tool call through the hub, with the caller's ID and not their address, so that erasing an end user erases
-- their address everywhere. The primary key allows partitions by time.
create table tool_call_records (
  organization_id uuid not null references organizations (id) on delete cascade,
  at timestamptz(3) not null,
  id uuid not null,
  -- The member's user, the end user, or the publishable key of a visitor. Without a foreign key: records outlive people.
  user_id uuid not null,
  client_id text,
  client_name text,
  source_type text,
  source text,
  tool text not null,
  definition_hash text,
  arguments_hash text not null,
  approval text not null,
  approval_at timestamptz(3),
  governance text not null,
  outcome text not null,
  failure_code text,
  duration_ms bigint not null,
  primary key (organization_id, at, id)
);
create index tool_call_records_user on tool_call_records (organization_id, user_id, at, id);
create index tool_call_records_tool on tool_call_records (organization_id, tool, at, id);
create index tool_call_records_outcome on tool_call_records (organization_id, outcome, at, id);

-- Contents belong to an end user by ID. Those of nobody who still exists couldn't be erased.
alter table tool_call_contents no force row level security;
alter table end_users no force row level security;
alter table tool_call_contents add column end_user_id uuid;
update tool_call_contents c set end_user_id = (
  select e.id from end_users e
  where e.organization_id = c.organization_id and e.email = c.user_email and e.email <> '' order by e.id limit 1);
delete from tool_call_contents where end_user_id is null;
alter table tool_call_contents drop column user_email;
alter table tool_call_contents alter column end_user_id set not null;
alter table tool_call_contents add foreign key (organization_id, end_user_id)
  references end_users (organization_id, id) on delete cascade;
create index tool_call_contents_user on tool_call_contents (organization_id, end_user_id);

-- kernel/stores/postgres/tool-call-batches.ts then converts the batches, and drops their tables.
alter table tool_call_batches no force row level security;
