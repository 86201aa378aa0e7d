-- The functions of `migration-client convert`. What one cannot read is passed on as it is, so that the check of
-- the account names it with its path and value. Each `--` line with => is an example, which a test runs.

create macro _day(x) as case when year(x) >= 1000 then strftime(x, '%Y-%m-%d') end;
create macro _parts(x, thousands, point) as regexp_extract(upper(x), '^[\s\x{a0}]*(?:EUR|€)?[\s\x{a0}]*([-+(]?)[\s\x{a0}]*(?:EUR|€)?[\s\x{a0}]*((?:[1-9][0-9]{0,2}(?:\'
  || thousands || '[0-9]{3})+|[0-9]+)(?:\' || point || '[0-9]+)?)[\s\x{a0}]*(?:EUR|€)?[\s\x{a0}]*(-|\)|CR|DR|)[\s\x{a0}]*$', ['before', 'number', 'after']);
create macro _amount(x, thousands, point) as list_transform([_parts(x, thousands, point)], lambda _it: case
  when _it.number = '' or (_it.before = '(') <> (_it.after = ')') or (_it.before in ('-', '+') and _it.after <> '') then x
  else case when _it.before = '-' or _it.after in ('-', ')', 'CR') then '-' else '' end
    || replace(replace(_it.number, thousands, ''), ',', '.') end)[1];
create macro _negated(x) as case when not regexp_full_match(x, '-?[0-9.]+') then x when x like '-%' then substr(x, 2) else '-' || x end;
create macro _is_fraction(x) as regexp_full_match(x, '\+?[0-9]+\.(0+|[0-9])');

-- A date by its form. Two forms that give two days are ambiguous. The usual forms of one country, if none is given.
-- nl_date('26-04-1986') => '1986-04-26'
-- nl_date('2026-03-01') => '2026-03-01'
-- nl_date('31-02-1986') => '31-02-1986'
-- nl_date('26-04-86') => '26-04-86'
-- nl_date('04/26/1986', '%m/%d/%Y') => '1986-04-26'
-- nl_date('26-04-1986', '%d-%m-%Y', '%m-%d-%Y') => '1986-04-26'
-- nl_date('03-04-1986', '%d-%m-%Y', '%m-%d-%Y') => 'ambiguous_date 03-04-1986'
-- nl_date(NULL) => NULL
create macro nl_date(x) as case when x is null then null else coalesce(_day(try_strptime(x,
    ['%d-%m-%Y', '%d/%m/%Y', '%d.%m.%Y', '%Y-%m-%d', '%Y%m%d', '%d-%m-%Y %H:%M:%S', '%Y-%m-%d %H:%M:%S', '%Y-%m-%dT%H:%M:%S'])), x) end,
  (x, form) as coalesce(_day(try_strptime(x, form)), x),
  (x, form, other) as case when _day(try_strptime(x, form)) <> _day(try_strptime(x, other))
    then 'ambiguous_date ' || x else coalesce(_day(try_strptime(x, form)), _day(try_strptime(x, other)), x) end;

-- An amount or another number, exactly, with a decimal comma or another sign. A minus may be the first or last
-- character, and brackets or CR stand for one.
-- amount('1.234,50-') => '-1234.50'
-- amount('€ 12,50') => '12.50'
-- amount('(12,50)') => '-12.50'
-- amount('12,50 CR') => '-12.50'
-- amount('1,234.50', '.') => '1234.50'
-- amount('12,5,0') => '12,5,0'
-- amount('0.234') => '0.234'
create macro amount(x) as case when regexp_full_match(x, '-?([1-9][0-9]{0,2}(\.[0-9]{3})+|[0-9]+),[0-9]+')
  then replace(replace(x, '.', ''), ',', '.') else _amount(x, '.', ',') end,
  (x, decimal_sign) as if(decimal_sign = '.', _amount(x, ',', '.'), _amount(x, '.', ','));

-- The amount with the sign of its side: what is debited is negative, because the customer owes it.
-- signed('12,50', 'D') => '-12.50'
-- signed('12,50-', 'D') => '12.50'
-- signed('12,50', 'C') => '12.50'
-- signed('12,50', '?') => '12,50 ?'
-- signed('-12,50 D', 'D') => '-12,50 D'
create macro signed(x, dc) as list_transform([amount(x)], lambda _it: case when upper(dc) in ('C', 'CR', 'CREDIT') then _it
  when upper(dc) in ('D', 'DR', 'DEBIT', 'DEBET') then _negated(_it) else x || ' ' || coalesce(dc, '?') end)[1];

