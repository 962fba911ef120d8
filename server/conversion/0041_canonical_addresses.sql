-- The domains of email addresses are stored in IDNA's ASCII form, in which they are compared. The code has written all of
-- them in lower case.
create function pg_temp.punycode(label text) returns text language plpgsql as $$
declare
  letters int[] := array(select ascii(letter) from regexp_split_to_table(label, '') with ordinality as l (letter, place) order by place);
  basic text := regexp_replace(label, '[^\x01-\x7f]', '', 'g');
  output text := basic || case when basic = '' then '' else '-' end;
  digits constant text := 'abcdefghijklmnopqrstuvwxyz0123456789';
  handled int := length(basic);
  n int := 128;
  delta int := 0;
  bias int := 72;
  next_letter int;
  letter int;
  q int;
  k int;
  t int;
begin
  if label !~ '[^\x01-\x7f]' then return label; end if;
  while handled < cardinality(letters) loop
    select min(l) into next_letter from unnest(letters) as l where l >= n;
    delta := delta + (next_letter - n) * (handled + 1);
    n := next_letter;
    foreach letter in array letters loop
      if letter < n then delta := delta + 1; end if;
      if letter = n then
        q := delta;
        k := 36;
        loop
          t := greatest(1, least(26, k - bias));
          exit when q < t;
          output := output || substr(digits, t + (q - t) % (36 - t) + 1, 1);
          q := (q - t) / (36 - t);
          k := k + 36;
        end loop;
        output := output || substr(digits, q + 1, 1);
        delta := case when handled = length(basic) then delta / 700 else delta / 2 end;
        delta := delta + delta / (handled + 1);
        k := 0;
        while delta > 455 loop
          delta := delta / 35;
          k := k + 36;
        end loop;
        bias := k + 36 * delta / (delta + 38);
        delta := 0;
        handled := handled + 1;
      end if;
    end loop;
    delta := delta + 1;
    n := n + 1;
  end loop;
  return 'xn--' || output;
end
$$;
create function pg_temp.canonical_email(email text) returns text language sql as $$
  select regexp_replace(email, '@[^@]*$', '') || '@' || (
    select string_agg(pg_temp.punycode(label), '.' order by place)
    from regexp_split_to_table(lower(normalize(substring(email from '@([^@]*)$'), nfkc)), '\.') with ordinality as l (label, place))
$$;

-- The owner of the schema changes all rows for once; after_each.sql closes the wall again.
alter table directory_users no force row level security;
alter table directory_leavers no force row level security;
alter table end_users no force row level security;

update users set email = pg_temp.canonical_email(email) where email ~ '@[^@]*[^\x01-\x7f]';
update users u set subject = email
where issuer = 'local' and subject ~ '@[^@]*[^\x01-\x7f]'
  and not exists (select from users other where other.issuer = 'local' and other.subject = u.email);
update directory_users set email = pg_temp.canonical_email(email) where email ~ '@[^@]*[^\x01-\x7f]';
insert into directory_leavers (organization_id, email, left_at)
  select organization_id, pg_temp.canonical_email(email), left_at from directory_leavers where email ~ '@[^@]*[^\x01-\x7f]'
  on conflict do nothing;
delete from directory_leavers where email ~ '@[^@]*[^\x01-\x7f]';
update end_users set email = pg_temp.canonical_email(email) where email ~ '@[^@]*[^\x01-\x7f]';

-- PostgreSQL's lower() folds letters that must stay apart.
alter table end_users drop column email_key;
alter table end_users add column email_key text collate "C" not null
  generated always as (translate(email, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz')) stored;
create index end_users_email_key on end_users (organization_id, email_key);
