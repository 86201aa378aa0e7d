"""For each rule, changes to the valid account that break it and no other."""

from copy import deepcopy
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

from unit.payloads.rules.valid_account import ABSENT, ELECTRICITY_EAN, GAS_EAN


class BreakingExample(NamedTuple):
    """Changes (`valid_account.change`), and their only finding."""

    severity: str
    code: str
    attr: str
    detail: str
    changes: dict[str, Any]


_error, _warning = partial(BreakingExample, "error"), partial(BreakingExample, "warning")
_notice = partial(BreakingExample, "notice")


def _copy_of(*path: str | int) -> Any:
    def copy(account: Any) -> Any:
        value = account
        for part in path:
            value = value[part]
        return deepcopy(value)

    return copy


_POWER = "supply_addresses.0.meter_points.0"
_GAS = "supply_addresses.0.meter_points.1"
_CONFIGURATION = "energy_meter_point_configuration_periods"
_GRID = "energy_meter_point_grid_operator_effective_periods"
_OPEN = "ledgers.0.transactions_in_open_settlement_period"
_ADVANCE = f"{_GAS}.agreements.0.monthly_advance_charge_template"
_HISTORICAL = "ledgers.0.historical_statement_transactions"

_ACCOUNT = [
    _warning(
        "invalid_postcode",
        "billing_postcode",
        "This is not a Dutch postcode: write four digits and two letters, as 1234 AB.",
        {"billing_postcode": "0511 AB"},
    ),
    _warning(
        "invalid_postcode",
        "supply_addresses.0.supply_postcode",
        "This is not a Dutch postcode: write four digits and two letters, as 1234 AB.",
        {"supply_addresses.0.supply_postcode": "3511 SS"},
    ),
    _notice(
        "invalid_postcode",
        "billing_postcode",
        "This is not a Dutch postcode: if the address is in the Netherlands, write it as 1234 AB.",
        {"billing_postcode": "B-2000"},
    ),
    _warning(
        "billing_address_not_provided",
        "billing_address1",
        "billing_address1 is empty: bills could not be delivered.",
        {"billing_address1": " "},
    ),
    _warning(
        "billing_address_not_provided",
        "billing_postcode",
        "billing_postcode is empty: bills could not be delivered.",
        {"billing_postcode": ABSENT},
    ),
    _error(
        "customer_required",
        "customers",
        "The account has no customer: send one, or set unknown_occupier to true.",
        {"customers": []},
    ),
    _warning(
        "customer_with_unknown_occupier",
        "customers",
        "unknown_occupier is true, but the account has customers (2): set it to false, or leave the "
        "customers out.",
        {"unknown_occupier": True},
    ),
    _error(
        "customer_family_name_required",
        "customers.1.family_name",
        "The customer has no family name: send one.",
        {"customers.1.family_name": ""},
    ),
    _warning(
        "customer_may_not_be_named_the_occupier",
        "customers.0.family_name",
        "This is not a person's name: if nobody is known, set unknown_occupier to true and leave "
        "the customer out.",
        {"customers.0.given_name": "The", "customers.0.family_name": "Occupier"},
    ),
    _warning(
        "customer_may_not_be_named_the_occupier",
        "customers.1.family_name",
        "This is not a person's name: if nobody is known, set unknown_occupier to true and leave "
        "the customer out.",
        {"customers.1.family_name": "De  Bewoner"},
    ),
    _error(
        "date_of_birth_in_future",
        "customers.0.date_of_birth",
        "The date of birth is after today, 2025-06-15: correct it or leave it out.",
        {"customers.0.date_of_birth": date(2025, 6, 16)},
    ),
    _warning(
        "date_of_birth_implausible",
        "customers.0.date_of_birth",
        "The date of birth is the first day of 1900 or before: correct the century, or leave it out.",
        {"customers.0.date_of_birth": date(1900, 1, 1)},
    ),
    *(
        _warning("invisible_characters", attr, detail, {attr: text})
        for attr, text, detail in (
            (
                "customers.0.family_name",
                "Mu\u200bller",
                "This has U+200B ZERO WIDTH SPACE, which cannot be seen: remove it.",
            ),
            ("customers.1.given_name", "A\nB", "This has U+000A, which cannot be seen: remove it."),
            (
                "billing_address4",
                "Den\u202eHaag",
                "This has U+202E RIGHT-TO-LEFT OVERRIDE, which cannot be seen: remove it.",
            ),
            (
                "supply_addresses.0.supply_address1",
                "Plein\t1",
                "This has U+0009, which cannot be seen: remove it.",
            ),
            *(
                (
                    attr,
                    text,
                    f"This has {name}, which cannot be seen or told from a usual space: remove it.",
                )
                for attr, text, name in (
                    ("customers.0.email", "anna@post.nl\u200b", "U+200B ZERO WIDTH SPACE"),
                    ("customers.1.mobile", "\u202a0612345678", "U+202A LEFT-TO-RIGHT EMBEDDING"),
                    ("customers.1.landline", "030\u00a02345678", "U+00A0 NO-BREAK SPACE"),
                )
            ),
        )
    ),
    *(
        _warning(
            "wrong_encoding",
            attr,
            "This has a letter that was read as several: read the file as UTF-8.",
            {attr: text},
        )
        for attr, text in (
            ("customers.0.family_name", "MÃ¼ller"),
            ("customers.0.given_name", "Ã‰lise"),
            (f"{_OPEN}.0.display_note", "IncassoÃ«n"),
            (f"{_OPEN}.0.note", "TermijnÃ¼bersicht"),
            ("customers.1.family_name", "Å\u0081ukasz"),
            ("customers.0.user_details.0.value", "dâ€™Or"),
            ("supply_addresses.0.supply_address1", "CuraÃ§aohof"),
            (f"{_POWER}.location_description", "MÃ¤rz"),
        )
    ),
    *(
        _warning(
            "wrong_encoding",
            attr,
            "A letter of this is lost: read the file in its own encoding.",
            {attr: text},
        )
        for attr, text in (
            ("customers.0.family_name", "Wi?niewski"),
            ("customers.0.email", "anna@caf\ufffd.nl"),
            ("billing_address1", "Cura\ufffdaohof"),
            (f"{_OPEN}.0.reference", "caf\ufffd"),
        )
    ),
    *(
        _warning(
            "possible_test_email_address",
            "customers.0.email",
            "The address looks made up for a test: send the customer's own, or leave it out.",
            {"customers.0.email": email},
        )
        for email in ("anna@example.com", "anna@mail.Example.org", "Test@provider.example", "xxx@post.nl")
    ),
    _warning(
        "repeated_user_detail",
        "customers.0.user_details.1.namespace",
        "The namespace 'loyalty' is already used in user_details.0: send one value for each.",
        {"customers.0.user_details.1.namespace": "loyalty"},
    ),
    _warning(
        "duplicate_customers_found",
        "customers.2",
        "The name, e-mail address and date of birth are those of customers.0: send each person once.",
        {
            "customers.+": _copy_of("customers", 0),
            "customers.2.given_name": "ANNA  ",
            "customers.2.email": "Anna@Provider.example",
        },
    ),
]

