-- source klanten: klanten.csv delimiter=; encoding=cp1252 key=KLANTNR
-- source adressen: adressen.csv delimiter=; encoding=cp1252 key=KLANTNR
-- source aansluitingen: aansluitingen.csv delimiter=; key=KLANTNR,EAN
-- source contracten: contracten.csv delimiter=; key=EAN
-- source boekingen: boekingen-*.csv* delimiter=; encoding=cp1252 key=KLANTNR comment=###
-- source notas: notas.csv delimiter=; key=KLANTNR

create macro fuels() as map {'E': 'ELECTRICITY', 'G': 'GAS'};
create macro ledgers() as map {'1300': 'ENERGY_LEDGER', '1400': 'SERVICE_LEDGER'};
create macro types() as map {'INC C': 'PAYMENT', 'STORNO D': 'REPAYMENT', 'NOTA D': 'SUPPLY_CHARGE', 'AANM D': 'CHARGE', 'BONUS C': 'CREDIT'};
create macro reasons() as map {'INC C': 'ACCOUNT_CHARGE_PAYMENT', 'STORNO D': 'ACCOUNT_CHARGE_PAYMENT', 'AANM D': 'IMPORTED_CHARGE',
  'BONUS C': 'GENERAL_CREDIT'};

-- The customers who come over: one row of those that are there twice with the same cells.
create view klant as
select *, pad(KLANTNR, 8) as k,
  row_number() over (partition by KLANTNR, VOORLETTERS, NAAM, GEBDAT, EMAIL, MOBIEL, SALDO order by _row) as nr
from klanten;
create view over as from klant where STATUS <> 'X' and nr = 1;
create view gesloten as select distinct k from klant where STATUS = 'X';

create view left_out as
select _row, 'closed' as reason from klant where STATUS = 'X'
union all select _row, 'same row twice' from klant where nr > 1
union all select _row, 'closed' from adressen join gesloten on pad(KLANTNR, 8) = k
union all select _row, 'closed' from aansluitingen join gesloten on pad(KLANTNR, 8) = k
union all select _row, 'closed' from contracten semi join (from aansluitingen join gesloten on pad(KLANTNR, 8) = k) using (EAN)
union all select _row, 'closed' from boekingen join gesloten on pad(KLANTNR, 8) = k
union all select _row, 'closed' from notas join gesloten on pad(KLANTNR, 8) = k
union all select _row, 'removed meter' from aansluitingen where METER_TOT is not null;

-- What is listed begins with its row, by which it is sorted, and has few members. The others are made of the lists. That takes half as long.
create view boeking as
select pad(b.KLANTNR, 8) as k, GB, nl_date(DATUM) > nl_date(o.AFREKDAT) as is_open,
  {
    '_row': b._row,
    'id': BOEKNR,
    'date': nl_date(DATUM),
    'amount': amount(BEDRAG),
    'kind': SOORT || ' ' || DC,
    'note': OMSCHR,
    'invoice': FACTUUR,
    'fuel': if(SOORT = 'NOTA', code(FUEL, fuels()), null),
    'net': amount(EXCL),
    'tax': amount(BTW)
  } as item
from boekingen b left join over o on pad(b.KLANTNR, 8) = o.k;

create macro transactions(items) as list_transform(list_sort(items), lambda it: {
    'transaction_id': it.id,
    'transaction_date': it.date,
    'amount': it.amount,
    'type': code(it.kind, types()),
    'reason': reasons()[it.kind],
    'payment_type': case when it.kind similar to '(INC|STORNO) .*' then 'DD_REGULAR_COLLECTION' end,
    'note': it.note,
    'associated_invoice_number': it.invoice,
    'supply_type': it.fuel,
    'product_code': case when it.kind like 'NOTA %' then 'LEVERING' end,
    'line_items': case when it.kind like 'NOTA %' then
      [{'rate_band': 'CONSUMPTION_STANDARD', 'net_amount': it.net, 'params': {'ref': 'line-1'}}] end,
    'tax_items': case when it.kind like 'NOTA %' then
      [{'amount': it.tax, 'tax_type': 'VAT', 'rate': '0.21', 'unit_type': 'PROPORTION', 'value_taxed': it.net,
        'params': {'vat_on': 'line-1'}}] end,
    '_row': it._row
  });
create table boekingen_van as
select k, GB, transactions(list(item) filter (is_open)) as open,
  transactions(list(item) filter (not is_open)) as settled
from boeking group by k, GB;

