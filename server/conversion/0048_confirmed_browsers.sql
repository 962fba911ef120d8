-- Browsers in which an end user has proven to be that user. A browser is known by a secret in a cookie on Inlay's origin.
create table confirmed_browsers (
  organization_id uuid not null,
  id uuid not null,
  end_user_id uuid not null,
  browser_fingerprint text not null,
  -- What proved the user: a sign-in at the identity provider, or a link in a mail.
  how text not null check (how in ('provider', 'mail')),
  -- Of the identity provider that was trusted then. With another one, the row is void.
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