_SUPPLY = [
    _warning(
        "duplicate_supply_addresses_found",
        "supply_addresses.1",
        "The address is the same as supply_addresses.0: send it once, with all of its meter points.",
        {
            "supply_addresses.+": {
                "supply_address1": "dorpsstraat",
                "supply_address2": "12",
                "supply_address4": "UTRECHT ",
                "supply_postcode": "3511 AB",
            },
            "supply_addresses.1.meter_points": lambda account: [
                account["supply_addresses"][0]["meter_points"].pop(1)
            ],
        },
    ),
    _warning(
        "supply_address_with_no_meter_points",
        "supply_addresses.1.meter_points",
        "The supply address has no meter point: send them, or leave the address out.",
        {"supply_addresses.+": {"supply_address1": "Kerkstraat"}},
    ),
    _warning(
        "meter_point_missing",
        "supply_addresses",
        "The account has no meter point: send each at its supply address.",
        {"supply_addresses": ABSENT, "ledgers.0.identifiers": ABSENT},
    ),
    _error(
        "duplicate_meter_points_provided",
        "supply_addresses.1.meter_points.0.ean",
        f"supply_addresses.0.meter_points.0 is already ELECTRICITY with the EAN {ELECTRICITY_EAN}: "
        "send it once.",
        {
            "supply_addresses.+": {"supply_address1": "Kerkstraat"},
            "supply_addresses.1.meter_points": lambda account: [
                deepcopy(account["supply_addresses"][0]["meter_points"][0])
            ],
        },
    ),
    _warning(
        "invalid_ean",
        f"{_GAS}.ean",
        "'871687100009943213' is no EAN of a meter point: the check digit of the others is 2, not 3.",
        {f"{_GAS}.ean": "871687100009943213", "ledgers.0.identifiers.1": "871687100009943213"},
    ),
    _warning(
        "invalid_ean",
        f"{_GAS}.ean",
        "'8716871000002' is no EAN of a meter point: it has 13 digits instead of 18.",
        {f"{_GAS}.ean": "8716871000002", "ledgers.0.identifiers.1": "8716871000002"},
    ),
    *(
        make(code, f"{_GAS}.ean", detail, {f"{_GAS}.ean": ean, "ledgers.0.identifiers.1": ean})
        for make, code, ean, detail in (
            (
                _warning,
                "invalid_ean",
                "871694330222747000",
                "'871694330222747000' is no EAN of a meter point: the check digit of the others is 1, not 0. "
                "It was probably rounded when a program read it as a number, and its last digits are lost.",
            ),
            (
                _notice,
                "ean_probably_rounded",
                "871694330222702000",
                "'871694330222702000' ends with three zeros. It was probably rounded when a program read it "
                "as a number, and its last digits are lost.",
            ),
        )
    ),
    _warning(
        "meter_point_with_no_agreement",
        f"{_GAS}.agreements",
        "The meter point has no agreement: send the one it is supplied under.",
        {f"{_GAS}.agreements": []},
    ),
    _warning(
        "meter_point_with_no_meters",
        f"{_GAS}.meters",
        "The meter point has no meter: send the one that is installed.",
        {f"{_GAS}.meters": ABSENT},
    ),
    _warning(
        "future_supply_start_date",
        f"{_GAS}.supply_start_date",
        "The supply starts on 2025-06-16, which is after today, 2025-06-15.",
        {
            f"{_GAS}.supply_start_date": date(2025, 6, 16),
            f"{_GAS}.last_billed_to_date": ABSENT,
            f"{_GAS}.agreements.0.effective_from": date(2025, 6, 16),
        },
    ),
    _warning(
        "last_billed_to_date_in_future",
        f"{_POWER}.last_billed_to_date",
        "The meter point is billed to 2025-06-16, which is after today, 2025-06-15.",
        {f"{_POWER}.last_billed_to_date": date(2025, 6, 16)},
    ),
    _warning(
        "last_billed_to_date_before_supply_start_date",
        f"{_GAS}.last_billed_to_date",
        "The meter point is billed to 2022-12-31, but its supply started later, on 2023-01-02.",
        {
            f"{_GAS}.last_billed_to_date": date(2022, 12, 31),
            f"{_GAS}.supply_start_date": date(2023, 1, 2),
            f"{_GAS}.agreements.0.effective_from": ABSENT,
        },
    ),
    _error(
        "supply_type_mismatch",
        f"{_POWER}.agreements.1.supply_type",
        "The agreement is for GAS, but the meter point supplies ELECTRICITY.",
        {f"{_POWER}.agreements.1.supply_type": "GAS"},
    ),
    _warning(
        "agreement_start_date_before_supply_start_date",
        f"{_POWER}.agreements.0.effective_from",
        "The agreement takes effect on 2022-11-30, before the supply starts on 2022-12-01.",
        {f"{_POWER}.agreements.0.effective_from": date(2022, 11, 30)},
    ),
    _warning(
        "agreement_agreed_after_start",
        f"{_GAS}.agreements.0.agreed_at",
        "The agreement was agreed on 2023-01-02, after it took effect on 2023-01-01.",
        {f"{_GAS}.agreements.0.agreed_at": date(2023, 1, 2)},
    ),
    _error(
        "overlapping_agreements",
        f"{_POWER}.agreements.1.effective_from",
        "The agreement takes effect on 2023-01-01, as agreements.0 does.",
        {f"{_POWER}.agreements.1.effective_from": date(2023, 1, 1)},
    ),
    _warning(
        "no_agreement_covering_last_billed_to_date",
        f"{_POWER}.agreements",
        "The meter point is billed to 2022-12-31, but no agreement takes effect before 2023-01-01.",
        {f"{_POWER}.last_billed_to_date": date(2022, 12, 31)},
    ),
    _warning(
        "forecast_units_do_not_match_supply_type",
        f"{_GAS}.agreements.0.monthly_advance_charge_template.forecast_consumption_units",
        "The meter point supplies GAS: the units are CUBIC_METRES_CONSUMPTION, not KWH_CONSUMPION.",
        {f"{_GAS}.agreements.0.monthly_advance_charge_template.forecast_consumption_units": "KWH_CONSUMPION"},
    ),
    _warning(
        "forecast_units_do_not_match_supply_type",
        f"{_POWER}.agreements.0.monthly_advance_charge_template.forecast_generation_units",
        "The meter point supplies ELECTRICITY: the units are KWH_CONSUMPION, not CUBIC_METRES_CONSUMPTION.",
        {
            f"{_POWER}.agreements.0.monthly_advance_charge_template.forecast_generation_units": (
                "CUBIC_METRES_CONSUMPTION"
            )
        },
    ),
    *(
        _warning(
            "rate_is_no_proportion",
            attr,
            f"The rate is a proportion from 0 to 1, not {rate}: 0.21 is 21 %.",
            {attr: Decimal(rate)},
        )
        for attr, rate in (
            (f"{_ADVANCE}.cost_details.0.tax_rate", "21"),
            (f"{_ADVANCE}.cost_details.0.tax_rate", "-0.21"),
            (f"{_HISTORICAL}.1.tax_items.0.rate", "21"),
        )
    ),
    *(
        _warning(
            "rate_is_no_proportion",
            f"{_HISTORICAL}.1.tax_items.0.rate",
            "The rate is a proportion from 0 to 1, not 21: 0.21 is 21 %.",
            {f"{_HISTORICAL}.1.tax_items.0.rate": Decimal(21), **changes},
        )
        for changes in (
            {f"{_HISTORICAL}.1.tax_items.0.unit_type": ABSENT},
            {f"{_HISTORICAL}.1.tax_items.0.tax_type": "ENERGY_TAX"},
        )
    ),
    _warning(
        "incorrect_cost_detail_tax_amount",
        f"{_ADVANCE}.cost_details.0.tax_amount",
        "The rate 0.09 on 100.00 makes 9.0000, not 21.00.",
        {f"{_ADVANCE}.cost_details.0.tax_rate": Decimal("0.09")},
    ),
    *(
        _warning(
            "advance_amount_mismatch",
            f"{_ADVANCE}.total_monthly_advance_amount",
            f"The parts with their tax make {made}, not {total}.",
            {f"{_ADVANCE}.total_monthly_advance_amount": total, **others},
        )
        for total, made, others in (
            ("12100", "121.00", {}),
            ("121.02", "121.00", {}),
            (
                "100",
                "121.0000",
                {
                    f"{_ADVANCE}.cost_details.0.tax_amount": ABSENT,
                    f"{_ADVANCE}.cost_details.0.tax_rate": Decimal("0.21"),
                },
            ),
        )
    ),
    *(
        _warning(
            "negative_quantity",
            attr,
            f"{attr.rpartition('.')[2]} may not be negative, as -1 is: correct it.",
            {attr: value},
        )
        for attr, value in (
            (f"{_ADVANCE}.forecast_annual_consumption", "-1"),
            (f"{_POWER}.estimated_annual_volumes.0.energy_netted_peak", Decimal(-1)),
            (f"{_POWER}.{_CONFIGURATION}.0.physical_capacity", Decimal(-1)),
        )
    ),
    _warning(
        "meter_point_with_duplicate_meter_ids",
        f"{_POWER}.meters.1.meter_id",
        "The meter 'E0001' is already meters.0: send it once.",
        {f"{_POWER}.meters.+": {"meter_id": "E0001", "registers": [{"register_id": "1.8.0"}]}},
    ),
    _error(
        "meter_with_duplicate_register_ids",
        f"{_POWER}.meters.0.registers.1.register_id",
        "The register '1.8.1' is already registers.0: give each its own register_id.",
        {f"{_POWER}.meters.0.registers.1.register_id": "1.8.1"},
    ),
    _warning(
        "meter_without_registers",
        f"{_GAS}.meters.0.registers",
        "The meter has no register: send what it counts.",
        {f"{_GAS}.meters.0.registers": []},
    ),
    _warning(
        "register_number_below_one",
        f"{_GAS}.meters.0.registers.0.multiplication_factor",
        "multiplication_factor is at least 1, not 0.",
        {f"{_GAS}.meters.0.registers.0.multiplication_factor": 0},
    ),
]