create table meter as
select EAN, KLANTNR, METERNR,
  {
    'meter_id': METERNR,
    'active_from': nl_date(min(METER_VANAF)),
    'registers': list_sort(list({'_row': _row, 'register_id': TELWERK, 'metering_direction': 'CONSUMPTION', 'multiplication_factor': 1,
      'number_of_digits': 6, 'time_of_use': code(TARIEF, map {'L': 'OFF_PEAK', 'H': 'PEAK'})}))
  } as item
from aansluitingen where METER_TOT is null group by EAN, KLANTNR, METERNR;

create table contract as
select EAN, list_sort(list({
    '_row': _row,
    'supply_type': if(PRODUCT like '%-E', 'ELECTRICITY', 'GAS'),
    'effective_from': nl_date(INGANG),
    'agreed_at': nl_date(GETEKEND),
    'tariff_code': PRODUCT,
    'params': {'historical_contract_number': CONTRACTNR},
    'monthly_advance_charge_template': {'total_monthly_advance_amount': amount(VOORSCHOT)}
  })) as items
from contracten group by EAN;

create table punt as
select a.KLANTNR, ADRESID, a.EAN, {
    'ean': ean(a.EAN),
    'supply_type': code(FUEL, fuels()),
    'supply_start_date': nl_date(min(VANAF)),
    'last_billed_to_date': nl_date(min(FACT_TOT)),
    'agreements': any_value(c.items),
    'meters': (select list(m.item) from meter m where m.EAN = a.EAN and m.KLANTNR = a.KLANTNR)
  } as item
from aansluitingen a left join contract c on c.EAN = a.EAN
group by a.KLANTNR, ADRESID, a.EAN, FUEL;

create table adres as
select pad(a.KLANTNR, 8) as k, list_sort(list({
    '_row': _row,
    'supply_address1': STRAAT,
    'supply_address2': HUISNR,
    'supply_address4': PLAATS,
    'supply_postcode': postcode(POSTCODE),
    'meter_points': (select list(item) from punt p where p.ADRESID = a.ADRESID and p.KLANTNR = a.KLANTNR)
  })) as items
from adressen a where SOORT = 'S' group by 1;

create table nota as
select pad(KLANTNR, 8) as k, list_sort(list({
    '_row': _row,
    'statement_id': FACTUUR,
    'number': FACTUUR,
    'bill_period_from_date': nl_date(VAN),
    'bill_period_to_date': nl_date(TOT),
    'issued_date': nl_date(DATUM),
    'gross_amount': times(amount(BEDRAG), 100),
    'statement_path': BESTAND
  })) as items
from notas group by 1;

create table eans as
select pad(KLANTNR, 8) as k, list(distinct ean(EAN) order by ean(EAN)) as items from aansluitingen group by 1;

select
  o.k as external_account_number,
  'LEGACY' as import_supplier,
  false as unknown_occupier,
  if(f.KLANTNR is null, s, f).STRAAT as billing_address1,
  if(f.KLANTNR is null, s, f).HUISNR as billing_address2,
  if(f.KLANTNR is null, s, f).PLAATS as billing_address4,
  postcode(if(f.KLANTNR is null, s, f).POSTCODE) as billing_postcode,
  [{
    'given_name': VOORLETTERS,
    'family_name': NAAM,
    'email': EMAIL,
    'mobile': phone(MOBIEL),
    'date_of_birth': nl_date(GEBDAT, '%d-%m-%Y', '%m/%d/%Y')
  }] as customers,
  adres.items as supply_addresses,
  [{
    'ledger_code': 'ENERGY_LEDGER',
    'identifiers': eans.items,
    'last_settlement_balance': signed(AFREK, AFREKDC),
    'last_settlement_closing_date': nl_date(AFREKDAT),
    'ledger_balance': times(amount(SALDO), -1),
    'transactions_in_open_settlement_period': energy.open,
    'historical_statement_transactions': energy.settled
  }, case when service.k is not null or SALDO2 <> '0,00' then {
    'ledger_code': 'SERVICE_LEDGER',
    'identifiers': null,
    'last_settlement_balance': '0',
    'last_settlement_closing_date': nl_date(AFREKDAT),
    'ledger_balance': times(amount(SALDO2), -1),
    'transactions_in_open_settlement_period': service.open,
    'historical_statement_transactions': service.settled
  } end] as ledgers,
  nota.items as statements,
  [o._row, f._row] as _row
from over o
left join adressen f on pad(f.KLANTNR, 8) = o.k and f.SOORT = 'F'
left join adressen s on pad(s.KLANTNR, 8) = o.k and s.SOORT = 'S'
left join adres using (k)
left join eans using (k)
left join nota using (k)
left join boekingen_van energy on energy.k = o.k and energy.GB = '1300'
left join boekingen_van service on service.k = o.k and service.GB = '1400'
order by o._row;
