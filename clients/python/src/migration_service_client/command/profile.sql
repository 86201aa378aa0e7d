-- What `profile` counts of a column: the view `seen` has its values as JSON, each with the line of its account.

-- 9 is a digit, a and A are letters.
create macro _shape(s) as regexp_replace(regexp_replace(regexp_replace(left(s, 60),
  '\p{Lu}', 'A', 'g'), '[\p{Ll}\p{Lt}\p{Lm}\p{Lo}]', 'a', 'g'), '\p{Nd}', '9', 'g');
create macro _number(s) as case when regexp_full_match(s, '[+-]?[0-9]{1,60}(\.[0-9]{1,60})?([eE][+-]?[0-9]{1,3})?') then try_cast(s as double) end;
create macro _date(s) as try_cast(regexp_extract(s, '^([0-9]{4}-[0-9]{2}-[0-9]{2})(T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?)?$', 1) as date);
-- Text in UTF-8 that was read as cp1252, and letters that were lost on the way.
create macro _is_damaged(s) as regexp_matches(s, '[ÂÃ][\x{80}-\x{bf}\x{2018}-\x{203a}]|â€|\x{fffd}|\p{L}\?+\p{L}');

create temp view seen as select 0 as _line, null::json as value;

-- Each different value. The exact date of birth is a person's, so that only its year counts.
create temp macro _different(is_number, is_date, is_ean, is_personal, most) as table
with grouped as (
  select value::varchar as json, value ->> '$' as text, count(*) as n, min(_line) as line from seen where value is not null group by 1, 2
), typed as (
  select json, n, line, is_number as is_number, is_date as is_date, is_ean as is_ean,
    case when json like '"%' then 'text' when json in ('true', 'false') then 'boolean' when json like '{%' then 'object'
      when json like '[%' then 'list' else 'number' end as kind,
    case when kind not in ('object', 'list') then text end as s,
    case when is_date then _date(text) end as day,
    case when is_number then _number(text)
      when is_date then date_diff('day', date '0001-01-01', if(is_personal, date_trunc('year', day), day)) + 1 end as x,
    hash(json) % greatest(1, count(*) over () // most) = 0 as is_tallied
  from grouped
)
select *, case when is_tallied and not is_number and not is_date and s <> '' then _shape(s) end as shape from typed;

create temp table different as from _different(false, false, false, false, 1);

create temp view _counted as
select count(*) filter (s <> ''), max(n) filter (s <> ''), count(*) filter (n > 1 and s <> ''), sum(n) filter (x is not null),
  sum(n) filter (s = ''),
  sum(n) filter (not is_number and not is_date and _is_damaged(s)),
  sum(n) filter (shape similar to '.*[aA].*') as lettered,
  sum(n) filter (shape similar to '[^a]*A[^a]*'),
  sum(n) filter (is_ean and length(s) >= 15 and s like '%000'),
  sum(n) filter ((is_number or is_date) and s <> '' and x is null),
  sum(n) filter (is_date and x is null and regexp_matches(s, '^[0-9]{4}-(1[3-9]|2[0-9]|3[01])-(0[1-9]|1[0-2])(T|$)')),
  sum(n) filter (is_number and x < 0)
from different;

create temp view _tallied as
with tallied as (from different where is_tallied and s is not null)
select 'kinds' as name, kind as value, sum(n)::bigint as times from different group by kind
union all select 'lengths', least(length(s), 60)::varchar, sum(n)::bigint from tallied where s <> '' and (kind = 'text' or not is_number) group by 2
union all (select 'shapes', regexp_replace(regexp_replace(shape, 'a+', 'a', 'g'), 'A+', 'A', 'g'), sum(n)::bigint as times
  from tallied where shape is not null group by 2 order by times desc, 2 limit 500)
union all select 'decimals', least(length(rtrim(split_part(s, '.', 2), '0')), 6)::varchar, sum(n)::bigint
  from tallied where is_number and x is not null group by 2
union all select 'last_digits_of_cents', ((abs(x) * 100 + 1e-6)::decimal(38, 3)::hugeint % 10)::varchar, sum(n)::bigint
  from tallied where is_number and abs(x) < 1e12 group by 2
union all select 'days', day(day)::varchar, sum(n)::bigint from tallied where x is not null and day is not null group by 2
union all select 'months', month(day)::varchar, sum(n)::bigint from tallied where x is not null and day is not null group by 2
union all select 'hours', substr(s, 12, 2), sum(n)::bigint from tallied where day is not null and length(s) > 10 group by 2;
