-- The threads of an end user, in the order in which they are listed.
drop index threads_end_user;
create index threads_of_end_user
  on threads (organization_id, end_user_id, status, (case when last_message_at is null then created_at else last_message_at end), id)
  where end_user_id is not null;
