-- Sign-in at an organization's own OpenID provider, for the email domains that it has proven to own.
create table sign_in_providers (
  organization_id uuid primary key references organizations (id) on delete cascade,
  issuer text not null,
  client_id text not null,
  -- Null for a public client.
  client_secret_sealed text,
  client_secret_last4 text not null default '',
  joins_on_first_sign_in boolean not null default false,
  -- Whether users may have sessions from it. When the plan no longer includes it, they are ended.
  is_open boolean not null default false,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now()
);

create table sign_in_domains (
  organization_id uuid not null references organizations (id) on delete cascade,
  id uuid not null,
  domain text not null,
  -- Part of the DNS record that proves the domain.
  token text not null,
  -- Null until the record was found.
  verified_at timestamptz(3),
  checked_at timestamptz(3),
  -- Since when the record of a verified domain is missing.
  missing_since timestamptz(3),
  -- What the last check found instead of the record.
  problem text,
  created_at timestamptz(3) not null default now(),
  primary key (organization_id, id),
  unique (organization_id, domain)
);
create unique index sign_in_domains_verified on sign_in_domains (domain) where verified_at is not null;

-- Users who became members when they first signed in: an administrator who removes one doesn't see them come back.
create table sign_in_joins (
  organization_id uuid not null references organizations (id) on delete cascade,
  user_id uuid not null references users (id) on delete cascade,
  joined_at timestamptz(3) not null default now(),
  primary key (organization_id, user_id)
);
create index sign_in_joins_of_user on sign_in_joins (user_id);

-- Users of organizations' providers have the issuer `org:<organization id>:<issuer>`.
create index users_of_organizations on users (split_part(issuer, ':', 2)) where issuer like 'org:%';

-- A visitor's email domain leads to the organization that has verified it, and to nothing else.
create policy by_domain on sign_in_domains for select
  using (verified_at is not null and domain = nullif(current_setting('inlay.email_domain', true), ''));
create policy checking on sign_in_domains for select using (current_setting('inlay.task', true) = 'sign_in');
create policy checking on sign_in_providers for select using (current_setting('inlay.task', true) = 'sign_in');
create policy checking on organizations for select using (
  current_setting('inlay.task', true) = 'sign_in'
  and exists (select from sign_in_providers p where p.organization_id = organizations.id)
);

alter table refusals drop constraint refusals_surface_check;
alter table refusals add constraint refusals_surface_check
  check (surface in ('ticket', 'id_token', 'scim', 'delegated_identity', 'sign_in'));
