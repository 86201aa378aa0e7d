"""Each suggestion, applied, makes its finding disappear, and no other appears."""

from copy import deepcopy
from typing import Any

import pytest
from marshmallow import missing

from migration_payloads.corrections import catalogue
from migration_payloads.corrections.fixing import apply, fix_account
from migration_payloads.corrections.place import find_place
from migration_payloads.errors import Confidence, ErrorItem
from migration_payloads.profile import Profile
from migration_payloads.rules.catalogue import RULES, check_account
from migration_payloads.schemas.account import load_account
from migration_payloads.schemas.json import encode_json, parse_json
from migration_payloads.validation import ValidatedAccount
from unit.payloads.examples import ABSENT, BREAKING, CORRECTED, TODAY, Example, make_account

_ALL = [*CORRECTED, *BREAKING]
_METERS = "supply_addresses.0.meter_points.0.meters"
_EAN, _WRONG = "supply_addresses.0.meter_points.0.ean", "871685920001232917"
_BORN = "customers.0.date_of_birth"


def _find(payload: Any) -> list[ErrorItem]:
    loaded = load_account(deepcopy(payload))
    faulty = [error.attr for error in loaded.errors if error.attr]
    found = check_account(loaded.data, profile=Profile.LENIENT, today=TODAY, faulty=faulty)
    return [*loaded.errors, *loaded.unknown, *(it.error_item() for it in found)]


def _names(items: list[ErrorItem]) -> set[tuple[str, str | None]]:
    return {(item.code, item.attr) for item in items}


def _require_gone(payload: Any, item: ErrorItem) -> bool:
    """Apply the suggestions of a finding, if it has some, and require that it is gone and nothing came."""
    before = _find(payload)
    suggestions = catalogue.suggest(payload, item)
    corrected = deepcopy(payload)
    apply(corrected, suggestions)
    if suggestions:
        after = _find(corrected)
        assert (item.code, item.attr) not in _names(after)
        # A value that the schema refused hides what the rules find there.
        changed = {it.path for it in suggestions}
        assert {name for name in _names(after) - _names(before) if name[1] not in changed} == set()
    assert find_place(payload, item.code, item.attr or "") is not None
    return bool(suggestions)


@pytest.mark.parametrize("example", BREAKING, ids=str)
def test_the_suggestion_for_a_broken_rule_mends_it(example: Example) -> None:
    payload = make_account(example.changes)
    for item in _find(payload):
        _require_gone(payload, item)


def test_at_least_25_rules_have_a_suggestion_in_their_examples() -> None:
    suggested = set()
    for example in BREAKING:
        item = ErrorItem(example.code, example.detail, example.attr)
        if catalogue.suggest(make_account(example.changes), item):
            suggested.add(example.code)
    assert len(suggested & {rule.code for rule in RULES}) >= 35


@pytest.mark.parametrize("example", CORRECTED, ids=str)
def test_a_correction_makes_of_the_value_what_was_meant(example: Example) -> None:
    payload = make_account(example.changes)
    [item] = [it for it in _find(payload) if (it.code, it.attr) == (example.code, example.attr)]
    assert _require_gone(payload, item) == bool(example.kind)
    suggestions = catalogue.suggest(payload, item)
    apply(payload, suggestions)
    assert {it.kind for it in suggestions} == ({example.kind} if example.kind else set())
    assert {str(it.confidence) for it in suggestions} == ({example.confidence} if example.kind else set())
    for attr, value in example.corrected.items():
        place = find_place(payload, "", attr)
        found = missing if place is None else place.value
        assert found == (missing if value is ABSENT else value)
        assert value is ABSENT or type(found) is type(value)


def test_every_kind_has_an_example_and_a_sentence() -> None:
    suggested = {
        suggestion.kind
        for it in _ALL
        for suggestion in catalogue.suggest(make_account(it.changes), ErrorItem(it.code, "", it.attr))
    }
    assert suggested == {correction.kind for correction in catalogue.CORRECTIONS}
    assert all(correction.about.endswith(".") and correction.codes for correction in catalogue.CORRECTIONS)


