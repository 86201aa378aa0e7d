"""What the schema and the rules find in a payload is the same, whichever way its text was read."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from migration_payloads.profile import Profile
from migration_payloads.rules.catalogue import RULES
from migration_payloads.schemas.account import ACCOUNT_IMPORT
from migration_payloads.schemas.bounds import MAX_ERRORS
from migration_payloads.schemas.json import encode_json, parse_json
from migration_payloads.schemas.one_pass import compile_text
from migration_payloads.validation import ValidatedAccount, validate_account, validate_text
from migration_service.errors import ParseError
from migration_service_local.samples import generate_accounts
from support.examples import TIMES
from support.mutations import SMALL, STAND_INS, TODAY, damaged_accounts, places, typed
from unit.payloads.examples import BREAKING, make_account

read_at_once = compile_text(ACCOUNT_IMPORT)
_PROFILES = st.sampled_from(list(Profile))


def _seen(account: ValidatedAccount) -> tuple[Any, ...]:
    """Return everything that is stored or shown of an account that was checked."""
    items = [[item.to_dict() for item in found] for found in (account.errors, account.warnings)]
    stored = () if account.errors else (account.json, account.sha256)
    return (typed(account.data), *items, *stored)


def _agree(text: bytes, profile: Profile) -> ValidatedAccount | None:
    """Compare both ways. Return the account, or None if its text is no JSON for either.

    What the one pass does not accept goes the long way in any case.
    """
    if read_at_once(text) is None:
        try:
            return validate_account(parse_json(text), profile)
        except ParseError:
            return None
    account, slowly = validate_text(text, profile), validate_account(parse_json(text), profile)
    assert _seen(account) == _seen(slowly)
    return account


@pytest.mark.parametrize("profile", Profile)
def test_accounts_of_the_generator_are_accepted_alike(profile: Profile) -> None:
    for payload in generate_accounts(200, supplier="S", today=TODAY):
        account = _agree(json.dumps(payload).encode(), profile)
        assert account and not account.errors


def test_each_rule_finds_the_same() -> None:
    found = set()
    for example in BREAKING:
        text = encode_json(make_account(example.changes))
        for profile in Profile:
            account = _agree(text, profile)
            assert account
            found |= {item.code for item in (*account.errors, *account.warnings)}
    # What was the future of the examples is over.
    assert found >= {rule.code for rule in RULES if "future" not in rule.code}


@settings(max_examples=75 * TIMES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(damaged_accounts(), _PROFILES)
def test_damaged_accounts_have_the_same_findings(payload: Any, profile: Profile) -> None:
    _agree(json.dumps(payload).encode(), profile)
    _agree(json.dumps(payload, ensure_ascii=False).encode("utf-8", "surrogatepass"), profile)


@settings(max_examples=200 * TIMES, deadline=None)
@given(st.integers(0, 10_000), st.binary(max_size=6), st.integers(0, 8), _PROFILES)
def test_damaged_texts_have_the_same_findings(place: int, piece: bytes, cut: int, profile: Profile) -> None:
    text = SMALL.encode()
    at = place % len(text)
    _agree(text[:at] + piece + text[at + cut :], profile)


def test_a_value_at_any_place_has_the_same_findings() -> None:
    payload = json.loads(SMALL)
    refused = accepted = 0
    for container, key in places(payload):
        kept = container[key]
        for stand_in in STAND_INS:
            container[key] = stand_in
            text = json.dumps(payload).encode()
            if read_at_once(text) is not None:
                account = _agree(text, Profile.STRICT)
                refused += bool(account and account.errors)
                accepted += bool(account and not account.errors)
        container[key] = kept
    assert refused and accepted


def test_rules_are_checked_until_the_schema_alone_has_found_too_much() -> None:
    account = {"external_account_number": "1", "import_supplier": "S", "unknown_occupier": False}
    # Each empty ledger lacks two fields. A rule finds that the account has no customer.
    for ledgers, listed, last in (
        (MAX_ERRORS // 2 - 1, MAX_ERRORS - 1, "customer_required"),
        (MAX_ERRORS // 2, MAX_ERRORS + 1, "too_many_errors"),
    ):
        errors = validate_account(account | {"ledgers": [{}] * ledgers}, Profile.LENIENT).errors
        assert (len(errors), errors[-1].code) == (listed, last)
