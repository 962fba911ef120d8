-- What the requests of a directory look for.
create index former_members_directory_user on former_members (organization_id, directory_user_id)
  where directory_user_id is not null;
create index directory_leavers_left on directory_leavers (organization_id, left_at);
