-- Credentials for servers and CI. The keys themselves are nowhere: a hash finds the account. During a rotation the
-- previous key works too, until its expiry.
create table service_accounts (
  organization_id uuid not null references organizations (id) on delete cascade,
  id uuid not null,
  name text not null check (char_length(name) between 1 and 100),
  role text not null check (role in ('admin', 'member')),
  key_hash text not null unique,
  key_last4 text not null,
  key_created_at timestamptz(3) not null default now(),
  previous_key_hash text unique,
  previous_key_last4 text,
  previous_key_expires_at timestamptz(3),
  previous_key_last_used_at timestamptz(3),
  expires_at timestamptz(3),
  last_used_at timestamptz(3),
  created_by text not null,
  created_at timestamptz(3) not null default now(),
  primary key (organization_id, id),
  check ((previous_key_hash is null) = (previous_key_last4 is null)),
  check ((previous_key_hash is null) = (previous_key_expires_at is null))
);
-- The audit trail names service accounts, so no two have the same name.
create unique index service_accounts_name on service_accounts (organization_id, lower(name));
-- Beside the wall of after_each.sql: a key finds its own account.
create policy key_holder on service_accounts for select using (current_key_hash() in (key_hash, previous_key_hash));
