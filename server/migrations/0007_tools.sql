-- What decides on an organization's tool calls. Texts that aren't known yet are empty, as in the interface.
create table governance_providers (
  organization_id uuid primary key references organizations (id) on delete cascade,
  provider_key text not null check (provider_key in ('vendor_default', 'byo')),
  interceptor_url text not null,
  interceptor_name text not null,
  api_key_sealed text,
  api_key_last4 text not null,
  is_enabled boolean not null,
  -- {status, message, at}: in one column, because a changed connection drops it as a whole.
  last_test jsonb,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now()
);

-- Remote tool servers. A connector's server_url never changes: what was issued for one server must not be used at another.
create table connectors (
  organization_id uuid not null references organizations (id) on delete cascade,
  id uuid not null,
  name text not null check (name ~ '^[a-z0-9][a-z0-9-]{0,31}$'),
  kind text not null check (kind in ('id_jag', 'oauth')),
  server_url text not null,
  -- Null if Inlay registers itself at a third party's server.
  client_id text,
  client_secret_sealed text,
  client_secret_last4 text,
  idp_client_id text,
  idp_client_secret_sealed text,
  idp_client_secret_last4 text,
  scopes text[] not null,
  audience_mode text not null check (audience_mode in ('resource', 'issuer')),
  status text not null check (status in ('active', 'disabled')),
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  -- Tools that an administrator vouches for: they only read, whatever their server says, and run without asking the user.
  read_only_tools text[] not null default '{}',
  -- The issuer that the secret for the identity provider was entered for; null if none was configured then.
  idp_issuer text,
  primary key (organization_id, id),
  constraint connectors_name unique (organization_id, name),
  check ((idp_client_id is null) = (idp_client_secret_sealed is null)),
  check (kind = 'oauth' or (client_id is not null and client_secret_sealed is not null))
);

-- End users who have connected their account at a third party's server. The tokens are in the key-value store.
create table end_user_consents (
  organization_id uuid not null references organizations (id) on delete cascade,
  connector_id uuid not null,
  end_user_id uuid not null,
  created_at timestamptz(3) not null default now(),
  primary key (organization_id, connector_id, end_user_id),
  foreign key (organization_id, connector_id) references connectors (organization_id, id) on delete cascade,
  foreign key (organization_id, end_user_id) references end_users (organization_id, id) on delete cascade
);
create index end_user_consents_of_user on end_user_consents (organization_id, end_user_id);

-- A row per tool call through the hub, with the caller's ID and not their address, so that erasing an end user erases
-- their address everywhere. A partition for each month.
create table tool_call_records (
  organization_id uuid not null references organizations (id) on delete cascade,
  at timestamptz(3) not null,
  id uuid not null,
  -- The member's user, the end user, or the publishable key of a visitor. Without a foreign key: records outlive people.
  user_id uuid not null,
  client_id text,
  client_name text,
  source_type text,
  source text,
  tool text not null,
  definition_hash text,
  arguments_hash text not null,
  approval text not null,
  approval_at timestamptz(3),
  governance text not null,
  outcome text not null,
  failure_code text,
  duration_ms bigint not null,
  primary key (organization_id, at, id)
) partition by range (at);
create index tool_call_records_user on tool_call_records (organization_id, user_id, at, id);
create index tool_call_records_tool on tool_call_records (organization_id, tool, at, id);
create index tool_call_records_outcome on tool_call_records (organization_id, outcome, at, id);

-- Arguments and results of calls, as JSON, cut to a limit. They are deleted when they expire, and with the end user.
create table tool_call_contents (
  organization_id uuid not null references organizations (id) on delete cascade,
  call_id uuid not null,
  arguments text not null,
  -- Null if the call has no result.
  result text,
  -- When the call started.
  at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  -- The end user who is the caller, so that the contents can be exported and erased with them: the caller, the end user
  -- of a member's previews, or one whose verified address is the member's.
  end_user_id uuid not null,
  -- The caller: the end user, or the member's user. Without a foreign key, like the record of the call.
  user_id uuid not null,
  primary key (organization_id, call_id),
  foreign key (organization_id, end_user_id) references end_users (organization_id, id) on delete cascade
);
create index tool_call_contents_user on tool_call_contents (organization_id, end_user_id);
create index tool_call_contents_caller on tool_call_contents (organization_id, user_id);
create index tool_call_contents_expiry on tool_call_contents (organization_id, expires_at);
