-- Every table with an organization_id also gets row-level security with the policy `tenant`, and every table gets the
-- service's privileges: see server/src/kernel/stores/postgres/row-level-security.ts. The policies in these files are in addition to it.

-- Whom the current transaction acts for. Unset and empty both mean nobody.
create function current_organization() returns uuid language sql stable parallel safe
  as $$ select nullif(current_setting('inlay.organization_id', true), '')::uuid $$;
create function current_person() returns uuid language sql stable parallel safe
  as $$ select nullif(current_setting('inlay.user_id', true), '')::uuid $$;
create function current_invitee() returns text language sql stable parallel safe
  as $$ select nullif(current_setting('inlay.invited_email', true), '') $$;
-- For requests that only have a secret: its hash finds the row of a key, a token or a link.
create function current_key_hash() returns text language sql stable parallel safe
  as $$ select nullif(current_setting('inlay.key_hash', true), '') $$;

-- The interface's timestamps, for those inside JSON. The driver does the same for columns.
create function iso_timestamp(moment timestamptz) returns text language sql stable parallel safe
  as $$ select to_char(moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') $$;

-- Background work, written with the change that needs it: see server/src/kernel/jobs. A node takes a job by giving it a
-- lease; after a crash, another node takes it when the lease ends.
create table jobs (
  -- The largest UUID for work that belongs to no organization, such as mail. That's why there is no foreign key; the
  -- erasure of an organization deletes its jobs like its other rows.
  organization_id uuid not null,
  kind text not null check (char_length(kind) between 1 and 50),
  key text not null default '' check (char_length(key) <= 200),
  -- When a node may take it. While a node runs it, the end of the lease. Infinity after it failed for good.
  due_at timestamptz not null default now(),
  -- Different for each claim, so that a node that lost its lease can't end the job of the next one.
  lease uuid,
  -- When it's due once more, because it was requested while it ran.
  again_at timestamptz,
  -- Attempts since the last one that succeeded, including the running one.
  attempts integer not null default 0,
  last_error text,
  -- Whether due_at was in the past when it was last written, or when a node last looked. Lets an index have only what is
  -- due, so that a claim doesn't pass the jobs of the future.
  is_due boolean not null default false,
  primary key (organization_id, kind, key)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
create index jobs_due on jobs (organization_id, due_at) where is_due;
create index jobs_coming on jobs (due_at) where not is_due;
create index jobs_failing on jobs (kind) where attempts >= 3;
create function note_due_job() returns trigger language plpgsql as $$
begin
  new.is_due := new.due_at <= now();
  return new;
end
$$;
create trigger note_due_job before insert or update of due_at on jobs for each row execute function note_due_job();
-- Any node finds what is due, and works inside the organization.
create policy worker on jobs using ((select current_setting('inlay.task', true)) = 'jobs');
-- A tenant's transaction may leave work that belongs to no organization, but never sees it.
create policy without_organization on jobs for insert
  with check (organization_id = 'ffffffff-ffff-ffff-ffff-ffffffffffff');

-- Requests jobs, in statements and triggers that find out themselves whether one is needed, and for requestJobs in
-- server/src/kernel/jobs/requests.ts. Names are complete, because triggers also run without a search path.
create function request_jobs(organization uuid, requested text, keys text[], due timestamptz) returns void language plpgsql as $$
begin
  -- An organization that is gone gets no jobs. The lock makes its erasure wait, and then delete those of this transaction.
  perform from public.organizations where id = organization for key share;
  if not found then
    return;
  end if;
  -- `do update` locks an existing row even if it changes nothing, so no node claims it before this transaction commits.
  -- With `do nothing`, a node could take the job meanwhile and not see what the transaction wrote.
  insert into public.jobs as job (organization_id, kind, key, due_at)
  select organization, requested, one.key, due from (select distinct key from unnest(keys) as key order by key) as one
  on conflict (organization_id, kind, key) do update set
    due_at = case
      when job.lease is not null then job.due_at
      -- Waits for a retry, and keeps its pause.
      when job.attempts > 0 and excluded.due_at > now() and job.due_at < 'infinity' then job.due_at
      else least(job.due_at, excluded.due_at)
    end,
    again_at = case when job.lease is null then job.again_at else least(job.again_at, excluded.due_at) end
  where job.lease is not null or job.due_at > excluded.due_at;
end
$$;

-- What only the schema's owner may do, and a running server has to do now and then: as functions that the maintenance
-- role may execute, and nobody else.

-- For a server that isn't allowed to migrate.
create function applied_migrations() returns table (name text, checksum text)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$ select name, checksum from public.migrations $$;
revoke execute on function applied_migrations from public;

create function analyze_table(name text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  -- Another node may be analyzing it.
  execute format('analyze (skip_locked) public.%I', name);
end $$;
revoke execute on function analyze_table from public;

-- Deletes some rows of an organization whose erasure was requested, and counts them in the same transaction.
create function erase_rows(erasure uuid, organization uuid, table_name text, most integer) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  key text := case table_name when 'organizations' then 'id' else 'organization_id' end;
  erased integer;
begin
  perform from public.organization_erasures where id = erasure and pending_id = organization;
  if not found then
    raise exception 'No erasure of the organization % is pending', organization using errcode = 'insufficient_privilege';
  end if;
  perform set_config('inlay.organization_id', organization::text, true);
  execute format(
    'delete from public.%1$I where ctid = any(array(select ctid from public.%1$I where %2$I = $1 limit $2)) and %2$I = $1',
    table_name, key) using organization, most;
  get diagnostics erased = row_count;
  if erased > 0 then
    update public.organization_erasures
    set counts = jsonb_set(counts, array[table_name], to_jsonb(coalesce((counts ->> table_name)::bigint, 0) + erased))
    where id = erasure;
  end if;
  return erased;
end $$;
revoke execute on function erase_rows from public;

-- Makes the partitions of all partitioned tables, from the month of a day until some months later. Missing ones only.
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

-- Drops months of a partitioned table, for operators who keep only some. The current month always stays.
create function drop_partitions(parent text, before timestamptz) returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp set timezone = 'UTC' set lock_timeout = '2s'
as $$
declare
  partition text;
  dropped integer := 0;
begin
  if before > date_trunc('month', now()) then
    raise exception 'The current month can''t be dropped' using errcode = 'insufficient_privilege';
  end if;
  for partition in
    select c.relname from pg_inherits join pg_class c on c.oid = inhrelid
    where inhparent = to_regclass(format('public.%I', parent)) and c.relkind = 'r'
      and substring(pg_get_expr(c.relpartbound, c.oid) from $re$TO \('([^']+)'\)$re$)::timestamptz <= before
  loop
    execute format('drop table public.%I', partition);
    dropped := dropped + 1;
  end loop;
  return dropped;
end $$;
revoke execute on function drop_partitions from public;

-- The last number of each organization in the months of the audit trail that drop_partitions would drop.
create function audit_events_to_drop(before timestamptz) returns table (organization_id uuid, sequence bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp set timezone = 'UTC'
as $$
declare
  partition text;
begin
  for partition in
    select c.relname from pg_inherits join pg_class c on c.oid = inhrelid
    where inhparent = 'public.audit_events'::regclass and c.relkind = 'r'
      and substring(pg_get_expr(c.relpartbound, c.oid) from $re$TO \('([^']+)'\)$re$)::timestamptz <= before
  loop
    -- Partitions have no row-level security of their own.
    return query execute format(
      'select e.organization_id, max(e.sequence) from public.%I e group by e.organization_id', partition);
  end loop;
end $$;
revoke execute on function audit_events_to_drop from public;
