"""Checks for every sample account, one function each, which do not use the service's own rules."""

import re
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import phonenumbers

Account = dict[str, Any]
Check = Callable[[Account, date], None]
HALF_A_CENT = Decimal("0.005")
SUPPLY_CHARGE_FIELDS = {"supply_type", "product_code", "line_items", "tax_items"}


def money(value: float | str) -> Decimal:
    return Decimal(str(value))


def day(text: str) -> date:
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", text)
    return date.fromisoformat(text)


def meter_points(account: Account) -> Iterator[dict[str, Any]]:
    for address in account["supply_addresses"]:
        yield from address["meter_points"]


def open_transactions(ledger: dict[str, Any]) -> list[dict[str, Any]]:
    return list(ledger.get("transactions_in_open_settlement_period", []))


def transactions(account: Account) -> Iterator[dict[str, Any]]:
    for ledger in account["ledgers"]:
        yield from ledger["historical_statement_transactions"]
        yield from open_transactions(ledger)


def supply_charges(account: Account) -> Iterator[dict[str, Any]]:
    return (item for item in transactions(account) if item["type"] == "SUPPLY_CHARGE")


def balance(items: list[dict[str, Any]]) -> Decimal:
    total = Decimal(0)
    for item in items:
        amount = money(item["amount"])
        total += amount if item["type"] in {"PAYMENT", "CREDIT"} else -amount
    return total


def has_right_check_digit(code: str) -> bool:
    """Return the GS1 check digit: weights 3, 1, 3, ... from the right of the other digits."""
    weighted = sum(
        int(digit) * (3 if place % 2 == 0 else 1) for place, digit in enumerate(reversed(code[:-1]))
    )
    return (weighted + int(code[-1])) % 10 == 0


def is_telephone_number(text: str) -> bool:
    try:
        return bool(phonenumbers.is_valid_number(phonenumbers.parse(text, "NL")))
    except phonenumbers.NumberParseException:
        return False


def are_unique(values: list[Any]) -> bool:
    return len(set(values)) == len(values)


def optional_fields_are_left_out_rather_than_null(account: Account, today: date) -> None:
    def look(value: Any, key: str) -> None:
        assert value is not None or key == "end_at"
        if isinstance(value, dict):
            for name, below in value.items():
                look(below, name)
        elif isinstance(value, list):
            for below in value:
                look(below, key)

    look(account, "")


def telephone_numbers_are_valid(account: Account, today: date) -> None:
    for customer in account.get("customers", []):
        for field in ("mobile", "landline"):
            if customer[field]:
                assert is_telephone_number(customer[field]), customer[field]


def customers_are_there_unless_the_occupier_is_unknown(account: Account, today: date) -> None:
    assert account["unknown_occupier"] in {"true", "false"}
    assert ("customers" in account) == (account["unknown_occupier"] == "false")
    assert 1 <= len(account.get("customers", [1])) <= 3


def customers_are_complete_and_differ(account: Account, today: date) -> None:
    customers = account.get("customers", [])
    assert are_unique([(c["given_name"], c["family_name"]) for c in customers])
    assert are_unique([c["email"] for c in customers])
    for customer in customers:
        assert customer["family_name"] and "occupier" not in customer["family_name"].lower()
        assert re.fullmatch(r"[a-z]+\.[a-z]+\d+@[a-z]+\.example", customer["email"])
        assert date(1900, 1, 1) < day(customer["date_of_birth"]) < today.replace(year=today.year - 17, day=1)
        assert are_unique([detail["namespace"] for detail in customer.get("user_details", [])])


def addresses_are_given_and_differ(account: Account, today: date) -> None:
    assert account["billing_address1"]
    keys = []
    postcodes = [account["billing_postcode"]]
    for address in account["supply_addresses"]:
        postcodes.append(address["supply_postcode"])
        keys.append((address["supply_address1"], address["supply_address2"], address["supply_postcode"]))
        assert day(address["customer_at_supply_address_from_date"]) <= today
    assert keys
    assert are_unique(keys)
    for postcode in postcodes:
        assert re.fullmatch(r"[1-9]\d{3} ?[A-Z]{2}", postcode)
        assert postcode[-2:] not in {"SA", "SD", "SS"}


def codes_have_right_check_digits(account: Account, today: date) -> None:
    for point in meter_points(account):
        assert re.fullmatch(r"87\d{16}", point["ean"])
        assert has_right_check_digit(point["ean"])
        for period in point["energy_meter_point_grid_operator_effective_periods"]:
            assert re.fullmatch(r"\d{13}", period["grid_operator_code"])
            assert has_right_check_digit(period["grid_operator_code"])
        for period in point["energy_meter_point_configuration_periods"]:
            assert re.fullmatch(r"\d{13}", period["cap_tar_code"])
            assert has_right_check_digit(period["cap_tar_code"])


