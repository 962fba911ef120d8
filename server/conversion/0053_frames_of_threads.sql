-- The key of the frame that began the thread. A program with the user's ID token can claim any of the organization's
-- origins, but it doesn't have the key of the user's frame there.
alter table threads add column frame_key text;

-- Whether all of the organization's pages have the same origin, so that none can be claimed from another.
create function has_one_site() returns boolean language sql stable parallel safe as $$
  select (
    select count(*) = 1 and bool_and(origin not like '%*%') from sites
    where organization_id = current_organization() and is_allowed
  ) and (
    exists (
      select from identity_providers
      where organization_id = current_organization() and cardinality(allowed_domains) > 0)
    or not exists (
      select from publishable_keys
      where organization_id = current_organization() and revoked_at is null and cardinality(allowed_origins) = 0)
  )
$$;
