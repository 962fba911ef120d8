-- How many end users an issuer has, as a total that is kept.
create or replace function count_new_end_users() returns trigger language plpgsql as $$
begin
  perform public.add_to_list_total(organization_id, 'end_users', count(*), 0, 0)
  from added where merged_into is null group by organization_id;
  perform public.add_to_list_total(organization_id, 'end_users/' || issuer, count(*), 0, 0)
  from added where merged_into is null and preview_user_id is null group by organization_id, issuer;
  return null;
end
$$;

create or replace function count_gone_end_users() returns trigger language plpgsql as $$
begin
  perform public.add_to_list_total(organization_id, 'end_users', -count(*), 0, 0)
  from gone where merged_into is null group by organization_id;
  perform public.add_to_list_total(organization_id, 'end_users/' || issuer, -count(*), 0, 0)
  from gone where merged_into is null and preview_user_id is null group by organization_id, issuer;
  return null;
end
$$;

create or replace function count_changed_end_user() returns trigger language plpgsql as $$
declare
  before text := case when old.merged_into is null and old.preview_user_id is null then 'end_users/' || old.issuer end;
  after text := case when new.merged_into is null and new.preview_user_id is null then 'end_users/' || new.issuer end;
begin
  perform public.add_to_list_total(new.organization_id, 'end_users',
                            (new.merged_into is null)::int - (old.merged_into is null)::int, 0, 0);
  if before is distinct from after then
    if before is not null then
      perform public.add_to_list_total(old.organization_id, before, -1, 0, 0);
    end if;
    if after is not null then
      perform public.add_to_list_total(new.organization_id, after, 1, 0, 0);
    end if;
  end if;
  return null;
end
$$;

drop trigger count_changed on end_users;
create trigger count_changed after update of merged_into, issuer, preview_user_id on end_users
  for each row execute function count_changed_end_user();

delete from list_totals where starts_with(list, 'end_users/');
insert into list_totals (organization_id, list, items)
select organization_id, 'end_users/' || issuer, count(*) from end_users
where merged_into is null and preview_user_id is null group by 1, 2;
