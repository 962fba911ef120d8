-- The key itself isn't stored: its hash finds it, and a sealed copy can be shown until the key is revoked.
create table publishable_keys (
  organization_id uuid not null references organizations (id) on delete cascade,
  id uuid not null,
  name text not null check (char_length(name) between 1 and 100),
  key_prefix text not null,
  key_hash text not null unique,
  key_sealed text,
  allowed_origins text[] not null default '{}',
  revoked_at timestamptz(3),
  last_used_at timestamptz(3),
  created_at timestamptz(3) not null default now(),
  primary key (organization_id, id)
);
-- A key finds itself: the ticket exchange knows no organization yet.
create policy key_holder on publishable_keys for select using (key_hash = current_key_hash());

-- Origins that used a key without allowed origins, in an organization without allowed domains: a small sample for the
-- administrator, never more than a few rows per organization.
create table unallowed_origins (
  organization_id uuid not null references organizations (id) on delete cascade,
  publishable_key_id uuid not null,
  origin text not null,
  count bigint not null,
  first_at timestamptz(3) not null,
  last_at timestamptz(3) not null,
  primary key (organization_id, publishable_key_id, origin),
  foreign key (organization_id, publishable_key_id) references publishable_keys (organization_id, id) on delete cascade
);

-- A site is an origin that an administrator allows, on a key or in the organization's domains; a wildcard is one site. An
-- origin that is no longer allowed stays as long as usage or threads name it, and doesn't count towards the plan.
create table sites (
  organization_id uuid not null references organizations (id) on delete cascade,
  id uuid not null,
  origin text not null,
  name text not null,
  created_at timestamptz(3) not null default now(),
  last_seen_at timestamptz(3),
  is_allowed boolean not null default false,
  primary key (organization_id, id),
  constraint sites_origin unique (organization_id, origin)
);

-- Whose ID tokens an organization trusts, and where it embeds the widget.
create table identity_providers (
  organization_id uuid primary key references organizations (id) on delete cascade,
  idp_type text,
  allowed_audiences text[],
  idp_domain text,
  idp_issuer text,
  allowed_domains text[] not null default '{}',
  updated_at timestamptz(3) not null default now()
);

-- Whether all of the organization's pages have the same origin, so that none can be claimed from another.
create function has_one_site() returns boolean language sql stable parallel safe as $$
  select (
    select count(*) = 1 and bool_and(origin not like '%*%') from sites
    where organization_id = current_organization() and is_allowed
  ) and (
    exists (
      select from identity_providers
      where organization_id = current_organization() and cardinality(allowed_domains) > 0)
    or not exists (
      select from publishable_keys
      where organization_id = current_organization() and revoked_at is null and cardinality(allowed_origins) = 0)
  )
$$;

-- An end user is a subject of one issuer.
create table end_users (
  organization_id uuid not null references organizations (id) on delete cascade,
  id uuid not null,
  -- The subject at the organization's identity provider.
  external_id text not null,
  email text not null default '',
  -- The other claims of the ID token, as JSON.
  metadata text not null default '{}',
  last_activity_at timestamptz(3) not null default now(),
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  -- The member who is this end user when they talk to the agent in the dashboard.
  preview_user_id uuid,
  -- For the search for the beginning of an address. PostgreSQL's lower() folds letters that must stay apart.
  email_key text collate "C" not null
    generated always as (translate(email, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz')) stored,
  -- As the provider's discovery document spells it. Empty if none is known; no ID token leads to such an end user.
  issuer text not null default '',
  -- When an organization changes its identity provider, an administrator can carry an end user over to the subject that
  -- the new provider knows them by. If that subject had an end user already, that row only keeps its ID, which open
  -- connections and records name; this is the end user that everything else moved to.
  merged_into uuid,
  primary key (organization_id, id),
  constraint end_users_identity unique (organization_id, issuer, external_id)
);
-- Lists skip what an offset says in the index alone.
create index end_users_created on end_users (organization_id, created_at, id) where merged_into is null;
create index end_users_email on end_users (organization_id, email);
create index end_users_email_key on end_users (organization_id, email_key);
create index end_users_external_key on end_users (organization_id, external_id collate "C");
create unique index end_users_preview on end_users (organization_id, preview_user_id) where preview_user_id is not null;
