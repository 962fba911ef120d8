-- Whoever the organization's directory says has left is no member to anybody but the directory, which may bring them back.
alter table members add column deactivated_at timestamptz(3);
alter policy own_memberships on members using (user_id = current_person() and deactivated_at is null);

-- How often all sessions of a person were ended at once. A session knows the number that it began with.
alter table users add column session_generation integer not null default 0;
