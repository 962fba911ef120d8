-- An organization's settings of its agent. Organizations without a row have the defaults.
create table agent_settings (
  organization_id uuid primary key references organizations (id) on delete cascade,
  name text not null,
  greeting text not null,
  starter_prompts text[] not null,
  instructions text not null,
  -- [{provider, url, name, key_last4}]: the organization's own models in the order in which they are tried.
  models jsonb not null,
  -- The models' keys as a JSON array in the same order, in one value, because a model and its key change together.
  model_keys_sealed text,
  updated_at timestamptz(3) not null default now(),
  -- {tool: auto | ask | never}
  tool_policies jsonb not null default '{}',
  -- [[origin, …], …]: origins that trust each other.
  origin_groups jsonb not null default '[]',
  is_anonymous_enabled boolean not null default false,
  anonymous_runs_per_minute smallint not null default 6 check (anonymous_runs_per_minute between 1 and 60),
  are_contents_visible boolean not null default false,
  check ((models = '[]') = (model_keys_sealed is null))
);

-- For how many days organizations keep conversations; without a row, forever.
create table conversation_retention (
  organization_id uuid primary key references organizations (id) on delete cascade,
  days smallint not null check (days between 1 and 3650)
);

-- Conversations with the agent.
create table threads (
  organization_id uuid not null references organizations (id) on delete cascade,
  id uuid not null,
  -- Null for an anonymous visitor.
  end_user_id uuid,
  site_id uuid,
  title text check (char_length(title) between 1 and 200),
  status text not null default 'regular' check (status in ('regular', 'archived', 'deleted')),
  message_count bigint not null default 0,
  total_tokens bigint not null default 0 check (total_tokens between 0 and 9007199254740991),
  last_message_at timestamptz(3),
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  -- The page's origin where it started; null outside a browser. Scripts of other origins don't see it.
  origin text,
  -- The beginning of the first message, which serves as a title where contents may be seen.
  first_words text,
  -- The last position that a message or run of the thread has.
  last_position integer not null default 0,
  -- Origins whose text the conversation contains, summary included. Calls to any other origin ask the user.
  origins text[] not null default '{}',
  -- The beginning of the conversation in the model's words, up to and including this position.
  summary text,
  summary_position integer not null default 0,
  -- Fingerprint of the secret of the anonymous visitor whose thread it is, and when it can no longer be used.
  visitor_fingerprint text,
  visitor_expires_at timestamptz(3),
  -- Definition hashes of tools that the user allowed for the rest of the thread.
  allowed_tools text[] not null default '{}',
  -- Calls without arguments that the user allowed for the rest of the thread: [{from, tools}], the latest first. `from`
  -- are the other origins whose text the conversation had, `tools` definition hashes. Which tool the model calls carries
  -- data, so calls without arguments to another origin ask too.
  allowed_choices jsonb not null default '[]',
  -- The key of the frame that began the thread. A program with the user's ID token can claim any of the organization's
  -- origins, but it doesn't have the key of the user's frame there.
  frame_key text,
  primary key (organization_id, id),
  foreign key (organization_id, end_user_id) references end_users (organization_id, id),
  foreign key (organization_id, site_id) references sites (organization_id, id)
);
-- Every message of a visitor counts the runs in the visitor's threads.
create index threads_of_visitor on threads (organization_id, visitor_fingerprint) where visitor_fingerprint is not null;
-- Deleting a site moves its threads to no site.
create index threads_of_site on threads (organization_id, site_id) where site_id is not null;
-- Threads are listed by status, latest first. A list of several statuses merges the beginnings of theirs. Row-level
-- security keeps a condition on coalesce() from using an index, because PostgreSQL doesn't know it as safe; case is.
create index threads_of_status
  on threads (organization_id, status, (case when last_message_at is null then created_at else last_message_at end), id);
create index threads_of_end_user
  on threads (organization_id, end_user_id, status, (case when last_message_at is null then created_at else last_message_at end), id)
  where end_user_id is not null;

