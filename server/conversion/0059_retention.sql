-- Drops months of a partitioned table, for operators who keep only some. The current month always stays.
create function drop_partitions(parent text, before timestamptz) returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp set timezone = 'UTC' set lock_timeout = '2s'
as $$
declare
  partition text;
  dropped integer := 0;
begin
  if before > date_trunc('month', now()) then
    raise exception 'The current month can''t be dropped' using errcode = 'insufficient_privilege';
  end if;
  for partition in
    select c.relname from pg_inherits join pg_class c on c.oid = inhrelid
    where inhparent = to_regclass(format('public.%I', parent)) and c.relkind = 'r'
      and substring(pg_get_expr(c.relpartbound, c.oid) from $re$TO \('([^']+)'\)$re$)::timestamptz <= before
  loop
    execute format('drop table public.%I', partition);
    dropped := dropped + 1;
  end loop;
  return dropped;
end $$;
revoke execute on function drop_partitions from public;

-- The last number of each organization in the months of the audit trail that drop_partitions would drop.
create function audit_events_to_drop(before timestamptz) returns table (organization_id uuid, sequence bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp set timezone = 'UTC'
as $$
declare
  partition text;
begin
  for partition in
    select c.relname from pg_inherits join pg_class c on c.oid = inhrelid
    where inhparent = 'public.audit_events'::regclass and c.relkind = 'r'
      and substring(pg_get_expr(c.relpartbound, c.oid) from $re$TO \('([^']+)'\)$re$)::timestamptz <= before
  loop
    -- Partitions have no row-level security of their own.
    return query execute format(
      'select e.organization_id, max(e.sequence) from public.%I e group by e.organization_id', partition);
  end loop;
end $$;
revoke execute on function audit_events_to_drop from public;
