-- Billing through a provider on the internet: what still has to be done there, and what it hasn't received yet.

-- Number of seats that the subscription pays for, or will from its next period on; null if it isn't sold by the seat.
alter table subscriptions add column seats integer check (seats >= 0);
create index subscriptions_by_seat on subscriptions (organization_id) where seats is not null;

-- Whether new usage is reported to the billing provider. Each sync decides it.
alter table organizations add column reports_usage boolean not null default false;
-- Two reads within a millisecond have an order too.
alter table organizations alter column billing_read_at type timestamptz;
create index organizations_billing_read on organizations (billing_read_at) where billing_read_at is not null;

-- Deliveries of the provider's webhooks that were accepted, because the provider repeats them. Kept for a week.
create table billing_deliveries (
  organization_id uuid not null references organizations (id) on delete cascade,
  id text not null check (char_length(id) between 1 and 200),
  received_at timestamptz(3) not null default now(),
  primary key (organization_id, id)
);

-- What still has to be done at the billing provider. Every task can be repeated, even by two nodes at the same time.
create table billing_work (
  organization_id uuid not null references organizations (id) on delete cascade,
  task text not null check (task in ('sync', 'seats', 'usage')),
  -- Grows with each request. A node that has done the task only deletes the row if it hasn't grown meanwhile.
  requests bigint not null default 1,
  due_at timestamptz(3) not null default now(),
  -- Failed attempts in a row.
  attempts integer not null default 0,
  -- Until when a node works on it. Another node takes over afterwards.
  leased_until timestamptz(3),
  primary key (organization_id, task)
);
create index billing_work_due on billing_work (due_at);

-- Usage that the billing provider hasn't received, written in the statement that adds the usage.
create table unreported_usage (
  organization_id uuid not null references organizations (id) on delete cascade,
  id uuid not null,
  -- Why the provider doesn't accept it. It isn't sent again.
  refusal text,
  primary key (organization_id, id),
  foreign key (organization_id, id) references usage_events (organization_id, id) on delete cascade
);
create index unreported_usage_waiting on unreported_usage (organization_id, id) where refusal is null;

-- Beside the wall of after_each.sql: any node finds what is to be done, and does it inside the organization.
create policy billing on billing_work for select using (current_setting('inlay.task', true) = 'billing');
create policy billing on unreported_usage for select using (current_setting('inlay.task', true) = 'billing');
create policy billing on subscriptions for select using (current_setting('inlay.task', true) = 'billing');
create policy billing on organizations for select
  using (current_setting('inlay.task', true) = 'billing' and billing_read_at is not null);
-- Seats are counted for all organizations that pay by the seat.
create policy billing on members for select using (current_setting('inlay.task', true) = 'billing');
create policy billing on invitations for select using (current_setting('inlay.task', true) = 'billing');