@pytest.mark.parametrize("form", [None, 0, "x", {}, [{}]], ids=repr)
def test_what_is_around_a_value_may_have_any_form(form: Any) -> None:
    """Each member of the account in turn has another form, and each code is asked for at each path."""
    for member in make_account():
        payload = make_account({member: form})
        for it in _ALL:
            catalogue.suggest(payload, ErrorItem(it.code, "", it.attr))
    catalogue.suggest(form, ErrorItem("invalid_date", "", "customers.0.date_of_birth"))
    for attr in (None, "customers.7.date_of_birth"):
        assert catalogue.suggest(make_account(), ErrorItem("invalid_date", "", attr)) == ()


def test_several_corrections_of_a_payload_are_applied_together() -> None:
    """Items are removed after everything else, the last first, so that paths stay right."""
    identifiers = [str(i) for i in range(11)]
    payload = make_account({"ledgers.0.identifiers": identifiers, "customers.1.mobile": "06_12345678"})
    items = [item for item in _find(payload) if item.code != "unknown_ledger_identifiers"]
    unknown = [ErrorItem("unknown_ledger_identifiers", "", f"ledgers.0.identifiers.{i}") for i in (2, 9, 10)]
    apply(payload, [step for item in (*unknown, *items) for step in catalogue.suggest(payload, item)])
    assert payload["ledgers"][0]["identifiers"] == [*"01345678"]
    assert payload["customers"][1]["mobile"] == "0612345678"


@pytest.mark.parametrize(
    ("path", "value"),
    [("customers.0.mobile", "06_12345678"), ("customers.0.date_of_birth", "31-12-1980"), ("customers", {})],
)
def test_a_correction_with_a_value_of_a_person_is_in_no_answer(path: str, value: Any) -> None:
    payload = make_account({path: value})
    [item] = [it for it in _find(payload) if it.attr == path and catalogue.suggest(payload, it)]
    assert catalogue.add_suggestions(encode_json(payload), [item]) == [item]


@pytest.mark.parametrize(
    ("code", "attr", "changes"),
    [
        # A ledger names the right EAN already: one of the two connections is another one.
        ("invalid_ean", _EAN, {_EAN: _WRONG, "ledgers.0.identifiers": [_WRONG, "871685920001232914"]}),
        ("date_of_birth_in_future", _BORN, {_BORN: "2096-02-29"}),
    ],
)
def test_what_nobody_can_guess_has_no_suggestion(code: str, attr: str, changes: dict[str, Any]) -> None:
    payload = make_account(changes)
    [item] = [it for it in _find(payload) if (it.code, it.attr) == (code, attr)]
    assert catalogue.suggest(payload, item) == ()


def test_only_so_many_findings_of_an_answer_have_suggestions() -> None:
    text = encode_json(
        make_account({_METERS: [{"active_from": "31-12-1980"} for _ in range(catalogue.MAX_SUGGESTED + 2)]})
    )
    items = [it for it in _find(parse_json(text)) if it.code == "invalid_date"]
    found = catalogue.add_suggestions(text, items)
    assert "1980-12-31" not in repr(found)
    assert [bool(item.suggestions) for item in found] == [True] * catalogue.MAX_SUGGESTED + [False] * 2
    others = [ErrorItem("ledger_missing", "", "ledgers")]
    assert "ledger_missing" not in catalogue.CODES
    assert catalogue.add_suggestions(b"not read", others) == others


@pytest.mark.parametrize(
    ("changes", "item", "times"),
    [
        ({}, ErrorItem("customer_required", "", "customers"), 1),
        (
            {"ledgers.0.identifiers": ["1", "2"]},
            ErrorItem("unknown_ledger_identifiers", "", "ledgers.0.identifiers.0"),
            2,
        ),
    ],
)
def test_a_correction_in_vain_is_not_tried_again_unless_it_takes_from_a_list(
    changes: dict[str, Any], item: ErrorItem, times: int
) -> None:
    account = ValidatedAccount({}, [item])
    applied, _ = fix_account(
        make_account(changes), account, lambda _group: Confidence.GUESS, lambda _payload: account
    )
    assert len(applied) == times
