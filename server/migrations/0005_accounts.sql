-- The authenticator app of an account with a password. The ID is the user's.
create table second_factors (
  id uuid primary key references users (id) on delete cascade,
  key_sealed text not null,
  -- The newest time step whose code was used: a code works once.
  last_step bigint not null,
  created_at timestamptz(3) not null default now()
);

-- For users who lost their authenticator app. Each works once.
create table recovery_codes (
  user_id uuid not null references second_factors (id) on delete cascade,
  code_hash text not null,
  primary key (user_id, code_hash)
);

-- Passkeys of accounts with a password. They belong to the user, not to an organization.
create table passkeys (
  id uuid primary key,
  user_id uuid not null references users (id) on delete cascade,
  name text not null,
  -- Chosen by the authenticator, base64url.
  credential_id text not null unique,
  -- COSE, base64url.
  public_key text not null,
  -- Number of signatures so far, as the authenticator counts them. Many always report 0.
  counter bigint not null,
  created_at timestamptz(3) not null default now(),
  last_used_at timestamptz(3)
);
create index passkeys_by_user on passkeys (user_id);

-- Credentials for servers and CI. The keys themselves aren't stored: a hash finds the account. During a rotation the
-- previous key works too, until it expires.
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
-- A key finds its own account.
create policy key_holder on service_accounts for select using (current_key_hash() in (key_hash, previous_key_hash));

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
create policy checking on sign_in_providers for select using (current_setting('inlay.task', true) = 'sign_in');
create policy checking on organizations for select using (
  current_setting('inlay.task', true) = 'sign_in'
  and exists (select from sign_in_providers p where p.organization_id = organizations.id)
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
-- The domain of a user's address leads to the organization that has verified it, and to nothing else.
create policy by_domain on sign_in_domains for select
  using (verified_at is not null and domain = nullif(current_setting('inlay.email_domain', true), ''));
create policy checking on sign_in_domains for select using (current_setting('inlay.task', true) = 'sign_in');

-- Browsers in which an end user has proven to be that user. A browser is known by a secret in a cookie on Inlay's origin.
create table confirmed_browsers (
  organization_id uuid not null,
  id uuid not null,
  end_user_id uuid not null,
  browser_fingerprint text not null,
  -- What proved the user: only a sign-in at the identity provider does.
  how text not null constraint confirmed_browsers_how check (how = 'provider'),
  -- The issuer that was trusted then. With another one, the row is void.
  issuer text not null,
  created_at timestamptz(3) not null default now(),
  last_used_at timestamptz(3) not null default now(),
  expires_at timestamptz(3) not null,
  primary key (organization_id, id),
  unique (organization_id, end_user_id, browser_fingerprint),
  foreign key (organization_id, end_user_id) references end_users (organization_id, id) on delete cascade
);

-- Keys of the chat's frames in these browsers: one for each site that embeds it. Only the frame can use its key.
create table frame_keys (
  organization_id uuid not null,
  end_user_id uuid not null,
  thumbprint text not null,
  browser_id uuid not null,
  created_at timestamptz(3) not null default now(),
  primary key (organization_id, end_user_id, thumbprint),
  foreign key (organization_id, browser_id) references confirmed_browsers (organization_id, id) on delete cascade
);
create index frame_keys_of_browser on frame_keys (organization_id, browser_id);

-- The client at the identity provider with which end users confirm their browsers.
create table frame_sign_in (
  organization_id uuid primary key references organizations (id) on delete cascade,
  -- The issuer that the client was entered for. With another one, the client isn't used.
  issuer text not null,
  client_id text not null,
  -- Null for a public client.
  client_secret_sealed text,
  client_secret_last4 text not null default '',
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now()
);
