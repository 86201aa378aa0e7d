"""The compiled acceptance test and marshmallow always agree: what it accepts, both load alike."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings

from migration_service.schemas.account import ACCOUNT_IMPORT
from migration_service.schemas.base import load
from migration_service.schemas.compiled import compile_schema
from migration_service.schemas.json import parse_json
from migration_service_local.samples import generate_accounts
from mutations import TODAY, damaged_accounts

accept = compile_schema(ACCOUNT_IMPORT)


def _typed(value: Any) -> Any:
    """A value with the types of all its parts: Decimal("1.50") is not Decimal("1.5"), nor True 1."""
    if isinstance(value, dict):
        return {key: _typed(below) for key, below in value.items()}
    if isinstance(value, list):
        return [_typed(below) for below in value]
    return type(value), str(value)


def _agree(payload: Any) -> bool:
    accepted = accept(payload)
    data, errors = load(ACCOUNT_IMPORT, payload)
    if accepted is not None:
        assert errors == []
        assert _typed(accepted) == _typed(data)
    return accepted is not None


def test_every_sound_account_of_the_generator_is_accepted() -> None:
    for account in generate_accounts(300, supplier="S", today=TODAY):
        assert _agree(parse_json(json.dumps(account).encode()))


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(damaged_accounts())
def test_what_is_accepted_of_damaged_accounts_is_loaded_alike(payload: Any) -> None:
    _agree(parse_json(json.dumps(payload).encode()) if "\\ud" not in json.dumps(payload) else payload)
