"""A complete account as the schema loads it, in which no rule finds anything, and a function to change it.

It has the unusual shapes that suppliers send: a fixed line as the mobile number, empty address lines, a
statement with a path and an empty context, two registers under profile E1A, and agreements without an end.
"""

from copy import deepcopy
from datetime import date, datetime
from decimal import Decimal
from typing import Any

TODAY = date(2025, 6, 15)
ELECTRICITY_EAN = "871685920001232914"
GAS_EAN = "871687100009943212"

#: The value of a change that deletes the key.
ABSENT = object()


def make_valid_account() -> dict[str, Any]:
    """Return a new copy of the account."""
    return {
        "external_account_number": "1000-1",
        "import_supplier": "SUPPLIER",
        "unknown_occupier": False,
        "billing_address1": "Dorpsstraat",
        "billing_address2": "12",
        "billing_address3": "",
        "billing_address4": "Utrecht",
        "billing_postcode": "3511 AB",
        "customers": [_customer("Anna", "de Vries"), _customer("Bram", "Jansen")],
        "supply_addresses": [
            {
                "supply_address1": "Dorpsstraat",
                "supply_address2": "12",
                "supply_address3": "",
                "supply_address4": "Utrecht",
                "supply_postcode": "3511ab",
                "customer_at_supply_address_from_date": date(2022, 12, 1),
                "meter_points": [_electricity(), _gas()],
            }
        ],
        "ledgers": [_energy_ledger(), {"ledger_code": "SERVICES_LEDGER", "ledger_balance": Decimal("0")}],
        "statements": [_statement(1, date(2025, 4, 1), date(2025, 4, 30)), _statement(2, date(2025, 5, 1))],
    }


