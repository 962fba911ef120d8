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
