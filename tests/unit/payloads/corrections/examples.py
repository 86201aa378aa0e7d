"""Changes to the valid account, as it is sent, with a finding and what its correction makes of the value."""

from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any, NamedTuple

from unit.payloads.rules.valid_account import ABSENT, ELECTRICITY_EAN, GAS_EAN


class CorrectedExample(NamedTuple):
    """Changes (`valid_account.change`), one of their findings, and what is there once it is corrected.

    No `kind`: there is no suggestion.
    """

    code: str
    attr: str
    changes: dict[str, Any]
    kind: str = ""
    confidence: str = ""
    corrected: Mapping[str, Any] = MappingProxyType({})


def _one(code: str, attr: str, sent: Any, *expected: Any) -> CorrectedExample:
    """Return the example of one value. `expected`: the kind, the confidence and the corrected value."""
    if not expected:
        return CorrectedExample(code, attr, {attr: sent})
    kind, confidence, corrected = expected
    return CorrectedExample(code, attr, {attr: sent}, kind, confidence, {attr: corrected})


_BORN = "customers.0.date_of_birth"
_MOBILE = "customers.0.mobile"
_EMAIL = "customers.0.email"
_POWER = "supply_addresses.0.meter_points.0"
_GAS = "supply_addresses.0.meter_points.1"
_START = f"{_POWER}.estimated_annual_volumes.2.start_at"
_VOLUME = f"{_POWER}.estimated_annual_volumes.0"
_TEMPLATE = f"{_POWER}.agreements.0.monthly_advance_charge_template"
_OPEN = "ledgers.0.transactions_in_open_settlement_period"
_HISTORICAL = "ledgers.0.historical_statement_transactions"
_BALANCE = "ledgers.1.ledger_balance"