def meter_points_occur_once(account: Account, today: date) -> None:
    assert are_unique([(point["ean"], point["supply_type"]) for point in meter_points(account)])


def agreements_fit_their_meter_point(account: Account, today: date) -> None:
    for point in meter_points(account):
        starts = [day(agreement["effective_from"]) for agreement in point["agreements"]]
        assert starts
        assert are_unique(starts)
        assert min(starts) >= day(point["supply_start_date"])
        assert min(starts) <= day(point["last_billed_to_date"])
        for agreement in point["agreements"]:
            assert agreement["supply_type"] == point["supply_type"]
            assert day(agreement["agreed_at"]) <= day(agreement["effective_from"])
            assert agreement["tariff_code"]


def advances_add_up_and_are_in_the_units_of_the_supply(account: Account, today: date) -> None:
    for point in meter_points(account):
        kwh = point["supply_type"] == "ELECTRICITY"
        for agreement in point["agreements"]:
            template = agreement["monthly_advance_charge_template"]
            units = "KWH_CONSUMPION" if kwh else "CUBIC_METRES_CONSUMPTION"
            assert template["forecast_consumption_units"] == units
            assert template.get("forecast_generation_units", units) == units
            assert re.fullmatch(r"\d+\.\d\d", template["total_monthly_advance_amount"])
            assert re.fullmatch(r"\d+", template["forecast_annual_consumption"])
            if details := template.get("cost_details"):
                total = sum(money(cost["net_amount"]) + money(cost["tax_amount"]) for cost in details)
                assert total == money(template["total_monthly_advance_amount"])


def meters_have_registers_of_different_names(account: Account, today: date) -> None:
    for point in meter_points(account):
        assert point["meters"]
        for meter in point["meters"]:
            assert meter["registers"]
            assert are_unique([register["register_id"] for register in meter["registers"]])
            assert day(meter["active_from"]) <= today


def supply_is_billed_up_to_a_day_that_has_been(account: Account, today: date) -> None:
    for point in meter_points(account):
        assert day(point["supply_start_date"]) < day(point["last_billed_to_date"]) <= today


def dated_periods_follow_one_another(account: Account, today: date) -> None:
    for point in meter_points(account):
        for kind in (
            "energy_meter_point_configuration_periods",
            "energy_meter_point_grid_operator_effective_periods",
            "billing_configuration_periods",
        ):
            starts = [day(period["start_date"]) for period in point[kind]]
            assert starts
            assert starts == sorted(set(starts))
        periods = point["billing_configuration_periods"]
        assert "end_date" not in periods[-1]
        for before, after in pairwise(periods):
            assert before["end_date"] == after["start_date"]
        for period in periods:
            assert ("residency_status" in period) == (point["supply_type"] == "ELECTRICITY")


def estimated_volumes_follow_one_another(account: Account, today: date) -> None:
    for point in meter_points(account):
        assert ("estimated_annual_volumes" in point) == (point["supply_type"] == "ELECTRICITY")
        for direction in ("CONSUMPTION", "PRODUCTION"):
            volumes = [
                volume
                for volume in point.get("estimated_annual_volumes", [])
                if volume["direction"] == direction
            ]
            for volume in volumes:
                datetime.strptime(volume["start_at"], "%Y-%m-%dT%H:%M:%S")  # raises ValueError
            for before, after in pairwise(volumes):
                assert before["start_at"] < before["end_at"] == after["start_at"]
            assert not volumes or volumes[-1]["end_at"] is None


def ledgers_name_each_meter_point_once(account: Account, today: date) -> None:
    identifiers = [ean for ledger in account["ledgers"] for ean in ledger["identifiers"]]
    assert are_unique(identifiers)
    assert set(identifiers) == {point["ean"] for point in meter_points(account)}
    assert are_unique([ledger["ledger_code"] for ledger in account["ledgers"]])


def transactions_have_ids_and_the_fields_of_their_type(account: Account, today: date) -> None:
    assert are_unique([item["transaction_id"] for item in transactions(account)])
    for item in transactions(account):
        if item["type"] == "SUPPLY_CHARGE":
            assert item.keys() >= SUPPLY_CHARGE_FIELDS
            assert item["line_items"]
            assert not item.keys() & {"reason", "payment_type", "reference"}
            continue
        assert item["amount"] > 0
        assert item["reason"]
        assert not item.keys() & SUPPLY_CHARGE_FIELDS
        paid = item["type"] in {"PAYMENT", "REPAYMENT"}
        assert ("payment_type" in item) == ("reference" in item) == paid


