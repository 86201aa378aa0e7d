"""What the console says about a code, in the language of the reader."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from flask import Flask

from migration_service.blueprints.console.remedies import remedy_of
from migration_service.blueprints.description.error_catalogue import (
    added_data_errors,
    field_errors,
    request_errors,
    rule_errors,
)

CODES = sorted(
    {entry.code for entry in (*request_errors(), *field_errors(), *rule_errors(), *added_data_errors())}
)


@contextmanager
def _reading(language: str) -> Iterator[None]:
    with Flask("console").test_request_context(headers={"Accept-Language": language}):
        yield


def test_every_code_has_a_meaning_and_a_remedy_in_dutch() -> None:
    with _reading("en"):
        english = {code: remedy_of(code) for code in CODES}
    with _reading("nl"):
        dutch = {code: remedy_of(code) for code in CODES}
    for code in CODES:
        assert english[code].meaning and english[code].remedy, code
        assert dutch[code].meaning not in ("", english[code].meaning), code
        assert dutch[code].remedy not in ("", english[code].remedy), code


def test_a_code_of_a_field_and_a_rule_means_either() -> None:
    with _reading("en"):
        meaning = remedy_of("invisible_characters").meaning
    assert meaning.startswith("An identifier has an invisible character. Or: A name, an address, an e-mail")


def test_nothing_is_said_of_an_unknown_code() -> None:
    with _reading("nl"):
        found = remedy_of("nobody_knows_this")
    assert (found.meaning, found.remedy, found.is_ours) == ("", "", False)


@pytest.mark.parametrize(
    ("code", "is_ours"),
    [
        ("line_failed_unexpectedly", True),
        ("payment_vendor_unreachable", True),
        ("required", False),
        ("invalid_phone_number", False),
    ],
)
def test_who_mends_it(code: str, is_ours: bool) -> None:
    with _reading("en"):
        assert remedy_of(code).is_ours is is_ours
