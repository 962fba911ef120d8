-- Runs after new migrations: every tenant table gets its wall by construction, not by remembering.
-- A tenant table is one with a column organization_id; organizations itself is walled by its own id.
do $$
declare
  tenant record;
begin
  for tenant in
    select c.oid::regclass as name, case when c.relname = 'organizations' then 'id' else 'organization_id' end as key
    from pg_class c
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
      and (c.relname = 'organizations'
           or exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'organization_id' and not a.attisdropped))
  loop
    execute format('alter table %s enable row level security', tenant.name);
    execute format('alter table %s force row level security', tenant.name);
    execute format('drop policy if exists tenant on %s', tenant.name);
    -- In a subquery, so that it is asked once for a statement and not once for a row.
    execute format('create policy tenant on %s using (%I = (select current_organization())) with check (%2$I = (select current_organization()))', tenant.name, tenant.key);
  end loop;
end
$$;

-- The operator's commands go through every organization: they list them as the owner, then act as the service.
drop policy if exists operator on organizations;
create policy operator on organizations for select to current_user using (true);

revoke all on all tables in schema public from :service_role;
grant usage on schema public to :service_role;
grant select, insert, update, delete on all tables in schema public to :service_role;
-- The audit trail and the records of tool calls only grow, and the record of migrations is the owner's.
-- An organization goes only by the owner's hand: with it would go its audit trail.
revoke delete on organizations from :service_role;
revoke update, delete on audit_events, tool_call_records from :service_role;
revoke delete on audit_chains from :service_role;
revoke insert, update, delete on audit_keys from :service_role;
revoke all on migrations from :service_role;