_PERIODS = [
    _error(
        "start_date_later_than_end_date",
        f"{_POWER}.estimated_annual_volumes.2.end_at",
        "The period ends on 2022-12-01T00:00:00, not after its start, 2022-12-01T00:00:00.",
        {f"{_POWER}.estimated_annual_volumes.2.end_at": datetime(2022, 12, 1)},
    ),
    _error(
        "start_date_later_than_end_date",
        f"{_HISTORICAL}.0.line_items.1.end_date",
        "The line item ends on 2025-03-31, before it starts on 2025-04-01.",
        {f"{_HISTORICAL}.0.line_items.1.end_date": date(2025, 3, 31)},
    ),
    _error(
        "start_date_later_than_end_date",
        "statements.0.bill_period_to_date",
        "The bill period ends on 2025-03-31, before it starts on 2025-04-01.",
        {"statements.0.bill_period_to_date": date(2025, 3, 31)},
    ),
    _error(
        "duplicate_period_start",
        f"{_POWER}.{_CONFIGURATION}.1.start_date",
        f"The period starts on 2022-12-01, as {_CONFIGURATION}.0 does.",
        {f"{_POWER}.{_CONFIGURATION}.+": {"profile_category": "E1B", "start_date": date(2022, 12, 1)}},
    ),
    _warning(
        "gaps_or_overlaps_in_periods",
        f"{_POWER}.billing_configuration_periods.0.end_date",
        "The period ends on 2023-12-31, but the next one starts on 2024-01-01: a period ends when the next "
        "one starts.",
        {f"{_POWER}.billing_configuration_periods.0.end_date": date(2023, 12, 31)},
    ),
    _warning(
        "gaps_or_overlaps_in_periods",
        f"{_POWER}.estimated_annual_volumes.1.end_at",
        "The period has no end, but the next one starts on 2024-01-01T00:00:00: a period ends when the next "
        "one starts.",
        {f"{_POWER}.estimated_annual_volumes.1.end_at": None},
    ),
    _warning(
        "latest_period_not_open_ended",
        f"{_POWER}.billing_configuration_periods.1.end_date",
        "The last period ends on 2026-01-01, and none follows: leave its end_date out.",
        {f"{_POWER}.billing_configuration_periods.1.end_date": date(2026, 1, 1)},
    ),
    _warning(
        "invalid_grid_operator_code",
        f"{_GAS}.{_GRID}.0.grid_operator_code",
        "'STEDIN' is not a number of 13 digits with the right GS1 check digit.",
        {f"{_GAS}.{_GRID}.0.grid_operator_code": "STEDIN"},
    ),
    _warning(
        "invalid_cap_tar_code",
        f"{_POWER}.{_CONFIGURATION}.0.cap_tar_code",
        "'8742010102116' is not a number of 13 digits with the right GS1 check digit.",
        {f"{_POWER}.{_CONFIGURATION}.0.cap_tar_code": "8742010102116"},
    ),
]

