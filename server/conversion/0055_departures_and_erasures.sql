-- Departures and the erasures of organizations become jobs.
alter table jobs no force row level security;
alter table departures no force row level security;
insert into jobs (organization_id, kind, key)
  select organization_id, 'departure', person_id::text from departures
  union all select 'ffffffff-ffff-ffff-ffff-ffffffffffff', 'organization_erasure', id::text
    from organization_erasures where pending_id is not null;
drop table departures;
