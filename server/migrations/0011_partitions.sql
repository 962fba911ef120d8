-- The partitions of the months to come, and one for rows from before the first month, such as demo data. There is no
-- default partition: rows in it would keep the month that they belong to from being made.
do $$
declare
  today date := now() at time zone 'UTC';
  parent text;
begin
  for parent in select relname from pg_class where relnamespace = 'public'::regnamespace and relkind = 'p' loop
    execute format('create table %I partition of %I for values from (minvalue) to (%L)',
      parent || '_earlier', parent, date_trunc('month', today)::date || ' 00:00:00+00');
  end loop;
  perform make_partitions(today, 13);
end
$$;
