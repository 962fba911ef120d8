-- Conversations with the agent. A run is the agent's work from one message until it rests, and is the agent's message at
-- the same time. All of it is rows, so that any node can continue a run after the one that worked on it is gone.
alter table threads
  -- The page's origin where it started; null outside a browser. Scripts of other origins don't see it.
  add column origin text,
  -- The beginning of the first message, which serves as a title where contents may be seen.
  add column first_words text,
  -- The last position that a message or run of the thread has.
  add column last_position integer not null default 0,
  -- Origins whose text the conversation contains, summary included. Calls to any other origin ask the user.
  add column origins text[] not null default '{}',
  -- The beginning of the conversation in the model's words, up to and including this position.
  add column summary text,
  add column summary_position integer not null default 0,
  -- Fingerprint of the secret of the anonymous visitor whose thread it is, and when it can no longer be used.
  add column visitor_fingerprint text,
  add column visitor_expires_at timestamptz(3),
  -- Definition hashes of tools that the user allowed for the rest of the thread.
  add column allowed_tools text[] not null default '{}';

create table runs (
  organization_id uuid not null references organizations (id) on delete cascade,
  id uuid not null,
  thread_id uuid not null,
  position integer not null,
  status text not null check (status in ('running', 'waiting', 'succeeded', 'failed', 'stopped')),
  -- Clients discard what they have of a lower attempt.
  attempt integer not null default 1,
  -- The node that works on the run until its lease ends. Each change of hands increments the epoch, and every write of a
  -- node is conditional on its epoch.
  node uuid,
  epoch integer not null default 0,
  lease_until timestamptz(3),
  stop_requested_at timestamptz(3),
  -- On whose behalf: the ticket's holder.
  holder jsonb not null,
  -- The open page where the user wrote: {source_id, url, title}; null over AG-UI.
  page jsonb,
  -- Over AG-UI: {run_id, tools}; null on the socket.
  client jsonb,
  -- Time spent on it, without waiting for people.
  worked_ms integer not null default 0,
  -- {code, message} if it failed.
  error jsonb,
  created_at timestamptz(3) not null default now(),
  ended_at timestamptz(3),
  -- When it was regenerated, or its message was edited. It is then no longer part of the conversation.
  replaced_at timestamptz(3),
  primary key (organization_id, id),
  foreign key (organization_id, thread_id) references threads (organization_id, id) on delete cascade
);
create index runs_of_thread on runs (organization_id, thread_id, position);
create unique index runs_active on runs (organization_id, thread_id) where status in ('running', 'waiting');
create index runs_leases on runs (lease_until) where status = 'running';
-- Beside the wall of after_each.sql: a node finds runs that nobody works on anymore, and takes them over inside.
create policy abandoned on runs for select
  using (current_setting('inlay.task', true) = 'runs' and status = 'running' and lease_until < now());

-- What users write.
create table messages (
  organization_id uuid not null references organizations (id) on delete cascade,
  id uuid not null,
  thread_id uuid not null,
  position integer not null,
  text text not null,
  -- The name of a skill that the user activated with the message.
  skill text,
  -- The run that answers it, and before which of its steps it entered the conversation; null while it waits for one.
  run_id uuid,
  step integer,
  created_at timestamptz(3) not null default now(),
  replaced_at timestamptz(3),
  primary key (organization_id, id),
  foreign key (organization_id, thread_id) references threads (organization_id, id) on delete cascade,
  foreign key (organization_id, run_id) references runs (organization_id, id) on delete cascade
);
create index messages_of_thread on messages (organization_id, thread_id, position);
create index messages_of_run on messages (organization_id, run_id);

-- One turn of the model, and the text that it wrote.
create table steps (
  organization_id uuid not null references organizations (id) on delete cascade,
  run_id uuid not null,
  step integer not null,
  text text not null default '',
  -- Null until the model has finished.
  finish_reason text,
  created_at timestamptz(3) not null default now(),
  primary key (organization_id, run_id, step),
  foreign key (organization_id, run_id) references runs (organization_id, id) on delete cascade
);

-- One request to a model. It is written before the request is sent, and its id is the id of its usage event.
create table model_calls (
  organization_id uuid not null references organizations (id) on delete cascade,
  id uuid not null,
  run_id uuid not null,
  step integer not null,
  purpose text not null check (purpose in ('step', 'summary')),
  model text not null,
  reserved_tokens bigint not null,
  -- Null if the model has no price.
  reserved_cost_micro_usd bigint,
  -- The prompt's estimate, for a call whose usage is never reported.
  estimated_prompt_tokens integer not null,
  -- The price at that time, in micro-USD per million tokens: {prompt, completion}; null if it has none.
  price jsonb,
  -- Null until the call is settled.
  prompt_tokens integer,
  completion_tokens integer,
  is_estimated boolean,
  cost_micro_usd bigint,
  -- Why it failed, or `stop`, `length`, `tool-calls` and so on.
  finish_reason text,
  started_at timestamptz(3) not null default now(),
  settled_at timestamptz(3),
  primary key (organization_id, id),
  foreign key (organization_id, run_id) references runs (organization_id, id) on delete cascade
);
create index model_calls_of_run on model_calls (organization_id, run_id);

-- One call that the model asked for, with the user's decision about it.
create table tool_calls (
  organization_id uuid not null references organizations (id) on delete cascade,
  id uuid not null,
  run_id uuid not null,
  step integer not null,
  position integer not null,
  -- The name and the id that the model used.
  name text not null,
  model_call_id text not null,
  -- Which tool it is; null if there is none with this name.
  tool jsonb,
  definition_hash text,
  args jsonb not null,
  -- The user's changes.
  edited_args jsonb,
  state text not null check (state in
    ('new', 'asking', 'approved', 'running', 'succeeded', 'failed', 'unknown', 'refused', 'declined', 'cancelled')),
  -- Why the user is asked, or why the call was refused.
  reason text,
  asked_at timestamptz(3),
  -- A question can't be answered after this time.
  expires_at timestamptz(3),
  decision text check (decision in ('not_needed', 'allowed', 'always_allowed', 'declined')),
  decided_at timestamptz(3),
  dispatched_at timestamptz(3),
  -- The text that the model gets, before it is capped.
  result text,
  ended_at timestamptz(3),
  primary key (organization_id, id),
  foreign key (organization_id, run_id) references runs (organization_id, id) on delete cascade
);
create unique index tool_calls_of_run on tool_calls (organization_id, run_id, step, position);
