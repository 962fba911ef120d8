-- The sync of repositories becomes a job of each organization.
alter table jobs no force row level security;
alter table github_repositories no force row level security;
insert into jobs (organization_id, kind, due_at) select organization_id, 'code_sync', due_at from github_repositories;
drop policy due on github_repositories;
alter table github_repositories
  drop column requests, drop column due_at, drop column lease_epoch, drop column leased_until;

-- A webhook of the operator's app says which installation it is about.
drop policy webhook on github_installations;
create policy webhook on github_installations for select
  using (installation_id = nullif(current_setting('inlay.github_installation', true), '')::bigint);
