-- Rows of an audit chain are numbered from 1. Rows that were added before this upgrade stay, so that verification can
-- report them.
alter table audit_events add constraint audit_events_sequence check (sequence > 0) not valid;

-- How far the background verification of each chain has come (organizations/audit-events/verifier.ts).
create table audit_verifications (
  organization_id uuid primary key references organizations (id) on delete cascade,
  state jsonb,
  -- Authenticates the state with a key that isn't in the database.
  mac bytea,
  due_at timestamptz(3) not null default now(),
  leased_until timestamptz(3)
);
create index on audit_verifications (due_at);
-- Beside the tenant policy of after_each.sql: any node verifies any chain that is due.
create policy verifying on audit_verifications for select using (current_setting('inlay.task', true) = 'audit');

alter table audit_chains no force row level security;
insert into audit_verifications (organization_id) select organization_id from audit_chains;