def transactions_lie_in_their_settlement_period(account: Account, today: date) -> None:
    for ledger in account["ledgers"]:
        closing = day(ledger["last_settlement_closing_date"])
        assert closing <= day(ledger["last_settlement_issue_date"]) <= today
        for item in ledger["historical_statement_transactions"]:
            assert day(item["transaction_date"]) <= closing
        for item in open_transactions(ledger):
            assert closing < day(item["transaction_date"]) <= today


def ledger_balances_add_up(account: Account, today: date) -> None:
    for ledger in account["ledgers"]:
        settled = money(ledger["last_settlement_balance"])
        assert balance(ledger["historical_statement_transactions"]) == settled
        assert settled + balance(open_transactions(ledger)) == money(ledger["ledger_balance"])


def amounts_are_whole_cents(account: Account, today: date) -> None:
    for item in transactions(account):
        amounts = [item["amount"]]
        amounts += [line["net_amount"] for line in item.get("line_items", [])]
        amounts += [tax["amount"] for tax in item.get("tax_items", [])]
        for amount in amounts:
            assert money(amount) == money(amount).quantize(Decimal("0.01"))


def line_items_are_units_times_price(account: Account, today: date) -> None:
    for charge in supply_charges(account):
        for line in charge["line_items"]:
            product = money(line["number_of_units"]) * money(line["price_per_unit"])
            assert abs(product - money(line["net_amount"])) <= HALF_A_CENT
            assert day(line["start_date"]) < day(line["end_date"]) <= today
            if "units" in line:
                start, end = line["units"]
                assert end - start == line["number_of_units"]


def supply_charges_add_up_with_their_tax(account: Account, today: date) -> None:
    for charge in supply_charges(account):
        net = sum(money(line["net_amount"]) for line in charge["line_items"])
        tax = sum(money(item["amount"]) for item in charge["tax_items"])
        assert net + tax == money(charge["amount"])
        for item in charge["tax_items"]:
            assert (
                abs(money(item["value_taxed"]) * money(item["rate"]) - money(item["amount"])) <= HALF_A_CENT
            )


def tax_items_refer_to_line_items(account: Account, today: date) -> None:
    for charge in supply_charges(account):
        refs = [line["params"]["ref"] for line in charge["line_items"] if "params" in line]
        taxed = [item["params"]["vat_on"] for item in charge["tax_items"] if "params" in item]
        assert are_unique(refs)
        assert taxed == refs


def meter_readings_go_on_where_they_were(account: Account, today: date) -> None:
    for ledger in account["ledgers"]:
        seen: dict[tuple[str, int], float] = {}
        kinds = [
            point["supply_type"] for point in meter_points(account) if point["ean"] in ledger["identifiers"]
        ]
        if not are_unique(kinds):
            continue  # With several meters of one supply type it is unknown to which a reading belongs.
        for charge in ledger["historical_statement_transactions"]:
            readings = [line["units"] for line in charge.get("line_items", []) if "units" in line]
            for place, (start, end) in enumerate(readings):
                key = (charge["supply_type"], place)
                assert seen.get(key, start) == start
                seen[key] = end


def statements_match_the_supply_charges(account: Account, today: date) -> None:
    statements = {statement["number"]: statement for statement in account["statements"]}
    assert len(statements) == len(account["statements"])
    assert are_unique([statement["statement_id"] for statement in account["statements"]])
    billed: dict[str, Decimal] = {}
    for charge in supply_charges(account):
        number = charge["associated_invoice_number"]
        billed[number] = billed.get(number, Decimal(0)) + money(charge["amount"])
    assert billed == {number: Decimal(item["gross_amount"]) / 100 for number, item in statements.items()}
    for statement in account["statements"]:
        assert day(statement["bill_period_from_date"]) < day(statement["bill_period_to_date"]) <= today
        assert day(statement["bill_period_to_date"]) <= day(statement["issued_date"]) <= today
        assert statement.get("statement_path") or statement["statement_pdf_context"]


def document_paths_are_relative(account: Account, today: date) -> None:
    paths = [item["statement_path"] for item in account["statements"] if "statement_path" in item]
    for point in meter_points(account):
        for agreement in point["agreements"]:
            paths.append(agreement["params"].get("historical_contract_pdf_path", "none.pdf"))
    for path in paths:
        assert re.fullmatch(r"[\w-]+(/[\w-]+)*\.pdf", path)


CHECKS: list[Check] = [
    check
    for check in list(globals().values())
    if callable(check) and getattr(check, "__annotations__", {}).keys() == {"account", "today", "return"}
]


def check_account(account: Account, today: date) -> None:
    for check in CHECKS:
        check(account, today)
