-- No jobs for organizations that were erased meanwhile.
create or replace function request_jobs(organization uuid, requested text, keys text[], due timestamptz) returns void language plpgsql as $$
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