-- A number that `amount` made, multiplied exactly: -1 changes the sign, 100 makes cents of euros.
-- times('12.50', -1) => '-12.5'
-- times('49.28', 100) => '4928'
-- times('n/a', 100) => 'n/a'
create macro times(x, n) as case when regexp_full_match(x, '[-+]?[0-9]{1,13}(\.[0-9]{1,10})?')
  then regexp_replace(cast(cast(x as decimal(23, 10)) * cast(n as decimal(12, 4)) as varchar), '\.?0+$', '') else x end;

-- A number with the zeros that it has lost. What is longer, or no number, remains.
-- pad('1234', 8) => '00001234'
-- pad('A12', 8) => 'A12'
create macro pad(x, n) as case when x similar to '[0-9]+' and length(x) < n then lpad(x, n, '0') else x end;

-- What a table of codes has, what stands for all others, or the code itself.
-- code('E', map {'E': 'ELECTRICITY', 'G': 'GAS'}) => 'ELECTRICITY'
-- code('W', map {'E': 'ELECTRICITY', 'G': 'GAS'}) => 'W'
-- code('W', map {'E': 'ELECTRICITY'}, 'GAS') => 'GAS'
-- code(NULL, map {'E': 'ELECTRICITY'}) => NULL
create macro code(x, codes) as coalesce(codes[x], x), (x, codes, others) as case when x is not null then coalesce(codes[x], others) end;

-- A telephone number without what people write between the digits. What was a number of a spreadsheet remains.
-- phone('06-1234 5678') => '0612345678'
-- phone('+31 (0)6 12345678') => '+31612345678'
-- phone('0031 6 12345678') => '+31612345678'
-- phone('bel na 18 uur') => 'bel na 18 uur'
-- phone('612345678.0') => '612345678.0'
-- phone('06-12345678 / 0201234567') => '06-12345678 / 0201234567'
-- phone('06-12345678/79') => '06-12345678/79'
create macro phone(x) as case when regexp_full_match(x, '(\+|00)?[0-9 ().\-/]{6,}') and not _is_fraction(x)
  -- Two numbers are not one: more digits than any number has, or another end of the same one.
  and length(regexp_replace(x, '[^0-9]', '', 'g')) <= 17 and not regexp_matches(x, '/[ ().\-]*([0-9][ ().\-]*){1,4}(/|$)')
  then regexp_replace(regexp_replace(regexp_replace(x, '[ ().\-/]', '', 'g'), '^00', '+'), '^\+310', '+31') else x end;

-- An EAN without blanks and apostrophes. A number that a spreadsheet has rounded remains what it is.
-- ean('8716 9433 0222 7731 23') => '871694330222773123'
-- ean('''871694330222773123') => '871694330222773123'
-- ean('8,71694E+17') => '8,71694E+17'
-- ean('87169433022277312.0') => '87169433022277312.0'
-- ean('871694330222773123 871694330222773130') => '871694330222773123 871694330222773130'
create macro ean(x) as case when regexp_full_match(x, '[0-9 .''\-]+') and not _is_fraction(x)
  and length(regexp_replace(x, '[^0-9]', '', 'g')) <= 18 then regexp_replace(x, '[ .''\-]', '', 'g') else x end;

-- A Dutch postcode with its blank and capitals.
-- postcode('1011ab') => '1011 AB'
-- postcode('2000 Antwerpen') => '2000 Antwerpen'
create macro postcode(x) as case when regexp_full_match(x, '[1-9][0-9]{3} ?[A-Za-z]{2}') then upper(left(x, 4) || ' ' || right(x, 2)) else x end;

-- Nothing, for the texts of a list.
-- blank_if('onbekend', ['-', 'Onbekend']) => NULL
-- blank_if('Jansen', ['-', 'Onbekend']) => 'Jansen'
create macro blank_if(x, texts) as case when not list_contains(list_transform(texts, lambda _it: lower(_it)), lower(x)) then x end;
