-- End users who have connected their account at a third party's server. The tokens are in the key-value store.
create table end_user_consents (
  organization_id uuid not null references organizations (id) on delete cascade,
  connector_id uuid not null,
  end_user_id uuid not null,
  created_at timestamptz(3) not null default now(),
  primary key (organization_id, connector_id, end_user_id),
  foreign key (organization_id, connector_id) references connectors (organization_id, id) on delete cascade,
  foreign key (organization_id, end_user_id) references end_users (organization_id, id) on delete cascade
);
create index end_user_consents_of_user on end_user_consents (organization_id, end_user_id);

-- The connector that the user has to connect their account to before the call can be made.
alter table tool_calls add column connect_to uuid;

-- Counters of budgets that nothing reads anymore. Beside the wall of after_each.sql: a node finds out which organizations
-- have some, and deletes them inside.
create index budget_periods_age on budget_periods (period, starts_on);
create policy expired on budget_periods for select
  using (current_setting('inlay.task', true) = 'expiry' and starts_on < current_date - 7);
