-- A member who talks to the agent in the dashboard does so as an end user of their own.
alter table end_users add column preview_user_id uuid;
create unique index end_users_preview on end_users (organization_id, preview_user_id) where preview_user_id is not null;

-- What the governance provider decided about a call; null if the call wasn't made.
alter table tool_calls add column governance text
  check (governance in ('none', 'allowed', 'refused', 'result_refused'));
