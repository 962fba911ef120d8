-- The records of tool calls through the hub, in batches (tool-calls/recorder.ts). A batch is one row, because a row per
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
