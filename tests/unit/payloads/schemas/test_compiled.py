"""The compiled acceptance test and marshmallow agree: both load what it accepts in the same way."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from hypothesis import HealthCheck, given, settings
from marshmallow import Schema

from migration_payloads.schemas import fields
from migration_payloads.schemas.account import ACCOUNT_IMPORT
from migration_payloads.schemas.base import find_unknown_fields, load
from migration_payloads.schemas.bounds import MAX_ITEMS
from migration_payloads.schemas.compiled import compile_schema, compile_shape
from migration_payloads.schemas.json import encode_json, parse_json
from migration_payloads.schemas.numbers import MAX_FRACTION_DIGITS, MAX_INTEGER_DIGITS
from migration_payloads.schemas.one_pass import compile_text
from migration_service.errors import ParseError
from migration_service_local.samples import generate_accounts
from support.examples import TIMES
from support.mutations import SMALL, STAND_INS, TODAY, damaged_accounts, places, typed

accept = compile_schema(ACCOUNT_IMPORT)
has_known_members = compile_shape(ACCOUNT_IMPORT)


def _agree(payload: Any) -> bool:
    accepted = accept(payload)
    data, errors = load(ACCOUNT_IMPORT, payload)
    if accepted is not None:
        assert errors == []
        assert typed(accepted) == typed(data)
    return accepted is not None


def test_every_valid_account_of_the_generator_is_accepted() -> None:
    for account in generate_accounts(300, supplier="S", today=TODAY):
        assert _agree(parse_json(json.dumps(account).encode()))


@settings(max_examples=100 * TIMES, suppress_health_check=[HealthCheck.too_slow])
@given(damaged_accounts())
def test_damaged_accounts_that_are_accepted_are_loaded_as_by_marshmallow(payload: Any) -> None:
    text = json.dumps(payload)
    try:
        _agree(parse_json(text.encode()) if "\\ud" not in text else payload)
    except ParseError:
        _agree(payload)  # The fields also refuse a number beyond the bounds.


def test_every_unusual_value_at_every_place_is_loaded_as_by_marshmallow() -> None:
    payload = json.loads(SMALL)
    agreed = 0
    for container, key in places(payload):
        kept = container[key]
        for stand_in in STAND_INS:
            container[key] = stand_in
            agreed += _agree(parse_json(json.dumps(payload).encode()))
        container[key] = kept
    assert agreed


def test_a_list_with_more_items_than_the_bound_is_refused_by_both() -> None:
    payload = json.loads(SMALL)
    payload["customers"] = [{"family_name": "J"}] * MAX_ITEMS
    assert _agree(parse_json(json.dumps(payload).encode()))
    payload["customers"].append({"family_name": "J"})
    assert not _agree(parse_json(json.dumps(payload).encode()))
    _, errors = load(ACCOUNT_IMPORT, parse_json(json.dumps(payload).encode()))
    assert [error.code for error in errors] == ["too_many_items"]


def _fields_of(schema: Schema) -> Iterator[tuple[str, Any]]:
    """Return every field of a schema and of those within it, with its name."""
    for name, field in schema.load_fields.items():
        if isinstance(field, fields.Object | fields.Objects):
            yield from _fields_of(field.schema)
        else:
            yield f"{type(schema).__name__}.{name}", field


def _around(most: int) -> list[tuple[int, bool]]:
    """Return the numbers around a bound, and whether they are within it."""
    return [(most + more, more <= 0) for more in (-1, 0, 1)]


def _at_the_bounds(field: Any) -> list[tuple[Any, bool]]:
    """Return values at the bounds of a field and just beyond, and whether they are valid."""
    found: list[tuple[Any, bool]] = []
    match field:
        case fields.WholeNumber():
            found = [(sign * number, valid) for sign in (1, -1) for number, valid in _around(2**31 - 1)]
        case fields.Number():
            numbers = [
                (f"{sign}{it}", valid)
                for sign in ("", "-")
                for it, valid in _around(10**MAX_INTEGER_DIGITS - 1)
            ]
            numbers += [(f"0.{1:0{digits}}", valid) for digits, valid in _around(MAX_FRACTION_DIGITS)]
            found = [*numbers, *((Decimal(text), valid) for text, valid in numbers)]
        case fields.Day():
            valid_days = ("0001-01-01", "9999-12-31", "2024-02-29")
            found = [
                (day, day in valid_days) for day in (*valid_days, "0000-12-31", "10000-01-01", "2023-02-29")
            ]
        case fields.UtcMoment():
            found = [("9999-12-31T23:59:59Z", True), ("9999-12-31T23:59:59-00:01", False)]
            found += [("0001-01-01T00:00:00Z", True), ("0001-01-01T00:00:00+00:01", False)]
        case fields.LocalMoment():
            found = [("9999-12-31T23:59:59", True), ("9999-12-31T23:59:60", False)]
        case fields.Values():
            ((item, _), *_) = _at_the_bounds(field.inner)
            found = [([item] * number, valid) for number, valid in _around(MAX_ITEMS)]
        case fields.OpenChoice():
            found = []
        case fields.Text():
            length: Any = field.validators[0]
            most = 18 if isinstance(field, fields.Ean) else length.max
            begin, filling, end = _FORMS.get(type(field), ("", "A", ""))
            fixed = len(begin + end)
            found = [(begin + filling * (it - fixed) + end, valid) for it, valid in _around(most)]
    return found


#: How a text of any length begins, goes on and ends. All others are letters.
_FORMS = {
    fields.Ean: ("", "1", ""),
    fields.EmailAddress: ("", "a", "@b.example"),
    fields.PhoneNumber: ("06", " ", "12345678"),
}


def test_both_ways_have_the_same_bounds_for_every_field() -> None:
    wrong, kinds = [], set()
    for name, field in _fields_of(ACCOUNT_IMPORT):
        schema = Schema.from_dict({"value": field})()
        accept_one, accept_text = compile_schema(schema), compile_text(schema)
        for value, valid in _at_the_bounds(field):
            kinds.add(type(field))
            data, errors = load(schema, {"value": value})
            loaded = None if errors else data
            taken = accept_one({"value": value})
            passed = accept_text(encode_json({"value": value}))
            agree = typed(taken) == typed(loaded) and (passed is None or typed(passed[0]) == typed(loaded))
            if not agree or (loaded is not None) != valid:
                wrong.append((name, str(value)[:40], valid, loaded, taken, passed))
    assert wrong == []
    assert len(kinds) > 12


def test_the_shape_of_an_account_is_known_unless_it_has_a_foreign_member_anywhere() -> None:
    payload = json.loads(SMALL)
    assert has_known_members(payload)
    for container, key in places(payload):
        if isinstance(container, dict) and not isinstance(container[key], dict | list):
            container["foreign"] = 1
            assert not has_known_members(payload)
            assert len(find_unknown_fields(ACCOUNT_IMPORT, payload)) == 1
            del container["foreign"]
