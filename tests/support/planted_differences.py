"""A book of accounts with every part of a payload, and every kind of difference to plant in one of them."""

import json
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

_EXAMPLE: dict[str, Any] = json.loads(
    (files("migration_service.schemas") / "example_account.json").read_text()
)
_POINT = "supply_addresses.0.meter_points.0"
_OPEN = "ledgers.0.transactions_in_open_settlement_period"
_CHARGE = "ledgers.0.historical_statement_transactions.0"


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
    return [deepcopy(account) | {"external_account_number": f"A {place:02}"} for place in range(number)]


@dataclass(frozen=True)
class Planted:
    """A change of the rows of a table that `where` chooses, and the paths that it shows at."""

    table: str
    change: str
    paths: Sequence[str]
    where: str = "true"


def _swap(column: str, one: str, other: str) -> str:
    return f"{column} = CASE {column} WHEN {one} THEN {other} WHEN {other} THEN {one} ELSE {column} END"


PLANTED = [
    Planted("statement", "gross_amount = 5928", ["statements.0.gross_amount"], "position = 0"),
    Planted(
        "statement",
        "statement_path = 'statements/3.pdf'",
        ["statements.1.statement_path", "statements.1.statement_location"],
        "position = 1",
    ),
    Planted(
        "statement",
        "statement_location = 's3://elsewhere/2.pdf'",
        ["statements.1.statement_location"],
        "position = 1",
    ),
    Planted(
        "statement",
        """statement_pdf_context = '{"pages": 3, "colour": 1}'""",
        ["statements.0.statement_pdf_context.colour"],
        "position = 0",
    ),
    Planted(
        "ledger",
        "ledger_balance = ledger_balance + CASE position WHEN 0 THEN 100 ELSE -100 END",
        ["ledgers.0.ledger_balance", "ledgers.1.ledger_balance"],
    ),
    Planted(
        "ledger",
        "ledger_balance = ledger_balance + 0.0000000001",
        ["ledgers.1.ledger_balance"],
        "position = 1",
    ),
    Planted("ledger", "ledger_code = 'ANOTHER_LEDGER'", ["ledgers.1.ledger_code"], "position = 1"),
    Planted("ledger", "identifiers = NULL", ["ledgers.0.identifiers.0"], "position = 0"),
    Planted(
        "ledger",
        "last_settlement_closing_date = '2026-02-27'",
        ["ledgers.0.last_settlement_closing_date"],
        "position = 0",
    ),
    Planted(
        "transaction",
        _swap("amount", "10.00", "25.50"),
        [f"{_OPEN}.0.amount", f"{_OPEN}.1.amount"],
        "period = 'OPEN'",
    ),
    Planted(
        "transaction",
        _swap("position", "0", "1"),
        [
            f"{_OPEN}.{place}.{name}"
            for place in (0, 1)
            for name in ("amount", "display_note", "note", "transaction_id")
        ],
        "period = 'OPEN'",
    ),
    Planted("transaction", "note = 'New'", [f"{_OPEN}.0.note"], "note = 'Old'"),
    Planted("transaction", "reference = ' R-1'", [f"{_OPEN}.2.reference"], "reference = 'R-1'"),
    Planted("transaction", "reason = 'GENERAL_CREDIT'", [f"{_OPEN}.1.reason"], "transaction_id = 'O-2'"),
    Planted(
        "transaction",
        "transaction_date = '2026-03-06'",
        [f"{_OPEN}.1.transaction_date"],
        "transaction_id = 'O-2'",
    ),
    Planted(
        "transaction",
        "period = 'HISTORICAL', position = 1",
        [f"{_OPEN}.2", "ledgers.0.historical_statement_transactions.1"],
        "transaction_id = 'O-3'",
    ),
    Planted(
        "transaction",
        "ledger_pk = (SELECT max(id) FROM ledger WHERE ledger.account_pk = row.account_pk)",
        [f"{_OPEN}.2", "ledgers.1.transactions_in_open_settlement_period.0"],
        "transaction_id = 'O-3'",
    ),
    Planted("line_item", "net_amount = 7.91", [f"{_CHARGE}.line_items.0.net_amount"], "net_amount = 7.9"),
    Planted(
        "line_item", "units = ARRAY[24842, 24924]", [f"{_CHARGE}.line_items.0.units.1"], "units[1] = 24842"
    ),
    Planted("line_item", "ref = NULL", [f"{_CHARGE}.line_items.0.params.ref"], "ref = 'L1'"),
    Planted("line_item", "DELETE", [f"{_CHARGE}.line_items.2"], "position = 2"),
    Planted("tax_item", "rate = 0.09", [f"{_CHARGE}.tax_items.0.rate"]),
    Planted("meter_point", "ean = '871694330222747346'", [f"{_POINT}.ean"]),
    Planted("meter_point", "ean = '0' || ean", [f"{_POINT}.ean"]),
    Planted("meter_point", "location_description = NULL", [f"{_POINT}.location_description"]),
    Planted("agreement", "tariff_code = 'NL-E-FIXED'", [f"{_POINT}.agreements.0.tariff_code"]),
    Planted(
        "agreement",
        "historical_contract_number = 'C-1'",
        [f"{_POINT}.agreements.0.params.historical_contract_number"],
    ),
    Planted("agreement", "INSERT", [f"{_POINT}.agreements.1"]),
    Planted(
        "monthly_advance_charge_template",
        "total_monthly_advance_amount = 100.14",
        [f"{_POINT}.agreements.0.monthly_advance_charge_template.total_monthly_advance_amount"],
    ),
    Planted(
        "monthly_advance_charge_template",
        "INSERT",
        [f"{_POINT}.agreements.0.monthly_advance_charge_template"],
    ),
    Planted(
        "cost_detail",
        "tax_rate = NULL",
        [f"{_POINT}.agreements.0.monthly_advance_charge_template.cost_details.1.tax_rate"],
        "position = 1",
    ),
    Planted("meter", "active_from = '2017-03-30'", [f"{_POINT}.meters.0.active_from"]),
    Planted("register", "DELETE", [f"{_POINT}.meters.0.registers.0"], "position = 0"),
    Planted(
        "register",
        "multiplication_factor = 10",
        [f"{_POINT}.meters.0.registers.1.multiplication_factor"],
        "position = 1",
    ),
    Planted(
        "billing_configuration_period",
        "DELETE",
        [f"{_POINT}.billing_configuration_periods.1"],
        "position = 1",
    ),
    Planted(
        "billing_configuration_period",
        "end_date = NULL",
        [f"{_POINT}.billing_configuration_periods.1.end_date"],
        "position = 1",
    ),
    Planted(
        "energy_meter_point_grid_operator_effective_period",
        "grid_operator_code = '8712423014039'",
        [f"{_POINT}.energy_meter_point_grid_operator_effective_periods.0.grid_operator_code"],
    ),
    Planted(
        "energy_meter_point_configuration_period",
        "physical_capacity = 24.1500001",
        [f"{_POINT}.energy_meter_point_configuration_periods.0.physical_capacity"],
    ),
    Planted(
        "estimated_annual_volume",
        "energy_netted_peak = 1625",
        [f"{_POINT}.estimated_annual_volumes.0.energy_netted_peak"],
    ),
    Planted(
        "estimated_annual_volume",
        "start_at = '2020-01-19T01:00:00'",
        [f"{_POINT}.estimated_annual_volumes.0.start_at"],
    ),
    Planted(
        "estimated_annual_volume", "end_at = '2027-01-01'", [f"{_POINT}.estimated_annual_volumes.0.end_at"]
    ),
    Planted("customer", "family_name = 'Molenaar'", ["customers.0.family_name"], "position = 0"),
    Planted("customer", "family_name = 'Visser '", ["customers.1.family_name"], "position = 1"),
    Planted("customer", "email = 'e.mulder390@werk.example'", ["customers.0.email"], "position = 0"),
    Planted("customer", "mobile = '+31653940257'", ["customers.0.mobile"], "position = 0"),
    Planted("customer", "date_of_birth = '1968-04-26'", ["customers.0.date_of_birth"], "position = 0"),
    Planted(
        "customer",
        "opted_into_offers = false",
        ["customers.0.customer_preferences.opted_into_offers"],
        "position = 0",
    ),
    Planted(
        "customer",
        "opted_into_sms = true",
        ["customers.1.customer_preferences.opted_into_sms"],
        "position = 1",
    ),
    Planted("user_detail", "value = '100000038-2'", ["customers.0.user_details.1.value"], "position = 1"),
    Planted("supply_address", "supply_postcode = '5018 NK'", ["supply_addresses.0.supply_postcode"]),
    Planted("supply_address", "supply_address3 = NULL", ["supply_addresses.0.supply_address3"]),
    Planted("account", "billing_address2 = '160'", ["billing_address2"]),
    Planted("account", "billing_postcode = '5018 nj'", ["billing_postcode"]),
    Planted("account", "unknown_occupier = true", ["unknown_occupier"]),
    Planted("account", "service_account_number = 'A-' || id", ["service_account_number"]),
    Planted(
        "account", "external_account_number = external_account_number || 'x'", ["external_account_number"]
    ),
]

