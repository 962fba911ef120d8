-- End users whose rows are gone, and of whom something is still left elsewhere: a held ID token, tokens at third parties,
-- sessions on other nodes. Written with the deletion, and deleted when nothing is left.
create table erasures (
  organization_id uuid not null references organizations (id) on delete cascade,
  end_user_id uuid not null,
  created_at timestamptz(3) not null default now(),
  primary key (organization_id, end_user_id)
);
-- Beside the wall of after_each.sql: any node finishes what another left, and does so inside the organization.
create policy unfinished on erasures for select using (current_setting('inlay.task', true) = 'erasures');
