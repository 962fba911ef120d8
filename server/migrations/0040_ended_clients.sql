-- The tools of a run's client are only kept until the run has ended.
alter table runs no force row level security;
update runs set client = null where client is not null and ended_at is not null;
