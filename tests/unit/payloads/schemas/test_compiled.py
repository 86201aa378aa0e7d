"""The compiled ways to accept an account agree with marshmallow: all load what they accept alike."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from marshmallow import Schema

from migration_payloads.schemas import fields
from migration_payloads.schemas.account import ACCOUNT_IMPORT, load_account
from migration_payloads.schemas.base import find_unknown_fields, load
from migration_payloads.schemas.bounds import MAX_ITEMS
from migration_payloads.schemas.compiled import compile_schema, compile_shape
from migration_payloads.schemas.json import encode_json, parse_json
from migration_payloads.schemas.numbers import MAX_FRACTION_DIGITS, MAX_INTEGER_DIGITS
from migration_payloads.schemas.one_pass import compile_text, is_surely_phone_number
from migration_payloads.schemas.texts import is_phone_number
from migration_service.errors import ParseError
from migration_service_local.samples import generate_accounts
from support.examples import TIMES
from support.mutations import SMALL, STAND_INS, TODAY, damaged_accounts, places, typed

accept = compile_schema(ACCOUNT_IMPORT)
has_known_members = compile_shape(ACCOUNT_IMPORT)


def _agree(payload: Any) -> bool:
    if (accepted := accept(payload)) is None:
        return False
    data, errors = load(ACCOUNT_IMPORT, payload)
    assert errors == []
    assert typed(accepted) == typed(data)
    return True


def test_every_valid_account_of_the_generator_is_accepted() -> None:
    for account in generate_accounts(100, supplier="S", today=TODAY):
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


read_at_once = compile_text(ACCOUNT_IMPORT)


def agree(text: bytes) -> bool:
    """Return whether the one pass accepts a text; then the long way has to say the same of it."""
    accepted = read_at_once(text)
    if accepted is not None:
        data, written = accepted
        loaded = load_account(parse_json(text))
        assert (loaded.errors, loaded.unknown) == ([], [])
        assert typed(data) == typed(loaded.data)
        assert written == encode_json(loaded.data), "the hash of a payload does not depend on the way"
    return accepted is not None


def with_member(member: str, text: str = SMALL) -> bytes:
    """Put members before the first one of an account."""
    return text.replace("{", "{" + member + ",", 1).encode()


def test_nearly_every_sound_account_of_the_generator_is_accepted() -> None:
    accounts = list(generate_accounts(100, supplier="S", today=TODAY))
    accepted = sum(agree(json.dumps(account).encode()) for account in accounts)
    assert accepted > 0.9 * len(accounts)


# Members that are no fields, or fields a second time, some made to hide in the counting.
@pytest.mark.parametrize(
    "stranger",
    [
        *('"foreign": 1', '"foreign": "true"', '"true": "true"', '"false": "false"', '"": 0', '"\\u0022": 0'),
        *('"true": true, "false": false', '"\\"": "\\""', '"foreign": "\\u0022"', '"customers": []'),
        *('"unknown_occupier": "true"', '"unknown_occupier": "true", "unknown_occupier": "true"'),
        '"external_account_number": "another"',
        '"foreign": [{"unknown_occupier": "true"}, "true", "false"]',
    ],
)
def test_no_unknown_or_repeated_member_is_overlooked(stranger: str) -> None:
    """The flag is text here, whose quotation marks are accounted for."""
    flagged = json.dumps({**json.loads(SMALL), "unknown_occupier": "false"})
    assert read_at_once(flagged.encode())
    for text in (SMALL, flagged):
        assert read_at_once(with_member(stranger, text)) is None


@settings(max_examples=100 * TIMES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["true", "false", "", "x", "unknown_occupier", "email", '\\"', "\\u0022"]),
            st.sampled_from(['"true"', '"false"', "true", "0", "{}", '""', '"\\""', '"\\u0022"', '["true"]']),
        ),
        min_size=1,
        max_size=4,
    ),
    st.integers(0, 10_000),
)
def test_members_in_any_object_are_counted(members: list[tuple[str, str]], place: int) -> None:
    text = SMALL.replace("{", "{ ")
    starts = [match.end() for match in re.finditer(r"\{ ", text)]
    at = starts[place % len(starts)]
    added = "".join(f'"{name}": {value}, ' for name, value in members)
    assume(not text[at:].startswith("}"))
    agree((text[:at] + added + text[at:]).encode())


_WRITTEN = """
    0 -0 0.0 -0.0 0.000000 0.0000000 0.00000000000 1e2 1E-2 -1e-9 1e-11 1e999999
    01 1. .5 +1 - 1e 1.e5 0x1 1_0 NaN Infinity -Infinity --1 1.5.2
    999999999999 1000000000000 99999999999.9999999999 1.0000000000 1.00000000000 123456789.01
    "12.50" "-0" "1e3" "NaN" "" null true
