-- What only the schema's owner may do, and a running server has to do now and then: as functions, which the walls
-- (kernel/stores/postgres/row-level-security.ts) let the maintenance role execute, and nobody else. make_partitions is one too.

-- For a server that isn't allowed to migrate.
create function applied_migrations() returns table (name text, checksum text)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$ select name, checksum from public.migrations $$;
revoke execute on function applied_migrations from public;

create function analyze_table(name text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  -- Another node may be analyzing it.
  execute format('analyze (skip_locked) public.%I', name);
end $$;
revoke execute on function analyze_table from public;

-- Deletes some rows of an organization whose erasure was requested, and counts them in the same transaction.
create function erase_rows(erasure uuid, organization uuid, table_name text, most integer) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  key text := case table_name when 'organizations' then 'id' else 'organization_id' end;
  erased integer;
begin
  perform from public.organization_erasures where id = erasure and pending_id = organization;
  if not found then
    raise exception 'No erasure of the organization % is pending', organization using errcode = 'insufficient_privilege';
  end if;
  perform set_config('inlay.organization_id', organization::text, true);
  execute format(
    'delete from public.%1$I where ctid = any(array(select ctid from public.%1$I where %2$I = $1 limit $2)) and %2$I = $1',
    table_name, key) using organization, most;
  get diagnostics erased = row_count;
  if erased > 0 then
    update public.organization_erasures
    set counts = jsonb_set(counts, array[table_name], to_jsonb(coalesce((counts ->> table_name)::bigint, 0) + erased))
    where id = erasure;
  end if;
  return erased;
end $$;
revoke execute on function erase_rows from public;
