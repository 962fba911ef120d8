-- The records of tool calls through the hub, in batches (tools/call-records/recorder.ts). A batch is one row, because a row per
-- call costs PostgreSQL more than the call costs the hub. Each batch has an audit event that carries its hash.
create table tool_call_batches (
  organization_id uuid not null references organizations (id) on delete cascade,
  -- The target of the batch's audit event.
  id uuid not null,
  -- When the first and the last call of the batch started.
  first_at timestamptz(3) not null,
  last_at timestamptz(3) not null,
  count integer not null,
  -- JSON Lines, compressed with gzip.
  records bytea not null,
  primary key (organization_id, id)
);
alter table tool_call_batches alter column records set storage external;
create index tool_call_batches_last on tool_call_batches (organization_id, last_at, id);

-- Which batches have calls of a user. Users have no foreign key: records outlive memberships.
create table tool_call_users (
  organization_id uuid not null,
  user_id uuid not null,
  batch_id uuid not null,
  primary key (organization_id, user_id, batch_id),
  foreign key (organization_id, batch_id) references tool_call_batches on delete cascade
);
create index tool_call_users_batch on tool_call_users (organization_id, batch_id);

-- For how many days arguments and results are kept; 0 keeps none.
alter table organizations add column tool_call_contents_days smallint not null default 0
  check (tool_call_contents_days between 0 and 365);

-- Arguments and results of calls, as JSON, cut to a limit. They are deleted when they expire, and with the end user.
create table tool_call_contents (
  organization_id uuid not null references organizations (id) on delete cascade,
  call_id uuid not null,
  user_email text not null,
  arguments text not null,
  -- Null if the call has no result.
  result text,
  -- When the call started.
  at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  primary key (organization_id, call_id)
);
create index tool_call_contents_user on tool_call_contents (organization_id, user_email);
create index tool_call_contents_expiry on tool_call_contents (expires_at);
-- Beside the wall of after_each.sql: a node finds out which organizations have something to delete, and deletes it inside.
create policy expired on tool_call_contents for select
  using (current_setting('inlay.task', true) = 'expiry' and expires_at < now());
-- For the calls of an end user.
create index end_users_email on end_users (organization_id, email);
