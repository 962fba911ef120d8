-- A skill and where it stands. Its text is in its versions; name and description are here for finding it.
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
  primary key (organization_id, id)
);
-- The name of an archived skill is free again. In the order of code points: the list's order, whatever the locale.
create unique index organization_skills_name on organization_skills (organization_id, name collate "C") where archived_at is null;

-- Every text that a skill ever had.
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
