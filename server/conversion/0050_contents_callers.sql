-- Contents of tool calls have their caller's ID, and belong to an end user who is that person: the caller, the end user of
-- a member's previews, or one with the member's address if the identity provider has verified it. Until now, an address
-- that the end user merely stated was enough.
alter table tool_call_contents no force row level security;
alter table tool_call_records no force row level security;
alter table end_users no force row level security;

-- The end user, or the member's user. Without a foreign key, like the record of the call.
alter table tool_call_contents add column user_id uuid;
update tool_call_contents c set user_id = call.user_id from tool_call_records call
where call.organization_id = c.organization_id and call.at = c.at and call.id = c.call_id;

-- As visitors/identity-provider/verified-emails.ts decides. PostgreSQL can't read \u0000 in JSON, so it is left out.
create function pg_temp.is_verified(issuer text, metadata text) returns boolean language sql immutable as $$
  select case when claims -> 'email_verified' is not null then (claims -> 'email_verified')::text = 'true'
    else issuer ~ '^https://login\.microsoftonline\.(com|us)/'
      and (claims -> 'xms_edov')::text in ('true', '1', '"1"', '"true"') end
  from cast(regexp_replace(metadata, '(\\\\)|\\u0000', '\1', 'g') as json) as claims
$$;

alter table tool_call_contents alter column end_user_id drop not null;
update tool_call_contents c set end_user_id = (
  select e.id from end_users e left join users u on u.id = c.user_id and u.email_verified and u.email = e.email_key
  where e.organization_id = c.organization_id
    and (e.id = c.user_id or e.preview_user_id = c.user_id
         or u.id is not null and pg_temp.is_verified(e.issuer, e.metadata))
  order by e.id <> c.user_id, e.preview_user_id is distinct from c.user_id, e.id limit 1);
-- Nobody could export or erase the others.
delete from tool_call_contents where end_user_id is null;
alter table tool_call_contents alter column end_user_id set not null;
alter table tool_call_contents alter column user_id set not null;
create index tool_call_contents_caller on tool_call_contents (organization_id, user_id);
