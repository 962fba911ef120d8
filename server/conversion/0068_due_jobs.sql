-- An index of the jobs that are due, which has no jobs of the future (kernel/jobs/jobs.ts).
alter table jobs add column is_due boolean not null default false;
drop index jobs_due;
drop index jobs_soonest;
create index jobs_due on jobs (organization_id, due_at) where is_due;
create index jobs_coming on jobs (due_at) where not is_due;
create function note_due_job() returns trigger language plpgsql as $$
begin
  new.is_due := new.due_at <= now();
  return new;
end
$$;
create trigger note_due_job before insert or update of due_at on jobs for each row execute function note_due_job();