_DATES = [
    *(
        _warning(
            "placeholder_date",
            attr,
            f"{day.isoformat()[:10]} stands for no day: correct it, or leave it out where it may be absent.",
            {attr: day},
        )
        for attr, day in (
            ("supply_addresses.0.customer_at_supply_address_from_date", date(1, 1, 1)),
            (f"{_POWER}.meters.0.active_from", date(1753, 1, 1)),
            (f"{_GAS}.agreements.0.agreed_at", date(1800, 1, 1)),
            (f"{_POWER}.estimated_annual_volumes.2.start_at", datetime(1899, 12, 30)),
            (f"{_POWER}.{_GRID}.0.start_date", date(1899, 12, 31)),
            (f"{_POWER}.meters.0.active_from", date(9999, 1, 1)),
            (f"{_POWER}.meters.0.active_from", date(2999, 12, 31)),
            (f"{_HISTORICAL}.1.line_items.0.end_date", date(9999, 12, 31)),
            (f"{_HISTORICAL}.1.line_items.0.start_date", date(1900, 1, 1)),
            (f"{_HISTORICAL}.2.transaction_date", date(1900, 1, 1)),
            ("statements.1.bill_period_from_date", date(1900, 1, 1)),
            ("ledgers.1.last_settlement_closing_date", date(1, 1, 1)),
        )
    ),
    _warning(
        "placeholder_date",
        f"{_HISTORICAL}.1.line_items.0.end_date",
        "1900-01-01 stands for no day: correct it, or leave it out where it may be absent.",
        {
            f"{_HISTORICAL}.1.line_items.0.start_date": ABSENT,
            f"{_HISTORICAL}.1.line_items.0.end_date": date(1900, 1, 1),
        },
    ),
    *(
        _warning(
            "period_without_content",
            path,
            f"The period has nothing but its dates: send {names}, or leave it out.",
            {path: period},
        )
        for path, period, names in (
            (
                f"{_POWER}.estimated_annual_volumes.2",
                {"direction": "PRODUCTION", "start_at": datetime(2022, 12, 1)},
                "energy_netted_peak or energy_netted_off_peak",
            ),
            (
                f"{_GAS}.billing_configuration_periods.0",
                {"start_date": date(2022, 12, 1)},
                "residency_status or energy_tax_exception",
            ),
            (
                f"{_GAS}.{_CONFIGURATION}.0",
                {"start_date": date(2022, 12, 1)},
                "allocation_method or energy_delivery_status",
            ),
        )
    ),
]

