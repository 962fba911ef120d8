-- Connections to the directories that organizations keep their people in. The token itself is nowhere, only its hash.
create table directories (
  organization_id uuid not null references organizations (id) on delete cascade,
  id uuid not null,
  name text not null check (char_length(name) between 1 and 100),
  type text not null check (type in ('okta', 'azure', 'google', 'onelogin', 'generic')),
  domain text not null,
  status text not null default 'active' check (status in ('active', 'inactive')),
  token_hash text not null unique,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  primary key (organization_id, id)
);
-- An address belongs to one directory; another one for its domain can wait beside it.
create unique index directories_active_domain on directories (organization_id, domain) where status = 'active';

create table directory_users (
  organization_id uuid not null references organizations (id) on delete cascade,
  directory_id uuid not null,
  id uuid not null,
  external_id text,
  user_name text not null,
  email text not null default '',
  name text not null default '',
  active boolean not null default true,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  primary key (organization_id, id),
  foreign key (organization_id, directory_id) references directories (organization_id, id) on delete cascade
);
create unique index directory_users_name on directory_users (organization_id, directory_id, lower(user_name));

create table directory_groups (
  organization_id uuid not null references organizations (id) on delete cascade,
  directory_id uuid not null,
  id uuid not null,
  external_id text,
  display_name text not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  primary key (organization_id, id),
  foreign key (organization_id, directory_id) references directories (organization_id, id) on delete cascade
);
create unique index directory_groups_name on directory_groups (organization_id, directory_id, lower(display_name));
