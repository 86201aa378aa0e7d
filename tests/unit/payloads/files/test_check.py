"""What is found in a file without a server: lines, codes and the first examples of each."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from migration_payloads.files import check as offline_check
from migration_payloads.files.check import Example, Summary, check_lines
from migration_payloads.files.ndjson import Line
from migration_payloads.profile import Profile
from migration_service_local.samples import generate_accounts

_ACCOUNTS = list(generate_accounts(6, supplier="S"))
_NUMBERS = [account["external_account_number"] for account in _ACCOUNTS]


def _lines(*payloads: Any) -> Iterator[Line]:
    for number, payload in enumerate(payloads, 1):
        is_raw = payload is None or isinstance(payload, bytes)
        yield Line(number, payload if is_raw else msgspec.json.encode(payload))


def _check(*payloads: Any, processes: int = 1, **options: Any) -> Summary:
    total = Summary()
    for part in check_lines(_lines(*payloads), Profile.LENIENT, processes=processes, **options):
        total.add(part)
    return total


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("block", [1, 2, 200])
def test_faults_are_counted_by_line_and_the_first_of_each_are_shown(
    monkeypatch: pytest.MonkeyPatch, processes: int, block: int
) -> None:
    monkeypatch.setattr(offline_check, "BLOCK", block)
    bad = {"billing_postcode": "0511 AB", "customers": [{}, {}]}
    found = _check(
        _ACCOUNTS[0],
        None,
        b"{",
        *(account | bad for account in _ACCOUNTS[1:5]),
        _ACCOUNTS[0],
        _ACCOUNTS[5],
        _ACCOUNTS[0] | {"billing_postcode": "1011 AB"},
        processes=processes,
    )
    assert (found.lines, found.failed) == (10, 8)
    assert found.errors["customer_family_name_required"] == 4
    assert found.errors["line_too_long"] == found.errors["parse_error"] == 1
    assert (found.errors["duplicate_line_in_batch"], found.errors["conflicting_lines_in_batch"]) == (2, 1)
    assert found.warnings["invalid_postcode"] == 4
    detail = "This is not a Dutch postcode: write four digits and two letters, as 1234 AB."
    assert found.examples["invalid_postcode"] == [
        Example(line, _NUMBERS[line - 3], "billing_postcode", detail) for line in (4, 5, 6)
    ]
    assert [it.line_number for it in found.examples["customer_family_name_required"]] == [4, 4, 5]
    repeated, _ = found.examples["duplicate_line_in_batch"]
    assert (repeated.line_number, repeated.external_account_number) == (8, _NUMBERS[0])


@pytest.mark.parametrize("processes", [1, 2])
def test_repeated_lines_are_compared_by_what_they_say(processes: int) -> None:
    """Whether the lines can be read again makes no difference, and they are not if no text differs."""
    first, second, third = _ACCOUNTS[:3]
    payloads = [
        *(first, second, third, dict(reversed(first.items())), second, third | {"billing_address1": "A"}),
        *({"external_account_number": "1", "customers": it} for it in ([1], [1.0], [2])),
    ]
    found = _check(*payloads, processes=processes, read_again=lambda: _lines(*payloads))
    again = _check(*payloads, processes=processes)
    for summary in (found, again):
        assert summary.errors["duplicate_line_in_batch"] == 5
        assert summary.errors["conflicting_lines_in_batch"] == 2
        examples = summary.examples["conflicting_lines_in_batch"]
        assert [(it.line_number, it.external_account_number) for it in examples] == [
            (6, _NUMBERS[2]),
            (9, "1"),
        ]
    assert found.to_dict() == again.to_dict()
    same = [first, second, first]
    assert _check(*same, read_again=lambda: pytest.fail("read again")).errors == {
        "duplicate_line_in_batch": 1
    }


def test_sound_lines_have_no_fault() -> None:
    found = _check(*_ACCOUNTS)
    assert (found.lines, found.failed, found.errors) == (6, 0, {})


def test_lines_of_another_supplier_are_found_if_one_is_named() -> None:
    others = [_ACCOUNTS[0], _ACCOUNTS[1] | {"import_supplier": "T"}]
    assert _check(*others).errors == {}
    found = _check(*others, supplier="S")
    assert found.errors == {"import_supplier_mismatch": 1}
    [example] = found.examples["import_supplier_mismatch"]
    assert example.line_number == 2
    assert example.detail == "The account names import supplier 'T', but the batch is for 'S'."


def test_numbers_that_are_missing_are_not_repeated() -> None:
    assert "duplicate_line_in_batch" not in _check({}, {}, b"[]", None, None).errors
