-- What became of the rows of a conversion. It needs these tables:
--   _rows(_row, keys)            each row that is sound, with the values that lead to its account
--   _made(account, path, _row)   what was made of which row, by the number of the line in the book
--   _accounts(account, number)   the account numbers of these lines
--   _left_out(_row, reason)      what is left out on purpose
--   _tokens(fault, key)          what may be a key in the lines of a fault
--   _lookups(file), _keyless(file), and the variable `is_once`: whether an account may have one line only

create temp table _unused as
from _rows anti join _made using (_row) anti join _left_out using (_row) where _file_number(_row) not in (from _lookups);

-- A fault is known by a negative number, and a row of which nothing is made by its `_row`.
create temp table _suspects as
select -fault as problem, key from _tokens union all select _row, unnest(keys) from _unused;

create temp table _found as
select distinct problem, account
from _suspects join (
  select account, unnest(keys) as key from _made join _rows using (_row)
  union select account, _key(number) from _accounts
) using (key);

create temp table _wrong as
with placed as (
  select account, number, (select min(_row) from _made where _made.account = _accounts.account) as _row from _accounts
)
select account, _row, 'number_missing' as code, 'The account has no number.' as detail from placed where number = ''
union all
select account, _row, 'account_twice', 'The query has several rows for this account.' from placed
where getvariable('is_once') and number in (select number from placed where number <> '' group by number having count(*) > 1);

create temp view _unknown as
select file from _keyless where file in (select _file_number(_row) from _unused) or file in (select file from _faulty);

create temp table _held as
select account from _found union select account from _wrong union
select account from _accounts where exists (from _unknown);

create temp view _states as
select _row, if(bool_or(account not in (from _held)), 'used', 'held_back') as state
from _made semi join _rows using (_row) group by _row
union all select _row, 'refused' from _unused
union all select _row, 'left out: ' || reason from _left_out semi join _rows using (_row) anti join _made using (_row);

create temp view _problems as
select _row, 'row_not_used' as code, null as number,
  'Nothing in the book is made of this row, and `left_out` does not have it.' as detail
from _unused
union all select _row, code, number, detail from _wrong join _accounts using (account)
union all select distinct _row, 'left_out_and_used', null, 'The book is made of this row, but `left_out` has it.'
from _left_out semi join _made using (_row);

create temp view _held_for as
select problem, list(distinct number order by number) as numbers from _found join _accounts using (account) group by problem;

create temp view _lineage as
select number as account, path, _file(_row) as file, _line(_row) as row
from _made join _accounts using (account) anti join _held using (account) order by _made.account, _made.rowid;
