-- The hash of an audit row becomes an HMAC that the service computes (audit/chain.ts): whoever writes the database could
-- recompute a plain hash. Rows so far keep theirs. The runner of the migrations closes each chain of such rows with a
-- keyed one (audit/key-change.ts), which authenticates everything before it.
drop trigger chain on audit_events;
drop function chain_audit_event();
alter table audit_events add column key_id text not null default 'sha256';
alter table audit_events alter column key_id drop default;

-- Keys of secrets that were rotated out, sealed with the current one: rows under them stay verifiable.
create table audit_keys (
  id text primary key,
  key_sealed text not null,
  created_at timestamptz(3) not null default now()
);
