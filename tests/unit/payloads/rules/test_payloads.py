"""The schema and the rules with sample books, known faults, mutated payloads and any JSON."""

from collections.abc import Iterator
from copy import deepcopy
from datetime import date
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migration_payloads.profile import Profile
from migration_payloads.rules.catalogue import check_account
from migration_payloads.schemas.account import ACCOUNT_IMPORT
from migration_payloads.schemas.base import load
from migration_payloads.schemas.json import encode_json, parse_json
from migration_service.errors import ErrorItem
from migration_service_local.samples.books import generate_lines
from migration_service_local.samples.faults import FAULTS, break_account

_TODAY = date(2025, 6, 15)
_LINES = list(generate_lines(150, supplier="S", today=_TODAY))
#: They are small, so that mutations change different values.
_SHORTEST = [parse_json(line) for line in sorted(_LINES, key=len)[:100:20]]


def _find_everything(payload: Any, profile: Profile) -> list[ErrorItem]:
    """Return the errors of the schema, and the findings of the rules for the rest."""
    data, errors = load(ACCOUNT_IMPORT, payload)
    faulty = [error.attr for error in errors if error.attr]
    findings = check_account(data, profile=profile, today=_TODAY, faulty=faulty)
    return errors + [finding.error_item() for finding in findings]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_known_fault_of_a_sample_is_reported_with_its_code(fault: str) -> None:
    payload = next(payload for payload in map(parse_json, _LINES) if "customers" in payload)
    broken = parse_json(encode_json(break_account(payload, fault, Random(1))))
    assert FAULTS[fault].code in {error.code for error in _find_everything(broken, Profile.LENIENT)}


def _containers(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        yield value
        for below in list(value.values() if isinstance(value, dict) else value):
            yield from _containers(below)


_ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["", "true", "2024-02-30", "2024-01-01", "9999-12-31", "0001-01-01", "1E+400", "NaN"])
    | st.sampled_from(["871685920001232914", "test@example.com", "../x", "\0", "SUPPLY_CHARGE", "GAS"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(st.data())
def test_a_mutated_payload_is_validated_without_an_exception(data: st.DataObject) -> None:
    payload = deepcopy(data.draw(st.sampled_from(_SHORTEST)))
    for _ in range(data.draw(st.integers(1, 6))):
        container = data.draw(st.sampled_from([place for place in _containers(payload) if place]))
        keys = list(container) if isinstance(container, dict) else range(len(container))
        key = data.draw(st.sampled_from(keys))
        if data.draw(st.booleans()):
            container[key] = data.draw(_ANY_JSON)
        else:
            del container[key]
    for profile in Profile:
        _assert_the_answer_can_be_sent(_find_everything(payload, profile))


@given(_ANY_JSON)
def test_any_json_is_validated_without_an_exception(payload: Any) -> None:
    errors = _find_everything(payload, Profile.STRICT)
    assert errors
    _assert_the_answer_can_be_sent(errors)


def _assert_the_answer_can_be_sent(errors: list[ErrorItem]) -> None:
    encode_json([error.to_dict() for error in errors])
    assert all(error.attr is None or all(error.attr.split(".")) for error in errors)
