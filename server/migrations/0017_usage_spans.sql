-- The list of end users by usage added up a row per end user and day. A second row for every 8 days leaves it few rows to
-- add up. Spans of 8 days are counted from 1970-01-01.
alter table usage_end_user_days rename to usage_end_user_spans;
alter index usage_end_user_days_of_end_user rename to usage_end_user_spans_of_end_user;
alter table usage_end_user_spans
  -- How many days the row covers, of which `day` is the first.
  add column days smallint not null default 1 check (days in (1, 8)),
  drop constraint usage_end_user_days_pkey,
  add primary key (organization_id, days, day, end_user_id);
alter table usage_end_user_spans alter column days drop default;

create function usage_span_start(day date, days integer) returns date language sql immutable parallel safe
  as $$ select day - ((day - date '1970-01-01') % days + days) % days $$;

do $$
declare
  organization uuid;
begin
  for organization in select id from organizations loop
    -- The walls are forced on the owner too, unless that is a superuser: statements name the organization as well.
    perform set_config('inlay.organization_id', organization::text, true);
    insert into usage_end_user_spans (organization_id, days, day, end_user_id, requests, prompt_tokens, completion_tokens)
    select organization, 8, usage_span_start(day, 8), end_user_id,
           sum(requests), sum(prompt_tokens), sum(completion_tokens)
    from usage_end_user_spans where organization_id = organization and days = 1
    group by usage_span_start(day, 8), end_user_id;
  end loop;
  perform set_config('inlay.organization_id', '', true);
end
$$;
