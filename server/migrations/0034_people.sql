-- Invitations expire, and each has links that work once. The administrator's link only shows that the administrator
-- invited its holder; the mailed one also proves the address.
alter table invitations add column expires_at timestamptz(3) not null default now() + interval '7 days';
alter table invitations add column link_hash text unique;
alter table invitations add column mailed_link_hash text unique;
create index invitations_by_expiry on invitations (expires_at);
create policy link_holder on invitations for select using (current_key_hash() in (link_hash, mailed_link_hash));
create policy linked_organizations on organizations for select using (
  current_key_hash() is not null
  and exists (
    select from invitations i
    where i.organization_id = organizations.id and current_key_hash() in (i.link_hash, i.mailed_link_hash))
);
create policy expiry on invitations for select
  using (current_setting('inlay.task', true) = 'expiry' and expires_at <= now());

-- Mail that the operator's SMTP server hasn't accepted yet. It belongs to the installation, not to an organization.
create table mail_outbox (
  id uuid primary key,
  -- Sealed, because it contains links that give access.
  message_sealed text not null,
  -- The invitation that it is about: when that ends, the mail isn't sent.
  invitation_id uuid,
  created_at timestamptz(3) not null default now(),
  due_at timestamptz(3) not null default now(),
  -- Failed attempts in a row.
  attempts integer not null default 0,
  -- Until when a node sends it. Another node takes over afterwards.
  leased_until timestamptz(3),
  -- It is dropped if it couldn't be sent by then.
  expires_at timestamptz(3) not null
);
create index mail_outbox_due on mail_outbox (due_at);
create index mail_outbox_by_invitation on mail_outbox (invitation_id) where invitation_id is not null;

-- The authenticator app of an account with a password. The id is the user's.
create table second_factors (
  id uuid primary key references users (id) on delete cascade,
  key_sealed text not null,
  -- The newest time step whose code was used: a code works once.
  last_step bigint not null,
  created_at timestamptz(3) not null default now()
);
-- For users who lost their authenticator app. Each works once.
create table recovery_codes (
  user_id uuid not null references second_factors (id) on delete cascade,
  code_hash text not null,
  primary key (user_id, code_hash)
);