"""


# Numbers as JSON and its dialects write them.
@pytest.mark.parametrize("number", [*_WRITTEN.split(), '" 1"', "9" * 50, "0." + "1" * 50, "1" * 5000])
def test_numbers_are_read_alike_however_they_are_written(number: str) -> None:
    spans = [match.span(1) for match in re.finditer(r": (-?[0-9.]+)[,}]", SMALL)]
    assert len(spans) > 10
    for start, end in spans:
        text = (SMALL[:start] + number + SMALL[end:]).encode()
        try:
            parse_json(text)
        except ParseError:
            assert read_at_once(text) is None
        else:
            agree(text)


@pytest.mark.parametrize(
    ("content", "accepted"),
    [
        ('{"a": [1, -0, true, null, {"b": "\\u00e9\\""}], "true": "false"}', True),
        ("[]", False),
        ('{"a": 1, "a": 1}', False),
        ('{"a": [{"b": 0.1}]}', False),
        ('{"a": 1e2}', False),
        ('{"a": 123456789012345678901234567890}', False),
        ('{"a": "\\u0000"}', False),
        ('{"\\u0000": 1}', False),
        ('{"a": "\\ud800"}', False),
        ('{"a": ' + "[" * 90 + "]" * 90 + "}", False),
    ],
)
def test_a_free_object_without_fractions_is_accepted(content: str, accepted: bool) -> None:
    statement = next(
        it for a in generate_accounts(20, supplier="S", today=TODAY) for it in a.get("statements", ())
    )
    account = json.loads(SMALL) | {"statements": [statement | {"statement_pdf_context": "CONTENT"}]}
    assert agree(json.dumps(account).replace('"CONTENT"', content).encode()) is accepted


def test_texts_with_control_characters_or_broken_encoding_go_the_long_way() -> None:
    control, broken = (b"\t", b"\n", b"\x00", b"\x1f"), (b"\xff", b"\xc3", b"\xed\xa0\x80")
    for piece in (*control, *broken, b"\\ud800", b"\\x41", b"\\"):
        text = SMALL.encode().replace(b'"billing_address1": "', b'"billing_address1": "' + piece, 1)
        assert text != SMALL.encode()
        try:
            parse_json(text)
        except ParseError:
            assert read_at_once(text) is None
        else:
            agree(text)
    sound = SMALL.encode()
    for text in (b"", b"[]", b"null", b"\xef\xbb\xbf" + sound, sound + b"x", SMALL.encode("utf-16")):
        assert read_at_once(text) is None


@pytest.mark.parametrize(
    "value",
    [
        *("", " ", " x", "x ", "x\x7f", "\x7f", "é", "\u00a0"),
        *("\\u0000", "\\u0000x", "\\u0020", "\\n", "\\t x", "a" * 300),
    ],
)
def test_every_text_that_is_not_plain_is_read_alike(value: str) -> None:
    accounts = generate_accounts(40, supplier="S", today=TODAY)
    text = max(map(json.dumps, accounts), key=lambda it: it.isascii() and len(set(_KEY.findall(it))))
    seen = set()
    for member in _TEXT_MEMBER.finditer(text):
        if member["key"] not in seen:
            seen.add(member["key"])
            agree(f"{text[: member.start('value')]}{value}{text[member.end('value') :]}".encode())
    assert len(seen) > 40


_KEY = re.compile(r'"(\w+)": ')
_TEXT_MEMBER = re.compile(r'"(?P<key>\w+)": "(?P<value>[^"]*)"')


def test_deep_texts_go_the_long_way() -> None:
    deep = "[" * 5_000 + "]" * 5_000
    assert read_at_once(with_member(f'"foreign": {deep}')) is None
    assert read_at_once(with_member(f'"unknown_occupier": {deep}')) is None
    assert read_at_once(with_member('"foreign": ' + "[" * 200_000)) is None


def _numbers() -> Iterator[str]:
    for account in generate_accounts(200, supplier="S", today=TODAY):
        for customer in account.get("customers", ()):
            yield from (customer[kind] for kind in ("mobile", "landline") if customer.get(kind))


@settings(max_examples=200 * TIMES, deadline=None)
@given(
    st.from_regex(r"\A(?:\+31|0|0031|\+)[0-9]{0,11}(?:[- ()][0-9]{1,8}){0,3}\Z")
    | st.sampled_from(sorted(_numbers()))
)
@example("0612345678")
@example("06-12345678")
def test_a_number_that_is_surely_one_is_one(text: str) -> None:
    if is_surely_phone_number(text):
        assert is_phone_number(text)


def test_usual_telephone_numbers_are_recognised() -> None:
    numbers = list(_numbers())
    assert sum(map(is_surely_phone_number, numbers)) > 0.8 * len(numbers)


# It runs in its own process, because the fault is a crash of the interpreter. It compiles each time, because
# only the first use of a type is dangerous.
FIRST_USES = """
import sys, threading
from migration_service_local.samples import generate_accounts
from migration_payloads.schemas.account import AccountImportSchema
from migration_payloads.schemas.compiled import compile_schema
sys.setswitchinterval(1e-6)
payloads = list(generate_accounts(8, supplier="SAMPLE", seed=5))
schema = AccountImportSchema()
for _ in range(30):
    accept = compile_schema(schema)
    together = threading.Barrier(len(payloads))
    def use(payload):
        together.wait()
        accept(payload)
    threads = [threading.Thread(target=use, args=[payload]) for payload in payloads]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_the_first_uses_may_come_from_many_threads_at_once() -> None:
    run = subprocess.run([sys.executable, "-c", FIRST_USES], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
