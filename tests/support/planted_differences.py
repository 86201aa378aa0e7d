"""A book of accounts with every part of a payload, and every kind of difference to plant in one of them."""

import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import date, datetime
from importlib.resources import files
from typing import Any

from sqlalchemy import Column, text
from sqlalchemy.orm import Session

from migration_service.db.base import Base
from migration_service.models import Account, Transaction
from migration_service.models.part import Part, parent_column, path_of, payload_columns, table_of

_EXAMPLE: dict[str, Any] = json.loads(
    (files("migration_service.schemas") / "example_account.json").read_text()
)
_POINT = "supply_addresses.0.meter_points.0"
_OPEN = "ledgers.0.transactions_in_open_settlement_period"
_CHARGE = "ledgers.0.historical_statement_transactions.0"
_FIRST, _SECOND = "position = 0", "position = 1"
#: The first transaction of the period that a ledger has first.
_ONLY_OPEN = "period = 'OPEN' AND position = 0"


def _transaction(number: int, type_: str, amount: Any, **more: Any) -> dict[str, Any]:
    values = {"transaction_id": f"O-{number}", "transaction_date": "2026-03-05", "amount": amount}
    return {**values, "type": type_, **more}


def make_book(code: str, number: int) -> list[dict[str, Any]]:
    """Return accounts that have every part of a payload, most of them twice."""
    account = deepcopy(_EXAMPLE) | {"import_supplier": code}
    account["customers"].append({"given_name": "Jo", "family_name": "Visser", "email": "", "landline": ""})
    (point,) = account["supply_addresses"][0]["meter_points"]
    template = point["agreements"][0]["monthly_advance_charge_template"]
    cost = {"net_amount": 10.5, "tax_amount": 2.2, "tax_rate": 0.21}
    template["cost_details"] = [
        {"band": "ADVANCE_GRID_FEE", **cost},
        {"band": "ADVANCE_SUPPLIER_FIXED_COST", **cost},
    ]
    periods = point["billing_configuration_periods"]
    periods[0]["end_date"] = "2024-01-01"
    periods.append(periods[0] | {"start_date": "2024-01-01", "end_date": "2025-01-01"})
    (ledger,) = account["ledgers"]
    ledger |= {
        "transactions_in_open_settlement_period": [
            _transaction(1, "CHARGE", "10.00", reason="IMPORTED_CHARGE", display_note="Costs", note="Old"),
            _transaction(2, "CHARGE", "25.50", reason="IMPORTED_CHARGE"),
            _transaction(3, "PAYMENT", 60, reference="R-1", payment_type="DIRECT_CREDIT"),
        ],
        "ledger_balance": "-24.78",
    }
    ledger["historical_statement_transactions"][0]["line_items"][0]["params"] = {"ref": "L1"}
    account["ledgers"].append({"ledger_code": "OTHER_LEDGER", "ledger_balance": 250})
    (statement,) = account["statements"]
    statement["statement_pdf_context"] = {"pages": 3, "colour": True}
    another = {"statement_id": "S-2", "number": "2026-2", "statement_path": "statements/2.pdf"}
    account["statements"].append({**statement, **another, "statement_pdf_context": {}})
    return [deepcopy(account) | {"external_account_number": f"A {place:03}"} for place in range(number)]


@dataclass(frozen=True)
class Planted:
    """A change of the rows of a table that `where` chooses, and the paths that it shows at.

    `other` are those at which it shows in the account `:other`. A change without paths is not compared.
    """

    table: str
    change: str
    paths: Sequence[str]
    where: str = "true"
    other: Sequence[str] = ()


_OTHER = "(SELECT id FROM account WHERE external_account_number = :other)"


def _below_other(table: str) -> str:
    return f"(SELECT min(id) FROM {table} AS it WHERE it.account_pk = {_OTHER})"  # noqa: S608


def _of_sibling(table: str, column: str, above: str = "account_pk") -> str:
    """Return the change that gives the first two rows the value of the other one."""
    return f"""{column} = (SELECT it.{column} FROM {table} AS it
        WHERE it.{above} = row.{above} AND it.position = 1 - row.position)"""  # noqa: S608