_LEDGERS = [
    _warning(
        "ledger_missing",
        "ledgers",
        "The account has no ledger: send it, or its balance is zero and it has no transactions.",
        {"ledgers": ABSENT},
    ),
    _error(
        "unknown_ledger_identifiers",
        "ledgers.0.identifiers.2",
        "'871685999999999999' is not the EAN of a meter point of this account.",
        {"ledgers.0.identifiers.+": "871685999999999999"},
    ),
    _error(
        "duplicate_identifiers_entries_found",
        "ledgers.1.identifiers.0",
        f"'{GAS_EAN}' is already named by ledgers.0.identifiers.1: name it once.",
        {"ledgers.1.identifiers": [GAS_EAN]},
    ),
    _error(
        "duplicate_ledger_entries_found",
        "ledgers.1.ledger_code",
        "'ENERGY_LEDGER' is already the code of ledgers.0.",
        {"ledgers.1.ledger_code": "ENERGY_LEDGER"},
    ),
    _warning(
        "transaction_before_open_settlement_period",
        f"{_OPEN}.0.transaction_date",
        "The transaction is dated 2025-05-31, but the last settlement was closed on 2025-05-31: it belongs "
        "to the historical ones.",
        {f"{_OPEN}.0.transaction_date": date(2025, 5, 31)},
    ),
    _warning(
        "historical_transaction_after_last_settlement_closing_date",
        f"{_HISTORICAL}.2.transaction_date",
        "The transaction is dated 2025-06-01, after the last settlement was closed on 2025-05-31: it belongs "
        "to the open ones.",
        {f"{_HISTORICAL}.2.transaction_date": date(2025, 6, 1)},
    ),
    _warning(
        "historical_transactions_require_last_settlement_closing_date",
        "ledgers.0.last_settlement_closing_date",
        "The ledger has historical transactions: send the day on which they were settled.",
        {"ledgers.0.last_settlement_closing_date": ABSENT},
    ),
    _warning(
        "last_settlement_issued_before_closing_date",
        "ledgers.0.last_settlement_issue_date",
        "The last settlement was issued on 2025-05-30, before it was closed on 2025-05-31.",
        {"ledgers.0.last_settlement_issue_date": date(2025, 5, 30)},
    ),
    _warning(
        "last_settlement_closing_date_in_future",
        "ledgers.1.last_settlement_closing_date",
        "The last settlement closes on 2025-06-16, which is after today, 2025-06-15.",
        {"ledgers.1.last_settlement_closing_date": date(2025, 6, 16)},
    ),
    _warning(
        "balance_mismatch_on_ledger_balance",
        "ledgers.0.ledger_balance",
        "The ledger's balance is 3.506, but the last settlement's balance, -5.72, and the open transactions, "
        "9.22, make 3.50. Credit is positive.",
        {"ledgers.0.ledger_balance": Decimal("3.506")},
    ),
    _warning(
        "balance_mismatch_on_ledger_balance",
        "ledgers.1.ledger_balance",
        "The ledger's balance is 0, but the last settlement's balance, 0, and the open transactions, -1, "
        "make -1. Credit is positive.",
        {
            "ledgers.1.transactions_in_open_settlement_period": [
                {"type": "CHARGE", "amount": Decimal(1), "reason": "IMPORTED_CHARGE", "transaction_id": "T-8"}
            ]
        },
    ),
    _warning(
        "balance_without_transactions",
        "ledgers.1.ledger_balance",
        "Nothing makes the balance of 12.50: send last_settlement_balance, or the transactions.",
        {
            "ledgers.1.ledger_balance": Decimal("12.50"),
            "ledgers.1.transactions_in_open_settlement_period": [],
        },
    ),
    _warning(
        "historical_balance_mismatch",
        "ledgers.0.last_settlement_balance",
        "The last settlement's balance is -5.73, but the historical transactions make -5.72. "
        "Credit is positive.",
        {"ledgers.0.last_settlement_balance": Decimal("-5.73"), "ledgers.0.ledger_balance": Decimal("3.49")},
    ),
]

