-- End users who were erased and members whose access ended, of whom something is still left elsewhere: a held ID token,
-- tokens at third parties, sessions on other nodes. Written with the change, and deleted when nothing is left.
create table departures (
  organization_id uuid not null references organizations (id) on delete cascade,
  -- An end user or a user.
  person_id uuid not null,
  created_at timestamptz(3) not null default now(),
  primary key (organization_id, person_id)
);
-- Beside the wall of after_each.sql: any node finishes what another left, and does so inside the organization.
create policy unfinished on departures for select using (current_setting('inlay.task', true) = 'departures');
