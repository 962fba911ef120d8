-- One row per tool call through the hub. Rows are written in batches, each with an audit event that carries its hash
-- (tool-calls/recorder.ts). Users have no foreign key: the record of a call outlives the membership of its caller.
create table tool_calls (
  organization_id uuid not null references organizations (id) on delete cascade,
  id uuid not null,
  -- The target of the batch's audit event.
  batch_id uuid not null,
  at timestamptz(3) not null,
  user_id uuid not null,
  user_email text not null,
  client_id text,
  source_type text check (source_type in ('page', 'connector')),
  source text,
  tool text not null,
  definition_hash text,
  arguments_hash text not null,
  approval text not null check (approval in ('unknown', 'declined')),
  governance text not null check (governance in ('none', 'allowed', 'refused', 'result_refused')),
  outcome text not null check (outcome in ('succeeded', 'tool_error', 'failed', 'refused', 'cancelled', 'timed_out')),
  failure_code text,
  duration_ms integer not null,
  primary key (organization_id, id)
);
create index tool_calls_at on tool_calls (organization_id, at, id);
create index tool_calls_user on tool_calls (organization_id, user_id, at, id);
create index tool_calls_tool on tool_calls (organization_id, tool, at, id);