_TRANSACTIONS = [
    _error(
        "duplicate_transaction_ids",
        f"{_OPEN}.0.transaction_id",
        f"'T-3' is already the transaction_id of {_HISTORICAL}.2.",
        {f"{_OPEN}.0.transaction_id": "T-3"},
    ),
    _warning(
        "missing_transaction_reason",
        f"{_OPEN}.1.reason",
        "A CREDIT needs a reason.",
        {f"{_OPEN}.1.reason": ABSENT},
    ),
    _warning(
        "missing_payment_type",
        f"{_OPEN}.3.payment_type",
        "A REPAYMENT needs a payment_type.",
        {f"{_OPEN}.3.payment_type": ABSENT},
    ),
    _warning(
        "payment_amount_must_be_positive",
        f"{_OPEN}.0.amount",
        "The amount of a PAYMENT may not be negative, as -1 is: the type says which way the money went.",
        {f"{_OPEN}.0.amount": Decimal(-1), "ledgers.0.ledger_balance": Decimal("-3.22")},
    ),
    _warning(
        "amount_with_fraction_of_a_cent",
        f"{_OPEN}.0.amount",
        "The amount, 5.721 euros, has a fraction of a cent.",
        {f"{_OPEN}.0.amount": Decimal("5.721")},
    ),
    *(
        _warning(
            "supply_charge_incomplete",
            f"{_HISTORICAL}.1.{field}",
            f"A SUPPLY_CHARGE needs {field}.",
            {f"{_HISTORICAL}.1.{field}": ABSENT},
        )
        for field in ("product_code", "supply_type", "line_items")
    ),
    _warning(
        "field_not_allowed_for_type",
        f"{_OPEN}.2.product_code",
        "A CHARGE has no product_code: leave it out, or correct the type.",
        {f"{_OPEN}.2.product_code": "GAS"},
    ),
    _warning(
        "field_not_allowed_for_type",
        f"{_HISTORICAL}.1.reason",
        "A SUPPLY_CHARGE has no reason: leave it out, or correct the type.",
        {f"{_HISTORICAL}.1.reason": "IMPORTED_CHARGE"},
    ),
    _warning(
        "transaction_in_future",
        f"{_OPEN}.3.transaction_date",
        "The transaction is dated 2025-06-16, which is after today, 2025-06-15.",
        {f"{_OPEN}.3.transaction_date": date(2025, 6, 16)},
    ),
    _warning(
        "incorrect_line_item_net_amount",
        f"{_HISTORICAL}.1.line_items.0.net_amount",
        "1.100051 for each of 100 units makes 110.005100, not 110.00.",
        {f"{_HISTORICAL}.1.line_items.0.price_per_unit": Decimal("1.100051")},
    ),
    _warning(
        "supply_charge_amount_mismatch",
        f"{_HISTORICAL}.1.amount",
        "The line items, 110.00, and the tax, 23.10, make 133.10, not 134.10.",
        {
            f"{_HISTORICAL}.1.amount": Decimal("134.10"),
            "ledgers.0.last_settlement_balance": Decimal("-6.72"),
            "ledgers.0.ledger_balance": Decimal("2.50"),
        },
    ),
    _warning(
        "incorrect_tax_item_amount",
        f"{_HISTORICAL}.1.tax_items.0.amount",
        "The rate 0.09 on 110.00 makes 9.9000, not 23.10.",
        {f"{_HISTORICAL}.1.tax_items.0.rate": Decimal("0.09")},
    ),
    _warning(
        "incorrect_tax_item_amount",
        f"{_HISTORICAL}.1.tax_items.0.amount",
        "The rate 0.2310501 on 100 makes 23.1050100, not 23.10.",
        {
            f"{_HISTORICAL}.1.tax_items.0.rate": Decimal("0.2310501"),
            f"{_HISTORICAL}.1.tax_items.0.value_taxed": Decimal(100),
        },
    ),
    _warning(
        "incorrect_line_item_net_amount",
        f"{_HISTORICAL}.1.line_items.0.net_amount",
        "1.1 for each of 99 units makes 108.9, not 110.00.",
        {
            f"{_HISTORICAL}.1.line_items.0.price_per_unit": Decimal("1.1"),
            f"{_HISTORICAL}.1.line_items.0.number_of_units": Decimal(99),
        },
    ),
    _warning(
        "incorrect_tax_item_amount",
        f"{_HISTORICAL}.0.tax_items.0.amount",
        "The rate 0.09 on 75.00 makes 6.7500, not 15.75.",
        {
            f"{_HISTORICAL}.0.tax_items.0.rate": Decimal("0.09"),
            f"{_HISTORICAL}.0.tax_items.0.value_taxed": ABSENT,
        },
    ),
    *(
        _warning(
            "line_item_units_must_be_two_values",
            f"{_HISTORICAL}.0.line_items.0.units",
            f"There {found}: send two readings of each meter, at the start and the end of the period, or "
            "leave units out.",
            {f"{_HISTORICAL}.0.line_items.0.units": units},
        )
        for found, units in (
            ("are 0 values", []),
            ("is 1 value", [Decimal(300)]),
            ("are 3 values", [Decimal(1), Decimal(2), Decimal(3)]),
        )
    ),
    _error(
        "unknown_vat_reference",
        f"{_HISTORICAL}.0.tax_items.1.params.vat_on",
        "'line-9' is not the ref of a line item of this transaction.",
        {f"{_HISTORICAL}.0.tax_items.1.params.vat_on": "line-9"},
    ),
    _error(
        "duplicate_line_item_refs",
        f"{_HISTORICAL}.0.line_items.2.params.ref",
        "'line-1' is already the ref of line_items.0: give each its own.",
        {
            f"{_HISTORICAL}.0.line_items.2.params.ref": "line-1",
            f"{_HISTORICAL}.0.tax_items.2.params.vat_on": "line-1",
        },
    ),
]

