-- A chain per organization: each row's hash covers the row and the hash before it. The chain's head is in a table of its
-- own, so that a missing tail shows too, and appending locks it.
create table audit_chains (
  organization_id uuid primary key references organizations (id) on delete cascade,
  length bigint not null,
  hash bytea not null
);

-- A partition for each month. A key of a partitioned table contains the time, so the sequence alone isn't unique, but
-- appending locks the head of the chain, and verification reports duplicates.
create table audit_events (
  organization_id uuid not null references organizations (id) on delete cascade,
  sequence bigint not null constraint audit_events_sequence check (sequence > 0),
  id uuid not null,
  actor text not null,
  action text not null,
  target text not null,
  data jsonb not null,
  created_at timestamptz(3) not null default now(),
  -- An HMAC that the service computes (server/src/kernel/stores/audit/chain.ts): someone who writes the database could
  -- recompute a plain hash.
  hash bytea not null,
  key_id text not null,
  -- The ID of the user or service account who made the change, because addresses change, and accounts can share one.
  -- Without a foreign key: events outlive their actors.
  actor_id uuid,
  primary key (organization_id, sequence, created_at)
) partition by range (created_at);
create index audit_events_actor on audit_events (organization_id, actor, sequence);
create index audit_events_actor_id on audit_events (organization_id, actor_id, sequence) where actor_id is not null;
create index audit_events_action on audit_events (organization_id, action, sequence);
create index audit_events_target on audit_events (organization_id, target, sequence);

-- The plain hash of rows with the key_id `sha256`, from before hashes were keyed. They stay verifiable.
create function audit_hash(previous bytea, event audit_events) returns bytea language sql stable as $$
  select sha256(previous || convert_to(jsonb_build_array(
    event.organization_id, event.sequence, event.id, event.actor, event.action, event.target, event.data,
    iso_timestamp(event.created_at)
  )::text, 'utf8'))
$$;

-- Keys of secrets that were rotated out, sealed with the current one: rows with them stay verifiable.
create table audit_keys (
  id text primary key,
  key_sealed text not null,
  created_at timestamptz(3) not null default now()
);

-- How far the background verification of each chain has come (server/src/organizations/audit-events/verifier.ts).
create table audit_verifications (
  organization_id uuid primary key references organizations (id) on delete cascade,
  state jsonb,
  -- Authenticates the state with a key that isn't in the database.
  mac bytea
);