-- A run is the agent's work from one message until it rests, and is the agent's message at the same time. All of it is
-- rows, so that any node can continue a run after the one that worked on it is gone.
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
  -- Over AG-UI: {run_id, tools}, until the run has ended; null on the socket.
  client jsonb,
  -- Time spent on it, without waiting for users.
  worked_ms integer not null default 0,
  -- {code, message} if it failed.
  error jsonb,
  created_at timestamptz(3) not null default now(),
  ended_at timestamptz(3),
  -- When it was regenerated, or its message was edited. It is then no longer part of the conversation.
  replaced_at timestamptz(3),
  -- How often the user has changed their feedback about the run. Deleting the feedback keeps this number.
  feedback_changes integer not null default 0,
  primary key (organization_id, id),
  foreign key (organization_id, thread_id) references threads (organization_id, id) on delete cascade
);
create index runs_of_thread on runs (organization_id, thread_id, position);
create unique index runs_active on runs (organization_id, thread_id) where status in ('running', 'waiting');
create index runs_leases on runs (lease_until) where status = 'running';
-- For the search for what is to be erased.
create index runs_ended on runs (organization_id, ended_at) where ended_at is not null;
-- A node finds runs that no node works on anymore, and takes them over inside the organization.
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

-- What a model is writing, in the order of n, because rewriting a growing text costs its square. At the end of the step,
-- the whole text goes to steps.text, and these rows are deleted.
create table step_texts (
  organization_id uuid not null references organizations (id) on delete cascade,
  run_id uuid not null,
  step integer not null,
  -- How many characters precede this part.
  n integer not null,
  text text not null,
  primary key (organization_id, run_id, step, n),
  foreign key (organization_id, run_id, step) references steps (organization_id, run_id, step) on delete cascade
);

-- One request to a model. It is written before the request is sent, and its ID is the ID of its usage event.
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
  -- Null until the call is settled, like the next three columns.
  prompt_tokens integer,
  completion_tokens integer,
  is_estimated boolean,
  cost_micro_usd bigint,
  -- Why it failed, or `stop`, `length`, `tool-calls` and so on.
  finish_reason text,
  started_at timestamptz(3) not null default now(),
  -- The transaction that sets it writes the usage event, so that each call is charged once.
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
  -- The name and the ID that the model used.
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
  -- The step after which the model gets a result that arrived after the outcome had been reported as unknown.
  late_step integer,
  -- What the panel shows of a call: the tool's title, and the form for its arguments.
  title text,
  -- JSON Schema, if the user was asked and it isn't too large. Not jsonb, which wouldn't keep the order of its properties.
  input_schema json,
  -- The connector that the user has to connect their account to before the call can be made.
  connect_to uuid,
  -- The reason as a code with the values in its text, which clients translate.
  reason_data jsonb,
  -- What the governance provider decided about the call; null if the call wasn't made.
  governance text check (governance in ('none', 'allowed', 'refused', 'result_refused')),
  -- What the user can allow beyond the call, as in threads.allowed_choices.
  allowed_choice jsonb,
  primary key (organization_id, id),
  foreign key (organization_id, run_id) references runs (organization_id, id) on delete cascade
);
create unique index tool_calls_of_run on tool_calls (organization_id, run_id, step, position);

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
  -- When and by whom it was marked as reviewed. Feedback that the user changes afterwards is unreviewed again.
  reviewed_at timestamptz(3),
  reviewed_by text,
  primary key (organization_id, run_id),
  foreign key (organization_id, thread_id) references threads (organization_id, id) on delete cascade,
  constraint feedback_reviewed check ((reviewed_at is null) = (reviewed_by is null))
);
create index feedback_newest on feedback (organization_id, updated_at, run_id);
create index feedback_of_thread on feedback (organization_id, thread_id);
create index feedback_comments on feedback (organization_id, updated_at) where comment is not null;
create index feedback_unreviewed on feedback (organization_id, updated_at, run_id) where reviewed_at is null;
