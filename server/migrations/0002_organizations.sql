-- Users belong to no organization; their other tables are in 0005_accounts.sql. The pair (issuer, subject) identifies a
-- user. An address alone never does.
create table users (
  id uuid primary key,
  -- Users of an organization's provider have the issuer `org:<organization id>:<issuer>`.
  issuer text not null,
  subject text not null,
  email text not null,
  email_verified boolean not null default false,
  name text not null,
  avatar_url text not null default '',
  password_hash text,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  -- How often all sessions of the user were ended at once. A session knows the number that it began with.
  session_generation integer not null default 0,
  unique (issuer, subject)
);
create index users_email on users (email);
create index users_of_organizations on users (split_part(issuer, ':', 2)) where issuer like 'org:%';

create table organizations (
  id uuid primary key,
  name text not null check (char_length(name) between 1 and 100),
  slug text not null unique,
  avatar_url text not null default '',
  plan_id text not null default 'free',
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  -- When the stored state of the subscription was requested: an older one that arrives later isn't stored. In
  -- microseconds, so that two requests within a millisecond have an order too.
  billing_read_at timestamptz,
  -- For how many days arguments and results of tool calls are kept; 0 keeps none.
  tool_call_contents_days smallint not null default 0 check (tool_call_contents_days between 0 and 365),
  -- Whether new usage is reported to the billing provider. Each sync decides it.
  reports_usage boolean not null default false
);

-- Connections to the directories of organizations' users.
create table directories (
  organization_id uuid not null references organizations (id) on delete cascade,
  id uuid not null,
  name text not null check (char_length(name) between 1 and 100),
  type text not null check (type in ('okta', 'azure', 'google', 'onelogin', 'generic')),
  domain text not null,
  status text not null default 'active' check (status in ('active', 'inactive')),
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  last_synced_at timestamptz(3),
  primary key (organization_id, id)
);
-- An address belongs to one directory; another one for its domain can wait beside it.
create unique index directories_active_domain on directories (organization_id, domain) where status = 'active';

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
-- A token finds its own directory.
create policy token_holder on directory_tokens for select using (token_hash = current_key_hash());

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
  -- The user as the directory sent it. The columns above are taken from it.
  attributes jsonb not null default '{}',
  version integer not null default 1,
  -- What SCIM compares.
  user_name_key text collate "C" not null generated always as (lower(user_name)) stored,
  primary key (organization_id, id),
  foreign key (organization_id, directory_id) references directories (organization_id, id) on delete cascade,
  constraint directory_users_of_directory unique (organization_id, directory_id, id)
);
create unique index directory_users_name on directory_users (organization_id, directory_id, user_name_key);
create index directory_users_external on directory_users (organization_id, directory_id, external_id);
create index directory_users_email on directory_users (organization_id, email);

create table directory_groups (
  organization_id uuid not null references organizations (id) on delete cascade,
  directory_id uuid not null,
  id uuid not null,
  external_id text,
  display_name text not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  -- The role that the group's members get in the organization, if any.
  role text check (role in ('admin', 'member')),
  version integer not null default 1,
  -- What SCIM compares.
  display_name_key text collate "C" not null generated always as (lower(display_name)) stored,
  primary key (organization_id, id),
  foreign key (organization_id, directory_id) references directories (organization_id, id) on delete cascade,
  constraint directory_groups_of_directory unique (organization_id, directory_id, id)
);
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
create index directory_leavers_left on directory_leavers (organization_id, left_at);

-- Former addresses of a directory's users. They stay closed until another active user of a directory has them.
create table directory_former_addresses (
  organization_id uuid not null references organizations (id) on delete cascade,
  user_id uuid not null,
  email text not null,
  primary key (organization_id, user_id, email),
  foreign key (organization_id, user_id) references directory_users (organization_id, id) on delete cascade
);
create index directory_former_addresses_email on directory_former_addresses (organization_id, email);

-- With a directory_role, the role is the higher one of it and of the hand_role, which an administrator gave. Without a
-- hand_role, the membership ends with the directory_role.
create table members (
  organization_id uuid not null references organizations (id) on delete cascade,
  id uuid not null,
  user_id uuid not null references users (id) on delete cascade,
  role text not null check (role in ('admin', 'member')),
  created_at timestamptz(3) not null default now(),
  -- When a directory ended the membership. Only the directory sees it, and may bring it back.
  deactivated_at timestamptz(3),
  directory_user_id uuid,
  directory_role text check (directory_role in ('admin', 'member')),
  hand_role text check (hand_role in ('admin', 'member')),
  -- The directory user whose end has deactivated a membership with one of their addresses.
  closed_by uuid,
  -- A directory made the user a member without asking, and they haven't been told how to leave.
  notice_due boolean not null default false,
  primary key (organization_id, id),
  unique (organization_id, user_id),
  foreign key (organization_id, directory_user_id)
    references directory_users (organization_id, id) on delete set null (directory_user_id)
);
create index members_user on members (user_id);
create unique index members_directory_user on members (organization_id, directory_user_id);
create index members_notice on members (organization_id) where notice_due;
-- Users see their own memberships, and the organizations that these belong to.
create policy own_memberships on members for select using (user_id = current_person() and deactivated_at is null);
create policy own_organizations on organizations for select using (
  current_person() is not null
  and exists (select from members m where m.organization_id = organizations.id and m.user_id = current_person())
);
-- A user who signs in with a new address can get back what was closed with the old one.
create policy returning_user on members for select using (
  deactivated_at is not null and user_id = nullif(current_setting('inlay.returning_user', true), '')::uuid);

