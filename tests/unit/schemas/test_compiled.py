"""The compiled acceptance test and marshmallow agree: both load what it accepts in the same way."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings

from migration_service.errors import ParseError
from migration_service.schemas.account import ACCOUNT_IMPORT
from migration_service.schemas.base import find_unknown_fields, load
from migration_service.schemas.bounds import MAX_ITEMS
from migration_service.schemas.compiled import compile_schema, compile_shape
from migration_service.schemas.json import parse_json
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


def test_the_shape_of_an_account_is_known_unless_it_has_a_foreign_member_anywhere() -> None:
    payload = json.loads(SMALL)
    assert has_known_members(payload)
    for container, key in places(payload):
        if isinstance(container, dict) and not isinstance(container[key], dict | list):
            container["foreign"] = 1
            assert not has_known_members(payload)
            assert len(find_unknown_fields(ACCOUNT_IMPORT, payload)) == 1
            del container["foreign"]
