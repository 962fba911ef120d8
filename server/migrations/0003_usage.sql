-- Conversations of the widget, without their messages.
create table threads (
  organization_id uuid not null references organizations (id) on delete cascade,
  id uuid not null,
  end_user_id uuid,
  site_id uuid,
  title text check (char_length(title) between 1 and 200),
  status text not null default 'regular' check (status in ('regular', 'archived', 'deleted')),
  message_count bigint not null default 0,
  total_tokens bigint not null default 0 check (total_tokens between 0 and 9007199254740991),
  last_message_at timestamptz(3),
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  primary key (organization_id, id),
  foreign key (organization_id, end_user_id) references end_users (organization_id, id),
  foreign key (organization_id, site_id) references sites (organization_id, id)
);
create index threads_activity on threads (organization_id, coalesce(last_message_at, created_at), id);
create index threads_end_user on threads (organization_id, end_user_id) where end_user_id is not null;

-- What was spent, one row per answer of a model. It outlives the person: erasing one only takes the name off.
create table usage_events (
  organization_id uuid not null references organizations (id) on delete cascade,
  id uuid not null,
  end_user_id uuid,
  site_id uuid,
  thread_id uuid,
  prompt_tokens integer not null check (prompt_tokens between 0 and 1000000000),
  completion_tokens integer not null check (completion_tokens between 0 and 1000000000),
  model text not null,
  finish_reason text not null,
  created_at timestamptz(3) not null,
  primary key (organization_id, id),
  constraint usage_events_end_user foreign key (organization_id, end_user_id) references end_users (organization_id, id),
  constraint usage_events_site foreign key (organization_id, site_id) references sites (organization_id, id),
  constraint usage_events_thread foreign key (organization_id, thread_id)
    references threads (organization_id, id) on delete set null (thread_id)
);
create index usage_events_of_end_user on usage_events (organization_id, end_user_id, created_at, id)
  where end_user_id is not null;
create index usage_events_of_thread on usage_events (organization_id, thread_id) where thread_id is not null;

-- The sums that are read, written in the statement that adds the events. A sum stays within what JSON numbers hold exactly.
-- A key must not be null, so what happened on no site is kept under the nil id; the events hold the foreign key.
create table usage_site_days (
  organization_id uuid not null references organizations (id) on delete cascade,
  day date not null,
  site_id uuid not null,
  requests bigint not null,
  prompt_tokens bigint not null,
  completion_tokens bigint not null,
  primary key (organization_id, day, site_id),
  constraint usage_site_days_exact check (prompt_tokens + completion_tokens <= 9007199254740991)
);
create table usage_end_user_days (
  organization_id uuid not null references organizations (id) on delete cascade,
  day date not null,
  end_user_id uuid not null,
  requests bigint not null,
  prompt_tokens bigint not null,
  completion_tokens bigint not null,
  primary key (organization_id, day, end_user_id),
  foreign key (organization_id, end_user_id) references end_users (organization_id, id)
);
create index usage_end_user_days_of_end_user on usage_end_user_days (organization_id, end_user_id);
create table usage_end_users (
  organization_id uuid not null references organizations (id) on delete cascade,
  end_user_id uuid not null,
  requests bigint not null,
  prompt_tokens bigint not null,
  completion_tokens bigint not null,
  primary key (organization_id, end_user_id),
  constraint usage_end_users_exact check (prompt_tokens + completion_tokens <= 9007199254740991),
  foreign key (organization_id, end_user_id) references end_users (organization_id, id)
);