_STATEMENTS = [
    _error(
        "duplicate_statement_ids",
        "statements.1.statement_id",
        "'S-1' is already the statement_id of statements.0.",
        {"statements.1.statement_id": "S-1"},
    ),
    _warning(
        "duplicate_statement_numbers",
        "statements.2.number",
        "'INV-1' is already the number of statements.0.",
        {"statements.+": _copy_of("statements", 0), "statements.2.statement_id": "S-3"},
    ),
    _warning(
        "statement_not_found_for_invoice_number",
        f"{_HISTORICAL}.0.associated_invoice_number",
        "No statement has the number 'INV-9': correct it, or send the statement.",
        {f"{_HISTORICAL}.0.associated_invoice_number": "INV-9"},
    ),
    _warning(
        "statement_period_end_in_future",
        "statements.1.bill_period_to_date",
        "The bill period ends on 2025-06-16, which is after today, 2025-06-15.",
        {"statements.1.bill_period_to_date": date(2025, 6, 16)},
    ),
    _warning(
        "statement_issued_in_future",
        "statements.1.issued_date",
        "The statement is issued on 2025-06-16, which is after today, 2025-06-15.",
        {"statements.1.issued_date": date(2025, 6, 16)},
    ),
    _warning(
        "gross_amount_not_in_cents",
        "statements.0.gross_amount",
        "gross_amount is in euro cents, but 172.62 has a fraction of a cent.",
        {"statements.0.gross_amount": Decimal("172.62")},
    ),
    *(
        _warning(
            "gross_amount_not_in_cents",
            "statements.0.gross_amount",
            f"gross_amount is in euro cents, but {gross} is what the transactions of the invoice make in "
            f"euros: in cents they make {cents}.",
            {"statements.0.gross_amount": Decimal(gross), "statements.0.number": "INV-3"}
            | {f"{_HISTORICAL}.0.associated_invoice_number": "INV-2"}
            | {f"{place}.associated_invoice_number": "INV-3" for place in places},
        )
        for gross, cents, places in (
            ("300", "30000", (f"{_HISTORICAL}.2",)),  # what was paid
            ("-10", "1000", (f"{_OPEN}.1", f"{_OPEN}.0")),  # a credit note; what was paid does not count
        )
    ),
    _warning(
        "missing_statement_document",
        "statements.0.statement_path",
        "The statement has no document: send statement_path, or a statement_pdf_context.",
        {"statements.0.statement_path": ABSENT},
    ),
]

