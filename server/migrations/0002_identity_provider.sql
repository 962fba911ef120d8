-- What the widget's ticket exchange goes by: whose tokens an organization trusts, where it embeds, who came.

create table identity_providers (
  organization_id uuid primary key references organizations (id) on delete cascade,
  idp_type text,
  allowed_audiences text[],
  idp_domain text,
  idp_issuer text,
  allowed_domains text[] not null default '{}',
  updated_at timestamptz(3) not null default now()
);

-- A site is an origin that was declared or has been seen. One that was only declared has no last_seen_at.
create table sites (
  organization_id uuid not null references organizations (id) on delete cascade,
  id uuid not null,
  origin text not null,
  name text not null,
  created_at timestamptz(3) not null default now(),
  last_seen_at timestamptz(3),
  primary key (organization_id, id),
  constraint sites_origin unique (organization_id, origin)
);

-- external_id is the subject at the organization's identity provider; metadata is a JSON text of its other claims.
create table end_users (
  organization_id uuid not null references organizations (id) on delete cascade,
  id uuid not null,
  external_id text not null,
  email text not null default '',
  metadata text not null default '{}',
  last_activity_at timestamptz(3) not null default now(),
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  primary key (organization_id, id),
  constraint end_users_external_id unique (organization_id, external_id)
);
create index end_users_created on end_users (organization_id, created_at, id);

-- The same refusal again only counts up, so that a broken page or a hostile one cannot fill the table.
create table refusals (
  organization_id uuid not null references organizations (id) on delete cascade,
  id uuid not null,
  -- Hash of everything below but the numbers and times: what makes two refusals the same.
  fingerprint text not null,
  surface text not null check (surface in ('ticket', 'id_token', 'scim', 'delegated_identity')),
  step text not null,
  code text not null,
  message text not null,
  expected text,
  seen text,
  origin text,
  publishable_key_id uuid,
  count bigint not null,
  first_at timestamptz(3) not null,
  last_at timestamptz(3) not null,
  primary key (organization_id, id),
  unique (organization_id, fingerprint)
);
create index refusals_last on refusals (organization_id, last_at desc);

-- Whoever holds a key may find it: the ticket exchange knows no organization yet.
create function current_key_hash() returns text language sql stable parallel safe
  as $$ select nullif(current_setting('inlay.key_hash', true), '') $$;
create policy key_holder on publishable_keys for select using (key_hash = current_key_hash());
