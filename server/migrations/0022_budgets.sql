-- What usage costs, in micro-USD, and budgets that limit it.

alter table usage_events
  -- Null if the model had no price.
  add column cost_micro_usd bigint check (cost_micro_usd between 0 and 10000000000000),
  -- Whether the tokens were estimated, because the provider didn't report them.
  add column is_estimated boolean not null default false;

-- Usage without a cost counts as 0. A sum stays within what JSON numbers hold exactly.
alter table usage_site_days
  add column cost_micro_usd bigint not null default 0,
  add constraint usage_site_days_cost_exact check (cost_micro_usd <= 9007199254740991);
alter table usage_end_user_spans add column cost_micro_usd bigint not null default 0;
alter table usage_end_users
  add column cost_micro_usd bigint not null default 0,
  add constraint usage_end_users_cost_exact check (cost_micro_usd <= 9007199254740991);

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

do $$
declare
  organization uuid;
begin
  for organization in select id from organizations loop
    -- The walls are forced on the owner too, unless that is a superuser: statements name the organization as well.
    perform set_config('inlay.organization_id', organization::text, true);
    insert into usage_model_days (organization_id, day, model, requests, prompt_tokens, completion_tokens)
    select organization, (created_at at time zone 'UTC')::date, model, count(*), sum(prompt_tokens), sum(completion_tokens)
    from usage_events where organization_id = organization group by 2, 3;
  end loop;
  perform set_config('inlay.organization_id', '', true);
end
$$;

-- Limits, null for none: those of the organization as a whole, of each end user without limits of their own, and of all
-- anonymous visitors together.
create table budgets (
  organization_id uuid not null references organizations (id) on delete cascade,
  scope text not null check (scope in ('organization', 'end_user_default', 'anonymous')),
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
  scope text not null check (scope in ('organization', 'end_user', 'anonymous')),
  -- The end user; the nil id in the other scopes, because a key must not be null.
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
