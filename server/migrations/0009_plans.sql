-- The state of subscriptions at the billing provider when it was last read. Nothing else changes it.
create table subscriptions (
  organization_id uuid not null references organizations (id) on delete cascade,
  id text not null,
  status text not null check (status in
    ('incomplete', 'incomplete_expired', 'trialing', 'active', 'past_due', 'canceled', 'unpaid', 'paused')),
  plan_id text not null,
  product_id text not null,
  customer_id text not null,
  current_period_end timestamptz(3),
  cancel_at timestamptz(3),
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  -- Number of seats that the subscription pays for, or will from its next period on; null if it isn't sold by the seat.
  seats integer check (seats >= 0),
  -- Since when a payment is overdue; the plan is kept for a while. Null in any other state.
  past_due_since timestamptz(3),
  primary key (organization_id, id)
);
create index subscriptions_by_seat on subscriptions (organization_id) where seats is not null;

-- Deliveries of the provider's webhooks that were accepted, because the provider repeats them. Kept for a week.
create table billing_deliveries (
  organization_id uuid not null references organizations (id) on delete cascade,
  id text not null check (char_length(id) between 1 and 200),
  received_at timestamptz(3) not null default now(),
  primary key (organization_id, id)
);

-- What was used, one row per response of a model, and a partition for each month. It outlives the end user: erasing one
-- only removes their ID. A key of a partitioned table contains the time, so the ID alone isn't unique: a model call is
-- charged by the transaction that sets model_calls.settled_at, and a repeated event has the same time.
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
  -- Null if the model had no price.
  cost_micro_usd bigint check (cost_micro_usd between 0 and 10000000000000),
  -- Whether the tokens were estimated, because the provider didn't report them.
  is_estimated boolean not null default false,
  primary key (organization_id, created_at, id),
  constraint usage_events_end_user foreign key (organization_id, end_user_id) references end_users (organization_id, id),
  constraint usage_events_site foreign key (organization_id, site_id) references sites (organization_id, id),
  constraint usage_events_thread foreign key (organization_id, thread_id)
    references threads (organization_id, id) on delete set null (thread_id)
) partition by range (created_at);
-- For erasing and exporting an end user. Without the time, PostgreSQL stores each end user once per page.
create index usage_events_of_end_user on usage_events (organization_id, end_user_id) where end_user_id is not null;
-- Deleting a site moves its usage to no site.
create index usage_events_of_site on usage_events (organization_id, site_id) where site_id is not null;
create index usage_events_of_thread on usage_events (organization_id, thread_id) where thread_id is not null;

-- Usage that the billing provider hasn't received, written in the statement that adds the usage. Without a foreign key:
-- a month of usage can be dropped.
create table unreported_usage (
  organization_id uuid not null references organizations (id) on delete cascade,
  id uuid not null,
  -- Why the provider doesn't accept it. It isn't sent again.
  refusal text,
  -- Usage that the provider doesn't take is deleted after a while.
  recorded_at timestamptz(3) not null default now(),
  -- The time of the usage event, which is part of its key.
  created_at timestamptz(3) not null,
  primary key (organization_id, id)
);
create index unreported_usage_waiting on unreported_usage (organization_id, id) where refusal is null;
create index unreported_usage_recorded on unreported_usage (organization_id, recorded_at);

-- The sums that are read, written in the statement that adds the events. Usage without a cost counts as 0. A sum stays
-- within what JSON numbers hold exactly. A key must not be null, so usage on no site is counted under the nil UUID; the
-- events have the foreign key.
create table usage_site_days (
  organization_id uuid not null references organizations (id) on delete cascade,
  day date not null,
  site_id uuid not null,
  requests bigint not null,
  prompt_tokens bigint not null,
  completion_tokens bigint not null,
  cost_micro_usd bigint not null default 0,
  primary key (organization_id, day, site_id),
  constraint usage_site_days_exact check (prompt_tokens + completion_tokens <= 9007199254740991),
  constraint usage_site_days_cost_exact check (cost_micro_usd <= 9007199254740991)
);

create table usage_model_days (
  organization_id uuid not null references organizations (id) on delete cascade,
  day date not null,
  model text not null,
  requests bigint not null,
  prompt_tokens bigint not null,
  completion_tokens bigint not null,
  cost_micro_usd bigint not null default 0,
  primary key (organization_id, day, model),
  constraint usage_model_days_exact check (prompt_tokens + completion_tokens <= 9007199254740991),
  constraint usage_model_days_cost_exact check (cost_micro_usd <= 9007199254740991)
);

