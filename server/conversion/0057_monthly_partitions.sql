-- Tables that grow with every call become partitions by month (UTC), so that an operator can drop old months at once.
-- There is no default partition: rows that it had would keep the month that they belong to from being made.
-- A key of a partitioned table contains the time, so the rest of it is no longer unique by itself:
-- * usage_events.id: a model call is charged by whoever sets model_calls.settled_at, and a repeated event has its time.
-- * audit_events.sequence: appending locks the head of the chain (audit_chains), and verification reports duplicates.

-- Makes the partitions of all these tables, from the month of a day until some months later. Missing ones only.
create function make_partitions(first_day date, months_ahead integer) returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp set timezone = 'UTC' set lock_timeout = '2s'
as $$
declare
  parent text;
  first_month date;
  partition text;
  made integer := 0;
begin
  for parent in
    select relname from pg_class where relnamespace = 'public'::regnamespace and relkind = 'p' order by relname
  loop
    for ahead in 0..months_ahead loop
      first_month := date_trunc('month', first_day) + make_interval(months => ahead);
      partition := parent || to_char(first_month, '_YYYY_MM');
      continue when to_regclass(format('public.%I', partition)) is not null;
      -- Attaching blocks neither reads nor writes, unlike `create table … partition of`.
      execute format('create table public.%I (like public.%I including all)', partition, parent);
      execute format('alter table public.%I attach partition public.%I for values from (%L) to (%L)',
        parent, partition, first_month::timestamptz, (first_month + interval '1 month')::timestamptz);
      made := made + 1;
    end loop;
  end loop;
  return made;
end $$;
revoke execute on function make_partitions from public;

-- The owner copies all rows, and checks their foreign keys; the walls are built again afterwards.
alter table organizations no force row level security;
alter table end_users no force row level security;
alter table sites no force row level security;
alter table threads no force row level security;
alter table usage_events no force row level security;
alter table tool_call_records no force row level security;
alter table audit_events no force row level security;
alter table unreported_usage no force row level security;
lock table usage_events, tool_call_records, audit_events, unreported_usage in access exclusive mode;

create table usage_events_by_month (
  organization_id uuid not null,
  id uuid not null,
  end_user_id uuid,
  site_id uuid,
  thread_id uuid,
  prompt_tokens integer not null check (prompt_tokens between 0 and 1000000000),
  completion_tokens integer not null check (completion_tokens between 0 and 1000000000),
  model text not null,
  finish_reason text not null,
  created_at timestamptz(3) not null,
  cost_micro_usd bigint check (cost_micro_usd between 0 and 10000000000000),
  is_estimated boolean not null default false
) partition by range (created_at);
create table tool_call_records_by_month (
  organization_id uuid not null,
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
  duration_ms bigint not null
) partition by range (at);
create table audit_events_by_month (
  organization_id uuid not null,
  sequence bigint not null,
  id uuid not null,
  actor text not null,
  action text not null,
  target text not null,
  data jsonb not null,
  created_at timestamptz(3) not null default now(),
  hash bytea not null,
  key_id text not null,
  actor_id uuid
) partition by range (created_at);

-- A month for each that has rows, and one partition for rows that are older than ten years, or that are added later with
-- an older date.
do $$
declare
  former record;
  oldest timestamptz;
  first_month date;
begin
  for former in
    select * from (values ('usage_events', 'created_at'), ('tool_call_records', 'at'), ('audit_events', 'created_at'))
      as tables (name, key)
  loop
    execute format('select min(%I) from %I', former.key, former.name) into oldest;
    first_month := least(first_month, oldest at time zone 'UTC');
  end loop;
  first_month := date_trunc('month', greatest(coalesce(first_month, current_date), current_date - interval '10 years'));
  for former in select unnest('{usage_events,tool_call_records,audit_events}'::text[]) as name loop
    execute format('create table %I partition of %I for values from (minvalue) to (%L)',
      former.name || '_earlier', former.name || '_by_month', first_month || ' 00:00:00+00');
  end loop;
  -- Named as they will be.
  create temporary table partitioning on commit drop as select first_month;
end $$;

alter table unreported_usage add column created_at timestamptz(3);
update unreported_usage u set created_at = e.created_at from usage_events e
where e.organization_id = u.organization_id and e.id = u.id;
alter table unreported_usage alter column created_at set not null;
-- Usage outlives what is to be reported about it, and a month of it can be dropped.
alter table unreported_usage drop constraint unreported_usage_organization_id_id_fkey;

alter table usage_events rename to usage_events_former;
alter table tool_call_records rename to tool_call_records_former;
alter table audit_events rename to audit_events_former;
alter table usage_events_by_month rename to usage_events;
alter table tool_call_records_by_month rename to tool_call_records;
alter table audit_events_by_month rename to audit_events;

select make_partitions(first_month,
  (extract(year from age(date_trunc('month', current_date), first_month)) * 12
   + extract(month from age(date_trunc('month', current_date), first_month)))::integer + 13)
from partitioning;

insert into usage_events select organization_id, id, end_user_id, site_id, thread_id, prompt_tokens, completion_tokens,
  model, finish_reason, created_at, cost_micro_usd, is_estimated from usage_events_former;
insert into tool_call_records select * from tool_call_records_former;
insert into audit_events select organization_id, sequence, id, actor, action, target, data, created_at, hash, key_id, actor_id
from audit_events_former;

drop function audit_hash(bytea, audit_events_former);
drop table usage_events_former, tool_call_records_former, audit_events_former;
create function audit_hash(previous bytea, event audit_events) returns bytea language sql stable as $$
  select sha256(previous || convert_to(jsonb_build_array(
    event.organization_id, event.sequence, event.id, event.actor, event.action, event.target, event.data,
    iso_timestamp(event.created_at)
  )::text, 'utf8'))
$$;

alter table usage_events
  add primary key (organization_id, created_at, id),
  add foreign key (organization_id) references organizations (id) on delete cascade,
  add constraint usage_events_end_user foreign key (organization_id, end_user_id)
    references end_users (organization_id, id),
  add constraint usage_events_site foreign key (organization_id, site_id) references sites (organization_id, id),
  add constraint usage_events_thread foreign key (organization_id, thread_id)
    references threads (organization_id, id) on delete set null (thread_id);
-- For erasing and exporting an end user. Without the time, PostgreSQL stores each end user once per page.
create index usage_events_of_end_user on usage_events (organization_id, end_user_id) where end_user_id is not null;
create index usage_events_of_site on usage_events (organization_id, site_id) where site_id is not null;
create index usage_events_of_thread on usage_events (organization_id, thread_id) where thread_id is not null;

alter table tool_call_records
  add primary key (organization_id, at, id),
  add foreign key (organization_id) references organizations (id) on delete cascade;
create index tool_call_records_user on tool_call_records (organization_id, user_id, at, id);
create index tool_call_records_tool on tool_call_records (organization_id, tool, at, id);
create index tool_call_records_outcome on tool_call_records (organization_id, outcome, at, id);

alter table audit_events
  add primary key (organization_id, sequence, created_at),
  add foreign key (organization_id) references organizations (id) on delete cascade,
  add constraint audit_events_sequence check (sequence > 0) not valid;
create index audit_events_actor on audit_events (organization_id, actor, sequence);
create index audit_events_actor_id on audit_events (organization_id, actor_id, sequence) where actor_id is not null;
create index audit_events_action on audit_events (organization_id, action, sequence);
create index audit_events_target on audit_events (organization_id, target, sequence);
