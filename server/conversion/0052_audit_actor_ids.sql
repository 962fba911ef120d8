-- The ID of the user or service account who made a change, because addresses change, and accounts can share one. Without
-- a foreign key: events outlive their actors. Earlier rows have none, and their hashes stay as they are.
alter table audit_events add column actor_id uuid;
