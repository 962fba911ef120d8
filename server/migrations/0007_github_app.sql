-- An organization's own app on GitHub, as GitHub answers when it is registered; without a row the platform's own serves.
create table github_apps (
  organization_id uuid primary key references organizations (id) on delete cascade,
  github_org_name text not null,
  app_id bigint not null,
  app_slug text not null,
  app_url text not null,
  client_id text not null,
  client_secret_sealed text not null,
  private_key_sealed text not null,
  webhook_secret_sealed text not null,
  -- The connected one, as owner/name.
  repository text,
  created_at timestamptz(3) not null default now()
);
