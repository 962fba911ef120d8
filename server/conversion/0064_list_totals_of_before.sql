-- Counts what was there before the triggers. A statement sees rows and what the triggers have counted of them as of the
-- same moment, so nothing has to be locked.
do $$
declare
  organization uuid;
begin
  for organization in select id from organizations loop
    -- Row-level security is forced on the owner too, unless that is a superuser: statements name the organization as well.
    perform set_config('inlay.organization_id', organization::text, true);
    insert into list_totals (organization_id, list, items, messages, tokens)
    select organization, list, coalesce(found.items, 0) - coalesce(counted.items, 0),
           coalesce(found.messages, 0) - coalesce(counted.messages, 0), coalesce(found.tokens, 0) - coalesce(counted.tokens, 0)
    from (
      select 'threads/' || status as list, count(*) as items, sum(message_count)::bigint as messages,
             sum(total_tokens)::bigint as tokens
      from threads where organization_id = organization group by status
      union all
      select 'end_users', count(*), 0, 0 from end_users where organization_id = organization and merged_into is null
    ) found
    full join (
      select list, sum(items)::bigint as items, sum(messages)::bigint as messages, sum(tokens)::bigint as tokens
      from list_totals where organization_id = organization group by list
    ) counted using (list);
  end loop;
  perform set_config('inlay.organization_id', '', true);
end
$$;
