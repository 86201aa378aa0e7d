"""The one pass from text to data and the long way agree: what it accepts, both load and write alike."""

import json
import re
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from migration_payloads.schemas.account import ACCOUNT_IMPORT, load_account
from migration_payloads.schemas.json import encode_json, parse_json
from migration_payloads.schemas.one_pass import compile_text, is_surely_phone_number
from migration_payloads.schemas.texts import is_phone_number
from migration_service.errors import ParseError
from migration_service_local.samples import generate_accounts
from support.examples import TIMES
from support.mutations import SMALL, TODAY, typed

accept = compile_text(ACCOUNT_IMPORT)


def agree(text: bytes) -> bool:
    """Return whether the one pass accepts a text; then the long way has to say the same of it."""
    accepted = accept(text)
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
    accounts = list(generate_accounts(300, supplier="S", today=TODAY))
    accepted = sum(agree(json.dumps(account).encode()) for account in accounts)
    assert accepted > 0.9 * len(accounts)


#: Members that are no fields, or fields a second time, some made to hide in the counting.
STRANGERS = [
    '"foreign": 1',
    '"foreign": "true"',
    '"true": "true"',
    '"false": "false"',
    '"true": true, "false": false',
    '"": 0',
    '"\\u0022": 0',
    '"\\"": "\\""',
    '"unknown_occupier": "true"',
    '"unknown_occupier": "true", "unknown_occupier": "true"',
    '"external_account_number": "another"',
    '"customers": []',
    '"foreign": "\\u0022"',
    '"foreign": [{"unknown_occupier": "true"}, "true", "false"]',
]


@pytest.mark.parametrize("stranger", STRANGERS)
def test_no_unknown_or_repeated_member_is_overlooked(stranger: str) -> None:
    """The flag is text here, whose quotation marks are accounted for."""
    flagged = json.dumps({**json.loads(SMALL), "unknown_occupier": "false"})
    assert accept(flagged.encode())
    for text in (SMALL, flagged):
        assert accept(with_member(stranger, text)) is None


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
#: Numbers as JSON and its dialects write them.
NUMBERS = [*_WRITTEN.split(), '" 1"', "9" * 50, "0." + "1" * 50, "1" * 5000]


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_are_read_alike_however_they_are_written(number: str) -> None:
    spans = [match.span(1) for match in re.finditer(r": (-?[0-9.]+)[,}]", SMALL)]
    assert len(spans) > 10
    for start, end in spans:
        text = (SMALL[:start] + number + SMALL[end:]).encode()
        try:
            parse_json(text)
        except ParseError:
            assert accept(text) is None
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
    for piece in (
        b"\t",
        b"\n",
        b"\x00",
        b"\x1f",
        b"\xff",
        b"\xc3",
        b"\xed\xa0\x80",
        b"\\ud800",
        b"\\x41",
        b"\\",
    ):
        text = SMALL.encode().replace(b'"billing_address1": "', b'"billing_address1": "' + piece, 1)
        assert text != SMALL.encode()
        try:
            parse_json(text)
        except ParseError:
            assert accept(text) is None
        else:
            agree(text)
    for text in (
        b"",
        b"[]",
        b"null",
        b"\xef\xbb\xbf" + SMALL.encode(),
        SMALL.encode() + b"x",
        SMALL.encode("utf-16"),
    ):
        assert accept(text) is None


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        " x",
        "x ",
        "x\x7f",
        "\x7f",
        "é",
        "\u00a0",
        "\\u0000",
        "\\u0000x",
        "\\u0020",
        "\\n",
        "\\t x",
        "a" * 300,
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
    assert accept(with_member(f'"foreign": {deep}')) is None
    assert accept(with_member(f'"unknown_occupier": {deep}')) is None
    assert accept(with_member('"foreign": ' + "[" * 200_000)) is None


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