FIELD_EXAMPLES = [
    _one("invalid_date", _BORN, "31-12-1980", "date_in_iso", "certain", "1980-12-31"),
    _one("invalid_date", _BORN, "3-4-1980", "date_in_iso", "guess", "1980-04-03"),
    _one("invalid_date", _BORN, "04.04.1980", "date_in_iso", "certain", "1980-04-04"),
    _one("invalid_date", _BORN, "19801231", "date_in_iso", "certain", "1980-12-31"),
    _one("invalid_date", _BORN, " 1980/12/31 00:00:00", "date_in_iso", "certain", "1980-12-31"),
    _one("invalid_date", _BORN, "31-02-1980"),
    _one("invalid_date", _BORN, "1980-31-12"),
    _one("invalid_date", _BORN, "1980123"),
    _one("invalid_date", _BORN, 19801231),
    _one(
        "invalid_datetime",
        f"{_VOLUME}.start_at",
        "2024-01-01",
        "time_in_iso",
        "certain",
        "2024-01-01T00:00:00",
    ),
    _one(
        "invalid_datetime",
        f"{_VOLUME}.start_at",
        "01-01-2024 00:00",
        "time_in_iso",
        "certain",
        "2024-01-01T00:00:00",
    ),
    _one(
        "invalid_datetime",
        f"{_VOLUME}.start_at",
        "2024-01-01T00:00:00+01:00",
        "time_in_iso",
        "likely",
        "2024-01-01T00:00:00",
    ),
    *(
        _one("invalid_datetime", place, sent, "time_in_iso", sure, corrected)
        for place, sent, sure, corrected in (
            (_START, "2023-12-31T23:00:00+00:00", "guess", "2024-01-01T00:00:00"),
            (_START, "2023-12-31T23:00:00Z", "guess", "2024-01-01T00:00:00"),
            (_START, "2024-01-01T00:00:00-05:00", "guess", "2024-01-01T06:00:00"),
            (_START, "2023-12-31 24:00", "certain", "2024-01-01T00:00:00"),
            (_START, "02-01-2024 00:00", "guess", "2024-01-02T00:00:00"),
            (f"{_VOLUME}.end_at", "2026-12-31T24:00:00", "certain", "2027-01-01T00:00:00"),
            (f"{_VOLUME}.end_at", "2026-12-31", "guess", "2026-12-31T00:00:00"),
        )
    ),
    _one("invalid_datetime", f"{_VOLUME}.end_at", "9999-12-31T24:00:00"),
    _one("invalid_datetime", f"{_VOLUME}.start_at", "2024-01-01T24:30:00"),
    _one("invalid_datetime", f"{_VOLUME}.start_at", "spring"),
    _one("invalid", _BALANCE, "0,00", "decimal_point", "certain", Decimal("0.00")),
    _one("invalid", _BALANCE, "€ 1.234,56", "decimal_point", "certain", Decimal("1234.56")),
    _one("invalid", _BALANCE, "1,234.56", "decimal_point", "certain", Decimal("1234.56")),
    _one("invalid", _BALANCE, "12.50-", "decimal_point", "likely", Decimal("-12.50")),
    _one("invalid", _BALANCE, "1,234", "decimal_point", "guess", Decimal("1.234")),
    _one("invalid", _BALANCE, "-€ 1 234,50", "decimal_point", "certain", Decimal("-1234.50")),
    _one("invalid", _BALANCE, "1 234", "decimal_point", "guess", Decimal(1234)),
    _one("invalid", _BALANCE, "12 50"),
    _one("invalid", _BALANCE, "1,2,3"),
    _one(
        "invalid",
        f"{_TEMPLATE}.total_monthly_advance_amount",
        "121,00",
        "decimal_point",
        "certain",
        "121.00",
    ),
    _one(
        "invalid",
        f"{_POWER}.meters.0.registers.0.multiplication_factor",
        "10,0",
        "decimal_point",
        "certain",
        10,
    ),
    _one("out_of_range", _BALANCE, Decimal("0.30000000000000004"), "ten_decimals", "certain", Decimal("0.3")),
    _one(
        "out_of_range",
        _BALANCE,
        Decimal("0.123456789012"),
        "ten_decimals",
        "guess",
        Decimal("0.1234567890").normalize(),
    ),
    _one("out_of_range", _BALANCE, Decimal("1e13")),
    _one("invalid", "unknown_occupier", "Nee", "true_or_false", "certain", False),
    _one("invalid", "unknown_occupier", " false ", "true_or_false", "certain", "false"),
    _one("invalid", "unknown_occupier", "perhaps"),
    _one("invalid", f"{_POWER}.meters.0.meter_id", 1234, "number_as_text", "likely", "1234"),
    CorrectedExample(
        "invalid",
        f"{_GAS}.ean",
        {f"{_GAS}.ean": int(GAS_EAN)},
        "number_as_text",
        "guess",
        {f"{_GAS}.ean": GAS_EAN},
    ),
    _one("invalid", "billing_address2", True),
    _one("null", "billing_address3", None, "no_value", "certain", ABSENT),
    _one("null", "import_supplier", None),
    _one("blank", "billing_address3", " ", "no_value", "certain", ABSENT),
    _one("blank", "customers.0.user_details.1.value", " ", "no_value", "certain", ""),
    _one("not_a_list", "ledgers.1.identifiers", "", "no_value", "certain", ABSENT),
    _one(
        "not_a_list",
        "customers",
        {"family_name": "Mulder"},
        "list_of_one",
        "likely",
        [{"family_name": "Mulder"}],
    ),
    *(
        _one(code, attr, sent, "visible_characters", sure, corrected)
        for code, attr, sent, sure, corrected in (
            ("outer_spaces", f"{_OPEN}.0.transaction_id", "T-9 ", "certain", "T-9"),
            ("outer_spaces", f"{_POWER}.meters.0.meter_id", "\u2003E9", "certain", "E9"),
            ("outer_spaces", "ledgers.1.ledger_code", " SERVICES", "certain", "SERVICES"),
            ("invisible_characters", "customers.0.user_details.0.namespace", "a\u200b", "certain", "a"),
            ("compatibility_characters", f"{_POWER}.agreements.0.tariff_code", "\uff21", "certain", "A"),
            ("compatibility_characters", f"{_POWER}.agreements.0.tariff_code", "A²", "guess", "A2"),
            ("compatibility_characters", f"{_POWER}.meters.0.meter_id", "E\u20111", "certain", "E-1"),
            ("compatibility_characters", f"{_POWER}.meters.0.meter_id", "E\ufe581", "certain", "E-1"),
            *(
                ("compatibility_characters", f"{_OPEN}.0.transaction_id", f"T{dash}4", "likely", "T-4")
                for dash in "\u02d7\u2010\u2012\u2013\u2014\u2015\u2043\u2212"
            ),
            ("invalid_characters", "external_account_number", "M\x81ller", "guess", "Mller"),
            ("invisible_characters", "customers.0.family_name", "M\x81ller", "guess", "Mller"),
            ("invisible_characters", _EMAIL, "anna@post.nl\u200b", "certain", "anna@post.nl"),
            ("invisible_characters", _MOBILE, "\u202a+31612345678\u202c", "certain", "+31612345678"),
            ("invisible_characters", _MOBILE, "06\u00a012345678", "certain", "06 12345678"),
        )
    ),
    *(
        _one("wrong_encoding", "customers.0.family_name", sent, "right_encoding", "certain", corrected)
        for sent, corrected in (
            ("MÃ¼ller", "Müller"),
            ("ÃƒÂ‰lise de Boër", "Élise de Boër"),
            ("Å\x81ukasz", "Łukasz"),
            ("dâ€™Or", "d\u2019Or"),
        )
    ),
    _one("wrong_encoding", "customers.0.family_name", "Wi?niewski"),
    _one("wrong_encoding", "customers.0.family_name", "Ã\ufffdlvaro"),
    _one("outer_spaces", "external_account_number", "1000-1 ", "visible_characters", "certain", "1000-1"),
    _one("not_normalised", "external_account_number", "u\u0308", "visible_characters", "certain", "ü"),
    _one(
        "compatibility_characters", "external_account_number", "\uff11", "visible_characters", "certain", "1"
    ),
    _one("invisible_characters", "external_account_number", "1\u200b", "visible_characters", "certain", "1"),
    _one(
        "bidirectional_characters", "external_account_number", "1\u202e", "visible_characters", "certain", "1"
    ),
    _one("invalid_characters", f"{_POWER}.meters.0.meter_id", "E\t1", "visible_characters", "certain", "E 1"),
    _one("invalid_characters", "billing_address1", "Plein\0", "visible_characters", "certain", "Plein"),
    _one("invalid_characters", "billing_address1", "\0"),
    _one("invalid_characters", "external_account_number", "1\ufffd"),
    _one("invalid_phone_number", _MOBILE, "tel. 06_12345678", "phone_number", "likely", "0612345678"),
    _one("invalid_phone_number", _MOBILE, "06-1234567O", "phone_number", "guess", "0612345670"),
    _one("invalid_phone_number", _MOBILE, "32475123456", "phone_number", "guess", "+32475123456"),
    _one("invalid_phone_number", _MOBILE, "++31612345678", "phone_number", "certain", "+31612345678"),
    # With the last digits of a second number, these would be numbers of Australia.
    *(
        _one("invalid_phone_number", _MOBILE, sent)
        for sent in (
            "0612345678/79",
            "06-12345678/79",
            "0612345678-12",
            "0612345678 12",
            "0612345678.12",
            "06-12345678 (79)",
            "06/12/34/56/78/90",
            "0310612345678",
            "+3161234567",
        )
    ),
    _one("invalid_phone_number", _MOBILE, "0612345678 / 0201234567", "phone_number", "guess", "0612345678"),
    _one("invalid_phone_number", _MOBILE, "n.v.t.", "phone_number", "likely", ""),
    *(
        _one("invalid_phone_number", _MOBILE, sent, "phone_number", sure, "0612345678")
        for sent, sure in (
            ("06\u201312345678", "certain"),
            ("\uff10\uff1612345678", "certain"),
            ("vragen naar de zoon 0612345678", "guess"),
            ("0612345678 (thuis)", "guess"),
            ("0612345678 na 18 u", "guess"),
            ("0612345678/0687654321", "guess"),
        )
    ),
    _one("invalid_phone_number", _MOBILE, "06123456 na 18 u"),
    _one("invalid_phone_number", _MOBILE, "6,12346E+08"),
    _one("invalid_phone_number", _MOBILE, "0612345678 0687654321"),
    _one("invalid_phone_number", _MOBILE, "12"),
    _one("invalid_email_address", _EMAIL, "anna @post,nl;", "email_address", "likely", "anna@post.nl"),
    _one("invalid_email_address", _EMAIL, "anna[at]post..nl", "email_address", "likely", "anna@post.nl"),
    _one("invalid_email_address", _EMAIL, "geen", "email_address", "likely", ""),
    _one("invalid_email_address", _EMAIL, "\uff41nna@post.nl", "email_address", "likely", "anna@post.nl"),
    _one("invalid_email_address", _EMAIL, "anna of bram@post.nl", "email_address", "guess", "bram@post.nl"),
    _one("invalid_email_address", _EMAIL, "Anna <anna@post.nl>", "email_address", "guess", "anna@post.nl"),
    _one("invalid_email_address", _EMAIL, "a@post.nl,b@post.nl", "email_address", "guess", "a@post.nl"),
    _one("invalid_email_address", _EMAIL, "anna"),
    _one(
        "invalid_document_path",
        "statements.0.statement_path",
        r"C:\statements\\.\1.pdf",
        "relative_path",
        "guess",
        "statements/1.pdf",
    ),
    _one(
        "invalid_document_path",
        "statements.0.statement_path",
        r"statements\\.\1.pdf",
        "relative_path",
        "likely",
        "statements/1.pdf",
    ),
    _one("invalid_document_path", "statements.0.statement_path", r"..\1.pdf"),
    _one("invalid_choice", f"{_POWER}.supply_type", "Electricity", "listed_word", "certain", "ELECTRICITY"),
    _one("invalid_choice", f"{_POWER}.supply_type", "stroom", "listed_word", "likely", "ELECTRICITY"),
    _one("invalid_choice", f"{_POWER}.supply_type", "ELECTRICTY", "listed_word", "likely", "ELECTRICITY"),
    _one("invalid_choice", f"{_POWER}.supply_type", "WATER"),
    _one("invalid_choice", f"{_POWER}.market_segment", "retail-2", "listed_word", "certain", "RETAIL_2"),
    _one("invalid_choice", f"{_POWER}.market_segment", "2"),
    _one(
        "invalid_choice", f"{_OPEN}.2.reason", "imported charge", "listed_word", "certain", "IMPORTED_CHARGE"
    ),
    _one("unlisted_value", f"{_OPEN}.2.reason", "IMPORTED_CHARG", "listed_word", "likely", "IMPORTED_CHARGE"),
    CorrectedExample(
        "invalid_ean",
        f"{_GAS}.ean",
        {f"{_GAS}.ean": "8716.8710.0009.9432.12", "ledgers.0.identifiers.1": "8716.8710.0009.9432.12"},
        "ean_of_digits",
        "certain",
        {f"{_GAS}.ean": GAS_EAN},
    ),
    _one("invalid_ean", "ledgers.0.identifiers.1", "871687 10000994321", "ean_of_digits", "likely", GAS_EAN),
    _one("invalid_ean", f"{_GAS}.ean", "gas meter"),
    *(
        _one(code, f"{_TEMPLATE}.cost_details.0.band", word, *expected)
        for code, word, *expected in (
            (
                "unlisted_value",
                "ADVANCE_ENRGY_TAX_STEP_2",
                "listed_word",
                "likely",
                "ADVANCE_ENERGY_TAX_STEP_2",
            ),
            ("unlisted_value", "ADVANCE_ENERGY_TAX_STEP_6"),
            ("unlisted_value", "ADVANCE_ENERGY_TAX_STEP"),
        )
    ),
    _one("unlisted_value", f"{_OPEN}.0.payment_type", "DIRECT_DEBIT"),
    # Two fields are near.
    CorrectedExample(
        "unknown_field",
        "statements.1.bill_period_date",
        {"statements.1.bill_period_to_date": ABSENT, "statements.1.bill_period_date": "2025-05-31"},
        "member_name",
        "guess",
        {"statements.1.bill_period_to_date": "2025-05-31", "statements.1.bill_period_date": ABSENT},
    ),
    # Of four lines of an address, none is the one that was meant.
    CorrectedExample(
        "unknown_field",
        "billing_address",
        {"billing_address": "Plein 1"} | {f"billing_address{i}": ABSENT for i in range(1, 5)},
        "member_name",
        "guess",
        {"billing_address": ABSENT},
    ),
    CorrectedExample(
        "unknown_field",
        "biling_address3",
        {"billing_address3": ABSENT, "biling_address3": "Plein 1"},
        "member_name",
        "likely",
        {"billing_address3": "Plein 1", "biling_address3": ABSENT},
    ),
    CorrectedExample(
        "unknown_field",
        "customers.0.dateOfBirth",
        {_BORN: ABSENT, "customers.0.dateOfBirth": "1980-12-31"},
        "member_name",
        "certain",
        {_BORN: "1980-12-31", "customers.0.dateOfBirth": ABSENT},
    ),
    CorrectedExample(
        "unknown_field",
        "custmers",
        {"customers": ABSENT, "custmers": [{"family_name": "Mulder"}]},
        "member_name",
        "likely",
        {"customers": [{"family_name": "Mulder"}], "custmers": ABSENT},
    ),
    _one("unknown_field", "customers.0.mobil", "0612345678", "member_name", "guess", ABSENT),
    _one("unknown_field", f"{_POWER}.colour", "blue", "member_name", "guess", ABSENT),
    _one(
        "required",
        f"{_POWER}.agreements.0.supply_type",
        ABSENT,
        "supply_type_of_meter_point",
        "likely",
        "ELECTRICITY",
    ),
    _one("required", f"{_GAS}.supply_type", ABSENT, "supply_type_of_meter_point", "likely", "GAS"),
    _one("required", f"{_OPEN}.0.amount", ABSENT),
    CorrectedExample(
        "required",
        f"{_GAS}.supply_type",
        {f"{_GAS}.supply_type": ABSENT, f"{_GAS}.supplyType": "GAS"},
        "member_name",
        "certain",
        {f"{_GAS}.supply_type": "GAS", f"{_GAS}.supplyType": ABSENT},
    ),
]