def change(account: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return `account` with each path set to its value.

    `+` appends, and ABSENT deletes. A value that is a function is called with the account.
    """
    for path, value in changes.items():
        *above, last = (int(part) if part.isdigit() else part for part in path.split("."))
        parent: Any = account
        for part in above:
            parent = parent[part]
        if value is ABSENT:
            del parent[last]
            continue
        new = value(account) if callable(value) else deepcopy(value)
        if last == "+":
            parent.append(new)
        else:
            parent[last] = new
    return account


def _customer(given_name: str, family_name: str) -> dict[str, Any]:
    return {
        "given_name": given_name,
        "family_name": family_name,
        "email": f"{given_name.lower()}@provider.example",
        "mobile": "030 2345678",
        "landline": "",
        "date_of_birth": date(1980, 2, 29),
        "customer_preferences": {"opted_into_updates": True, "opted_into_sms": False},
        "user_details": [
            {"namespace": "loyalty", "value": "gold"},
            {"namespace": "language", "value": ""},
        ],
    }


def _electricity() -> dict[str, Any]:
    return {
        "ean": ELECTRICITY_EAN,
        "supply_type": "ELECTRICITY",
        "last_billed_to_date": date(2025, 5, 31),
        "supply_start_date": date(2022, 12, 1),
        "smart_meter_administrative_status": "ON",
        "market_segment": "RETAIL",
        "location_description": "",
        "agreements": [
            _agreement("ELECTRICITY", date(2023, 1, 1), "KWH_CONSUMPION"),
            _agreement("ELECTRICITY", date(2024, 1, 1), "KWH_CONSUMPION"),
        ],
        "meters": [
            {
                "meter_id": "E0001",
                "type": "SMART",
                "active_from": date(2022, 12, 1),
                "registers": [
                    {"register_id": "1.8.1", "multiplication_factor": 1, "time_of_use": "OFF_PEAK"},
                    {"register_id": "1.8.2", "multiplication_factor": 1, "time_of_use": "PEAK"},
                ],
            }
        ],
        "energy_meter_point_configuration_periods": [
            {"profile_category": "E1A", "cap_tar_code": "8742010102115", "start_date": date(2022, 12, 1)}
        ],
        "energy_meter_point_grid_operator_effective_periods": [
            {"grid_operator_code": "8716871000002", "start_date": date(2022, 12, 1)}
        ],
        "billing_configuration_periods": [
            {
                "residency_status": "NON_RESIDENT",
                "start_date": date(2022, 12, 1),
                "end_date": date(2024, 1, 1),
            },
            {"residency_status": "RESIDENT", "start_date": date(2024, 1, 1)},
        ],
        "estimated_annual_volumes": [
            _volume("CONSUMPTION", datetime(2024, 1, 1), None),
            _volume("CONSUMPTION", datetime(2022, 12, 1), datetime(2024, 1, 1)),
            _volume("PRODUCTION", datetime(2022, 12, 1), None),
        ],
    }


def _gas() -> dict[str, Any]:
    return {
        "ean": GAS_EAN,
        "supply_type": "GAS",
        "last_billed_to_date": date(2025, 5, 31),
        "supply_start_date": date(2022, 12, 1),
        "agreements": [_agreement("GAS", date(2023, 1, 1), "CUBIC_METRES_CONSUMPTION")],
        "meters": [{"meter_id": "G0001", "type": "SMART", "registers": [{"register_id": "7.0"}]}],
        "energy_meter_point_configuration_periods": [
            {"profile_category": "G1A", "cap_tar_code": "8742090202118", "start_date": date(2022, 12, 1)}
        ],
        "energy_meter_point_grid_operator_effective_periods": [
            {"grid_operator_code": "8716892000005", "start_date": date(2022, 12, 1)}
        ],
        "billing_configuration_periods": [
            {"energy_tax_exception": "NO_EXCEPTION", "start_date": date(2022, 12, 1)}
        ],
    }


def _agreement(supply_type: str, effective_from: date, units: str) -> dict[str, Any]:
    return {
        "supply_type": supply_type,
        "effective_from": effective_from,
        "agreed_at": date(2022, 10, 15),
        "tariff_code": "FIXED-1Y",
        "params": {"historical_contract_number": "C-1", "historical_contract_pdf_path": "contracts/C-1.pdf"},
        "monthly_advance_charge_template": {
            "total_monthly_advance_amount": "121.00",
            "forecast_annual_consumption": "2440",
            "forecast_consumption_units": units,
            "cost_details": [
                {"band": "ADVANCE_GRID_FEE", "net_amount": Decimal("100.00"), "tax_amount": Decimal("21.00")},
            ],
        },
    }


def _volume(direction: str, start_at: datetime, end_at: datetime | None) -> dict[str, Any]:
    return {
        "direction": direction,
        "energy_netted_peak": Decimal("1000"),
        "energy_netted_off_peak": Decimal("1440"),
        "start_at": start_at,
        "end_at": end_at,
    }


def _energy_ledger() -> dict[str, Any]:
    """172.62 and 133.10 charged, 300.00 paid: -5.72. Then 5.72 and 10.00 in, 2.50 and 4.00 out: 3.50."""
    return {
        "identifiers": [ELECTRICITY_EAN, GAS_EAN],
        "ledger_code": "ENERGY_LEDGER",
        "ledger_balance": Decimal("3.50"),
        "last_settlement_balance": Decimal("-5.72"),
        "last_settlement_closing_date": date(2025, 5, 31),
        "last_settlement_issue_date": date(2025, 6, 3),
        "historical_statement_transactions": [
            _electricity_charge(),
            _gas_charge(),
            _transaction(3, "PAYMENT", "300.00", date(2025, 5, 31), payment_type="DIRECT_CREDIT"),
        ],
        "transactions_in_open_settlement_period": [
            _transaction(4, "PAYMENT", "5.72", date(2025, 6, 1), payment_type="DEBIT_CARD"),
            _transaction(5, "CREDIT", "10.00", date(2025, 6, 6), reason="GENERAL_CREDIT"),
            _transaction(6, "CHARGE", "2.50", date(2025, 6, 7), reason="IMPORTED_CHARGE"),
            _transaction(7, "REPAYMENT", "4.00", date(2025, 6, 15), payment_type="DIRECT_CREDIT"),
        ],
    }


def _transaction(serial: int, kind: str, amount: str, day: date, **fields: Any) -> dict[str, Any]:
    return {
        "transaction_id": f"T-{serial}",
        "transaction_date": day,
        "amount": Decimal(amount),
        "type": kind,
        **fields,
    }


def _electricity_charge() -> dict[str, Any]:
    """Return a charge with a tax item for each line item."""
    return _transaction(
        1,
        "SUPPLY_CHARGE",
        "172.62",
        date(2025, 4, 30),
        associated_invoice_number="INV-1",
        supply_type="ELECTRICITY",
        product_code="POWER",
        line_items=[
            {
                **_line("CONSUMPTION_STANDARD", "300", "0.25", "75.00", "line-1"),
                "units": [Decimal("1000"), Decimal("1300")],
            },
            _line("ADVANCE_GRID_FEE", "31", "1.20", "37.20", "line-2"),
            _line("ADVANCE_ENERGY_TAX_STEP_1", "300", "0.10154", "30.46", "line-3"),
        ],
        tax_items=[
            _vat("15.75", "75.00", params={"vat_on": "line-1"}),
            _vat("7.81", "37.20", params={"vat_on": "line-2"}),
            _vat("6.40", "30.46", params={"vat_on": "line-3"}),
        ],
    )


def _gas_charge() -> dict[str, Any]:
    """Return a charge with one tax item for all line items, and no references."""
    line = _line("CONSUMPTION_STANDARD", "100", "1.10", "110.00", "")
    del line["params"]
    return _transaction(
        2,
        "SUPPLY_CHARGE",
        "133.10",
        date(2025, 5, 31),
        associated_invoice_number="INV-2",
        supply_type="GAS",
        product_code="GAS",
        line_items=[line],
        tax_items=[_vat("23.10", "110.00")],
    )


def _line(band: str, units: str, price: str, net: str, ref: str) -> dict[str, Any]:
    return {
        "rate_band": band,
        "start_date": date(2025, 4, 1),
        "end_date": date(2025, 4, 30),
        "number_of_units": Decimal(units),
        "price_per_unit": Decimal(price),
        "net_amount": Decimal(net),
        "params": {"ref": ref},
    }


def _vat(amount: str, value: str, **fields: Any) -> dict[str, Any]:
    return {
        "amount": Decimal(amount),
        "tax_type": "VAT",
        "rate": Decimal("0.21"),
        "unit_type": "PROPORTION",
        "value_taxed": Decimal(value),
        **fields,
    }


def _statement(serial: int, start: date, end: date = date(2025, 5, 31)) -> dict[str, Any]:
    return {
        "bill_period_from_date": start,
        "bill_period_to_date": end,
        "gross_amount": Decimal(17262),
        "issued_date": date(2025, 6, 3),
        "number": f"INV-{serial}",
        "statement_id": f"S-{serial}",
        "statement_path": f"statements/INV-{serial}.pdf",
        "statement_pdf_context": {},
    }
