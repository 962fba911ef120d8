-- not in a transaction
-- Threads are listed by status, latest first. A list of several statuses merges the beginnings of theirs.
drop index concurrently if exists threads_of_status;
create index concurrently threads_of_status
  on threads (organization_id, status, coalesce(last_message_at, created_at), id);
drop index concurrently if exists threads_activity;
