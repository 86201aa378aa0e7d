"""Known ways to break an account, each with the error code that must be reported for it.

Every fault is an error under both profiles, so that a broken account is refused everywhere.
"""

from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any, NamedTuple

Payload = dict[str, Any]


class Fault(NamedTuple):
    """A way to break an account.

    `code` is among the codes that are then reported. `apply` changes the given payload. With
    `needs_customers`, it does not apply to an account with an unknown occupier.
    """

    code: str
    apply: Callable[[Payload, Random], None]
    needs_customers: bool = False


def break_account(account: Payload, fault: str, rng: Random) -> Payload:
    """Return a copy of `account` with the named fault.

    Raise KeyError if it is unknown, or if it needs customers and there are none.
    """
    broken = deepcopy(account)
    FAULTS[fault].apply(broken, rng)
    return broken


def choose_fault(account: Payload, rng: Random) -> str:
    """Return the name of a fault that applies to `account`."""
    return rng.choice(_ALL_NAMES if "customers" in account else _NAMES_WITHOUT_CUSTOMERS)


def _customer(account: Payload, rng: Random) -> Payload:
    customer: Payload = rng.choice(account["customers"])
    return customer


def _meter_point(account: Payload, rng: Random) -> Payload:
    meter_point: Payload = rng.choice(rng.choice(account["supply_addresses"])["meter_points"])
    return meter_point


def _transaction(account: Payload, rng: Random) -> Payload:
    transaction: Payload = rng.choice(rng.choice(account["ledgers"])["historical_statement_transactions"])
    return transaction


def _supply_charge(account: Payload, rng: Random) -> Payload:
    transactions = rng.choice(account["ledgers"])["historical_statement_transactions"]
    charge: Payload = rng.choice([item for item in transactions if item["type"] == "SUPPLY_CHARGE"])
    return charge


def _invalid_phone_number(account: Payload, rng: Random) -> None:
    _customer(account, rng)[rng.choice(("mobile", "landline"))] = rng.choice(("06123", "+31 0", "call me"))


def _invalid_email_address(account: Payload, rng: Random) -> None:
    customer = _customer(account, rng)
    customer["email"] = customer["email"].replace("@", rng.choice(("", " at ")))


def _family_name_missing(account: Payload, rng: Random) -> None:
    del _customer(account, rng)["family_name"]


def _date_of_birth_in_future(account: Payload, rng: Random) -> None:
    _customer(account, rng)["date_of_birth"] = f"{rng.randrange(2200, 2300)}-01-01"


def _customers_missing(account: Payload, _: Random) -> None:
    del account["customers"]


def _customers_not_a_list(account: Payload, _: Random) -> None:
    account["customers"] = account["customers"][0]


def _ean_missing(account: Payload, rng: Random) -> None:
    del _meter_point(account, rng)["ean"]


def _tariff_code_missing(account: Payload, rng: Random) -> None:
    del rng.choice(_meter_point(account, rng)["agreements"])["tariff_code"]


def _transaction_id_missing(account: Payload, rng: Random) -> None:
    del _transaction(account, rng)["transaction_id"]


def _ledger_code_null(account: Payload, rng: Random) -> None:
    rng.choice(account["ledgers"])["ledger_code"] = None


def _amount_is_no_number(account: Payload, rng: Random) -> None:
    _transaction(account, rng)["amount"] = rng.choice(("12,50", "EUR 12.50", True))


def _ledger_not_an_object(account: Payload, rng: Random) -> None:
    account["ledgers"].append(rng.choice(("ENERGY_LEDGER", 1, [])))


def _date_not_in_calendar(account: Payload, rng: Random) -> None:
    _transaction(account, rng)["transaction_date"] = rng.choice(("2025-02-30", "01-03-2025", "2025-13-01"))


def _unknown_transaction_type(account: Payload, rng: Random) -> None:
    _transaction(account, rng)["type"] = "DONATION"


def _ean_with_letters(account: Payload, rng: Random) -> None:
    meter_point = _meter_point(account, rng)
    meter_point["ean"] = f"EAN{meter_point['ean'][3:]}"


def _document_path_leads_out(account: Payload, rng: Random) -> None:
    rng.choice(account["statements"])["statement_path"] = rng.choice(
        ("../other/bill.pdf", "//etc/bill.pdf", "statements\\bill.pdf", "s3://other/bill.pdf")
    )


def _duplicate_meter_point(account: Payload, rng: Random) -> None:
    meter_points = rng.choice(account["supply_addresses"])["meter_points"]
    meter_points.append(deepcopy(rng.choice(meter_points)))


def _supply_type_mismatch(account: Payload, rng: Random) -> None:
    meter_point = _meter_point(account, rng)
    other = "GAS" if meter_point["supply_type"] == "ELECTRICITY" else "ELECTRICITY"
    rng.choice(meter_point["agreements"])["supply_type"] = other


def _overlapping_agreements(account: Payload, rng: Random) -> None:
    agreements = _meter_point(account, rng)["agreements"]
    agreements.append(deepcopy(rng.choice(agreements)))


