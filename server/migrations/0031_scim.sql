-- Tokens of SCIM clients, by their hash. After a rotation the previous one works until it expires.
create table directory_tokens (
  organization_id uuid not null references organizations (id) on delete cascade,
  directory_id uuid not null,
  id uuid not null,
  token_hash text not null unique,
  last_four text not null,
  created_at timestamptz(3) not null default now(),
  expires_at timestamptz(3),
  last_used_at timestamptz(3),
  primary key (organization_id, id),
  foreign key (organization_id, directory_id) references directories (organization_id, id) on delete cascade
);
create index directory_tokens_of_directory on directory_tokens (organization_id, directory_id);
-- Beside the wall of after_each.sql: a token finds its own directory.
create policy token_holder on directory_tokens for select using (token_hash = current_key_hash());

-- The owner of the schema reads all rows for once; after_each.sql closes the wall again.
alter table directories no force row level security;
insert into directory_tokens (organization_id, directory_id, id, token_hash, last_four, created_at)
  select organization_id, id, gen_random_uuid(), token_hash, '', created_at from directories;
alter table directories drop column token_hash;
alter table directories add column last_synced_at timestamptz(3);

-- A user as the directory sent it. The other columns are taken from the attributes. The keys are what SCIM compares.
alter table directory_users
  add column attributes jsonb not null default '{}',
  add column version integer not null default 1,
  add column user_name_key text collate "C" not null generated always as (lower(user_name)) stored,
  add constraint directory_users_of_directory unique (organization_id, directory_id, id);
drop index directory_users_name;
create unique index directory_users_name on directory_users (organization_id, directory_id, user_name_key);
create index directory_users_external on directory_users (organization_id, directory_id, external_id);
create index directory_users_email on directory_users (organization_id, email);

-- The role that the members of a group get in the organization, if any.
alter table directory_groups
  add column role text check (role in ('admin', 'member')),
  add column version integer not null default 1,
  add column display_name_key text collate "C" not null generated always as (lower(display_name)) stored,
  add constraint directory_groups_of_directory unique (organization_id, directory_id, id);
drop index directory_groups_name;
create unique index directory_groups_name on directory_groups (organization_id, directory_id, display_name_key);
create index directory_groups_external on directory_groups (organization_id, directory_id, external_id);

create table directory_group_members (
  organization_id uuid not null references organizations (id) on delete cascade,
  directory_id uuid not null,
  group_id uuid not null,
  user_id uuid not null,
  primary key (organization_id, group_id, user_id),
  foreign key (organization_id, directory_id, group_id)
    references directory_groups (organization_id, directory_id, id) on delete cascade,
  foreign key (organization_id, directory_id, user_id)
    references directory_users (organization_id, directory_id, id) on delete cascade
);
create index directory_group_members_of_user on directory_group_members (organization_id, user_id);

-- Addresses of users whom a directory deleted. Their ID tokens can be valid for another day.
create table directory_leavers (
  organization_id uuid not null references organizations (id) on delete cascade,
  email text not null,
  left_at timestamptz(3) not null default now(),
  primary key (organization_id, email)
);

-- A member whom a directory knows. With a directory_role, the role is the higher one of it and of the hand_role, which an
-- administrator gave before; without a hand_role, the membership ends with the directory_role.
alter table members
  add column directory_user_id uuid,
  add column directory_role text check (directory_role in ('admin', 'member')),
  add column hand_role text check (hand_role in ('admin', 'member')),
  add foreign key (organization_id, directory_user_id)
    references directory_users (organization_id, id) on delete set null (directory_user_id);
create unique index members_directory_user on members (organization_id, directory_user_id);