-- Users whose membership ended. They come back by a new invitation; a directory brings back those whom it removed itself.
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
create index former_members_directory_user on former_members (organization_id, directory_user_id)
  where directory_user_id is not null;

-- Invitations expire, and each has links that work once. The administrator's link only shows that the administrator
-- invited its holder; the mailed one also proves the address.
create table invitations (
  organization_id uuid not null references organizations (id) on delete cascade,
  id uuid not null,
  email text not null,
  role text not null check (role in ('admin', 'member')),
  invited_by text not null,
  created_at timestamptz(3) not null default now(),
  expires_at timestamptz(3) not null default now() + interval '7 days',
  link_hash text unique,
  mailed_link_hash text unique,
  -- The directory user whom a directory invited. The roles are those of the membership that the invitation becomes.
  directory_user_id uuid,
  directory_role text check (directory_role in ('admin', 'member')),
  hand_role text check (hand_role in ('admin', 'member')),
  primary key (organization_id, id),
  constraint invitations_email unique (organization_id, email),
  foreign key (organization_id, directory_user_id)
    references directory_users (organization_id, id) on delete set null (directory_user_id)
);
create index invitations_by_email on invitations (email);
create index invitations_by_expiry on invitations (organization_id, expires_at);
create unique index invitations_directory_user on invitations (organization_id, directory_user_id);
-- Users accept invitations themselves, so they have to see which organization invites them.
create policy own_invitations on invitations for select using (email = current_invitee());
create policy inviting_organizations on organizations for select using (
  current_invitee() is not null
  and exists (select from invitations i where i.organization_id = organizations.id and i.email = current_invitee())
);
create policy link_holder on invitations for select using (current_key_hash() in (link_hash, mailed_link_hash));
create policy linked_organizations on organizations for select using (
  current_key_hash() is not null
  and exists (
    select from invitations i
    where i.organization_id = organizations.id and current_key_hash() in (i.link_hash, i.mailed_link_hash))
);

-- Seats follow members and invitations, which many transactions change; the changes of ten seconds are sent together.
-- Deferred to the commit, so that the job's row is the last that they lock: locked earlier, it could deadlock with the
-- lock on the organization or with other jobs.
create function request_seats() returns trigger language plpgsql as $$
declare
  changed uuid := coalesce(new.organization_id, old.organization_id);
begin
  -- Before PostgreSQL 18, this is the role that commits. Maintenance, which erases organizations, has no such right.
  if has_table_privilege('public.jobs', 'insert') then
    if exists (
      select from public.subscriptions
      where organization_id = changed and seats is not null and status in ('active', 'trialing') and cancel_at is null
    ) then
      perform public.request_jobs(changed, 'billing_seats', '{""}', now() + interval '10 seconds');
    end if;
  end if;
  return null;
end
$$;
create constraint trigger request_seats after insert or delete or update of deactivated_at on members
  deferrable initially deferred for each row execute function request_seats();
create constraint trigger request_seats after insert or delete on invitations
  deferrable initially deferred for each row execute function request_seats();

-- Mail that the operator's SMTP server hasn't accepted yet. It belongs to the installation, not to an organization.
create table mail_outbox (
  id uuid primary key,
  -- Sealed, because it contains links that give access.
  message_sealed text not null,
  -- The invitation that it is about: when that ends, the mail isn't sent.
  invitation_id uuid,
  created_at timestamptz(3) not null default now(),
  -- It is dropped if it couldn't be sent by then.
  expires_at timestamptz(3) not null
);
create index mail_outbox_by_invitation on mail_outbox (invitation_id) where invitation_id is not null;

-- Refused requests. A repeated refusal only counts up, so that a broken or hostile page can't fill the table.
create table refusals (
  organization_id uuid not null references organizations (id) on delete cascade,
  id uuid not null,
  -- Hash of everything below except the numbers and times: what makes two refusals the same.
  fingerprint text not null,
  surface text not null check (surface in ('ticket', 'id_token', 'scim', 'delegated_identity', 'sign_in')),
  step text not null,
  code text not null,
  message text not null,
  expected text,
  seen text,
  origin text,
  publishable_key_id uuid,
  count bigint not null,
  first_at timestamptz(3) not null,
  last_at timestamptz(3) not null,
  -- The directory whose request was refused.
  directory_id uuid,
  primary key (organization_id, id),
  unique (organization_id, fingerprint)
);
create index refusals_last on refusals (organization_id, last_at desc);

-- Organizations that an administrator deleted: what is still to be erased, and the receipts. The rows belong to the
-- installation and outlive the organization, so they only keep a hash of its ID.
create table organization_erasures (
  id uuid primary key,
  -- SHA-256 of the organization's ID.
  organization_hash text not null,
  -- The organization's ID until nothing of it is left.
  pending_id uuid unique,
  -- The user who can read the receipt.
  requested_by uuid references users (id) on delete set null,
  -- How many rows of each table were erased so far. Written in the transaction that erases them.
  counts jsonb not null default '{}',
  requested_at timestamptz(3) not null default now(),
  finished_at timestamptz(3),
  check ((pending_id is null) = (finished_at is not null))
);
create index organization_erasures_of_user on organization_erasures (requested_by);
