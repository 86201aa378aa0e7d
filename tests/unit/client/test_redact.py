"""`migration-client redact` writes what the service judges as before, and nothing of a person."""

import json
from collections.abc import Iterator
from datetime import date
from random import Random
from typing import Any

import msgspec
import pytest

from migration_payloads.files.ndjson import Line
from migration_payloads.schemas.json import encode_json, parse_json
from migration_service_client.command.book_profile import profile_book
from migration_service_client.command.redact import Redaction, find
from migration_service_local.samples import FAULTS, break_account, generate_accounts
from migration_service_local.samples.faults import choose_fault

#: What a test looks for in the output is long enough not to be there by chance.
_TELLING = 6
_OF_PERSONS = {
    *("external_account_number", "given_name", "family_name", "email", "mobile", "landline", "date_of_birth"),
    *("value", "reference", "note", "display_note", "location_description", "ean", "meter_id"),
    *("historical_contract_number", "historical_contract_pdf_path", "transaction_id", "statement_id"),
    *("associated_invoice_number", "number", "statement_path", "identifiers", "billing_postcode"),
    *(
        "supply_postcode",
        *(f"{kind}_address{line}" for kind in ("billing", "supply") for line in range(1, 5)),
    ),
}


def personal_values(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, below in value.items():
            yield from personal_values(below, key)
    elif isinstance(value, list):
        for item in value:
            yield from personal_values(item, name)
    elif isinstance(value, str) and name in _OF_PERSONS and sum(map(str.isalnum, value)) >= _TELLING:
        yield value


def shape(value: Any) -> Any:
    """Return what must stay: numbers of items, kinds, lengths, and what is neither a letter nor a digit."""
    if isinstance(value, dict):
        return [(shape(name), shape(below)) for name, below in value.items()]
    if isinstance(value, list):
        return [shape(item) for item in value]
    if isinstance(value, str):
        return "".join("9" if it.isdigit() else "a" if it.isalpha() else it for it in value)
    return type(value)


def with_faults() -> Iterator[dict[str, Any]]:
    rng = Random(7)
    notes = {"location_description": "Bel mevrouw Öztürk: 0611223344", "comments": "Woont bij José"}
    for account in generate_accounts(30, supplier="S", today=date(2026, 3, 1)):
        account["supply_addresses"][0]["meter_points"][0] |= notes
        account["ledgers"][0]["historical_statement_transactions"][0]["note"] = "Jan Jansen belde"
        yield break_account(account, choose_fault(account, rng), rng)


@pytest.mark.parametrize("key", [b"a" * 32, b"b" * 32])
def test_nothing_of_a_person_is_left_and_the_findings_are_the_same(key: bytes) -> None:
    redaction, names = Redaction(key), set()
    for account in with_faults():
        line = msgspec.json.encode(account)
        before, _ = find(line)
        text = encode_json(redaction.redact(parse_json(line)))
        after, _ = find(text)
        assert after == before
        assert before
        redacted = parse_json(text)
        assert shape(redacted) == shape(parse_json(line))
        written = text.decode()
        assert [it for it in personal_values(account) if it in written] == []
        for word in ("Öztürk", "0611223344", "José", "Jansen"):
            assert word not in written
        names.add(redacted["external_account_number"])
    assert len(names) == 30


@pytest.mark.parametrize("fault", FAULTS)
def test_each_known_fault_is_still_there(fault: str) -> None:
    account = next(it for it in generate_accounts(9, supplier="S") if "customers" in it)
    line = msgspec.json.encode(break_account(account, fault, Random(1)))
    before, _ = find(line)
    after, _ = find(encode_json(Redaction(b"k").redact(parse_json(line))))
    assert after == before
    assert FAULTS[fault].code in {code for _, code, _ in after}


#: Fields whose values count as codes.
_OF_CODES = {
    *("namespace", "tariff_code", "register_id", "ledger_code", "product_code", "unit_type", "tax_type"),
    *("ref", "payment_type"),
    *("vat_on", "profile_category", "grid_operator_code", "cap_tar_code", "market_segment", "supply_type"),
    *("unknown_occupier", "rate_band", "opted_into_updates", "type", "metering_direction", "reason"),
}


def with_codes(value: Any, code: str) -> Any:
    """Return an account with another value in each field of codes."""
    if isinstance(value, list):
        return [with_codes(item, code) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: code if name in _OF_CODES else with_codes(below, code) for name, below in value.items()}


#: Texts in such fields, and whether they can be codes.
_CODES = {
    **dict.fromkeys(("oma Jansen", "Jansen", "MEVR. JANSEN", "jansen@x.example", "Öztürk", "ÖZTÜRK"), False),
    **dict.fromkeys(("0612345678", "+31612345678", "0031612345678", "31612345678", "06-12345678"), False),
    **dict.fromkeys(("020.123.45.67", "BEL-0612345678", "TEL:020/1234567", "06-12345678/06-87654321"), False),
    **dict.fromkeys(("NL-E-VARIABLE", "E1A", "1.8.1", "8712423014022", "0-1:24.2.1.255", "E-2026-01"), True),
}


def test_texts_in_fields_of_codes_are_neither_kept_nor_profiled() -> None:
    [account] = generate_accounts(1, supplier="S")
    texts = {code: msgspec.json.encode(with_codes(account, code)) for code in _CODES}
    redacted = {code: Redaction(b"k").redact(parse_json(text)) for code, text in texts.items()}
    assert {code: it["ledgers"][0]["ledger_code"] == code for code, it in redacted.items()} == _CODES
    assert {code: code in encode_json(it).decode() for code, it in redacted.items()} == _CODES
    # The database is asked for each path, and one kind of list has enough of them.
    ledgers = [encode_json({"ledgers": parse_json(text)["ledgers"]}) for text in texts.values()]
    profiled = profile_book([Line(number, text) for number, text in enumerate(ledgers, 1)])
    written = json.dumps(profiled, ensure_ascii=False)
    assert {code: code in written for code in _CODES} == _CODES
