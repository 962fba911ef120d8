-- A skill and its state. Its text is in its versions; name and description are here for finding it.
create table organization_skills (
  organization_id uuid not null references organizations (id) on delete cascade,
  id uuid not null,
  name text not null check (char_length(name) between 1 and 64),
  description text not null check (char_length(description) between 1 and 1024),
  search_text text not null,
  version integer not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  archived_at timestamptz(3),
  -- The file that the skill is synced from. All of these are null for skills that were written here.
  source_repository_id bigint,
  source_path text,
  source_sha text,
  -- The commit that the text was read from.
  source_commit text,
  primary key (organization_id, id)
);
-- The name of an archived skill is free again. In the order of code points: the list's order, whatever the locale.
create unique index organization_skills_name on organization_skills (organization_id, name collate "C") where archived_at is null;
create unique index organization_skills_source on organization_skills (organization_id, source_repository_id, source_path);

-- Every text that a skill has had.
create table organization_skill_versions (
  organization_id uuid not null,
  skill_id uuid not null,
  version integer not null,
  content text not null,
  domains text[] not null,
  created_by text not null,
  created_at timestamptz(3) not null default now(),
  primary key (organization_id, skill_id, version),
  foreign key (organization_id, skill_id) references organization_skills (organization_id, id) on delete cascade
);

-- An organization's own app on GitHub, as GitHub returned it at the registration. Organizations without a row use the
-- operator's app.
create table github_apps (
  organization_id uuid primary key references organizations (id) on delete cascade,
  github_org_name text not null,
  app_id bigint not null,
  app_slug text not null,
  app_url text not null,
  client_id text not null,
  client_secret_sealed text not null,
  private_key_sealed text not null,
  -- GitHub may return no webhook secret.
  webhook_secret_sealed text,
  created_at timestamptz(3) not null default now(),
  client_secret_last4 text not null default '',
  webhook_secret_last4 text
);

-- Installations of the operator's GitHub app. An installation belongs to the organization whose administrator installed
-- it, and to no other.
create table github_installations (
  organization_id uuid primary key references organizations (id) on delete cascade,
  -- Installations of an app that the operator has replaced don't count.
  app_id bigint not null,
  installation_id bigint not null,
  account text not null,
  installed_by text not null,
  installed_at timestamptz(3) not null default now()
);
create unique index github_installations_installation on github_installations (installation_id);
-- A webhook of the operator's app says which installation it is about.
create policy webhook on github_installations for select
  using (installation_id = nullif(current_setting('inlay.github_installation', true), '')::bigint);

-- The repository that an organization's skills are synced from, and the state of the sync.
create table github_repositories (
  organization_id uuid primary key references organizations (id) on delete cascade,
  repository_id bigint not null,
  full_name text not null,
  url text not null,
  default_branch text not null,
  installation_id bigint not null,
  connected_by text not null,
  connected_at timestamptz(3) not null default now(),
  -- Until then, GitHub refuses requests: its rate limit.
  blocked_until timestamptz(3),
  -- Failures since the last success, for the time until the next attempt.
  failures integer not null default 0,
  last_sync jsonb,
  synced_at timestamptz(3),
  synced_commit text
);

-- Webhooks that were processed. GitHub delivers some twice.
create table github_deliveries (
  organization_id uuid not null references organizations (id) on delete cascade,
  delivery_id text not null,
  received_at timestamptz(3) not null default now(),
  primary key (organization_id, delivery_id)
);