_TAXED = f"{_POWER}.billing_configuration_periods"
_LINE_ITEM = f"{_HISTORICAL}.1.line_items.0"
_SHORT = GAS_EAN[:-1]
_PERSON = {"given_name": "J.", "family_name": "Hofstra", "email": "familie@hofstra.example"}

#: Of rules, in addition to `breaking_examples`, whose findings need another account to be corrected.
RULE_EXAMPLES = [
    _one("invalid_postcode", "billing_postcode", "NL-3511.ab", "postcode", "certain", "3511 AB"),
    CorrectedExample(
        "customer_may_not_be_named_the_occupier",
        "customers.0.family_name",
        {"customers": [{"family_name": "Bewoner"}]},
        "no_occupier",
        "likely",
        {"customers": [], "unknown_occupier": True},
    ),
    CorrectedExample(
        "customer_may_not_be_named_the_occupier",
        "customers.0.family_name",
        {"customers": [{"family_name": "Bewoner", "mobile": "0612345678"}]},
        "no_occupier",
        "guess",
        {"customers": [], "unknown_occupier": True},
    ),
    _one("possible_test_email_address", _EMAIL, "test@post.nl", "no_email_address", "guess", ABSENT),
    *(
        CorrectedExample(
            "duplicate_customers_found",
            "customers.1",
            {"customers": [{**_PERSON, "mobile": "0612345678"}, {**_PERSON, **other}]},
            "customer_once",
            sure,
            {"customers.1": ABSENT},
        )
        for sure, other in (
            ("certain", {"mobile": "0612345678"}),
            ("guess", {"mobile": "0687654321"}),
            ("guess", {}),
        )
    ),
    _one("date_of_birth_implausible", _BORN, "1900-01-01", "no_date_of_birth", "likely", ABSENT),
    _one(
        "placeholder_date",
        f"{_POWER}.meters.0.active_from",
        "1899-12-30",
        "no_placeholder",
        "likely",
        ABSENT,
    ),
    _one(
        "placeholder_date",
        f"{_POWER}.supply_start_date",
        "1887-05-01",
        "no_placeholder",
        "guess",
        ABSENT,
    ),
    _one("placeholder_date", f"{_POWER}.agreements.0.effective_from", "0001-01-01"),
    _one(
        "placeholder_date", f"{_POWER}.meters.0.active_from", "9999-12-31", "no_placeholder", "likely", ABSENT
    ),
    *(
        _one("unlisted_value", f"{_HISTORICAL}.1.tax_items.0.unit_type", *sent)
        for sent in (("Proportion", "unit_of_rate", "certain", "PROPORTION"), ("PERCENTAGE",))
    ),
    CorrectedExample(
        "rate_is_no_proportion",
        f"{_HISTORICAL}.1.tax_items.0.rate",
        {
            f"{_HISTORICAL}.1.tax_items.0.rate": Decimal(21),
            f"{_HISTORICAL}.1.tax_items.0.unit_type": "Proportion",
        },
        "percentage",
        "likely",
        {f"{_HISTORICAL}.1.tax_items.0.rate": Decimal("0.21")},
    ),
    CorrectedExample(
        "rate_is_no_proportion",
        f"{_HISTORICAL}.1.tax_items.0.rate",
        {
            f"{_HISTORICAL}.1.tax_items.0.rate": Decimal(21),
            f"{_HISTORICAL}.1.tax_items.0.unit_type": "PERCENTAGE",
        },
    ),
    _one("placeholder_date", "ledgers.0.last_settlement_closing_date", "0001-01-01"),
    _one("invalid_postcode", "billing_postcode", "3511\u200bAB", "postcode", "certain", "3511 AB"),
    _one("invalid_postcode", "billing_postcode", "3511 AéB"),
    _one("invalid_postcode", "billing_postcode", "2000"),
    _one("date_of_birth_implausible", _BORN, "1880-01-02", "no_date_of_birth", "guess", ABSENT),
    CorrectedExample(
        "repeated_user_detail",
        "customers.0.user_details.2.namespace",
        {"customers.0.user_details.+": {"namespace": "loyalty", "value": "gold"}},
        "equal_once",
        "certain",
        {"customers.0.user_details.2": ABSENT},
    ),
    CorrectedExample(
        "invalid_ean",
        f"{_GAS}.ean",
        {f"{_GAS}.ean": _SHORT, "ledgers.0.identifiers.1": _SHORT},
        "ean_check_digit",
        "guess",
        {f"{_GAS}.ean": GAS_EAN, "ledgers.0.identifiers.1": GAS_EAN},
    ),
    CorrectedExample(
        "invalid_ean",
        f"{_GAS}.ean",
        {f"{_GAS}.ean": _SHORT},
        "ean_check_digit",
        "likely",
        {f"{_GAS}.ean": GAS_EAN},
    ),
    *(_one("invalid_ean", f"{_GAS}.ean", rounded) for rounded in ("871694330222747000", "87169433022274000")),
    _one("ean_probably_rounded", f"{_GAS}.ean", "871694330222702000"),
    _one(
        "unknown_ledger_identifiers", "ledgers.0.identifiers.1", _SHORT, "known_identifier", "likely", GAS_EAN
    ),
    CorrectedExample(
        "duplicate_identifiers_entries_found",
        "ledgers.0.identifiers.2",
        {"ledgers.0.identifiers.+": ELECTRICITY_EAN},
        "identifier_once",
        "certain",
        {"ledgers.0.identifiers.2": ABSENT},
    ),
    _one(
        "invalid_grid_operator_code",
        f"{_GAS}.energy_meter_point_grid_operator_effective_periods.0.grid_operator_code",
        "871.6892.0000-05",
        "code_check_digit",
        "certain",
        "8716892000005",
    ),
    _one(
        "invalid_grid_operator_code",
        f"{_GAS}.energy_meter_point_grid_operator_effective_periods.0.grid_operator_code",
        "871689200000",
        "code_check_digit",
        "guess",
        "8716892000005",
    ),
    *(
        _one("gaps_or_overlaps_in_periods", f"{_TAXED}.0.end_date", end, "until_the_next", sure, "2024-01-01")
        for end, sure in ((ABSENT, "likely"), ("2023-12-31", "likely"), ("2023-06-30", "guess"))
    ),
    *(
        _one("latest_period_not_open_ended", f"{_TAXED}.1.end_date", end, "open_end", sure, ABSENT)
        for end, sure in (("9999-12-31", "likely"), ("2026-01-01", "guess"))
    ),
    CorrectedExample(
        "rate_is_no_proportion",
        f"{_TEMPLATE}.cost_details.0.tax_rate",
        {f"{_TEMPLATE}.cost_details.0.tax_rate": 21},
        "percentage",
        "likely",
        {f"{_TEMPLATE}.cost_details.0.tax_rate": Decimal("0.21")},
    ),
    _one("rate_is_no_proportion", f"{_TEMPLATE}.cost_details.0.tax_rate", 9),
    _one(
        "advance_amount_mismatch",
        f"{_TEMPLATE}.total_monthly_advance_amount",
        "12100",
        "advance_in_euros",
        "likely",
        "121",
    ),
    _one("advance_amount_mismatch", f"{_TEMPLATE}.total_monthly_advance_amount", "150"),
    *(
        _one("amount_with_fraction_of_a_cent", f"{_OPEN}.0.amount", sent, "amount_in_cents", sure, corrected)
        for sent, sure, corrected in (
            (Decimal("5.721"), "guess", Decimal("5.72")),
            (Decimal("5.7200000003"), "guess", Decimal("5.72")),
        )
    ),
    CorrectedExample(
        "supply_charge_amount_mismatch",
        f"{_HISTORICAL}.1.amount",
        {f"{_HISTORICAL}.1.amount": Decimal("133.01"), "ledgers.0.last_settlement_balance": ABSENT},
        "sum_of_parts",
        "guess",
        {f"{_HISTORICAL}.1.amount": Decimal("133.10")},
    ),
    *(
        CorrectedExample(
            "unknown_vat_reference",
            f"{_HISTORICAL}.0.tax_items.1.params.vat_on",
            {f"{_HISTORICAL}.0.tax_items.1.params.vat_on": "line-9"} | others,
            "untaxed_line",
            sure,
            {f"{_HISTORICAL}.0.tax_items.1.params.vat_on": "line-2"},
        )
        for sure, others in (
            ("likely", {}),
            ("guess", {f"{_HISTORICAL}.0.tax_items.1.value_taxed": ABSENT}),
        )
    ),
    *(
        CorrectedExample(
            "statement_not_found_for_invoice_number",
            f"{_HISTORICAL}.0.associated_invoice_number",
            {
                "statements.0.number": "2026-1-23",
                "statements.1.number": other,
                f"{_HISTORICAL}.0.associated_invoice_number": "2026-12-3",
                f"{_HISTORICAL}.1.associated_invoice_number": other,
            },
            "invoice_number_of_statement",
            sure,
            {f"{_HISTORICAL}.0.associated_invoice_number": corrected},
        )
        for sure, other, corrected in (
            ("likely", "2026/012/003", "2026/012/003"),
            ("guess", "INV-2", "2026-1-23"),
        )
    ),
    CorrectedExample(
        "start_date_later_than_end_date",
        f"{_POWER}.billing_configuration_periods.0.end_date",
        {f"{_POWER}.billing_configuration_periods.0.end_date": "2022-11-30"},
        "end_after_start",
        "guess",
        {f"{_POWER}.billing_configuration_periods.0.end_date": "2024-01-01"},
    ),
    _one(
        "balance_mismatch_on_ledger_balance",
        "ledgers.0.ledger_balance",
        "-3.50",
        "ledger_balance",
        "likely",
        "3.50",
    ),
    _one(
        "historical_balance_mismatch",
        "ledgers.0.last_settlement_balance",
        Decimal("5.72"),
        "settlement_balance",
        "likely",
        Decimal("-5.72"),
    ),
    *(
        CorrectedExample(
            "balance_mismatch_on_ledger_balance",
            "ledgers.0.ledger_balance",
            {"ledgers.0.ledger_balance": -Decimal(right), path: Decimal(doubtful)},
            "ledger_balance",
            "guess",
            {"ledgers.0.ledger_balance": Decimal(right)},
        )
        for path, doubtful, right in (
            (f"{_OPEN}.3.amount", "-4.00", "11.50"),
            (f"{_OPEN}.3.amount", "4.01000001", "3.48999999"),
            ("ledgers.0.last_settlement_balance", "-5.00", "4.22"),
        )
    ),
    CorrectedExample(
        "payment_amount_must_be_positive",
        f"{_OPEN}.3.amount",
        {f"{_OPEN}.3.amount": Decimal("-4.00"), "ledgers.0.ledger_balance": Decimal("11.50")},
        "payment_the_other_way",
        "guess",
        {f"{_OPEN}.3.amount": Decimal("4.00"), f"{_OPEN}.3.type": "PAYMENT"},
    ),
    _one(
        "missing_payment_type",
        f"{_OPEN}.0.payment_type",
        ABSENT,
        "payment_type_of_others",
        "guess",
        "DIRECT_CREDIT",
    ),
    CorrectedExample(
        "supply_charge_incomplete",
        f"{_HISTORICAL}.1.product_code",
        {f"{_HISTORICAL}.1.product_code": ABSENT, f"{_HISTORICAL}.1.supply_type": "ELECTRICITY"},
        "supply_of_charge",
        "guess",
        {f"{_HISTORICAL}.1.product_code": "POWER"},
    ),
    _one(
        "incorrect_line_item_net_amount",
        f"{_LINE_ITEM}.net_amount",
        Decimal("11.00"),
        "net_amount_or_price",
        "likely",
        Decimal("110.00"),
    ),
    _one(
        "supply_charge_amount_mismatch",
        f"{_HISTORICAL}.1.amount",
        Decimal("133.01"),
        "sum_of_parts",
        "likely",
        Decimal("133.10"),
    ),
    _one(
        "statement_not_found_for_invoice_number",
        f"{_HISTORICAL}.0.associated_invoice_number",
        "inv 1",
        "invoice_number_of_statement",
        "likely",
        "INV-1",
    ),
]