#: Changes of more than one value, and the least changes of one.
PLANTED = [
    Planted(
        "ledger", "ledger_balance = ledger_balance + 0.0000000001", ["ledgers.1.ledger_balance"], _SECOND
    ),
    Planted(
        "ledger",
        "ledger_balance = ledger_balance + CASE position WHEN 0 THEN 100 ELSE -100 END",
        ["ledgers.0.ledger_balance", "ledgers.1.ledger_balance"],
    ),
    Planted("ledger", "identifiers = NULL", ["ledgers.0.identifiers.0"], _FIRST),
    Planted(
        "statement",
        """statement_pdf_context = '{"pages": 3, "colour": 1}'""",
        ["statements.0.statement_pdf_context.colour"],
        _FIRST,
    ),
    Planted(
        *("transaction", "amount = CASE amount WHEN 10 THEN 25.5 WHEN 25.5 THEN 10 ELSE amount END"),
        [f"{_OPEN}.0.amount", f"{_OPEN}.1.amount"],
        "period = 'OPEN'",
    ),
    Planted(
        *("transaction", "period = 'HISTORICAL', position = 1"),
        [f"{_OPEN}.2", "ledgers.0.historical_statement_transactions.1"],
        "transaction_id = 'O-3'",
    ),
    Planted(
        "transaction",
        "ledger_pk = (SELECT max(id) FROM ledger WHERE ledger.account_pk = row.account_pk)",
        [f"{_OPEN}.2", "ledgers.1.transactions_in_open_settlement_period.0"],
        "transaction_id = 'O-3'",
    ),
    Planted(
        *("line_item", "units = ARRAY[24842, 24924]"), [f"{_CHARGE}.line_items.0.units.1"], "units[1] = 24842"
    ),
    Planted("line_item", "DELETE", [f"{_CHARGE}.line_items.2"], "position = 2"),
    Planted("register", "DELETE", [f"{_POINT}.meters.0.registers.0"], _FIRST),
    Planted("billing_configuration_period", "DELETE", [f"{_POINT}.billing_configuration_periods.1"], _SECOND),
    Planted("agreement", "INSERT", [f"{_POINT}.agreements.1"]),
    Planted(
        *("monthly_advance_charge_template", "INSERT"),
        [f"{_POINT}.agreements.0.monthly_advance_charge_template"],
    ),
    Planted("meter_point", "ean = '0' || ean", [f"{_POINT}.ean"]),
    Planted("customer", "family_name = 'Visser '", ["customers.1.family_name"], _SECOND),
    Planted(
        *("estimated_annual_volume", "start_at = '2020-01-19T01:00:00'"),
        [f"{_POINT}.estimated_annual_volumes.0.start_at"],
    ),
    Planted("account", "billing_postcode = '5018 nj'", ["billing_postcode"]),
    Planted("account", "service_account_number = 'A-' || id", ["service_account_number"]),
    Planted("account", "billing_address1 = ''", ["billing_address1"]),
    Planted("account", "billing_address1 = billing_address1 || U&'\\0301'", ["billing_address1"]),
    Planted(
        "account",
        "import_supplier_id = (SELECT max(id) FROM import_supplier)",
        [
            *("import_supplier", "statements.0.statement_location", "statements.1.statement_location"),
            f"{_POINT}.agreements.0.historical_contract_pdf_location",
        ],
    ),
    Planted(
        *("account", "operations_team_id = (SELECT max(id) FROM operations_team)"), ["operations_team_name"]
    ),
    # Exchanged within an account.
    Planted(
        *("customer", _of_sibling("customer", "family_name")),
        ["customers.0.family_name", "customers.1.family_name"],
    ),
    Planted(
        *("cost_detail", "net_amount = net_amount + CASE position WHEN 0 THEN 1 ELSE -1 END"),
        [
            f"{_POINT}.agreements.0.monthly_advance_charge_template.cost_details.{place}.net_amount"
            for place in (0, 1)
        ],
    ),
    Planted(
        *("statement", _of_sibling("statement", "number")), ["statements.0.number", "statements.1.number"]
    ),
    Planted(
        *("transaction", "transaction_id = 'O-' || 5 - position"),
        [f"{_OPEN}.0.transaction_id", f"{_OPEN}.1.transaction_id"],
        "period = 'OPEN'",
    ),
    Planted(
        *("line_item", _of_sibling("line_item", "ref", "transaction_pk")),
        [f"{_CHARGE}.line_items.0.params.ref", f"{_CHARGE}.line_items.1.params.ref"],
        "position < 2",
    ),
    Planted("ledger", "ledger_code = 'X'", ["ledgers.1.ledger_code"], _SECOND),
    # Moved to another account, or removed.
    Planted("customer", f"account_pk = {_OTHER}", ["customers.1"], _SECOND, ["customers.2"]),
    Planted(
        *("meter_point", f"supply_address_pk = {_below_other('supply_address')}", [_POINT]),
        other=["supply_addresses.0.meter_points.1"],
    ),
    Planted(
        "transaction",
        f"account_pk = {_OTHER}, transaction_id = 'moved', ledger_pk = {_below_other('ledger')}",
        *([f"{_OPEN}.2"], "transaction_id = 'O-3'", [f"{_OPEN}.2"]),
    ),
    Planted(
        "transaction",
        "account_pk = (SELECT max(id) FROM account), transaction_id = 'elsewhere'",
        [f"{_OPEN}.2.account_pk", f"{_OPEN}.2.transaction_id"],
        "transaction_id = 'O-3'",
    ),
    Planted("tax_item", "DELETE", [f"{_CHARGE}.tax_items.0"], _FIRST),
    Planted("statement", "DELETE", ["statements.1"], _SECOND),
    # Called added data.
    Planted("statement", "origin = 'ADDED'", ["statements.0"], _FIRST),
    Planted(
        *("transaction", "period = 'ADDED'", [f"{_OPEN}.2", "ledgers.0.ledger_balance"]),
        "transaction_id = 'O-3'",
    ),
    # The order of what has an identity is not content.
    Planted("transaction", "position = 2 - position", [], "period = 'OPEN'"),
    Planted("statement", "position = 1 - position", []),
    Planted("register", "position = 9 - position", []),
    # Not compared: see "What is not compared" of the page.
    Planted("account", "created_at = created_at - interval '1 day'", []),
    Planted("statement", "created_at = created_at - interval '1 day'", []),
]


