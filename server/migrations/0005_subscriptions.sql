-- What the billing provider said when it was last asked. The provider is right: nothing here is changed by hand.
create table subscriptions (
  organization_id uuid not null references organizations (id) on delete cascade,
  id text not null,
  status text not null check (status in
    ('incomplete', 'incomplete_expired', 'trialing', 'active', 'past_due', 'canceled', 'unpaid', 'paused')),
  plan_id text not null,
  product_id text not null,
  customer_id text not null,
  current_period_end timestamptz(3),
  cancel_at timestamptz(3),
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (organization_id, id)
);

-- When the answer that is stored was asked for: one that was asked for earlier and came later is not stored any more.
alter table organizations add column billing_read_at timestamptz(3);