#: All of them, in the order of the catalogue.
BREAKING_EXAMPLES = [
    *_ACCOUNT,
    *_SUPPLY,
    *_PERIODS,
    *_DATES,
    *_LEDGERS,
    *_TRANSACTIONS,
    *_STATEMENTS,
    _warning(
        "unlisted_value",
        f"{_GAS}.agreements.0.monthly_advance_charge_template.cost_details.0.band",
        "'ADVANCE_DISCOUNT' is not among the listed values: ADVANCE_ENERGY_TAX_STEP_1, "
        "ADVANCE_ENERGY_TAX_STEP_2, ADVANCE_ENERGY_TAX_STEP_3, ADVANCE_ENERGY_TAX_STEP_4, "
        "ADVANCE_ENERGY_TAX_STEP_5, ADVANCE_GRID_FEE, ADVANCE_SUPPLIER_DYNAMIC_COST, "
        "ADVANCE_SUPPLIER_FIXED_COST, ADVANCE_SUPPLIER_PURCHASING_COST.",
        {
            f"{_GAS}.agreements.0.monthly_advance_charge_template.cost_details.0.band": "ADVANCE_DISCOUNT",
        },
    ),
    _warning(
        "unlisted_value",
        f"{_POWER}.meters.0.registers.0.time_of_use",
        "'SUPER_OFF_PEAK' is not among the listed values: OFF_PEAK, PEAK.",
        {f"{_POWER}.meters.0.registers.0.time_of_use": "SUPER_OFF_PEAK"},
    ),
    _warning(
        "unlisted_value",
        f"{_HISTORICAL}.1.tax_items.0.unit_type",
        "'proportion' is not among the listed values: PROPORTION.",
        {f"{_HISTORICAL}.1.tax_items.0.unit_type": "proportion"},
    ),
    _warning(
        "incorrect_tax_item_amount",
        f"{_HISTORICAL}.1.tax_items.0.amount",
        "The rate 0.09 on 110.00 makes 9.9000, not 23.10.",
        {
            f"{_HISTORICAL}.1.tax_items.0.rate": Decimal("0.09"),
            f"{_HISTORICAL}.1.tax_items.0.unit_type": ABSENT,
        },
    ),
]
