-- When an organization changes its identity provider, an administrator can carry an end user over to the subject that the
-- new provider knows them by. If that subject had come already, its row keeps nothing but its ID, which open connections
-- and records name; this is the end user that everything else moved to.
alter table end_users add column merged_into uuid;
