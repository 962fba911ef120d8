-- Requests jobs, in statements and triggers that find out themselves whether one is needed, and for requestJobs in
-- server/src/kernel/jobs/requests.ts. Names are complete, because triggers also run without a search path.
create function request_jobs(organization uuid, requested text, keys text[], due timestamptz) returns void language plpgsql as $$
begin
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

-- Seats follow members and invitations, which many transactions change; the changes of ten seconds are sent together.
-- Deferred to the commit, so that the job's row is the last that they lock: locked earlier, it could deadlock with the
-- lock on the organization or with other jobs.
create function request_seats() returns trigger language plpgsql as $$
declare
  changed uuid := coalesce(new.organization_id, old.organization_id);
begin
  -- Before PostgreSQL 18, this is the role that commits. Maintenance, which erases organizations, has no such right.
  if has_table_privilege('public.jobs', 'insert') then
    if exists (
      select from public.subscriptions
      where organization_id = changed and seats is not null and status in ('active', 'trialing') and cancel_at is null
    ) then
      perform public.request_jobs(changed, 'billing_seats', '{""}', now() + interval '10 seconds');
    end if;
  end if;
  return null;
end
$$;
create constraint trigger request_seats after insert or delete or update of deactivated_at on members
  deferrable initially deferred for each row execute function request_seats();
create constraint trigger request_seats after insert or delete on invitations
  deferrable initially deferred for each row execute function request_seats();

-- The work at the billing provider becomes jobs of each organization. A sync requests the next one and the seats.
alter table jobs no force row level security;
alter table organizations no force row level security;
alter table billing_work no force row level security;
alter table unreported_usage no force row level security;
insert into jobs (organization_id, kind, due_at)
  select organization_id, kind, min(due_at) from (
    select organization_id, 'billing_' || task as kind, due_at from billing_work
    union all select id, 'billing_sync', now() + random() * interval '1 hour'
      from organizations where billing_read_at is not null
    union all select organization_id, 'billing_usage', now() from unreported_usage
  ) as needed group by organization_id, kind;

drop table billing_work;
drop policy billing on unreported_usage;
drop policy billing on subscriptions;
drop policy billing on organizations;
drop policy billing on members;
drop policy billing on invitations;
drop index organizations_billing_read, unreported_usage_recorded;
create index unreported_usage_recorded on unreported_usage (organization_id, recorded_at);
