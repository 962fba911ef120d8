-- End users by usage in a range of days that ends today, for organizations with too many of them to add up their days on
-- each request. A job keeps those that were asked for (plans/usage/rankings.ts).
create table usage_rankings (
  organization_id uuid not null references organizations (id) on delete cascade,
  -- A number of days, or `month`.
  span text not null,
  asked_at timestamptz(3) not null,
  -- What its rows are the sums of. Null until they are complete.
  start_date date,
  end_date date,
  summed_at timestamptz(3),
  primary key (organization_id, span)
);

create table usage_ranked_end_users (
  organization_id uuid not null references organizations (id) on delete cascade,
  span text not null,
  end_user_id uuid not null,
  requests bigint not null,
  prompt_tokens bigint not null,
  completion_tokens bigint not null,
  cost_micro_usd bigint not null,
  -- Negative, so that one index has the most tokens first and then the smallest ID.
  rank bigint not null generated always as (-(prompt_tokens + completion_tokens)) stored,
  primary key (organization_id, end_user_id, span),
  -- An erased end user has no place in a ranking, also while one is being added up.
  foreign key (organization_id, end_user_id) references end_users (organization_id, id) on delete cascade
);
create index usage_ranked_end_users_by_rank on usage_ranked_end_users (organization_id, span, rank, end_user_id);

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
