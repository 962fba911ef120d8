-- How many items a list has, and for threads the sums of their messages and tokens. A total is the sum of its rows: each
-- change adds a row of its own, so that writers never wait for each other and can't deadlock.
create table list_totals (
  organization_id uuid not null references organizations (id) on delete cascade,
  list text not null,
  id uuid not null default gen_random_uuid(),
  items bigint not null,
  messages bigint not null default 0,
  tokens bigint not null default 0,
  primary key (organization_id, list, id)
);

-- Names are complete, because a function of the maintenance role, which has no search path, deletes rows too.
create function add_to_list_total(organization uuid, changed text, items bigint, messages bigint, tokens bigint)
returns void language plpgsql as $$
begin
  if items = 0 and messages = 0 and tokens = 0 then return; end if;
  -- The organization is already gone when its deletion deletes its rows.
  insert into public.list_totals (organization_id, list, items, messages, tokens)
  select organization, changed, add_to_list_total.items, add_to_list_total.messages, add_to_list_total.tokens
  where exists (select from public.organizations where id = organization);
  -- About every 64th change replaces a total's rows by their sum, without those that another transaction is replacing.
  if random() < 1.0 / 64 then
    with replaced as (
      delete from public.list_totals total
      where organization_id = organization and list = changed and ctid = any(array(
        select ctid from public.list_totals where organization_id = organization and list = changed for update skip locked))
      returning total.items, total.messages, total.tokens
    )
    insert into public.list_totals (organization_id, list, items, messages, tokens)
    select organization, changed, sum(replaced.items), sum(replaced.messages), sum(replaced.tokens)
    from replaced having count(*) > 0;
  end if;
end
$$;

-- Inserts and deletes are counted once per statement, because one can have thousands of rows. Updates are counted per
-- row, because only such a trigger can be limited to columns, and most updates of a thread change others.
create function count_new_threads() returns trigger language plpgsql as $$
begin
  perform public.add_to_list_total(organization_id, 'threads/' || status, count(*), sum(message_count)::bigint, sum(total_tokens)::bigint)
  from added group by organization_id, status;
  return null;
end
$$;

create function count_gone_threads() returns trigger language plpgsql as $$
begin
  perform public.add_to_list_total(organization_id, 'threads/' || status, -count(*), -sum(message_count)::bigint, -sum(total_tokens)::bigint)
  from gone group by organization_id, status;
  return null;
end
$$;

create function count_changed_thread() returns trigger language plpgsql as $$
begin
  if new.status = old.status then
    perform public.add_to_list_total(new.organization_id, 'threads/' || new.status,
                              0, new.message_count - old.message_count, new.total_tokens - old.total_tokens);
  else
    perform public.add_to_list_total(old.organization_id, 'threads/' || old.status, -1, -old.message_count, -old.total_tokens);
    perform public.add_to_list_total(new.organization_id, 'threads/' || new.status, 1, new.message_count, new.total_tokens);
  end if;
  return null;
end
$$;

create trigger count_new after insert on threads
  referencing new table as added for each statement execute function count_new_threads();
create trigger count_gone after delete on threads
  referencing old table as gone for each statement execute function count_gone_threads();
create trigger count_changed after update of status, message_count, total_tokens on threads
  for each row execute function count_changed_thread();

-- An end user who was merged into another isn't listed. The totals of an issuer are without members' previews.
create function count_new_end_users() returns trigger language plpgsql as $$
begin
  perform public.add_to_list_total(organization_id, 'end_users', count(*), 0, 0)
  from added where merged_into is null group by organization_id;
  perform public.add_to_list_total(organization_id, 'end_users/' || issuer, count(*), 0, 0)
  from added where merged_into is null and preview_user_id is null group by organization_id, issuer;
  return null;
end
$$;

create function count_gone_end_users() returns trigger language plpgsql as $$
begin
  perform public.add_to_list_total(organization_id, 'end_users', -count(*), 0, 0)
  from gone where merged_into is null group by organization_id;
  perform public.add_to_list_total(organization_id, 'end_users/' || issuer, -count(*), 0, 0)
  from gone where merged_into is null and preview_user_id is null group by organization_id, issuer;
  return null;
end
$$;

create function count_changed_end_user() returns trigger language plpgsql as $$
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

create trigger count_new after insert on end_users
  referencing new table as added for each statement execute function count_new_end_users();
create trigger count_gone after delete on end_users
  referencing old table as gone for each statement execute function count_gone_end_users();
create trigger count_changed after update of merged_into, issuer, preview_user_id on end_users
  for each row execute function count_changed_end_user();

create function count_new_ranked_end_users() returns trigger language plpgsql as $$
begin
  perform public.add_to_list_total(organization_id, 'usage_rankings/' || span, count(*), 0, 0)
  from added group by organization_id, span;
  return null;
end
$$;

create function count_gone_ranked_end_users() returns trigger language plpgsql as $$
begin
  perform public.add_to_list_total(organization_id, 'usage_rankings/' || span, -count(*), 0, 0)
  from gone group by organization_id, span;
  return null;
end
$$;

create trigger count_new after insert on usage_ranked_end_users
  referencing new table as added for each statement execute function count_new_ranked_end_users();
create trigger count_gone after delete on usage_ranked_end_users
  referencing old table as gone for each statement execute function count_gone_ranked_end_users();