-- A row per end user and day, and a second one for every 8 days, counted from 1970-01-01: a list of end users by usage
-- has few rows to add up.
create table usage_end_user_spans (
  organization_id uuid not null references organizations (id) on delete cascade,
  day date not null,
  end_user_id uuid not null,
  requests bigint not null,
  prompt_tokens bigint not null,
  completion_tokens bigint not null,
  -- How many days the row covers, of which `day` is the first.
  days smallint not null check (days in (1, 8)),
  cost_micro_usd bigint not null default 0,
  primary key (organization_id, days, day, end_user_id),
  foreign key (organization_id, end_user_id) references end_users (organization_id, id)
);
create index usage_end_user_spans_of_end_user on usage_end_user_spans (organization_id, end_user_id);
create function usage_span_start(day date, days integer) returns date language sql immutable parallel safe
  as $$ select day - ((day - date '1970-01-01') % days + days) % days $$;

create table usage_end_users (
  organization_id uuid not null references organizations (id) on delete cascade,
  end_user_id uuid not null,
  requests bigint not null,
  prompt_tokens bigint not null,
  completion_tokens bigint not null,
  cost_micro_usd bigint not null default 0,
  primary key (organization_id, end_user_id),
  constraint usage_end_users_exact check (prompt_tokens + completion_tokens <= 9007199254740991),
  constraint usage_end_users_cost_exact check (cost_micro_usd <= 9007199254740991),
  foreign key (organization_id, end_user_id) references end_users (organization_id, id)
);

-- End users by usage in a range of days that ends today, for organizations with too many of them to add up their days on
-- each request. A job keeps those that were asked for (plans/usage/rankings.ts).
create table usage_rankings (
  organization_id uuid not null references organizations (id) on delete cascade,
  -- A number of days, or `month`.
  span text not null,
  asked_at timestamptz(3) not null,
  -- What its rows are the sums of. Null until they are complete.
  start_date date,
  end_date date,
  summed_at timestamptz(3),
  primary key (organization_id, span)
);

create table usage_ranked_end_users (
  organization_id uuid not null references organizations (id) on delete cascade,
  span text not null,
  end_user_id uuid not null,
  requests bigint not null,
  prompt_tokens bigint not null,
  completion_tokens bigint not null,
  cost_micro_usd bigint not null,
  -- Negative, so that one index has the most tokens first and then the smallest ID.
  rank bigint not null generated always as (-(prompt_tokens + completion_tokens)) stored,
  primary key (organization_id, end_user_id, span),
  -- An erased end user has no place in a ranking, also while one is being added up.
  foreign key (organization_id, end_user_id) references end_users (organization_id, id) on delete cascade
);
create index usage_ranked_end_users_by_rank on usage_ranked_end_users (organization_id, span, rank, end_user_id);

-- Limits, null for none: those of the organization as a whole, of each end user without limits of their own, of all
-- anonymous visitors together, and the shares of one network address, one visitor and one publishable key in the latter.
create table budgets (
  organization_id uuid not null references organizations (id) on delete cascade,
  scope text not null check (scope in ('organization', 'end_user_default', 'anonymous', 'address', 'visitor', 'key')),
  day_tokens bigint,
  month_tokens bigint,
  day_cost_micro_usd bigint,
  month_cost_micro_usd bigint,
  primary key (organization_id, scope)
);

-- Limits of one end user. Those that are null are the default's.
create table end_user_budgets (
  organization_id uuid not null references organizations (id) on delete cascade,
  end_user_id uuid not null,
  day_tokens bigint,
  month_tokens bigint,
  day_cost_micro_usd bigint,
  month_cost_micro_usd bigint,
  primary key (organization_id, end_user_id),
  foreign key (organization_id, end_user_id) references end_users (organization_id, id) on delete cascade
);

-- What was used in a UTC day or month, and what is reserved for model calls that haven't ended.
create table budget_periods (
  organization_id uuid not null references organizations (id) on delete cascade,
  scope text not null check (scope in ('organization', 'end_user', 'anonymous', 'address', 'visitor', 'key')),
  -- The end user or the publishable key; a keyed hash of an address or a visitor; the nil UUID in the other scopes,
  -- because a key must not be null.
  subject uuid not null,
  end_user_id uuid generated always as (case when scope = 'end_user' then subject end) stored,
  period text not null check (period in ('day', 'month')),
  starts_on date not null,
  tokens bigint not null default 0 check (tokens >= 0),
  cost_micro_usd bigint not null default 0 check (cost_micro_usd >= 0),
  reserved_tokens bigint not null default 0 check (reserved_tokens >= 0),
  reserved_cost_micro_usd bigint not null default 0 check (reserved_cost_micro_usd >= 0),
  -- When 80 % of a limit were used.
  warned_at timestamptz(3),
  primary key (organization_id, scope, subject, period, starts_on),
  constraint budget_periods_end_user foreign key (organization_id, end_user_id)
    references end_users (organization_id, id) on delete cascade
);
create index budget_periods_of_end_user on budget_periods (organization_id, end_user_id) where end_user_id is not null;
create index budget_periods_age on budget_periods (organization_id, period, starts_on);
