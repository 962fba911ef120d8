-- Only end users who are listed, so that a list skips what an offset says in the index alone.
drop index end_users_created;
create index end_users_created on end_users (organization_id, created_at, id) where merged_into is null;
