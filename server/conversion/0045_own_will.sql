-- Addresses that a directory's users had before. They stay closed until another active user of a directory has them.
create table directory_former_addresses (
  organization_id uuid not null references organizations (id) on delete cascade,
  user_id uuid not null,
  email text not null,
  primary key (organization_id, user_id, email),
  foreign key (organization_id, user_id) references directory_users (organization_id, id) on delete cascade
);
create index directory_former_addresses_email on directory_former_addresses (organization_id, email);

-- People whose membership ended. They come back by a new invitation; a directory brings back those whom it removed itself.
create table former_members (
  organization_id uuid not null references organizations (id) on delete cascade,
  id uuid not null,
  user_id uuid,
  directory_user_id uuid,
  email text not null,
  ended_by text not null check (ended_by in ('member', 'administrator', 'directory')),
  ended_at timestamptz(3) not null default now(),
  primary key (organization_id, id)
);
create index former_members_email on former_members (organization_id, email);
create index former_members_user on former_members (organization_id, user_id);

-- An invitation by a directory. The roles are those of the membership that it becomes, see 0031.
alter table invitations
  add column directory_user_id uuid,
  add column directory_role text check (directory_role in ('admin', 'member')),
  add column hand_role text check (hand_role in ('admin', 'member')),
  add foreign key (organization_id, directory_user_id)
    references directory_users (organization_id, id) on delete set null (directory_user_id);
create unique index invitations_directory_user on invitations (organization_id, directory_user_id);

alter table members
  -- The directory user whose end has deactivated a membership with one of their addresses.
  add column closed_by uuid,
  -- A directory made the user a member without asking, and they haven't been told how to leave.
  add column notice_due boolean not null default false;
create index members_notice on members (organization_id) where notice_due;
create policy notices on members for select using (current_setting('inlay.task', true) = 'notices' and notice_due);
-- A user who signs in with a new address can get back what was closed with the old one.
create policy returning_user on members for select using (
  deactivated_at is not null and user_id = nullif(current_setting('inlay.returning_user', true), '')::uuid);

-- The owner of the schema reads and changes all rows for once; after_each.sql closes the wall again.
alter table members no force row level security;
alter table invitations no force row level security;
alter table sign_in_domains no force row level security;
alter table sign_in_joins no force row level security;
alter table audit_events no force row level security;
alter table directory_users no force row level security;
alter table directories no force row level security;

update members m set notice_due = true
from users u
where u.id = m.user_id and m.directory_role is not null and m.hand_role is null
  and not exists (
    select from sign_in_domains d
    where d.organization_id = m.organization_id and d.verified_at is not null and d.domain = split_part(u.email, '@', 2));

insert into former_members (organization_id, id, user_id, email, ended_by)
  select j.organization_id, gen_random_uuid(), u.id, u.email, 'administrator'
  from sign_in_joins j join users u on u.id = j.user_id
  where not exists (select from members m where m.organization_id = j.organization_id and m.user_id = j.user_id);
drop table sign_in_joins;
insert into former_members (organization_id, id, email, ended_by)
  select distinct on (e.organization_id, email) e.organization_id, gen_random_uuid(), email,
    case when e.action = 'member.left' then 'member'
         when exists (select from directories d where d.organization_id = e.organization_id and e.actor = 'directory ' || d.name)
         then 'directory' else 'administrator' end
  from audit_events e cross join lateral (select e.data ->> 'email' as email) as who
  where e.action in ('member.left', 'member.removed') and email <> ''
    and not exists (
      select from members m join users u on u.id = m.user_id where m.organization_id = e.organization_id and u.email = who.email)
    and not exists (select from invitations i where i.organization_id = e.organization_id and i.email = who.email)
  order by e.organization_id, email, e.sequence desc;
