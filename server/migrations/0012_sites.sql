-- A site is an origin that an administrator allows, on a key or in the organization's domains; a wildcard is one site. An
-- origin that is no longer allowed stays as long as usage or threads name it, and does not count towards the plan.
alter table sites add column is_allowed boolean not null default false;

-- Deleting a site moves what names it to no site.
create index usage_events_of_site on usage_events (organization_id, site_id) where site_id is not null;
create index threads_of_site on threads (organization_id, site_id) where site_id is not null;

-- Origins that used a key which no origins were set for, in an organization without allowed domains: a small sample for
-- the administrator, never more than a few rows per organization.
create table unallowed_origins (
  organization_id uuid not null references organizations (id) on delete cascade,
  publishable_key_id uuid not null,
  origin text not null,
  count bigint not null,
  first_at timestamptz(3) not null,
  last_at timestamptz(3) not null,
  primary key (organization_id, publishable_key_id, origin),
  foreign key (organization_id, publishable_key_id) references publishable_keys (organization_id, id) on delete cascade
);

-- Until now every origin that somebody sent became a site. The ones that nobody allowed go; what was recorded on them
-- moves to the site of the wildcard that covers them, or to no site.
do $$
declare
  organization uuid;
  -- Stands in the sums for no site.
  no_site constant uuid := '00000000-0000-0000-0000-000000000000';
begin
  for organization in select id from organizations loop
    -- The walls are forced on the owner too, unless that is a superuser: statements name the organization as well.
    perform set_config('inlay.organization_id', organization::text, true);

    create temporary table allowed_origins on commit drop as
      select origin, bool_or(is_live) as is_live from (
        select unnest(allowed_origins) as origin, revoked_at is null as is_live from publishable_keys
        where organization_id = organization
        union all
        select unnest(allowed_domains), true from identity_providers where organization_id = organization
      ) origins group by origin;

    insert into sites (organization_id, id, origin, name, is_allowed)
    select organization,
           -- An id of version 7, as the service makes them.
           (regexp_replace(lpad(to_hex((extract(epoch from now()) * 1000)::bigint), 12, '0'), '(.{8})(.{4})', '\1-\2')
            || '-7' || substr(gen_random_uuid()::text, 16))::uuid,
           origin, regexp_replace(origin, '^[a-z]+://', ''), true
    from allowed_origins where is_live
    on conflict (organization_id, origin) do update set is_allowed = true;

    create temporary table moves on commit drop as
      select s.id, wildcard.id as target from sites s
      left join sites wildcard on wildcard.organization_id = organization and wildcard.is_allowed
        and wildcard.origin = regexp_replace(s.origin, '//[^.]+\.', '//*.')
      where s.organization_id = organization and not exists (select from allowed_origins a where a.origin = s.origin);

    update usage_events e set site_id = m.target from moves m where e.organization_id = organization and e.site_id = m.id;
    update threads t set site_id = m.target from moves m where t.organization_id = organization and t.site_id = m.id;
    with gone as (
      delete from usage_site_days d using moves m where d.organization_id = organization and d.site_id = m.id
      returning d.day, coalesce(m.target, no_site) as site_id, d.requests, d.prompt_tokens, d.completion_tokens
    )
    insert into usage_site_days as kept (organization_id, day, site_id, requests, prompt_tokens, completion_tokens)
    select organization, day, site_id, sum(requests), sum(prompt_tokens), sum(completion_tokens)
    from gone group by day, site_id
    on conflict (organization_id, day, site_id) do update set
      requests = kept.requests + excluded.requests,
      prompt_tokens = kept.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = kept.completion_tokens + excluded.completion_tokens;
    delete from sites s using moves m where s.organization_id = organization and s.id = m.id;
    -- Of a revoked key, and nothing was ever recorded there.
    delete from sites s where s.organization_id = organization and not s.is_allowed
      and not exists (select from usage_events e where e.organization_id = organization and e.site_id = s.id)
      and not exists (select from threads t where t.organization_id = organization and t.site_id = s.id);

    drop table allowed_origins, moves;
  end loop;
  perform set_config('inlay.organization_id', '', true);
end
$$;