def plant_in_each_column() -> Iterator[Planted]:
    """Yield a change of one value for each column that has a value of the payload."""
    for model in _MODELS:
        for column in payload_columns(model):
            if column.name not in _OTHERS and not column.foreign_keys:
                yield _plant_in(model, column)


_MODELS: list[type[Base]] = [Account, *Part.__subclasses__()]
#: Columns whose value has parts or comes from elsewhere. `PLANTED` has changes of them.
_OTHERS = {"identifiers", "units", "statement_pdf_context", "period", "service_account_number", "erased_at"}


def _plant_in(model: type[Base], column: Column[Any]) -> Planted:
    path = _path_of_first(model)
    paths = [".".join([*path, *path_of(column)])]
    documents = [it for it in payload_columns(model) if it.info.get("document") == path_of(column)]
    paths += [".".join([*path, it.name]) for it in documents]
    name = f'"{column.name}"'
    change = {
        bool: f"{name} = {name} IS NOT TRUE",
        date: f"{name} = coalesce({name}, '2026-01-01') + interval '1 day'",
        datetime: f"{name} = coalesce({name}, '2026-01-01') + interval '1 day'",
        str: f"{name} = concat({name}, 'x')",
    }.get(column.type.python_type, f"{name} = coalesce({name}, 0) + 1")
    where = "true" if model is Account else _FIRST
    return Planted(table_of(model).name, change, paths, _ONLY_OPEN if model is Transaction else where)


def _path_of_first(model: type[Base], *, is_above: bool = False) -> tuple[str, ...]:
    """Return the path of the first part of this kind. What is above another is the last of its kinds."""
    if not issubclass(model, Part):
        return ()
    source = model.sources[-1 if is_above else 0]
    place = () if source.single else ("0",)
    return (*_path_of_first(source.parent, is_above=True), source.key, *place)


_COLUMNS = text("""
    SELECT string_agg(column_name, ', ') FROM information_schema.columns
    WHERE table_schema = 'public' AND table_name = :name AND column_name NOT IN ('id', 'position')
""")


def _rows_of_account(model: type[Base]) -> str:
    """Return the condition for the rows of a model that belong to the account of a number."""
    if not issubclass(model, Part):
        return "external_account_number = :number"
    above = model.sources[0].parent
    rows = f'SELECT id FROM "{table_of(above).name}" WHERE {_rows_of_account(above)}'  # noqa: S608
    return f"{parent_column(model).name} IN ({rows})"


def plant(session: Session, planted: Planted, number: str, other: str) -> None:
    """Make the change in the account of this number. What it moves goes to the other one."""
    table = f'"{planted.table}"'
    model = next(it for it in _MODELS if table_of(it).name == planted.table)
    where = f"{_rows_of_account(model)} AND {planted.where}"
    names = session.scalar(_COLUMNS, {"name": planted.table})
    statements = {
        "DELETE": f"DELETE FROM {table} WHERE {where}",  # noqa: S608
        "INSERT": f"INSERT INTO {table} (position, {names}) SELECT position + 1, {names} FROM {table} "  # noqa: S608
        f"WHERE {where}",
    }
    change = f"UPDATE {table} AS row SET {planted.change} WHERE {where}"  # noqa: S608
    statement = text(f"{statements.get(planted.change, change)} RETURNING 1")
    values = {"number": number} | ({"other": other} if ":other" in planted.change else {})
    # With statistics of other tests' tables, nested loops may read the whole of each again and again.
    session.execute(text("SET LOCAL enable_nestloop = off"))
    assert session.execute(statement, values).all(), planted


