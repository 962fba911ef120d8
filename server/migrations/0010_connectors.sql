-- Remote tool servers. Where one is and whom it knows us as never change: what was issued for one connector must not be
-- used at another place.
create table connectors (
  organization_id uuid not null references organizations (id) on delete cascade,
  id uuid not null,
  name text not null check (name ~ '^[a-z0-9][a-z0-9-]{0,31}$'),
  kind text not null check (kind in ('id_jag')),
  server_url text not null,
  client_id text not null,
  client_secret_sealed text not null,
  client_secret_last4 text not null,
  idp_client_id text,
  idp_client_secret_sealed text,
  idp_client_secret_last4 text,
  scopes text[] not null,
  audience_mode text not null check (audience_mode in ('resource', 'issuer')),
  status text not null check (status in ('active', 'disabled')),
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  primary key (organization_id, id),
  constraint connectors_name unique (organization_id, name),
  check ((idp_client_id is null) = (idp_client_secret_sealed is null))
);