#: What each table is a part of, unless it is a part of the account.
_ABOVE = {
    "user_detail": "customer",
    "meter_point": "supply_address",
    "agreement": "meter_point",
    "monthly_advance_charge_template": "agreement",
    "cost_detail": "monthly_advance_charge_template",
    "meter": "meter_point",
    "register": "meter",
    "energy_meter_point_configuration_period": "meter_point",
    "energy_meter_point_grid_operator_effective_period": "meter_point",
    "billing_configuration_period": "meter_point",
    "estimated_annual_volume": "meter_point",
    "transaction": "ledger",
    "line_item": "transaction",
    "tax_item": "transaction",
}

_COLUMNS = text("""
    SELECT string_agg(column_name, ', ') FROM information_schema.columns
    WHERE table_schema = 'public' AND table_name = :name AND column_name NOT IN ('id', 'position')
""")


def _rows_of_account(table: str) -> str:
    """Return the condition for the rows of a table that belong to the account of a number."""
    if table == "account":
        return "external_account_number = :number"
    above = _ABOVE.get(table, "account")
    key = "account_pk" if above == "account" else f"{above}_pk"
    return f'{key} IN (SELECT id FROM "{above}" WHERE {_rows_of_account(above)})'  # noqa: S608


def plant(session: Session, planted: Planted, number: str) -> None:
    """Make the change in the account of this number."""
    table = f'"{planted.table}"'
    where = f"{_rows_of_account(planted.table)} AND {planted.where}"
    names = session.scalar(_COLUMNS, {"name": planted.table})
    statements = {
        "DELETE": f"DELETE FROM {table} WHERE {where}",  # noqa: S608
        "INSERT": f"INSERT INTO {table} (position, {names}) SELECT position + 1, {names} FROM {table} "  # noqa: S608
        f"WHERE {where}",
    }
    change = f"UPDATE {table} AS row SET {planted.change} WHERE {where}"  # noqa: S608
    statement = text(f"{statements.get(planted.change, change)} RETURNING 1")
    assert session.execute(statement, {"number": number}).all(), planted