_OF_ACCOUNT = """account_pk = (
    SELECT account.id FROM account JOIN import_supplier ON import_supplier.id = import_supplier_id
    WHERE code = :code AND external_account_number = :number)"""
_BALANCE = "ledgers.0.ledger_balance"

#: Changes of data that batches added: the measures and the paths at which each shows. What shows nowhere is
#: not compared: of added data only counts and sums are.
PLANTED_ADDED: list[tuple[str, set[str]]] = [
    (
        "UPDATE transaction SET amount = amount + 0.01 WHERE ROWS AND transaction_id = 'T-1'",
        {"added amount of PAYMENT", "ledger_balances", _BALANCE},
    ),
    (
        "UPDATE transaction SET type = 'CREDIT' WHERE ROWS AND transaction_id = 'T-1'",
        {"added amount of PAYMENT", "added amount of CREDIT"},
    ),
    (
        "UPDATE transaction SET transaction_id = 'X' WHERE ROWS AND transaction_id = 'T-2'",
        {"added transactions", "added amount of PAYMENT"},
    ),
    (
        "DELETE FROM transaction WHERE ROWS AND transaction_id = 'T-2'",
        {"added transactions", "added amount of PAYMENT", "ledger_balances", _BALANCE},
    ),
    (
        "UPDATE transaction SET period = 'OPEN' WHERE ROWS AND transaction_id = 'T-1'",
        {"transactions", "amount of PAYMENT", "ledger_balances", _BALANCE, _OPEN},
    ),
    ("UPDATE ledger SET ledger_balance = ledger_balance + 0.01 WHERE ROWS", {"ledger_balances", _BALANCE}),
    ("UPDATE note SET body = 'Other' WHERE ROWS", {"added notes"}),
    ("UPDATE note SET created_at = created_at + interval '1 second' WHERE ROWS", {"added notes"}),
    ("UPDATE note SET documents = documents - 0 WHERE ROWS", {"added notes"}),
    ("DELETE FROM note WHERE ROWS", {"added notes"}),
    (
        "UPDATE statement SET gross_amount = gross_amount + 1 WHERE ROWS AND statement_id = 'S-1'",
        {"added gross_amount in cents"},
    ),
    (
        "UPDATE statement SET statement_id = 'X' WHERE ROWS AND statement_id = 'S-1'",
        {"added statements", "added gross_amount in cents"},
    ),
    (
        "DELETE FROM statement WHERE ROWS AND statement_id = 'S-1'",
        {"added statements", "added gross_amount in cents"},
    ),
    ("UPDATE statement SET origin = 'PAYLOAD' WHERE ROWS AND statement_id = 'S-1'", {"statements"}),
    ("UPDATE payment_instruction SET reference = 'X' WHERE ROWS", {"added payment_instructions"}),
    ("UPDATE payment_instruction SET type = 'DEBIT' WHERE ROWS", {"added payment_instructions"}),
    ("DELETE FROM payment_instruction WHERE ROWS", {"added payment_instructions"}),
    # Not compared.
    ("UPDATE transaction SET transaction_date = transaction_date - 1 WHERE ROWS AND period = 'ADDED'", set()),
    ("UPDATE transaction SET payment_type = 'CASH' WHERE ROWS AND period = 'ADDED'", set()),
    (
        "UPDATE transaction SET amount = amount + CASE transaction_id WHEN 'T-1' THEN 1 ELSE -1 END "
        "WHERE ROWS AND period = 'ADDED'",
        set(),
    ),
    ("UPDATE note SET is_pinned = NOT is_pinned WHERE ROWS", set()),
    ("UPDATE note SET documents = jsonb_build_array(documents -> 1, documents -> 0) WHERE ROWS", set()),
    ("UPDATE statement SET statement_path = 'x' WHERE ROWS AND statement_id = 'S-1'", set()),
    ("UPDATE statement SET issued_date = issued_date - 1 WHERE ROWS AND statement_id = 'S-1'", set()),
    ("""UPDATE payment_instruction SET details = '{"x": 1}' WHERE ROWS""", set()),
    (
        """
        WITH it AS (UPDATE ledger SET ledger_balance = ledger_balance + 5 WHERE ROWS RETURNING *)
        INSERT INTO transaction (ledger_pk, account_pk, position, period, transaction_id, transaction_date,
                                 amount, type)
        SELECT id, account_pk, 99, 'ADDED', 'nobody', '2026-10-01', 5, 'PAYMENT' FROM it""",
        set(),
    ),
]


def plant_in_added(session: Session, statement: str, code: str, number: str) -> None:
    """Make the change in what was added to the account of this number."""
    planted = text(f"{statement.replace('ROWS', _OF_ACCOUNT)} RETURNING 1")
    assert session.execute(planted, {"code": code, "number": number}).all(), statement