def _duplicate_register(account: Payload, rng: Random) -> None:
    registers = _meter_point(account, rng)["meters"][0]["registers"]
    registers.append(deepcopy(rng.choice(registers)))


def _period_ends_before_it_starts(account: Payload, rng: Random) -> None:
    _meter_point(account, rng)["billing_configuration_periods"][-1]["end_date"] = "1999-12-31"


def _duplicate_period_start(account: Payload, rng: Random) -> None:
    periods = _meter_point(account, rng)["energy_meter_point_configuration_periods"]
    periods.append(deepcopy(rng.choice(periods)))


def _unknown_ledger_identifier(account: Payload, rng: Random) -> None:
    rng.choice(account["ledgers"])["identifiers"].append("871685999999999999")


def _duplicate_ledger_identifier(account: Payload, rng: Random) -> None:
    identifiers = rng.choice(account["ledgers"])["identifiers"]
    identifiers.append(rng.choice(identifiers))


def _duplicate_ledger(account: Payload, _: Random) -> None:
    ledger = deepcopy(account["ledgers"][0])
    ledger["identifiers"] = []
    ledger["historical_statement_transactions"] = []
    ledger.pop("transactions_in_open_settlement_period", None)
    ledger["last_settlement_balance"] = ledger["ledger_balance"] = 0
    account["ledgers"].append(ledger)


def _duplicate_transaction_id(account: Payload, rng: Random) -> None:
    transactions = rng.choice(account["ledgers"])["historical_statement_transactions"]
    transactions.append(deepcopy(rng.choice(transactions)))


def _unknown_vat_reference(account: Payload, rng: Random) -> None:
    rng.choice(_supply_charge(account, rng)["tax_items"])["params"] = {"vat_on": "no-such-line"}


def _duplicate_line_item_ref(account: Payload, rng: Random) -> None:
    first, second = rng.sample(_supply_charge(account, rng)["line_items"], 2)
    ref = first.setdefault("params", {"ref": "line-1"})["ref"]
    second["params"] = {"ref": ref}


def _duplicate_statement_id(account: Payload, rng: Random) -> None:
    statements = account["statements"]
    twin = deepcopy(rng.choice(statements))
    twin["number"] += "-B"
    statements.append(twin)


#: Every known fault by its name.
FAULTS: dict[str, Fault] = {
    "invalid_phone_number": Fault("invalid_phone_number", _invalid_phone_number, needs_customers=True),
    "invalid_email_address": Fault("invalid_email_address", _invalid_email_address, needs_customers=True),
    "family_name_missing": Fault("customer_family_name_required", _family_name_missing, needs_customers=True),
    "date_of_birth_in_future": Fault(
        "date_of_birth_in_future", _date_of_birth_in_future, needs_customers=True
    ),
    "customers_missing": Fault("customer_required", _customers_missing, needs_customers=True),
    "customers_not_a_list": Fault("not_a_list", _customers_not_a_list, needs_customers=True),
    "ean_missing": Fault("required", _ean_missing),
    "tariff_code_missing": Fault("required", _tariff_code_missing),
    "transaction_id_missing": Fault("required", _transaction_id_missing),
    "ledger_code_null": Fault("null", _ledger_code_null),
    "amount_is_no_number": Fault("invalid", _amount_is_no_number),
    "ledger_not_an_object": Fault("not_a_dict", _ledger_not_an_object),
    "date_not_in_calendar": Fault("invalid_date", _date_not_in_calendar),
    "unknown_transaction_type": Fault("invalid_choice", _unknown_transaction_type),
    "ean_with_letters": Fault("invalid_ean", _ean_with_letters),
    "document_path_leads_out": Fault("invalid_document_path", _document_path_leads_out),
    "duplicate_meter_point": Fault("duplicate_meter_points_provided", _duplicate_meter_point),
    "supply_type_mismatch": Fault("supply_type_mismatch", _supply_type_mismatch),
    "overlapping_agreements": Fault("overlapping_agreements", _overlapping_agreements),
    "duplicate_register": Fault("meter_with_duplicate_register_ids", _duplicate_register),
    "period_ends_before_it_starts": Fault("start_date_later_than_end_date", _period_ends_before_it_starts),
    "duplicate_period_start": Fault("duplicate_period_start", _duplicate_period_start),
    "unknown_ledger_identifier": Fault("unknown_ledger_identifiers", _unknown_ledger_identifier),
    "duplicate_ledger_identifier": Fault("duplicate_identifiers_entries_found", _duplicate_ledger_identifier),
    "duplicate_ledger": Fault("duplicate_ledger_entries_found", _duplicate_ledger),
    "duplicate_transaction_id": Fault("duplicate_transaction_ids", _duplicate_transaction_id),
    "unknown_vat_reference": Fault("unknown_vat_reference", _unknown_vat_reference),
    "duplicate_line_item_ref": Fault("duplicate_line_item_refs", _duplicate_line_item_ref),
    "duplicate_statement_id": Fault("duplicate_statement_ids", _duplicate_statement_id),
}

_ALL_NAMES = tuple(FAULTS)
_NAMES_WITHOUT_CUSTOMERS = tuple(name for name, fault in FAULTS.items() if not fault.needs_customers)
