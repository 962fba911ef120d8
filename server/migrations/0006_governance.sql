-- Who decides on an organization's tool calls. Texts that are not given yet are empty, as in the interface.
create table governance_providers (
  organization_id uuid primary key references organizations (id) on delete cascade,
  provider_key text not null check (provider_key in ('vendor_default', 'byo')),
  interceptor_url text not null,
  interceptor_name text not null,
  api_key_sealed text,
  api_key_last4 text not null,
  is_enabled boolean not null,
  -- {status, message, at}: in one column, because a changed connection forgets it as a whole.
  last_test jsonb,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now()
);
