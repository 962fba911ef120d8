-- Threads are listed by status, latest first. A list of several statuses merges the beginnings of theirs. Row-level
-- security keeps a condition on coalesce() from using an index, because PostgreSQL doesn't know it as safe; case is.
drop index if exists threads_of_status;
create index threads_of_status
  on threads (organization_id, status, (case when last_message_at is null then created_at else last_message_at end), id);
drop index if exists threads_activity;
