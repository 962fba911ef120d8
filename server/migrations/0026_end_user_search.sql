-- For the search for the beginning of an email address or external ID.
alter table end_users add column email_key text collate "C" not null generated always as (lower(email)) stored;
create index end_users_email_key on end_users (organization_id, email_key);
create index end_users_external_key on end_users (organization_id, external_id collate "C");
