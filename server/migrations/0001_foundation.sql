-- Who the current transaction acts for. Unset and empty both mean nobody.
create function current_organization() returns uuid language sql stable parallel safe
  as $$ select nullif(current_setting('inlay.organization_id', true), '')::uuid $$;
create function current_person() returns uuid language sql stable parallel safe
  as $$ select nullif(current_setting('inlay.user_id', true), '')::uuid $$;
create function current_invitee() returns text language sql stable parallel safe
  as $$ select nullif(current_setting('inlay.invited_email', true), '') $$;

-- The interface's timestamps, for those inside JSON; the driver does the same for columns.
create function iso_timestamp(moment timestamptz) returns text language sql stable parallel safe
  as $$ select to_char(moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') $$;

-- People belong to no organization. The pair (issuer, subject) is who they are; an address alone never is.
create table users (
  id uuid primary key,
  issuer text not null,
  subject text not null,
  email text not null,
  email_verified boolean not null default false,
  name text not null,
  avatar_url text not null default '',
  password_hash text,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  unique (issuer, subject)
);
create index users_email on users (email);

create table organizations (
  id uuid primary key,
  name text not null check (char_length(name) between 1 and 100),
  slug text not null unique,
  avatar_url text not null default '',
  plan_id text not null default 'free',
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now()
);

create table members (
  organization_id uuid not null references organizations (id) on delete cascade,
  id uuid not null,
  user_id uuid not null references users (id) on delete cascade,
  role text not null check (role in ('admin', 'member')),
  created_at timestamptz(3) not null default now(),
  primary key (organization_id, id),
  unique (organization_id, user_id)
);
create index members_user on members (user_id);

-- Beside the wall of after_each.sql: people see their own memberships and the organizations these belong to.
create policy own_memberships on members for select using (user_id = current_person());
create policy own_organizations on organizations for select using (
  current_person() is not null
  and exists (select from members m where m.organization_id = organizations.id and m.user_id = current_person())
);

create table invitations (
  organization_id uuid not null references organizations (id) on delete cascade,
  id uuid not null,
  email text not null,
  role text not null check (role in ('admin', 'member')),
  invited_by text not null,
  created_at timestamptz(3) not null default now(),
  primary key (organization_id, id),
  constraint invitations_email unique (organization_id, email)
);
create index invitations_by_email on invitations (email);
create policy own_invitations on invitations for select using (email = current_invitee());

-- The key itself is nowhere: a hash finds it, a sealed copy can be shown again until the key is revoked.
create table publishable_keys (
  organization_id uuid not null references organizations (id) on delete cascade,
  id uuid not null,
  name text not null check (char_length(name) between 1 and 100),
  key_prefix text not null,
  key_hash text not null unique,
  key_sealed text,
  allowed_origins text[] not null default '{}',
  revoked_at timestamptz(3),
  last_used_at timestamptz(3),
  created_at timestamptz(3) not null default now(),
  primary key (organization_id, id)
);

-- A chain per organization: each row's hash covers the row and the hash before it. The chain's head lives apart, so that
-- a missing tail shows too.
create table audit_chains (
  organization_id uuid primary key references organizations (id) on delete cascade,
  length bigint not null,
  hash bytea not null
);
create table audit_events (
  organization_id uuid not null references organizations (id) on delete cascade,
  sequence bigint not null,
  id uuid not null,
  actor text not null,
  action text not null,
  target text not null,
  data jsonb not null,
  created_at timestamptz(3) not null default now(),
  hash bytea not null,
  primary key (organization_id, sequence)
);
create function audit_hash(previous bytea, event audit_events) returns bytea language sql stable as $$
  select sha256(previous || convert_to(jsonb_build_array(
    event.organization_id, event.sequence, event.id, event.actor, event.action, event.target, event.data,
    iso_timestamp(event.created_at)
  )::text, 'utf8'))
$$;
-- In a trigger, so that no way of inserting can leave the chain.
create function chain_audit_event() returns trigger language plpgsql as $$
declare
  previous bytea;
begin
  insert into audit_chains (organization_id, length, hash) values (new.organization_id, 0, sha256('')) on conflict do nothing;
  select length + 1, hash into new.sequence, previous from audit_chains where organization_id = new.organization_id for update;
  new.hash := audit_hash(previous, new);
  update audit_chains set length = new.sequence, hash = new.hash where organization_id = new.organization_id;
  return new;
end
$$;
create trigger chain before insert on audit_events for each row execute function chain_audit_event();
